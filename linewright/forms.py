"""A form, one instruction sequence of an operation: as the probe lists it, and what it is made
of."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from linewright.schema import FormParts

PREFETCHES = {"prefetchw": "PREFETCHW", "prfm_keep": "PRFM keep", "prfm_strm": "PRFM strm"}
"""Prefetches for write, with how people write them."""
_ROW = re.compile(
    r"^LW_FORM\((?P<arch>\w+), +(?P<name>\w+), +(?P<operation>\w+), +(?P<order>\w+),"
    r" +(?P<bits>\w+), +(?P<needs>\w+)"
    r"(?:, (?P<kind>\w+)(?:\((?P<of>\w[\w ]*)(?:, (?P<instruction>[\w ]+))?\))?)?\)$",
    re.MULTILINE,
)
"""A row of wire/forms/*.def; wire/forms.def explains the columns."""
_LEARNT: dict[str, FormParts] = {}


class Form(Struct, frozen=True, kw_only=True):
    """One form as the probe lists it. `available` is whether this CPU has what it `needs`."""

    name: str
    operation: str
    order: str
    arch: str
    width_bits: int
    needs: str = "none"
    atomic: bool = True
    """Whether concurrent operations on one line all count."""
    available: bool = True
    reason: str = ""
    made_of: FormParts = FormParts(base="")


def made_of(form: str) -> FormParts:
    """What a form is made of; of a name that neither the table nor a record knows, the name
    alone."""
    known = listed(form)
    return known.made_of if known else _LEARNT.get(form) or FormParts(base=form)


def listed(form: str) -> Form | None:
    """The first row of the table with this name; None where there is none."""
    return _table().get(form)


def learn(form: str, made: FormParts) -> None:
    """What a record says of its form: that of a newer probe is in no table here."""
    _LEARNT.setdefault(form, made)


@cache
def _table() -> dict[str, Form]:
    """The form table by name; what a form is made of as `made_of` of wire/forms.cpp reads it."""
    package = Path(__file__).parent
    installed = package / "form_table"
    folder = installed if installed.is_dir() else package.parent / "wire" / "forms"
    rows: dict[str, re.Match[str]] = {}
    for path in sorted(folder.iterdir()):
        for row in _ROW.finditer(path.read_text()):
            rows.setdefault(row["name"], row)
    return {
        name: Form(
            name=name,
            operation=row["operation"],
            order=row["order"],
            arch=row["arch"],
            width_bits=int(row["bits"]),
            needs=row["needs"],
            made_of=_resolved(name, rows),
        )
        for name, row in rows.items()
    }


def _resolved(name: str, rows: dict[str, re.Match[str]]) -> FormParts:
    if name not in rows:
        return FormParts(base=name)
    row = rows[name]
    kind, of = row["kind"] or "", row["of"] or ""
    if kind in PREFETCHES:
        return replace(_resolved(of, rows), prefetch=kind)
    if kind in ("own", "shared"):
        found = _resolved(of, rows)
        instruction = row["instruction"] or found.instruction
        return replace(found, base=name, word=of, whose=kind, instruction=instruction)
    known = kind not in ("", "retries", "racy") and row["arch"] != "generic"
    return FormParts(
        base=name,
        loop={"llsc_read_first": "read_first", "read_first": kind, "guess_first": kind}.get(
            kind, ""
        ),
        exclusive=kind in ("llsc", "llsc_read_first"),
        instruction=of,
        returns_old=row["operation"] in ("fetch_add", "cmpxchg", "xchg", "read"),
        reach="near_or_far" if row["needs"] == "lse" else "near" if known else "",
        retries=kind == "retries",
    )
