"""What `linewright inspect` prints: what can be switched, what there is by function, and what is not counted."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.text import Text

from linewright.elf.inspection import Function, Inspection
from linewright.errors import one_line
from linewright.output.columns import Column, table
from linewright.output.one_screen import longest, more, print_blocks
from linewright.units import many

_CALLS_SHOWN = 3
_LSE = ("store", "load", "swap", "cas")


def show(found: Inspection, console: Console, every: bool) -> None:
    """Print the decision, the evidence, the functions with most operations (all with `every`), and the limits."""
    functions = found.functions if every else sorted(found.functions, key=lambda f: -_operations(f))
    every_column = _ARM64 if found.image.machine == "arm64" else _X86
    columns = [column for column in every_column if any(map(column.value, functions))]

    def made(count: int) -> list[RenderableType]:
        left_out = len(functions) - count
        return [
            *(Text(one_line(line), style="bold") for line in decisions(found)),
            Text(one_line(_file(found))),
            Text(one_line(evidence(found))),
            *([Text(), table("", columns, functions[:count], space=2)] if count else []),
            *([Text(more(left_out, "function", f"inspect {found.image.path}"))] if left_out else []),
            *(Text(one_line(line)) for line in limits(found)),
        ]

    print_blocks(made(len(functions)) if every else longest(made, len(functions), console), console)


def show_libraries(objects: Sequence[Inspection], missing: Sequence[str], console: Console) -> None:
    """Print a line for each object with the sums over all of them, then what is not known."""
    arm64 = objects[0].image.machine == "arm64"
    names = ("helpers", "their calls", "inlined LSE", "LL/SC") if arm64 else ("locked operations",)

    def figures(found: Inspection) -> tuple[int, ...]:
        s = sums(found)
        inlined = (s["helper_calls"], s["inlined_lse"], s["inlined_llsc"])
        return (found.recognised.total(), *inlined) if arm64 else (s["locked"],)

    rows = [(one_line(found.image.path), figures(found)) for found in objects]
    rows.append(("all", tuple(map(sum, zip(*(values for _, values in rows), strict=True)))))
    columns = [Column[tuple]("object", lambda row: row[0], text=True, fold_at=20)]
    columns += [Column(name, lambda row, at=at: str(row[1][at])) for at, name in enumerate(names)]
    print_blocks([Text(), table("", columns, rows, space=2)], console)
    if missing:
        console.print(Text(one_line(f"Not found: {', '.join(missing)}.")))
    console.print(Text("Libraries that the program opens by itself are not known before it runs."))


def _operations(f: Function) -> int:
    return f.calls.total() + f.libatomic.total() + f.lse.total() + f.llsc + f.locked.total()


def _calls(f: Function) -> str:
    shown = [
        f"{name.removeprefix('__aarch64_')}{f' ×{count}' if count > 1 else ''}"
        for name, count in (f.calls + f.libatomic).most_common(_CALLS_SHOWN)
    ]
    return ", ".join(shown) + (" …" if len(f.calls) + len(f.libatomic) > _CALLS_SHOWN else "")


def _locked(f: Function) -> str:
    return ", ".join(f"{name}{f' ×{count}' if count > 1 else ''}" for name, count in f.locked.most_common())


_NAME = Column[Function]("function", lambda f: one_line(f.name), text=True, fold_at=20)
_X86 = (_NAME, Column[Function]("locked operations", _locked, text=True, fold_at=16))
_ARM64 = (
    _NAME,
    Column[Function]("helper", lambda f: "yes" if f.contains else "", text=True),
    Column[Function]("calls", _calls, text=True, fold_at=12),
    *(Column[Function](form, lambda f, form=form: str(f.lse[form] or "")) for form in _LSE),
    Column[Function]("LL/SC", lambda f: str(f.llsc or "")),
)


# --------------------------------------------------------------------------------------------------------- sentences


def sums(found: Inspection) -> dict[str, int]:
    """Operations of the whole file, by kind."""
    functions = found.functions
    return {
        "helper_calls": sum(f.calls.total() for f in functions),
        "inlined_lse": sum(f.lse.total() for f in functions),
        "inlined_llsc": sum(f.llsc for f in functions),
        "locked": sum(f.locked.total() for f in functions),
    }


def decisions(found: Inspection) -> list[str]:
    """What of the file can be switched, and by what; or why nothing can."""
    image = found.image
    if image.machine != "arm64":
        return ["Nothing can be switched: x86 has one form of each operation."]
    said = []
    helpers = many(found.recognised.total(), "outlined helper")
    if found.recognised and image.unaudited:
        said.append(
            f"`linewright run` cannot switch its {helpers}: it is made for {image.unaudited}, whose dynamic linker"
            " knows no auditing."
        )
    elif found.recognised and not image.needs_dynamic_linker:
        said.append(
            f"`linewright run` cannot switch its {helpers}, because it is statically linked; linking it with"
            " liblinewright_outline can."
        )
    elif found.recognised:
        said.append(f"`linewright run` can switch its {helpers}, and so what their callers do.")
    if found.own:
        said.append(
            f"LINEWRIGHT_ATOMICS switches its {many(found.own.total(), 'helper')} of liblinewright_outline without"
            " `linewright run`."
        )
    return said or ["Nothing can be switched: it has no outlined helper that is known."]


def _file(found: Inspection) -> str:
    image = found.image
    linked = "shared" if image.needs_dynamic_linker else "statically linked"
    linked = f"started by {image.interpreter}" if image.interpreter else linked
    return f"{image.path}: {image.machine} {image.kind}, {linked}{', stripped' if image.stripped else ''}"


def evidence(found: Inspection) -> str:
    """How many operations there are, and of which kinds."""
    s = sums(found)
    if found.image.machine != "arm64":
        return f"{many(s['locked'], 'locked operation')} in {many(len(found.functions), 'function')}."
    callers = sum(bool(f.calls) for f in found.functions)
    parts = [f"{many(s['helper_calls'], 'call')} of helpers in {many(callers, 'function')}"]
    if s["inlined_lse"] or s["inlined_llsc"]:
        lse, llsc = many(s["inlined_lse"], "LSE instruction"), many(s["inlined_llsc"], "LL/SC loop")
        parts.append(f"{lse} and {llsc} inlined, which stay as they are")
    else:
        parts.append("nothing inlined")
    return f"{'; '.join(parts)}."


def limits(found: Inspection) -> list[str]:
    """Whom a switch does not reach, and what the counts do not hold or only seem to."""
    said = []
    if found.recognised and found.image.privileges:
        said.append(
            f"It has {found.image.privileges} rights: for users who gain rights by it the dynamic linker ignores the"
            " setting."
        )
    if found.fixed:
        said.append(
            f"{many(found.fixed.total(), 'helper')} without a test of the CPU (Rust's compiler_builtins): LL/SC on"
            " every CPU, left alone."
        )
    if found.unknown:
        count = found.unknown.total()
        said.append(
            f"{many(count, 'function')} named like a helper {'is' if count == 1 else 'are'} none by the machine code,"
            " and left alone."
        )
    if found.libatomic:
        said.append(
            f"It calls libatomic: {', '.join(found.libatomic)}. What these execute, at some sizes a lock, is in that"
            " library and not counted here."
        )
    if found.data:
        said.append(
            f"{many(found.data, 'pattern')} of atomic instructions outside of every function of known extent:"
            " most likely data, not counted."
        )
    return said
