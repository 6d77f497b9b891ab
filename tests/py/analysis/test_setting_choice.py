"""What of the form table a setting chooses, told from what forms are made of."""

from __future__ import annotations

import pytest

from linewright.analysis.setting_choice import OPERATIONS, choice_of
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


@pytest.mark.parametrize("operations", OPERATIONS)
def test_every_form_of_a_class_stands_for_its_words(operations):
    usual = FORMS[operations]
    wanted = usual | {f"prfm_strm_{form}": f"{word} with prefetch" for form, word in usual.items()}
    served = {OPERATIONS[operations][0], *(["fetch_add"] if operations == "void" else [])}
    forms = [f for f in _table().values() if f.operation in served]
    found = {f.name: choice_of(f.name, operations, False, Policy("load")) for f in forms}
    assert {name: choice.words() for name, choice in found.items() if choice} == wanted


@pytest.mark.parametrize(
    ("name", "choice"),
    [
        ("default", None),
        ("load", None),
        ("llsc,prefetch", Policy("llsc", True)),
        ("store,prefetch", Policy("load", True)),  # values that return have no store form
        ("void=store,fetch=llsc", Policy("llsc")),
        ("anything a hostile record says", None),
    ],
)
def test_a_setting_of_the_library_is_what_the_library_makes_of_it(name, choice):
    assert choice_of(name, "fetch", True, Policy("load")) == choice


def test_single_lse_instructions_tell_where_they_are_performed():
    told = {
        f.name
        for f in _table().values()
        if judged_near_or_far(Cell(operation=f.operation, form=f.name))
    }
    assert {made_of(name).base for name in told} == {"stadd", "ldadd", "ldaddal", "swp"}
    assert {"prfm_strm_stadd", "prfm_keep_ldadd", "prfm_strm_swp"} <= told
