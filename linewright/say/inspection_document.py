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
            sentence_as_written(lock_decision(locks), basis="run"),
        ],
        facts=[sentence_as_written(_file(found), basis="run"), _of(evidence(found), functions)],
        tables=[table],
        limits=[_of(text, functions) for text in limits(found)],
    )


def _of(text: str, functions: Iterable[Function]) -> Sentence:
    """A sentence that rests on a program's functions; of one that has none on the file."""
    names = [f.name for f in functions]
    return sentence_as_written(text, names, "functions" if names else "run")


_OPENED = "Libraries that the program opens by itself are not known before it runs."


def of_libraries(objects: Sequence[Inspection], missing: Sequence[str]) -> Document:
    """A line for each object with the sums over all of them, then what is not known."""
    if objects[0].image.machine == "arm64":
        names = ["helpers", "their calls", "inlined LSE", "LL/SC"]
    else:
        names = ["locked operations"]
    figures = [list(found.sums.values()) for found in objects]
    figures = [
        own[3:] if len(names) == 1 else [found.recognised.total(), *own[:3]]
        for found, own in zip(objects, figures, strict=True)
    ]
    rows = [[o.image.path, *map(str, own)] for o, own in zip(objects, figures, strict=True)]
    rows.append(["all", *(str(sum(column)) for column in zip(*figures, strict=True))])
    unknown = [f"Not found: {', '.join(missing)}."] if missing else []
    return document_of(
        tables=[
            TextTable(
                title="",
                headings=["object", *names],
                left=[True, *(False for _ in names)],
                rows=rows,
                what="object",
                notes=[
                    *(sentence_as_written(text, basis="run") for text in unknown),
                    sentence_as_written(_OPENED, basis="rule"),
                ],
            )
        ]
    )


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
    return (
        f"{image.path}: {image.machine} {image.kind}, "
        f"{linked}{', stripped' if image.stripped else ''}"
    )


def evidence(found: Inspection) -> str:
    """How many operations there are, and of which kinds."""
    s = found.sums
    if found.image.machine != "arm64":
        return (
            f"{numbers.count(s['locked'], 'locked operation')} in "
            f"{numbers.count(len(found.functions), 'function')}."
        )
    callers = sum(bool(f.calls) for f in found.functions)
    parts = [
        f"{numbers.count(s['helper_calls'], 'call')} of helpers in "
        f"{numbers.count(callers, 'function')}"
    ]
    if s["inlined_lse"] or s["inlined_llsc"]:
        lse, llsc = (
            numbers.count(s["inlined_lse"], "LSE instruction"),
            numbers.count(s["inlined_llsc"], "LL/SC loop"),
        )
        parts.append(f"{lse} and {llsc} inlined, which stay as they are")
    else:
        parts.append("nothing inlined")
    return f"{'; '.join(parts)}."


def limits(found: Inspection) -> list[str]:
    """Whom a switch does not reach, and what the counts do not hold or only seem to."""
    said = []
    if found.recognised and found.image.privileges:
        said.append(
            f"It has {found.image.privileges} rights: for users who gain rights by it the dynamic "
            "linker ignores the setting."
        )
    if found.fixed:
        said.append(
            f"{numbers.count(found.fixed.total(), 'helper')} without a test of the CPU (Rust's "
            "compiler_builtins): LL/SC on every CPU, left alone."
        )
    if found.unknown:
        count = found.unknown.total()
        said.append(
            f"{numbers.count(count, 'function')} named like a helper "
            f"{'is' if count == 1 else 'are'} none by the machine code, and left alone."
        )
    if found.libatomic:
        said.append(
            f"It calls libatomic: {', '.join(found.libatomic)}. What these execute, at some sizes "
            "a lock, is in that library and not counted here."
        )
    if found.data:
        said.append(
            f"{numbers.count(found.data, 'pattern')} of atomic instructions outside of every "
            "function of known extent: most likely data, not counted."
        )
    return said


def for_programs(found: Inspection) -> dict:
    """What JSON has of it."""
    image = found.image
    counters = ("contains", "calls", "lse", "locked", "libatomic")
    reached = bool(found.recognised) and not image.unswitchable
    return {
        "path": image.path,
        "machine": image.machine,
        "kind": image.kind,
        "interpreter": image.interpreter,
        "stripped": image.stripped,
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
