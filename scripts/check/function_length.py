# SPDX-License-Identifier: MIT
"""Lists functions of more than 60 lines in Python, C and C++ files; exit code 1 if there is one
that is not excused.

    function_length.py [--limit 60] [FILE…]         without files: every tracked one

A function's lines run from its signature to its closing brace or last statement. C and C++ are read
without a compiler, since clang-tidy's readability-function-size wants a build tree and seconds for
each file, and sees no other architecture's code: comments, literals and preprocessor lines are
blanked, then a brace counts as a function's if a parameter list stands before it."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

C_SUFFIXES = (".c", ".h", ".cpp", ".hpp", ".inc")
EXCUSED = Path(__file__).with_name("long_functions.txt")

# What is blanked before braces are counted, in the order of precedence. Newlines inside stay.
_NO_CODE = re.compile(
    r"""//(?:[^\n\\]|\\.)*|/\*.*?\*/|R"(?P<raw>[^(\s]*)\(.*?\)(?P=raw)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+'"""
    r"""|^[ \t]*\#(?:[^\n\\]|\\.)*""",
    re.DOTALL | re.MULTILINE,
)
_DIGITS = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")
_AFTER_PARAMETERS = re.compile(
    r"\)\s*(?:(?:const|noexcept(?:\s*\([^()]*\))?|override|final|mutable|&{1,2}|requires\b[^{]*|"
    r"->[^{;]*|__attribute__\s*\(\(.*?\)\)|LW_[A-Z_]+)\s*)*$",
    re.DOTALL,
)
_CONTROL = re.compile(
    r"^(?:else\s+)?(?:if|for|while|switch|catch|do|else|return|namespace|struct|class|union|enum)\b"
)
_LAMBDA = re.compile(
    r"\]\s*(?:<[^<>]*>\s*)?(?:\((?:[^()]|\([^()]*\))*\)\s*)?(?:mutable|noexcept|constexpr|->[^{;]*|\s)*$"
)
# Macros that stand before a function without a semicolon; LW__NAME(…) of the headers, mostly.
_MACROS_BEFORE = re.compile(
    r"^(?:(?:__extension__\s+)?(?!TEST|TYPED_TEST)[A-Z][A-Z0-9_]{3,}\((?:[^()]|\([^()]*\))*\)\s+)+(?=\w)"
)
_INITIALISERS = re.compile(r"\)\s*(?:noexcept\s*)?:\s*[^;]*$", re.DOTALL)


def blanked(text: str) -> str:
    """The text with comments, literals and preprocessor lines made of spaces, so that offsets and
    lines stay."""
    return _NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), _DIGITS.sub(" ", text))


def _head(code: str, start: int, brace: int) -> str:
    """The text between the end of the statement before and a brace."""
    return _MACROS_BEFORE.sub("", code[start:brace].strip())


def c_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of each function with a body; what is nested in one belongs to
    it."""
    code = blanked(text)
    depth = 0
    inside: tuple[str, int, int] | None = None  # name, first line, depth at its brace
    start = 0
    for match in re.finditer(r"[{};]", code):
        sign, at = match[0], match.start()
        if sign == "{":
            head = _head(code, start, at)
            if inside is None and _is_function(head):
                first = code.count(
                    "\n", 0, at - len(head) - (len(code[start:at]) - len(code[start:at].rstrip()))
                )
                inside = (_name(head), first + 1, depth)
            depth += 1
        elif sign == "}":
            depth -= 1
            if inside is not None and depth == inside[2]:
                yield inside[0], inside[1], code.count("\n", 0, at) + 1
                inside = None
        if sign != "{" or inside is None or depth == inside[2] + 1:
            if (
                sign == "{"
                and inside is None
                and _INITIALISERS.search(head := _head(code, start, at))
                and "=" not in head
            ):
                continue  # `: member{value}` of a constructor: its body is still to come
            if sign == "}" and inside is None and _INITIALISERS.search(code[start:at]):
                continue
            start = at + 1


def _is_function(head: str) -> bool:
    if (
        not head
        or _CONTROL.match(head)
        or head.endswith("=")
        or (_LAMBDA.search(head) and "=" in head)
    ):
        return False
    if _AFTER_PARAMETERS.search(head):
        return True
    return bool(_INITIALISERS.search(head) and re.search(r"[)}]$", head))


def _name(head: str) -> str:
    """The identifier before the parameter list; of a test macro its arguments too."""
    test = re.match(r"(?:TYPED_)?TEST(?:_[FP])?\s*\(([^)]*)\)", head)
    if test:
        return ".".join(part.strip() for part in test[1].split(","))
    names = re.findall(r"(?<![.>])\b([A-Za-z_]\w*(?:::~?\w+)*|operator\S+)\s*\(", head)
    return next(
        (
            name
            for name in names
            if name not in ("__attribute__", "alignas", "decltype", "requires", "noexcept")
        ),
        "?",
    )


def python_functions(text: str) -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of every function, nested ones and methods included; decorators do
    not count."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno, node.end_lineno or node.lineno


def functions(path: Path) -> Iterator[tuple[str, int, int]]:
    text = path.read_text(errors="replace")
    return python_functions(text) if path.suffix == ".py" else c_functions(text)


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True
    ).stdout.split("\n")
    return [
        Path(name) for name in listed if name.endswith((".py", *C_SUFFIXES)) and Path(name).exists()
    ]


def excused() -> set[str]:
    """`path: name` of functions that may still be long: the list may only shrink."""
    if not EXCUSED.exists():
        return set()
    return {
        line.strip()
        for line in EXCUSED.read_text().splitlines()
        if line.strip() and not line.startswith("#")
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("files", nargs="*", type=Path)
    request = parser.parse_args()
    allowed, used, failed = excused(), set(), False
    for path in request.files or tracked():
        if path.suffix not in (".py", *C_SUFFIXES):
            continue
        for name, first, last in functions(path):
            if last - first + 1 <= request.limit:
                continue
            key = f"{path}: {name}"
            used.add(key)
            if key not in allowed:
                print(
                    f"{path}:{first}: {name} has {last - first + 1} lines, the limit is "
                    f"{request.limit}"
                )
                failed = True
    for key in sorted(allowed - used) if not request.files else []:
        print(f"{EXCUSED.name}: {key} is no longer too long: remove it from the list")
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
