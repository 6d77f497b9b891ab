"""A fleet whose machines are the workers of a Dask cluster: each measures its own machine, as a task that is bound to
it."""

from __future__ import annotations

import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from linewright import __version__
from linewright.errors import RunError, UserError, one_line
from linewright.fleet import worker
from linewright.fleet.crew import Crew, Member
from linewright.fleet.hosts import Host
from linewright.target.interrupts import Interrupts

CONNECT_S = 20
TICK_S = 0.5
STOP_S = 30.0
"""Longest wait for runs that were asked to end: the last block of cells of each."""


class Task:
    """One machine's run: its worker, the task's future, and how much of it has come here."""

    def __init__(self, address: str, token: str, future: Any, records: int) -> None:
        self.address, self.token, self.future = address, token, future
        self.records, self.said = records, 0


class ClusterCrew(Crew):
    """As `Crew`, on workers of the scheduler at an address."""

    def __init__(self, hosts: Sequence[Host], folder: Path, options: Sequence[str], scheduler: str) -> None:
        super().__init__(hosts, folder, options, resume=True)
        self._scheduler = scheduler
        self._tasks: dict[str, Task] = {}
        """By target."""

    def run(self, jobs: int, limit_s: float, changed: Callable[[str], None], tick: Callable[[], None]) -> None:
        with _connected(self._scheduler) as client, Interrupts() as interrupts:
            addresses = addresses_of(client, [member.host for member in self.waiting])
            try:
                while self.running or (self.waiting and not interrupts.caught):
                    while self.waiting and len(self.running) < jobs and not interrupts.caught:
                        self._submit(client, self.waiting.popleft(), addresses, changed)
                    self._hear_all(client, changed)
                    self._stop_late(client, limit_s)
                    if interrupts.caught:
                        self._leave(client, changed)
                        break
                    tick()
                    time.sleep(TICK_S)
            finally:
                for task in self._tasks.values():
                    task.future.cancel()
            if interrupts.caught:
                reached = f"{self.ended} of {len(self.members)} machines were reached"
                raise RunError(f"stopped by {interrupts.caught.name}; {reached}")

    def _submit(self, client: Any, member: Member, addresses: dict[str, str], changed: Callable[[str], None]) -> None:
        self.running.append(member)
        member.started = time.monotonic()
        address = addresses.get(member.host.target)
        if address is None:
            member.last = f"no worker of this name or host at {self._scheduler}"
            self._ended(member, 1, changed)
            return
        before = _whole_lines(member.file)
        token = secrets.token_hex(8)
        future = client.submit(
            worker.measure, token, list(self.state.options), before, __version__, workers=[address],
            allow_other_workers=False, pure=False, retries=0, key=f"linewright-{token}",
        )  # fmt: skip
        self._tasks[member.host.target] = Task(address, token, future, len(before))

    def _hear_all(self, client: Any, changed: Callable[[str], None]) -> None:
        """Take what every run has written since; remember those that have ended or whose worker is gone."""
        present = client.scheduler_info(n_workers=-1)["workers"]
        asked = {t.token: (t.records, t.said) for t in self._tasks.values() if t.address in present}
        where = sorted({t.address for t in self._tasks.values() if t.address in present})
        answers = client.run(worker.news, asked, workers=where, on_error="return") if where else {}
        found: dict[str, worker.News] = {}
        for answer in answers.values():
            found |= answer if isinstance(answer, dict) else {}
        for member in list(self.running):
            task = self._tasks[member.host.target]
            if task.future.done():
                self._finish(member, task, changed)
            elif task.address not in present:
                member.last = "its worker is gone"
                self._forget(member, 1, changed)
            elif task.token in found:
                self._keep(member, task, found[task.token])

    def _finish(self, member: Member, task: Task, changed: Callable[[str], None]) -> None:
        error = task.future.exception()
        if error is not None:
            member.last = one_line(f"{type(error).__name__}: {error}")
            self._forget(member, 1, changed)
            return
        ended = worker.Ended(*task.future.result())
        self._keep(member, task, worker.News(ended.records[task.records :], ended.said[task.said :]))
        self._forget(member, ended.code, changed)

    def _forget(self, member: Member, code: int, changed: Callable[[str], None]) -> None:
        self._tasks.pop(member.host.target).future.cancel()
        self._ended(member, code, changed)

    def _keep(self, member: Member, task: Task, news: worker.News) -> None:
        if news.records:
            try:
                with member.file.open("ab") as file:
                    file.write(news.records)
            except OSError as error:
                raise RunError(f"{member.file}: {error.strerror}") from None
        task.records += len(news.records)
        task.said += len(news.said)
        *lines, member.said = (member.said + news.said).split(b"\n")
        for line in lines:
            self._take(member, line.decode("utf-8", "replace"))

    def _stop_late(self, client: Any, limit_s: float) -> None:
        for member in self.running:
            late_s = time.monotonic() - member.started - limit_s
            if late_s > 0 and (not member.late or late_s > 60):
                member.late = True
                task = self._tasks[member.host.target]
                client.run(worker.stop, [task.token], late_s > 60, workers=[task.address], on_error="return")

    def _leave(self, client: Any, changed: Callable[[str], None]) -> None:
        """Ask every run to end, and wait for what they still write."""
        for task in self._tasks.values():
            client.run(worker.stop, [task.token], workers=[task.address], on_error="return")
        end = time.monotonic() + STOP_S
        while self.running and time.monotonic() < end:
            self._hear_all(client, changed)
            time.sleep(TICK_S)


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        allowed = "pip install 'linewright[cluster]'"
        raise UserError("Dask's package distributed is not installed", "--scheduler", allowed) from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters of it is said below, in a line
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"no scheduler at {address}: {one_line(str(error))}", "--scheduler", "such as tcp://HOST:8786"
        ) from None
    try:
        yield client
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(timeout=5)


def addresses_of(client: Any, hosts: Sequence[Host]) -> dict[str, str]:
    """The address of the worker that each target names by its name, host or address; targets without one are left out.

    UserError where two name workers of one machine: their runs would disturb each other.
    """
    found: dict[str, str] = {}
    taken: dict[str, str] = {}
    workers = client.scheduler_info(n_workers=-1)["workers"]
    for host in hosts:
        for address, about in workers.items():
            if host.target in (address, address.partition("://")[2], str(about["name"]), about["host"]):
                if about["host"] in taken:
                    raise UserError(
                        f"{taken[about['host']]} and {host.target} are one machine", "HOSTS", "each machine once"
                    )
                found[host.target], taken[about["host"]] = address, host.target
                break
    return found


def _whole_lines(path: Path) -> bytes:
    """The records that are there; a last line that was cut off is removed from the file, too."""
    if not path.exists():
        return b""
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        path.write_bytes(whole)
    return whole
