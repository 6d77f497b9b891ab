# SPDX-License-Identifier: MIT
"""A form, one instruction sequence of an operation: as the probe lists it, and what it is made of;
and the families of operations: what each is called, which of its forms are bounds, what its forms
are compared with.

Whatever treats operations differently (tables, verdict, advice, report) asks here, so that a new
operation is one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


class Family(Struct, frozen=True, kw_only=True):
    """Operations that one plan measures and one table shows."""

    name: str
    title: str
    """Heading in advice and report."""
    operations: tuple[str, ...]
    baseline_loop: str = ""
    """The operation that stands for the loop without one; empty where the family has none."""
    floors: tuple[str, ...] = ()
    """Forms that bound the others and are never advised: they lose counts, count something else, or
    tear."""
    defaults: Mapping[str, tuple[str, ...]] = {}
    """For each operation the forms that the others are compared with, the first of them that was
    measured: what a compiler emits, or what a program without this library would do."""
    verdict: str = "forms"
    """``forms`` (each form against the default), ``cache`` (a fit over lists), ``dma`` (one wait or
    many), ``readers`` (forms, scaling and updaters), ``spacing`` (near against far apart) or
    ``hints`` (wake-ups and sections of holders together)."""
    advice: str = ""
    """Name of the section of `linewright advise` that speaks of it; empty: the sections about a
    choice of form."""
    contended: bool = True
    """Whether several CPUs use one word on purpose; per-CPU operations are judged alone."""


ONE_LINE = Family(
    name="one_line",
    title="Atomics on one line",
    operations=("add", "fetch_add", "xchg", "cmpxchg", "read"),
    baseline_loop="none",
    floors=("plain_add", "empty"),
    defaults={
        "add": ("lock_add", "ldadd", "llsc_add", "builtin_add"),
        "fetch_add": ("lock_xadd", "ldadd", "llsc_fetch_add", "builtin_fetch_add"),
        "xchg": ("xchg", "swp", "llsc_swp", "builtin_xchg"),
        "cmpxchg": (
            "cmpxchg_loop_read_first", "cas_loop_read_first", "llsc_cas_loop_read_first",
            "builtin_cmpxchg_loop_read_first",
        ),
        "read": ("mov_read", "ldr_read", "builtin_read"),
    },
)  # fmt: skip
PERCPU = Family(
    name="percpu",
    title="Per-CPU counters",
    operations=("percpu_add", "percpu_cmpxchg"),
    baseline_loop="percpu_none",
    floors=(
        "percpu_racy_add", "percpu_thread_local_add",
        "percpu_own_plain_add", "percpu_shared_plain_add",
    ),
    defaults={
        "percpu_add": ("percpu_shared_c11_add", "percpu_own_c11_add", "this_cpu_add"),
        "percpu_cmpxchg": ("percpu_rseq_cmpxchg", "this_cpu_cmpxchg"),
    },
    advice="percpu",
    contended=False,
)  # fmt: skip
WIDE = Family(
    name="wide",
    title="Wider than a register",
    operations=("wide_read", "wide_write", "wide_add"),
    floors=("read_twice_read",),
    defaults={
        "wide_read": ("cmpxchg16b_read_once", "cmpxchg8b_read_once", "casp_read", "ldxp_stxp_read"),
        "wide_write": (
            "cmpxchg16b_loop_xchg", "cmpxchg8b_loop_xchg", "casp_loop_xchg", "ldxp_stxp_xchg",
        ),
        "wide_add": ("cmpxchg8b_loop_torn_first_add",),
    },
    advice="wide",
)  # fmt: skip
CACHE = Family(
    name="cache",
    title="Cache maintenance",
    operations=("clean", "clean_invalidate"),
    verdict="cache",
    advice="cache",
)
DMA = Family(
    name="dma",
    title="DMA mappings of scatter lists, in the kernel",
    operations=("dma_map", "dma_unmap", "dma_sync_for_device", "dma_sync_for_cpu"),
    verdict="dma",
    advice="dma",
)
READERS = Family(
    name="readers",
    title="Readers and grace periods",
    operations=(
        "readers_pair", "readers_shape", "readers_floor", "readers_lookup", "readers_grace",
    ),
    baseline_loop="readers_none",
    defaults={
        "readers_pair": ("rwlock", "mutex", "refcnt"),
        "readers_shape": ("srcu_percpu_builtin_add",),
        "readers_floor": ("percpuinc",),
        "readers_lookup": ("typesafe_ref",),
    },
    verdict="readers",
    advice="readers",
)  # fmt: skip
LIBRARY = Family(
    name="library",
    title="The library's operations, by setting",
    operations=("library_add", "library_fetch_add", "library_xchg", "library_cmpxchg"),
    defaults={
        "library_add": ("default",),
        "library_fetch_add": ("default",),
        "library_xchg": ("default",),
        "library_cmpxchg": ("default",),
    },
    advice="library",
)
HANDOFF = Family(
    name="handoff",
    title="Core to core",
    operations=("handoff",),
    defaults={"handoff": ("load_cmpxchg",)},
    advice="handoff",
)
SPACING = Family(
    name="spacing",
    title="How far apart",
    operations=("apart_writers", "apart_reader", "apart_writer", "apart_shared"),
    verdict="spacing",
    advice="spacing",
    contended=False,
)
USUAL_HINTS = ("pause", "isb")
"""What a waiting thread executes by default; other hints are compared with it."""
HINTS = ("pause", "tpause", "umwait", "mwaitx", "yield", "isb", "sb", "wfe", "wfet")
"""Instructions that a thread executes to wait, of all architectures."""
WAIT = Family(
    name="wait",
    title="Waiting for another thread",
    operations=("wait_hint", "wait_woken", "wait_held"),
    # No hint is the better by one of these alone: question `hints` asks of two together.
    floors=(
        "woken_none", "held_none",
        *(f"{kind}_{hint}" for kind in ("hint", "woken", "held") for hint in HINTS),
    ),
    verdict="hints",
    contended=False,
)  # fmt: skip

FAMILIES = (ONE_LINE, PERCPU, WIDE, CACHE, DMA, READERS, LIBRARY, HANDOFF, SPACING, WAIT)
"""In the order in which they are spoken of."""

FLOORS = frozenset(form for family in FAMILIES for form in family.floors)
"""Forms that are never recommended and never a side of a comparison."""
BASELINE_LOOPS = frozenset(family.baseline_loop for family in FAMILIES if family.baseline_loop)
"""Operations that are the loop alone."""
_BY_OPERATION = {
    name: family
    for family in FAMILIES
    for name in (*family.operations, family.baseline_loop)
    if name
}

_X86_PAIRS = (
    ("lock_add", "builtin_add"),
    ("lock_xadd", "builtin_fetch_add"),
    ("xchg", "builtin_xchg"),
    ("mov_read", "builtin_read"),
)
IDENTICAL: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "x86_64": (*_X86_PAIRS, ("cmpxchg_loop_read_first", "builtin_cmpxchg_loop_read_first")),
    "i386": _X86_PAIRS,
    "arm64": (("ldr_read", "builtin_read"), ("llsc_add", "builtin_add")),
}
"""Forms whose timed loops hold the same machine code, by architecture: what they differ by is the
run's noise floor. At every width that they have in common; tests/py/probe/test_disassembly.py
compares all loops with each other."""


def family_of(operation: str) -> Family:
    """The family of an operation; operations that no family names are taken as ones on one line."""
    return _BY_OPERATION.get(operation, ONE_LINE)


def default_of(operation: str, names: Iterable[str]) -> str:
    """What the forms (of library operations: settings) of an operation are compared with, among
    those measured.

    Where none of the family's defaults was measured it is the first name given, so callers pass
    them in a fixed order."""
    measured = list(names)
    wanted = family_of(operation).defaults.get(operation, ())
    return next((name for name in wanted if name in measured), measured[0] if measured else "")
