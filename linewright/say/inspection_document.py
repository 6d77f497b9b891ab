# SPDX-License-Identifier: MIT
"""What `linewright inspect` says of a program: what of its atomics and locks can be switched,
what there is by function, and what is not counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from linewright import numbers, policy
from linewright.elf.inspection import Function, Inspection
from linewright.elf.lock_calls import LockCalls
from linewright.elf.outline_helpers import PREFIX
from linewright.say.document import (
    Column,
    Document,
    Sentence,
    TextTable,
    document_of,
    of_run,
    sentence_as_written,
    table_of,
)

CALLS_SHOWN = 3


def document(found: Inspection, locks: LockCalls, every: bool) -> Document:
    """The decision, the evidence, the functions with most operations (with `every` all, in the
    file's order), and the limits."""
    functions = found.functions if every else sorted(found.functions, key=lambda f: -_operations(f))
    kinds = _ARM64 if found.image.machine == "arm64" else _X86
    columns = [_NAME, *(kind for kind in kinds if any(map(kind.value, functions)))]
    table = table_of("", columns, functions, what="function")
    return document_of(
        headline=[
            *(_of(text, functions) for text in decisions(found)),
            *of_run([lock_decision(locks)]),
        ],
        facts=[*of_run([_file(found)]), _of(evidence(found), functions)],
        tables=[table],
        limits=[_of(text, functions) for text in limits(found, locks)],
    )


def _of(text: str, functions: Iterable[Function]) -> Sentence:
    """A sentence that rests on a program's functions; of one that has none on the file."""
    names = [f.name for f in functions]
    return sentence_as_written(text, names, "functions" if names else "run")


_OPENED = "Libraries that the program opens by itself are not known before it runs."


def of_libraries(objects: Sequence[Inspection], missing: Sequence[str]) -> Document:
    """A line for each object with the sums over all of them, then what is not known."""
    names, figures = ["locked operations"], [[o.sums["locked"]] for o in objects]
    if objects[0].image.machine == "arm64":
        names = ["helpers", "their calls", "inlined LSE", "LL/SC"]
        sums = ("helper_calls", "inlined_lse", "inlined_llsc")
        figures = [[o.recognised.total(), *(o.sums[name] for name in sums)] for o in objects]
    totals = [sum(column) for column in zip(*figures, strict=True)]
    named = [*(o.image.path for o in objects), "all"]
    unknown = [f"Not found: {', '.join(missing)}."] if missing else []
    table = TextTable(
        title="",
        headings=["object", *names],
        left=[True, *(False for _ in names)],
        rows=[[name, *map(str, own)] for name, own in zip(named, [*figures, totals], strict=True)],
        what="object",
        notes=[*of_run(unknown), sentence_as_written(_OPENED, basis="rule")],
    )
    return document_of(tables=[table])


def _operations(f: Function) -> int:
    return f.calls.total() + f.libatomic.total() + f.lse.total() + f.llsc + f.locked.total()


def _often(counted: Counter[str], most: int | None = None) -> str:
    """Names, the most frequent first, each with its number where that is not one."""
    shown = [
        f"{name.removeprefix(PREFIX)}{f' ×{count}' if count > 1 else ''}"
        for name, count in counted.most_common(most)
    ]
    return ", ".join(shown) + (" …" if len(counted) > len(shown) else "")


_NAME: Column[Function] = Column("function", lambda f: f.name, text=True, folds=True)
_X86: list[Column[Function]] = [
    Column("locked operations", lambda f: _often(f.locked), text=True, folds=True)
]
_ARM64: list[Column[Function]] = [
    Column("helper", lambda f: "yes" if f.contains else "", text=True, folds=True),
    Column("calls", lambda f: _often(f.calls + f.libatomic, CALLS_SHOWN), text=True, folds=True),
    *(
        Column(form, lambda f, form=form: str(f.lse[form] or ""))
        for form in ("store", "load", "swap", "cas")
    ),
    Column("LL/SC", lambda f: str(f.llsc or "")),
]


_RUN = {
    "": "`linewright run` can switch its {helpers}, and so what their callers do.",
    "static": "`linewright run` cannot switch its {helpers}, because it is statically linked; "
    "linking it with liblinewright_outline can.",
    "unaudited": "`linewright run` cannot switch its {helpers}: it is made for {libc}, whose "
    "dynamic linker knows no auditing.",
}


def decisions(found: Inspection) -> list[str]:
    """What of the file can be switched, and by what; or why nothing can."""
    image = found.image
    if image.machine != "arm64":
        return [f"Nothing can be switched: {policy.one_form(image.machine)}."]
    said = []
    if found.recognised:
        helpers = numbers.count(found.recognised.total(), "outlined helper")
        said.append(_RUN[image.unswitchable].format(helpers=helpers, libc=image.unaudited))
    if found.own:
        said.append(
            f"LINEWRIGHT_ATOMICS switches its {numbers.count(found.own.total(), 'helper')} of "
            "liblinewright_outline without `linewright run`."
        )
    return said or ["Nothing can be switched: it has no outlined helper that is known."]


def lock_decision(locks: LockCalls) -> str:
    """Whether the program has readers-writer locks of the C library, and what can stand in for
    them."""
    if locks.refusal:
        has = "it has pthread_rwlock_*" if locks.calls else "no pthread_rwlock_* is named in it"
        return f"`linewright run --locks` refuses it: {locks.refusal} ({has})."
    unknown = f" Not found: {', '.join(locks.missing)}." if locks.missing else ""
    if not locks.calls:
        return f"Neither it nor a library loaded with it calls pthread_rwlock_*.{unknown}"
    callers = ", ".join(PurePath(path).name for path in locks.calls)
    return f"`linewright run --locks` can replace the readers-writer locks of {callers}.{unknown}"


def _file(found: Inspection) -> str:
    image = found.image
    linked = "shared" if image.needs_dynamic_linker else "statically linked"
    linked = f"started by {image.interpreter}" if image.interpreter else linked
    stripped = ", stripped" if image.stripped else ""
    return f"{image.path}: {image.machine} {image.kind}, {linked}{stripped}"


def evidence(found: Inspection) -> str:
    """How many operations there are, and of which kinds."""
    sums, of = found.sums, numbers.count
    if found.image.machine != "arm64":
        functions = of(len(found.functions), "function")
        return f"{of(sums['locked'], 'locked operation')} in {functions}."
    callers = of(sum(bool(f.calls) for f in found.functions), "function")
    inlined = "nothing inlined"
    if sums["inlined_lse"] or sums["inlined_llsc"]:
        lse, llsc = (
            of(sums["inlined_lse"], "LSE instruction"),
            of(sums["inlined_llsc"], "LL/SC loop"),
        )
        inlined = f"{lse} and {llsc} inlined, which stay as they are"
    return f"{of(sums['helper_calls'], 'call')} of helpers in {callers}; {inlined}."


def limits(found: Inspection, locks: LockCalls) -> list[str]:
    """Whom a switch and other locks do not reach, and what the counts do not hold or only seem
    to."""
    switched = found.recognised or (locks.calls and not locks.refusal)
    fixed, unknown = found.fixed.total(), found.unknown.total()
    none = "is none" if unknown == 1 else "are none"
    said = {
        f"It has {found.image.privileges} rights: for users who gain rights by it the dynamic "
        "linker ignores the setting, and preloads nothing.": switched and found.image.privileges,
        f"{numbers.count(fixed, 'helper')} without a test of the CPU (Rust's compiler_builtins): "
        "LL/SC on every CPU, left alone.": found.fixed,
        f"{numbers.count(unknown, 'function')} named like a helper {none} by the machine code, and "
        "left alone.": found.unknown,
        f"It calls libatomic: {', '.join(found.libatomic)}. What these execute, at some sizes a "
        "lock, is in that library and not counted here.": found.libatomic,
        f"{numbers.count(found.data, 'pattern')} of atomic instructions outside of every function "
        "of known extent: most likely data, not counted.": found.data,
    }
    return [text for text, holds in said.items() if holds]


_OF_IMAGE = ("path", "machine", "kind", "interpreter", "stripped")


def for_programs(found: Inspection) -> dict:
    """What JSON has of it."""
    image = found.image
    counters = ("contains", "calls", "lse", "locked", "libatomic")
    reached = bool(found.recognised) and not image.unswitchable
    return {
        **{name: getattr(image, name) for name in _OF_IMAGE},
        "functions": [
            {"name": f.name, "address": f.address, "llsc": f.llsc}
            | {name: dict(getattr(f, name)) for name in counters}
            for f in found.functions
        ],
        "helpers": {
            name: dict(getattr(found, name)) for name in ("recognised", "own", "fixed", "unknown")
        },
        "libatomic": list(found.libatomic),
        "privileges": image.privileges,
        "data": found.data,
        "sums": found.sums,
        "switchable": {"run_time": reached, "link_time": found.own.total() > 0},
    }
