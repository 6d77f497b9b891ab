# SPDX-License-Identifier: MIT
"""What of the form table a setting chooses, told from what forms are made of."""

from __future__ import annotations

import pytest

from linewright.analysis.comparison import Side
from linewright.analysis.setting_choice import OPERATIONS, stands_for
from linewright.analysis.summary import judged_near_or_far
from linewright.forms import _table, made_of
from linewright.policy import Policy
from linewright.schema import Cell

FORMS = {
    "void": {"stadd": "store", "ldadd": "load", "llsc_add": "llsc"},
    "fetch": {"ldadd": "load", "llsc_fetch_add": "llsc"},
    "xchg": {"swp": "load", "llsc_swp": "llsc"},
    "cas": {"cas_loop_read_first": "load", "llsc_cas_loop_read_first": "llsc"},
}
"""The library's prefetch is PSTL1STRM, and its conditional operations read first."""


def side(form, library=""):
    return Side(id="", form=form, ns=None, library=library)


@pytest.mark.parametrize("operations", OPERATIONS)
def test_every_form_of_a_class_stands_for_its_words(operations):
    usual = FORMS[operations]
    wanted = usual | {f"prfm_strm_{form}": f"{word} with prefetch" for form, word in usual.items()}
    served = {OPERATIONS[operations][0], *(["fetch_add"] if operations == "void" else [])}
    forms = [f for f in _table().values() if f.operation in served]
    found = {f.name: stands_for(side(f.name), operations, Policy("load")) for f in forms}
    assert {name: choice.words() for name, choice in found.items() if choice} == wanted


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("default", Policy("load")),
        ("load", Policy("load")),
        ("llsc,prefetch", Policy("llsc", True)),
        ("store,prefetch", Policy("load", True)),  # values that return have no store form
        ("void=store,fetch=llsc", Policy("llsc")),
        ("anything a hostile record says", None),
    ],
)
def test_a_setting_of_the_library_is_what_the_library_makes_of_it(name, choice):
    assert stands_for(side(name, "op_fetch_add"), "fetch", Policy("load")) == choice


def test_single_lse_instructions_tell_where_they_are_performed():
    told = {
        f.name
        for f in _table().values()
        if judged_near_or_far(Cell(operation=f.operation, form=f.name))
    }
    assert {made_of(name).base for name in told} == {"stadd", "ldadd", "ldaddal", "swp"}
    assert {"prfm_strm_stadd", "prfm_keep_ldadd", "prfm_strm_swp"} <= told
