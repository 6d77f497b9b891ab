# SPDX-License-Identifier: MIT
"""What every place that runs plans has in common, its CPUs among it: this machine, others, the
kernel, a simulated machine."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from msgspec import Struct

from linewright.forms import Form
from linewright.schema import Context, Cpu, Plan, Record, architecture_of


class Topology(Struct, frozen=True, kw_only=True):
    """The machine's CPUs as the probe sees them."""

    arch: str
    cpus: list[Cpu]
    pairs: dict[str, list[str]] = {}
    """Pairs of usable CPUs, as ``A,B``, by how near they are."""

    @property
    def word_bits(self) -> int:
        """Width of the architecture's registers."""
        return architecture_of(self.arch).word_bits

    def usable(self) -> list[int]:
        """Numbers of the CPUs that the process may run on."""
        return [cpu.cpu for cpu in self.cpus if cpu.allowed]


class Progress(Struct, frozen=True):
    """How far one launch is, in windows and cells."""

    launch: int
    id: str
    windows_done: int
    windows_total: int
    cells_done: int
    cells_total: int


Event = Context | Record | Progress
Done = Collection[tuple[str, int]]
"""(cell id, launch) pairs that need not run again."""


class Target(Protocol):
    """A place that runs plans. Questions raise UserError or RunError; `run` yields what it has
    before it raises.

    `close` gives back what the target holds elsewhere: a connection, a copy of the probe.
    """

    name: str
    simulates: bool
    """Whether a model runs the plans: it takes what time it needs, whatever their windows last."""

    def forms(self) -> list[Form]: ...
    def topology(self) -> Topology: ...
    def context(self) -> Context: ...
    def check(self, plan: Plan) -> None: ...
    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]: ...
    def close(self) -> None: ...
