# SPDX-License-Identifier: MIT
"""A form, one instruction sequence of an operation: as the probe lists it, and what it is made
of."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from linewright.errors import UserError
from linewright.schema import FormParts

PREFETCHES = {"prefetchw": "PREFETCHW", "prfm_keep": "PRFM keep", "prfm_strm": "PRFM strm"}
"""Prefetches for write, with how people write them."""
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
    rows: dict[str, _TableForm] = {}
    for row in _rows():
        rows.setdefault(row.name, row)
    return {
        name: Form(
            name=name, operation=row.operation, order=row.order, arch=row.arch,
            width_bits=row.width_bits, needs=row.needs, atomic=not row.made_of.get("racy"),
            made_of=_resolved(name, rows),
        )
        for name, row in rows.items()
    }  # fmt: skip


class _TableForm(Struct, frozen=True):
    """One row of the table; wire/forms.def explains the columns."""

    name: str
    operation: str
    order: str
    arch: str
    width_bits: int
    needs: str
    made_of: dict[str, str | bool]


def table_file() -> Path:
    """The table as the build makes it: installed, or of the checkout's newest build; UserError
    where there is neither."""
    package = Path(__file__).parent
    built = (package.parent / "build").glob("*/wire/forms.json")
    newest = sorted(built, key=lambda path: path.stat().st_mtime, reverse=True)
    for path in (package / "forms.json", *newest):
        if path.is_file():
            return path
    raise UserError(
        "not found", "the table of forms",
        "build it with `cmake --preset native && cmake --build --preset native --target "
        "linewright_forms_json`, or install the package with `pip install .`",
    )  # fmt: skip


@cache
def _rows() -> list[_TableForm]:
    return msgspec.json.decode(table_file().read_bytes(), type=list[_TableForm])


@cache
def _beginnings(arch: str) -> list[tuple[str, str]]:
    """How instructions begin that a form of this architecture stands for, with that form."""
    return [
        (begin, row.name)
        for row in _rows()
        if row.arch == arch
        for begin in str(row.made_of.get("stands_for", "")).split(", ")
        if begin
    ]


def _resolved(name: str, rows: dict[str, _TableForm]) -> FormParts:
    """What these columns leave out is what the row says that they name."""
    own = {"base": name} | (rows[name].made_of if name in rows else {})
    named = own.get("word") or own["base"]
    found = FormParts(base=name) if named == name else _resolved(named, rows)
    return replace(found, **{key: own[key] for key in own if key in FormParts.__struct_fields__})
