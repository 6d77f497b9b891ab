"""A machine that cannot be asked, such as a board without a network: what a plan for it is built
from."""

from __future__ import annotations

import msgspec

from linewright.architectures import of
from linewright.forms import Form
from linewright.run import probe_questions
from linewright.run.programs import find_probe
from linewright.schema import Cpu
from linewright.topology import Topology

CPUS = 2
"""As many as the plans' pairs of threads need. A machine with one skips those cells and says so in
its records."""


class UnprobedMachine:
    """Every form of an architecture and two CPUs: the probe there says which forms its CPU
    lacks."""

    def __init__(self, arch: str) -> None:
        self.name = f"unprobed:{arch}"
        self._arch = arch

    def forms(self) -> list[Form]:
        every = probe_questions.read_forms(probe_questions.ask([find_probe()], "--list-forms=all"))
        here = [
            form for form in every if form.arch in ("any", self._arch) or self._shares_generic(form)
        ]
        return [msgspec.structs.replace(form, available=True, reason="") for form in here]

    def _shares_generic(self, form: Form) -> bool:
        """As `belongs_to` in wire/forms.hpp: generic forms wider than a register are no
        instruction."""
        return form.arch == "generic" and form.width_bits <= of(self._arch).word_bits

    def topology(self) -> Topology:
        cpus = [Cpu(cpu=n, core=n, l3=0, socket=0, node=0, allowed=True) for n in range(CPUS)]
        return Topology(arch=self._arch, cpus=cpus, pairs={"same_l3": ["0,1"]})
