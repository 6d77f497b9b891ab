# SPDX-License-Identifier: MIT
"""The page of the package: made of README, current, and without anything that works in the
repository only."""

from __future__ import annotations

import importlib.util
import re

import pytest

from support.places import ROOT

PAGE = (ROOT / "PACKAGE.md").read_text(encoding="utf-8")


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("front_page", ROOT / "scripts" / "front_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_what_the_script_makes_of_readme_and_the_screen(script):
    assert script.page() == PAGE, "run scripts/front_page.py"
    assert script.front() == (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_repositorys_address_has_one_place(script):
    script.REPOSITORY = "https://example.org/linewright.git"
    for text in (script.front(), script.page()):
        assert text.count(f"git clone {script.REPOSITORY} linewright && cd linewright") == 1


def test_it_needs_no_other_file():
    links = re.findall(r"\]\(([^)]*)\)", PAGE)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    assert not re.search(r"<(picture|img|source)\b", PAGE)
    for path in re.findall(r"^- .*: `([^`]+)`", PAGE, re.M):
        assert (ROOT / path).exists(), f"{path} is named as a page of the source"


def test_it_shows_the_screen_that_the_picture_shows():
    screen = (ROOT / "docs" / "images" / "screen.txt").read_text(encoding="utf-8").splitlines()
    assert len(screen) >= 20 and all(f"    {line}".rstrip() in PAGE for line in screen)
    picture = (ROOT / "docs" / "images" / "screen-light.svg").read_text(encoding="utf-8")
    drawn = re.sub(r"<[^>]*>", "", picture.replace("&#160;", " "))
    assert all(word in drawn for line in screen for word in line.split() if word.isalnum())
