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
    r" +(?P<bits>\w+), +(?P<needs>\w+)(?P<made>.*)\)$",
    re.MULTILINE,
)
"""A row of wire/forms/*.def; wire/forms.def explains the columns."""
_ATTRIBUTE = re.compile(r", \.(\w+) = (?:true|\"([^\"]+)\")")
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


def standing_for(instruction: str, arch: str) -> str:
    """The form that costs what an instruction of a program does, or nearly; empty where none is
    known."""
    known = [pair for pair in _beginnings(arch) if instruction.startswith(pair[0])]
    return max(known, default=("", ""))[1]  # the longer of two that fit is the greater text


def learn(form: str, made: FormParts) -> None:
    """What a record says of its form: that of a newer probe is in no table here."""
    _LEARNT.setdefault(form, made)


@cache
def _table() -> dict[str, Form]:
    """The form table by name."""
    rows: dict[str, re.Match[str]] = {}
    for row in _rows():
        rows.setdefault(row["name"], row)
    return {
        name: Form(
            name=name,
            operation=row["operation"],
            order=row["order"],
            arch=row["arch"],
            width_bits=int(row["bits"]),
            needs=row["needs"],
            atomic=not _attributes(row).get("racy"),
            made_of=_resolved(name, rows),
        )
        for name, row in rows.items()
    }


@cache
def _rows() -> list[re.Match[str]]:
    package = Path(__file__).parent
    installed = package / "form_table"
    folder = installed if installed.is_dir() else package.parent / "wire" / "forms"
    return [row for path in sorted(folder.iterdir()) for row in _ROW.finditer(path.read_text())]


@cache
def _beginnings(arch: str) -> list[tuple[str, str]]:
    """How instructions begin that a form of this architecture stands for, with that form."""
    return [
        (begin, row["name"])
        for row in _rows()
        if row["arch"] == arch
        for begin in str(_attributes(row).get("stands_for", "")).split(", ")
        if begin
    ]


def _attributes(row: re.Match[str]) -> dict[str, str | bool]:
    """The columns of a row that say what its form is made of."""
    return {name: text or True for name, text in _ATTRIBUTE.findall(row["made"])}


def _resolved(name: str, rows: dict[str, re.Match[str]]) -> FormParts:
    """What these columns leave out is what the row says that they name."""
    own = {"base": name} | (_attributes(rows[name]) if name in rows else {})
    named = own.get("word") or own["base"]
    found = FormParts(base=name) if named == name else _resolved(named, rows)
    return replace(found, **{key: own[key] for key in own if key in FormParts.__struct_fields__})
