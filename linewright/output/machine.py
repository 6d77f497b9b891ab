"""What was measured on, in the lines that open a result."""

from __future__ import annotations

from collections.abc import Sequence

from linewright.errors import one_line
from linewright.schema import Context
from linewright.units import ns_text

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
            f"{c.time_source} tick {ns_text(c.tick_ns)} ns, work iteration {ns_text(c.unit_ns)} ns,"
            f" cycle {ns_text(c.cycle_ns)} ns, {launches} launch{'es' if launches > 1 else ''} from {first}"
        ),
        *(one_line(f"counters absent: {reason}") for reason in sorted(lacking)),
    ]
