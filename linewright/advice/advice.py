"""From records to what to do: one advice per machine, made of sections that appear where the records support them.

A section is a function from a `Machine` to a `Section`, or None where there is nothing to say; `SECTIONS` lists them in
the order of the page, and adding one there is all that a new kind of record needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from linewright.advice import built, cores, forms, limits, plans, setting
from linewright.advice.machine import VERSION, Advice, Machine, Section
from linewright.analysis import summarise
from linewright.analysis.summary import Summary, machines_of
from linewright.families import FAMILIES
from linewright.schema import Context, Record

SECTIONS: tuple[Callable[[Machine], Section | None], ...] = (
    setting.classes, forms.overtaking, cores.cores, cores.several, forms.code, built.compile_time, built.kernel,
    cores.nearness, forms.of_family("one_line", "where"),
    *(forms.of_family(f.name, f.advice) for f in FAMILIES if f.advice and f.verdict == "forms"),
    plans.cache, plans.readers, limits.control, limits.unknown,
)  # fmt: skip


def advise(contexts: Iterable[Context], records: Iterable[Record]) -> list[Advice]:
    """One advice per machine, in the order of the records."""
    known = list(contexts)
    return advise_summaries(known, summarise(known, records))


def advise_summaries(contexts: Iterable[Context], summaries: Iterable[Summary]) -> list[Advice]:
    """The same from what analysis made of the records already."""
    known = list(contexts)
    return [
        _of(machine_id, own, [c for c in known if c.machine_id == machine_id])
        for machine_id, own in machines_of(summaries).items()
    ]


def _of(machine_id: str, summaries: list[Summary], contexts: list[Context]) -> Advice:
    machine = Machine(contexts, summaries)
    made = [found for make in SECTIONS if (found := make(machine))]
    return Advice(
        linewright_advice=VERSION, machine_id=machine_id, cpu_model=machine.context.cpu_model if machine.context else "",
        arch=machine.arch, target=machine.context.target if machine.context else "", setting=setting.setting(machine),
        choices=machine.choices, sections=made,
    )  # fmt: skip
