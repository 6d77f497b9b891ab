# SPDX-License-Identifier: MIT
"""What forms are made of: read from the table here as the probe reads it that was built from it."""

from __future__ import annotations

import msgspec
import pytest

from linewright import forms
from linewright.forms import PREFETCHES, made_of
from linewright.schema import FormParts
from support.forms import every_form


def test_the_table_is_read_here_as_the_probe_reads_it():
    assert {form.name: made_of(form.name) for form in every_form()} == {
        form.name: form.made_of for form in every_form()
    }


def test_no_row_forgets_what_its_name_says():
    """The one place that takes names apart: a new row without its last column is found here."""
    names = {form.name for form in every_form()}
    for name in names:
        made = made_of(name)
        assert made.base in names, name
        assert bool(made.prefetch) == any(f"{prefetch}_" in name for prefetch in PREFETCHES), name
        if name.endswith(("loop_read_first", "loop_guess_first")):
            assert made.loop and name.endswith(made.loop), name
        assert made.exclusive == ("llsc_" in name), name


def test_a_form_of_one_piece_is_itself():
    assert made_of("srcu_fast") == FormParts(base="srcu_fast")


@pytest.mark.parametrize(
    ("name", "made"),
    [
        (
            "prfm_strm_stadd",
            FormParts(base="stadd", prefetch="prfm_strm", instruction="STADD", reach="near_or_far"),
        ),
        (
            "llsc_cas_loop_read_first",
            FormParts(
                base="llsc_cas_loop_read_first",
                loop="read_first",
                exclusive=True,
                returns_old=True,
                reach="near",
            ),
        ),
        (
            "srcu_percpu_prefetchw_lock_add",
            FormParts(
                base="srcu_percpu_lock_add",
                prefetch="prefetchw",
                instruction="LOCK ADD",
                reach="near",
                word="lock_add",
                whose="own",
            ),
        ),
        ("percpu_shared_ldadd", None),
    ],
)
def test_a_form_has_what_the_rows_say_that_it_names(name: str, made: FormParts | None):
    if made is None:
        made = msgspec.structs.replace(made_of("ldadd"), base=name, word="ldadd", whose="shared")
    assert made_of(name) == made


def test_a_record_says_what_a_form_of_a_newer_probe_is_made_of(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forms, "_LEARNT", {})
    newer = FormParts(base="ldclr", prefetch="prfm_strm", instruction="LDCLR")
    forms.learn("prfm_strm_ldclr", newer)
    forms.learn("stadd", newer)
    assert made_of("prfm_strm_ldclr") == newer
    assert made_of("stadd").instruction == "STADD", "the table is not overruled"
