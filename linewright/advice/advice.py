"""From records to what to do: one advice per machine, made of sections that appear where the records support them.

A section is a function from a `Machine` to a `Topic`, or None where there is nothing to say; `SECTIONS` lists them in
the order of the page, and adding one there is all that a new kind of record needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from linewright.advice import built, cores, forms, limits, plans, setting
from linewright.advice.machine import VERSION, Advice, Machine, Topic
from linewright.analysis.summary import Summary, machines_of
from linewright.families import FAMILIES
from linewright.schema import Context

SECTIONS: tuple[Callable[[Machine], Topic | None], ...] = (
    setting.classes, forms.overtaking, cores.cores, cores.several, forms.code, built.compile_time, built.kernel,
    cores.nearness, forms.of_family("one_line", "where"),
    *(forms.of_family(f.name, f.advice) for f in FAMILIES if f.advice and f.verdict == "forms"),
    plans.cache, plans.readers, limits.control, limits.unknown,
)  # fmt: skip


def advise(contexts: Iterable[Context], summaries: Iterable[Summary]) -> list[Advice]:
    """One advice per machine, in the order of the summaries."""
    known = list(contexts)
    return [
        _of(machine_id, own, [c for c in known if c.machine_id == machine_id])
        for machine_id, own in machines_of(summaries).items()
    ]


def _of(machine_id: str, summaries: list[Summary], contexts: list[Context]) -> Advice:
    machine = Machine(contexts, summaries)
    made = [found for make in SECTIONS if (found := make(machine))]
    return Advice(
        linewright_advice=VERSION,
        machine_id=machine_id,
        cpu_model=machine.context.cpu_model if machine.context else "",
        arch=machine.arch,
        target=machine.context.target if machine.context else "",
        setting=setting.setting(machine),
        choices=machine.choices,
        sections=made,
    )
