# SPDX-License-Identifier: MIT
"""`make check` finds what it is there to find: long functions in three languages, files that open
with code, a wrong part."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.places import ROOT

BODY = "    x += 1;\n"


def length(path, *options: str) -> str:
    program = [sys.executable, ROOT / "scripts/check/function_length.py", *options, path.name]
    return subprocess.run(program, cwd=path.parent, capture_output=True, text=True).stdout


@pytest.mark.parametrize(
    ("name", "before", "after", "function"),
    [
        ("a.py", "def long_one():\n    x = 0\n", "", "long_one"),
        ("a.py", "class C:\n    async def method(self):\n        x = 0\n", "", "method"),
        ("a.c", "static int long_one(int x)\n{\n", "    return x;\n}\n", "long_one"),
        ("a.c", "__attribute__((noinline)) int *f(void (*g)(int))\n{\n", "}\n", "f"),
        (
            "a.hpp",
            "namespace a {\nstruct B {\n  int f(int x) const noexcept {\n",
            "  }\n};\n}\n",
            "f",
        ),
        ("a.cpp", "Thing::Thing(int x) : a_(x), b_{1} {\n", "}\n", "Thing::Thing"),
        ("a.cpp", "auto f(int x) -> std::vector<int> {\n", "}\n", "f"),
        ("a.cpp", "TEST(Some, Test) {\n  auto g = [&](int y) { return y; };\n", "}\n", "Some.Test"),
        (
            "a.cpp",
            "int f(int x) {\n  const char *s = \"}\"; char c = '}'; /* } */ // }\n",
            "}\n",
            "f",
        ),
    ],
)
def test_a_long_function_is_found(tmp_path, name, before, after, function):
    def of(lines: int) -> str:
        indent = "    " if "class" in before else ""
        step = (indent + BODY.replace(";", "")) if name.endswith(".py") else BODY
        path = tmp_path / name
        path.write_text(before + step * (lines - before.count("\n") - after.count("\n")) + after)
        return length(path)

    outer = sum(word in before for word in ("namespace", "struct B")) * 2 + ("class" in before)
    assert of(60 + outer) == ""
    assert f": {function} has 61 lines" in of(61 + outer)


def test_data_and_macros_are_no_functions(tmp_path):
    table = tmp_path / "table.c"
    table.write_text(
        "static const int a[] = {\n"
        + "    1,\n" * 80
        + "};\n#define F(x) { \\\n"
        + " x; \\\n" * 80
        + "}\nint b;\n"
    )
    assert length(table) == ""


def test_an_unknown_part_is_refused():
    done = subprocess.run([ROOT / "scripts/check.sh", "spelling"], capture_output=True, text=True)
    assert done.returncode == 2 and "no part 'spelling'" in done.stderr


def test_a_file_without_a_licence_or_that_opens_with_code_is_found(tmp_path):
    tag = "SPDX-License-Identifier: MIT"
    (tmp_path / "said.py").write_text(f'# {tag}\n"""Says what it is for."""\nx = 1\n')
    (tmp_path / "silent.py").write_text(f"# {tag}\nx = 1\n")
    (tmp_path / "said.h").write_text(
        f"/* {tag} */\n#ifndef SAID_H\n#define SAID_H\n\n/*\n * Says what it is for.\n */\n"
        "int f(void);\n#endif\n"
    )
    (tmp_path / "silent.c").write_text(f'/* {tag} */\n#include "said.h"\n/* Says it too late. */\n')
    (tmp_path / "untagged.py").write_text('"""Says what it is for."""\nx = 1\n')
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)
    program = [sys.executable, ROOT / "scripts/check/openings.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert [line.partition(": ")[::2] for line in done.stdout.splitlines()] == [
        ("untagged.py", "no SPDX licence tag in its first lines"),
        ("silent.c", "does not open with a sentence that says what it is for"),
        ("silent.py", "does not open with a sentence that says what it is for"),
    ]


def test_a_private_word_is_found_and_the_fields_own_is_not(tmp_path):
    (tmp_path / "a.md").write_text(
        "The lock is dear.\nCosts can be told apart.\nNobody waits.\nThe caller is told so.\n"
    )
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)
    program = [sys.executable, ROOT / "scripts/check/words.py"]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert [line.split(":")[1] for line in done.stdout.splitlines()] == ["1", "3", "4"]


def test_what_passed_once_is_repeated_when_a_file_of_it_changes(tmp_path):
    runs, source = tmp_path / "runs", tmp_path / "source"

    def once(code: int = 0) -> int:
        command = f"echo run >>{runs}; exit {code}"
        words = [ROOT / "tests/once", tmp_path / "passed", source, "--", "sh", "-c", command]
        return subprocess.run(words, capture_output=True).returncode

    source.write_text("a")
    assert [once(3), once(3), once(), once(), once(3)] == [3, 3, 0, 0, 0]
    assert runs.read_text().count("run") == 3
    source.write_text("b")
    assert [once(3), once(), once()] == [3, 0, 0]
    source.write_text("a")
    assert once() == 0 and runs.read_text().count("run") == 6
    source.unlink()
    assert once() != 0
