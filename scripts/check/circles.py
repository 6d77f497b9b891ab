"""Refuses import circles in the Python package and include circles in C and C++ headers; exit code 1 if there is one.

An import inside a function counts as one at the top: it may delay a heavy library, but it may not hide a circle.
The public headers are left out: atomic.h and wide.h are one interface, each whole whichever of them is included first.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

PUBLIC = Path("include/linewright")
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)


def modules(files: Iterable[Path]) -> dict[str, Path]:
    """The package's modules by their dotted names."""
    return {".".join(f.with_suffix("").parts).removesuffix(".__init__"): f for f in files if f.suffix == ".py"}


def imported(tree: ast.AST, known: Mapping[str, Path]) -> Iterator[str]:
    """The package's modules that a module imports, in functions too; not those for type checkers alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in known else node.module for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from imported(node, known)


def included(file: Path, known: set[Path]) -> Iterator[Path]:
    """The checkout's headers that a file includes: beside it, or below one of the folders on the compiler's path."""
    places = (file.parent, Path("include"), Path("src"), Path("."))
    for name in _INCLUDE.findall(file.read_text(errors="replace")):
        found = next((path for place in places if (path := _plain(place / name)) in known), None)
        if found:
            yield found


def _plain(path: Path) -> Path:
    """Without the dots of ``../``."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and parts:
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def circle(edges: Mapping[object, set]) -> list | None:
    """One circle of the graph, its first node again at the end; None where there is none."""
    done: set = set()
    for start in edges:
        path, waiting = [], [iter([start])]
        while waiting:
            node = next(waiting[-1], None)
            if node is None:
                waiting.pop()
                if path:
                    done.add(path.pop())
            elif node in path:
                return [*path[path.index(node) :], node]
            elif node not in done:
                path.append(node)
                waiting.append(iter(sorted(edges.get(node, ()))))
    return None


def main() -> int:
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    files = [path for name in listed if name and (path := Path(name)).is_file()]
    known = modules(f for f in files if f.parts[0] == "linewright")
    python = {name: set(imported(ast.parse(f.read_text()), known)) & set(known) - {name} for name, f in known.items()}
    headers = {f for f in files if f.suffix in (".h", ".hpp", ".inc", ".def") and f.parent != PUBLIC}
    c = {header: set(included(header, headers)) - {header} for header in sorted(headers)}
    found = [circle(python), circle(c)]
    for each in filter(None, found):
        print("a circle:", " -> ".join(map(str, each)))
    return int(any(found))


if __name__ == "__main__":
    sys.exit(main())
