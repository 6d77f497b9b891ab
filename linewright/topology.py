"""The CPUs of a machine, as the probe sees them."""

from __future__ import annotations

from msgspec import Struct

from linewright import architectures
from linewright.schema import Cpu


class Topology(Struct, frozen=True, kw_only=True):
    """The machine's CPUs as the probe sees them."""

    arch: str
    cpus: list[Cpu]
    pairs: dict[str, list[str]] = {}
    """Pairs of usable CPUs, as ``A,B``, by how near they are."""

    @property
    def word_bits(self) -> int:
        """Width of the architecture's registers."""
        return architectures.of(self.arch).word_bits

    def usable(self) -> list[int]:
        """Numbers of the CPUs that the process may run on."""
        return [cpu.cpu for cpu in self.cpus if cpu.allowed]
