# SPDX-License-Identifier: MIT
"""The name of a class, of a type and of a file have one meaning each in the package."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from linewright.wings import PACKAGE


def several_meanings(files: Iterable[Path]) -> dict[str, list[str]]:
    """Names of classes and of types that more than one file defines, with the files; what is a
    module's own (``_Row``) is no other meaning either."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.name] if isinstance(node, ast.ClassDef) else []
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            for name in names:
                if re.fullmatch(r"_?(?=.*[a-z])([A-Z][a-z0-9]+)+", name):
                    places[name.lstrip("_")].append(path.name)
    return {name: where for name, where in places.items() if len(where) > 1}


def test_no_class_or_type_has_two_meanings():
    assert several_meanings(PACKAGE.rglob("*.py")) == {}


def test_no_file_name_stands_for_two_things():
    """Commands are named by what the user types, and each wing has its `wing.py`."""
    named = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if path.parent.name != "commands"
        and path.name not in ("__init__.py", "__main__.py", "wing.py")
    ]
    assert sorted(set(named)) == sorted(named)


def test_a_second_meaning_is_found(tmp_path: Path):
    (tmp_path / "a.py").write_text("class Machine: ...\nclass Line: ...\nKind = str\n")
    (tmp_path / "b.py").write_text("def f():\n    class Machine: ...\nclass _Kind: ...\n")
    both = ["a.py", "b.py"]
    assert several_meanings(sorted(tmp_path.glob("*.py"))) == {"Machine": both, "Kind": both}
