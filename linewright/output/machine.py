"""What was measured on, in the lines that open a result."""

from __future__ import annotations

from collections.abc import Sequence

from linewright.errors import one_line
from linewright.schema import Context
from linewright.units import ns_text

LEAST_LOAD = 0.25
"""CPUs kept busy by others, mean of the launches, that are worth a line: counting in clock ticks alone gives up to a
tenth."""
LEAST_SHARE = 0.02
"""The same as a share of all CPUs: a large machine is never quite idle."""
_KIND = {"yes": ", virtual machine", "no": "", "unknown": ""}


def describe(contexts: Sequence[Context]) -> list[str]:
    """Machine, clock and launches in two lines, and a line for each reason why counters are absent."""
    if not contexts:
        return ["unknown machine: the records' context is missing"]
    c = contexts[0]
    kind = _KIND[c.virtualised] + (", EMULATED: times mean nothing" if c.emulated else "")
    launches = len({context.context_id for context in contexts})
    first = min(context.started_utc for context in contexts)
    lacking = {context.counters_reason for context in contexts if context.counters_reason not in ("", "not asked for")}
    return [
        one_line(f"{c.cpu_model} ({c.arch}), {len(c.cpus)} CPUs{kind}, {c.kernel}, target {c.target}"),
        one_line(
            f"{c.time_source} tick {ns_text(c.tick_ns)} ns, unit of work {ns_text(c.unit_ns)} ns,"
            f" cycle {ns_text(c.cycle_ns)} ns, {launches} launch{'es' if launches > 1 else ''} from {first}"
        ),
        *(one_line(f"counters absent: {reason}") for reason in sorted(lacking)),
        *company(contexts),
    ]


def company(contexts: Sequence[Context]) -> list[str]:
    """Who else used the machine, as far as it may have disturbed the figures."""
    lines = []
    if any(context.other_probe for context in contexts):
        lines.append("another run was measuring on this machine at the same time: each disturbs the other")
    loads = [context.other_load for context in contexts if context.other_load is not None]
    mean = sum(loads) / len(loads) if loads else 0.0
    if loads and mean >= max(LEAST_LOAD, LEAST_SHARE * len(contexts[0].cpus)):
        lines.append(f"other programs kept {mean:.1f} CPUs busy meanwhile: figures may be disturbed")
    return lines
