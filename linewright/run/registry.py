# SPDX-License-Identifier: MIT
"""The targets that ``--on`` can name: this machine, others over ssh or behind a command, and those
that wings bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path

import msgspec

from linewright import wings
from linewright.errors import UserError
from linewright.run import probe_questions
from linewright.run.launches import in_turn, launch_program
from linewright.run.place import Place, open_place, transports
from linewright.run.process import Interrupts
from linewright.run.programs import NAME, find_probe
from linewright.schema import Context, Plan
from linewright.target import Done, Event, Target


class ProgramTarget:
    """A program that answers as the probe does, as a target; each question is asked once."""

    simulates = False

    def __init__(
        self,
        name: str,
        program: probe_questions.Program,
        answer: Callable[[str], bytes] | None = None,
    ) -> None:
        self.name, self._program = name, program
        answer = answer or partial(probe_questions.ask, program)
        self.forms = cache(lambda: probe_questions.read_forms(answer("--list-forms")))
        self.topology = cache(lambda: probe_questions.read_topology(answer("--topology")))
        self.context = cache(lambda: self._named(probe_questions.read_context(answer("--context"))))

    def check(self, plan: Plan) -> None:
        probe_questions.check(self._program, plan)

    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]:
        return in_turn(plan, done, self._launch)

    def close(self) -> None:
        """Nothing is held elsewhere."""

    def _launch(self, plan: Plan, interrupts: Interrupts) -> Iterator[Event]:
        return launch_program(self._program, plan, interrupts)

    def _named(self, context: Context) -> Context:
        return context


class ProbeTarget(ProgramTarget):
    """A place as a target, by running linewright-probe there once per launch."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.name, place.ask, place.answer)
        self._place, self.close = place, place.close
        self.quota = place.quota
        self._cpus = cache(lambda: self.quota().cpus)

    def _launch(self, plan: Plan, interrupts: Interrupts) -> Iterator[Event]:
        self._cpus()  # beforehand: records that come meanwhile would wait for the answer
        for event in launch_program(self._place.plan(), plan, interrupts, NAME, self._place.link):
            yield self._named(event) if isinstance(event, Context) else event

    def _named(self, context: Context) -> Context:
        """A probe knows no name of its machine that the reader of its records knows, and no control
        group."""
        return msgspec.structs.replace(context, target=self.name, cpu_quota=self._cpus())


class LocalTarget(ProbeTarget):
    """This machine, by its own probe or another build of it."""

    def __init__(self, probe_path: Path | None = None) -> None:
        self.probe_path = probe_path or find_probe()
        super().__init__(Place(probe_path=self.probe_path))


def examples() -> list[str]:
    """How each kind of target is written."""
    of_wings = [target.example for target in wings.targets().values()]
    return ["local", "ssh://USER@HOST:PORT", "'exec:COMMAND'", *of_wings]


def open_target(name: str) -> Target:
    """The target that ``--on`` names."""
    scheme, _, rest = name.partition(":")
    if scheme == "local":
        if rest:
            raise UserError(f"no target {name!r}", "--on", "local takes nothing behind a colon")
        return LocalTarget()
    if scheme in transports():
        return ProbeTarget(open_place(name, shell=False))
    brought = wings.targets()
    if scheme not in brought:
        raise UserError(f"no target {name!r}", "--on", f"allowed: {', '.join(examples())}")
    return wings.load(brought[scheme].opener)(rest)
