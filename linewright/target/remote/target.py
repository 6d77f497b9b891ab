"""Another machine as a target: ``--on ssh://HOST`` and ``--on 'exec:COMMAND'``."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from linewright.errors import RunError, UserError
from linewright.schema import Context, Plan
from linewright.target import probe
from linewright.target.interrupts import Interrupts
from linewright.target.local import LOST, Done, Event, in_turn, launch_program
from linewright.target.probe import Form, Topology
from linewright.target.process import die_with_parent
from linewright.target.programs import NAME
from linewright.target.remote.place import Copied, Place, behind
from linewright.target.remote.transport import Behind, Ssh


class RemoteTarget:
    """Another machine, by a probe that was copied there and is removed by `close` or with the connection."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.name = place.name
        if self.context().other_probe:
            self.close()
            raise UserError("another run is measuring there", self.name, "one at a time: each would disturb the other")

    def forms(self) -> list[Form]:
        return probe.read_forms(self._place.answers.forms)

    def topology(self) -> Topology:
        return probe.read_topology(self._place.answers.topology)

    def context(self) -> Context:
        return self._named(probe.read_context(self._place.answers.context))

    def call(self, find: Callable[[str], Path], words: Sequence[str], environment: dict[str, str]) -> int:
        """Run another static program there, with this process's output as its own; its exit code."""
        command = self._place.program(find, words, environment)
        with Interrupts() as interrupts:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, start_new_session=True, preexec_fn=die_with_parent()
            )  # fmt: skip

            def stop() -> None:
                process.terminate() if self._place.tether is None else process.stdin.close()

            interrupts.on_signal = stop
            if interrupts.caught:
                stop()
            code = process.wait()
            process.stdin.close()
        if interrupts.caught:
            raise RunError(f"stopped by {interrupts.caught.name}")
        if code == LOST and self._place.tether is not None:
            raise RunError(self._place.tether.lost)
        return code

    def check(self, plan: Plan) -> None:
        probe.check(self._place.ask, plan)

    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]:
        return in_turn(plan, done, self._launch)

    def _launch(self, plan: Plan, interrupts: Interrupts) -> Iterator[Event]:
        for event in launch_program(self._place.run(), plan, interrupts, NAME, self._place.tether):
            yield self._named(event) if isinstance(event, Context) else event

    def _named(self, context: Context) -> Context:
        """A probe knows no name of its machine that the reader of its records knows."""
        return msgspec.structs.replace(context, target=self.name)

    def close(self) -> None:
        self._place.close()


def open_machine(name: str) -> Copied:
    """The machine that ``ssh:REST`` or ``exec:REST`` names, to run other programs than plans there. It needs a
    shell."""
    scheme, _, rest = name.partition(":")
    transports = {"ssh": Ssh, "exec": Behind}
    if scheme not in transports:
        raise UserError(f"no machine {name!r}", "--on", "allowed: local, ssh://USER@HOST:PORT, 'exec:COMMAND'")
    machine = Copied(transports[scheme](rest))
    RemoteTarget(machine)  # refuses where another run is measuring
    return machine


def open_ssh(rest: str) -> RemoteTarget:
    """The target that ``ssh:REST`` names."""
    return RemoteTarget(Copied(Ssh(rest)))


def open_exec(rest: str) -> RemoteTarget:
    """The target that ``exec:REST`` names."""
    return RemoteTarget(behind(rest))
