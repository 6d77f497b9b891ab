"""`linewright inspect`: the atomics of a program or library, and how much of them can be switched."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from linewright.errors import DONE, one_line

if TYPE_CHECKING:
    from linewright.elf.inspection import Function, Inspection

ORDER = 71
_CALLS_SHOWN = 3


def register(app: typer.Typer) -> None:
    app.command("inspect")(inspect)


def inspect(
    path: Annotated[
        str,
        typer.Argument(metavar="PROGRAM|LIBRARY", help="An ELF file for arm64, x86-64 or i386.", show_default=False),
    ],
    json: Annotated[bool, typer.Option("--json", help="Everything, for programs.")] = False,
    with_libraries: Annotated[
        bool,
        typer.Option(
            "--with-libraries", help="One line for each library that is loaded with it, too (LD_LIBRARY_PATH counts)."
        ),
    ] = False,
) -> int:
    """List the atomic operations of a program or library by function, and sum up which of them can be switched."""
    from linewright.elf import libraries
    from linewright.elf.inspection import inspect as look

    found = look(path)
    needed = libraries.closure(path) if with_libraries else libraries.Closure((), ())
    others = [look(library) for library in needed.objects]
    if json:
        data = _for_programs(found)
        if with_libraries:
            data |= {"libraries": [_for_programs(other) for other in others], "missing_libraries": list(needed.missing)}
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n")
        sys.stdout.flush()
    else:
        _print(found)
        if with_libraries:
            _print_libraries([found, *others], needed.missing)
    return DONE


def _for_programs(found: Inspection) -> dict:
    image = found.image
    return {
        "path": image.path,
        "machine": image.machine,
        "kind": image.kind,
        "interpreter": image.interpreter,
        "stripped": image.stripped,
        "functions": [
            {
                "name": f.name,
                "address": f.address,
                "contains": dict(f.contains),
                "calls": dict(f.calls),
                "lse": dict(f.lse),
                "llsc": f.llsc,
                "locked": dict(f.locked),
                "libatomic": dict(f.libatomic),
            }
            for f in found.functions
        ],
        "helpers": {
            "recognised": dict(found.recognised),
            "own": dict(found.own),
            "fixed": dict(found.fixed),
            "unknown": dict(found.unknown),
        },
        "libatomic": list(found.libatomic),
        "privileges": image.privileges,
        "data": found.data,
        "sums": _sums(found),
        "switchable": {"run_time": _reached(found), "link_time": found.own.total() > 0},
    }


def _reached(found: Inspection) -> bool:
    return bool(found.recognised) and found.image.needs_dynamic_linker and not found.image.unaudited


def _sums(found: Inspection) -> dict[str, int]:
    functions = found.functions
    return {
        "helper_calls": sum(f.calls.total() for f in functions),
        "inlined_lse": sum(f.lse.total() for f in functions),
        "inlined_llsc": sum(f.llsc for f in functions),
        "locked": sum(f.locked.total() for f in functions),
    }


def _print(found: Inspection) -> None:
    from linewright.output.console import console_for

    console = console_for(sys.stdout)
    image = found.image
    linked = (
        f"started by {image.interpreter}"
        if image.interpreter
        else "shared"
        if image.needs_dynamic_linker
        else "statically linked"
    )
    console.print(
        one_line(f"{image.path}: {image.machine} {image.kind}, {linked}{', stripped' if image.stripped else ''}")
    )
    for sentence in summary(found):
        console.print(one_line(sentence))
    if found.functions:
        console.print()
        console.print(_arm64_table(found.functions) if image.machine == "arm64" else _x86_table(found.functions))


def _print_libraries(objects: list[Inspection], missing: tuple[str, ...]) -> None:
    from linewright.output.console import console_for

    arm64 = objects[0].image.machine == "arm64"
    columns = ("helpers", "their calls", "inlined LSE", "LL/SC") if arm64 else ("locked operations",)
    table = _table("object")
    for heading in columns:
        table.add_column(heading, justify="right")
    rows = [
        (f.recognised.total(), s["helper_calls"], s["inlined_lse"], s["inlined_llsc"]) if arm64 else (s["locked"],)
        for f, s in ((found, _sums(found)) for found in objects)
    ]
    for found, row in zip(objects, rows, strict=False):
        table.add_row(one_line(found.image.path), *map(str, row))
    table.add_section()
    table.add_row("all", *(str(sum(column)) for column in zip(*rows, strict=False)))
    console = console_for(sys.stdout)
    console.print()
    console.print(table)
    if missing:
        console.print(one_line(f"Not found: {', '.join(missing)}."))
    console.print("Libraries that the program opens by itself are not known before it runs.")


def _arm64_table(functions: tuple[Function, ...]):
    table = _table("function", "helper", "calls")
    for heading in ("store", "load", "swap", "cas", "LL/SC"):
        table.add_column(heading, justify="right")
    for f in functions:
        forms = [str(f.lse[form] or "") for form in ("store", "load", "swap", "cas")]
        table.add_row(one_line(f.name), "yes" if f.contains else "", _calls(f), *forms, str(f.llsc or ""))
    return table


def _calls(f: Function) -> str:
    shown = [
        f"{name.removeprefix('__aarch64_')}{f' ×{count}' if count > 1 else ''}"
        for name, count in (f.calls + f.libatomic).most_common(_CALLS_SHOWN)
    ]
    return ", ".join(shown) + (" …" if len(f.calls) + len(f.libatomic) > _CALLS_SHOWN else "")


def _x86_table(functions: tuple[Function, ...]):
    table = _table("function", "locked operations")
    for f in functions:
        table.add_row(
            one_line(f.name),
            ", ".join(f"{name}{f' ×{count}' if count > 1 else ''}" for name, count in f.locked.most_common()),
        )
    return table


def _table(*headings: str):
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def summary(found: Inspection) -> list[str]:
    """What there is and what of it can be switched, in sentences."""
    sums = _sums(found)
    if found.image.machine != "arm64":
        return [
            f"{_many(sums['locked'], 'locked operation')} in {_many(len(found.functions), 'function')}.",
            "x86 has one form of each: there is nothing to switch.",
            *_not_counted(found),
        ]
    lines = [
        f"Outlined helpers: {found.recognised.total()} known, {sums['helper_calls']} calls of helpers"
        + (f"; {found.own.total()} of liblinewright_outline" if found.own else "")
        + "."
    ]
    if found.recognised:
        if found.image.unaudited:
            lines.append(
                f"Made for {found.image.unaudited}, whose dynamic linker knows no auditing: `linewright run` cannot reach it."
            )
        elif found.image.needs_dynamic_linker:
            lines.append("`linewright run` can switch the known helpers, and so what their callers do.")
        else:
            lines.append(
                "Statically linked: `linewright run` cannot reach it; linking it with liblinewright_outline can."
            )
        if found.image.privileges:
            lines.append(
                f"It has {found.image.privileges} rights: for users who gain rights by it the dynamic linker ignores the setting."
            )
    if found.fixed:
        lines.append(
            f"{_many(found.fixed.total(), 'helper')} without a test of the CPU (Rust's compiler_builtins): LL/SC on every CPU, left alone."
        )
    if found.own:
        lines.append("LINEWRIGHT_ATOMICS governs the helpers of liblinewright_outline without `linewright run`.")
    if found.unknown:
        lines.append(
            f"{_many(found.unknown.total(), 'function')} named like a helper {'is' if found.unknown.total() == 1 else 'are'} none by its code, and left alone."
        )
    lines.append(
        f"Inlined: {_many(sums['inlined_lse'], 'LSE instruction')}, {_many(sums['inlined_llsc'], 'LL/SC loop')}; these stay as they are."
        if sums["inlined_lse"] or sums["inlined_llsc"]
        else "Nothing is inlined."
    )
    return lines + _not_counted(found)


def _not_counted(found: Inspection) -> list[str]:
    """Atomic operations that the counts do not hold, or seem to be some and are none."""
    lines = []
    if found.libatomic:
        lines.append(
            f"It calls libatomic: {', '.join(found.libatomic)}. What these execute, at some sizes a lock, is in that library and not counted here."
        )
    if found.data:
        lines.append(
            f"{_many(found.data, 'pattern')} of atomic instructions outside of every function of known extent: most likely data, not counted."
        )
    return lines
