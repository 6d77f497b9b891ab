# SPDX-License-Identifier: MIT
"""How `LD_PRELOAD` names a library, and which programs cannot have one."""

from __future__ import annotations

import pytest

from linewright.errors import UserError
from linewright.run import programs


@pytest.fixture
def library(tmp_path):
    path = tmp_path / "library.so"
    path.write_bytes(b"")
    return path


def test_a_library_with_a_folder_for_this_machine_is_named_by_the_platform(library, monkeypatch):
    (library.parent / "there").mkdir()
    (library.parent / "there" / library.name).symlink_to(library)
    monkeypatch.setattr(programs, "_platform", lambda: "there")
    assert programs.name_of(library) == f"{library.parent}/$PLATFORM/library.so"
    for other in ("elsewhere", ""):
        monkeypatch.setattr(programs, "_platform", lambda other=other: other)
        assert programs.name_of(library) == str(library), "a library alone is named as it is"


@pytest.mark.parametrize("sign", [":", "$", " "])
def test_a_path_that_the_dynamic_linker_would_change_is_refused(sign):
    with pytest.raises(UserError, match="LD_PRELOAD cannot name a path"):
        programs.check(f"/a{sign}b/library.so", "library.so")


def test_a_script_or_what_is_not_there_is_no_program_with_a_sanitizer(tmp_path):
    (tmp_path / "script").write_text("#!/bin/sh\n")
    for name in ("script", "absent"):
        programs.refuse_sanitizer(str(tmp_path / name), "--heap")
