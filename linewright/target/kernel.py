"""The inside of this machine's kernel as a target: ``--on kernel`` runs a plan's cells in linewright.ko.

The module and the program that talks to it are built by `make -C kmod`; that program alone runs as root. A launch is
new memory and new threads in the loaded module, not a new module: its code lies where it lies.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import secrets
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from linewright import __version__
from linewright.architectures import of_machine
from linewright.errors import RunError, UserError, one_line
from linewright.plans.grid import partner
from linewright.schema import Cell, Context, Cpu, Discarded, Interval, Plan, Record
from linewright.target.estimate import blocks, cells_s, is_contended, least_windows
from linewright.target.interrupts import Interrupts
from linewright.target.local import Done, Event, LocalTarget, Progress, in_turn
from linewright.target.probe import Form, Topology
from linewright.units import cpu_list

INTERFACE = "2"
"""Number of the module's interface that this version speaks (kmod/linewright.h)."""
ROUND_WINDOWS = 2
"""Windows of a cell that run behind each other; then the block's other cells have theirs."""
LONGEST_CELL_MS = 60_000
SWITCHED_SHARE, SWITCHED_NS = 0.005, 2000.0
LONG_BATCHES, LONG_BATCH_NS = 10.0, 1e6
"""The rules for windows that are thrown out: docs/reference/method.md."""
PARAMETERS = {
    "slots": "slots",
    "instances": "instances",
    "read_delay": "delay",
    "updater": "updater",
    "entries": "entries",
    "entry_bytes": "entry_bytes",
    "direction": "direction",
    "wait": "wait",
}
"""Parameters of cells by their key in the module."""
STATES = {"clean": "clean", "dirty_l1": "dirty", "dirty_l2": "dirty", "dirty_beyond": "dirty"}
"""States of lines that the module can make, by the plan's words; the list's size decides where the lines are."""


class Window(Struct, frozen=True):
    """One window as the module reports it."""

    line: int
    ns: int
    ops: int
    batch: int
    longest_ns: int
    switches: int
    baseline_ns: int
    baseline_ops: int
    threads: list[int]


class Runner:
    """The conversation with linewright-kernel: requests of ``key=value`` lines, answers up to a line ``done``."""

    def __init__(self, command: Sequence[str]) -> None:
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            raise UserError(f"cannot run {command[0]}: {error.strerror}", "--on kernel") from None
        self._until("ready")

    def ask(self, request: str) -> list[str]:
        """The lines of an answer; UserError with the module's reason where it refuses."""
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(request.strip().encode() + b"\n\n")
            self.process.stdin.flush()
        return self._until("done")

    def _until(self, last: str) -> list[str]:
        lines: list[str] = []
        refused = ""
        for line in _lines(self.process.stdout):
            if line in (last, "done"):
                break
            if line.startswith("error "):
                refused = one_line(line.removeprefix("error "))
            lines.append(line)
        else:
            code = self.process.wait()
            raise RunError(f"linewright-kernel ended with exit code {code}" + (f": {lines[-1]}" if lines else ""))
        if refused:
            raise UserError(refused, "linewright.ko")
        return lines

    def close(self) -> None:
        """End of input: the runner unloads what it loaded."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=LONGEST_CELL_MS / 1000)
        except subprocess.TimeoutExpired:
            self.process.kill()


def _lines(stream: IO[bytes]) -> Iterator[str]:
    for line in stream:
        yield line.decode("utf-8", "replace").rstrip("\r\n")


def parsed(line: str) -> dict[str, str]:
    """The words behind a line's first one, by key."""
    return dict(word.split("=", 1) for word in line.split(" ")[1:] if "=" in word)


# ---- where the module is ----


def runner_command() -> list[str]:
    """What ``LINEWRIGHT_KERNEL_RUNNER`` names, else the runner built for the running kernel, as root."""
    named = os.environ.get("LINEWRIGHT_KERNEL_RUNNER")
    if named:
        return shlex.split(named)
    folder = module_folder()
    command = [str(folder / "linewright-kernel"), "--module", str(folder / "linewright.ko")]
    return command if os.geteuid() == 0 else ["sudo", *command]


def module_folder() -> Path:
    """Where ``make -C kmod`` has put module and runner for the running kernel."""
    release = os.uname().release
    named = os.environ.get("LINEWRIGHT_KMOD")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "build" / "kmod" / release
    if all((folder / name).is_file() for name in ("linewright.ko", "linewright-kernel")):
        return folder
    if not Path(f"/lib/modules/{release}/build/Makefile").exists():
        raise UserError(
            f"no module for kernel {release}, and no headers to build it with",
            "--on kernel",
            f"sudo apt install linux-headers-{release}, then make -C kmod",
        )
    raise UserError(
        f"no linewright.ko in {folder}", "--on kernel", "make -C kmod, or name its folder in LINEWRIGHT_KMOD"
    )


# ---- the target ----


class KernelTarget:
    """The running kernel, by the module's runner."""

    name = "kernel"

    def __init__(self) -> None:
        self.elsewhere = "LINEWRIGHT_KERNEL_RUNNER" in os.environ
        self.forms = cache(lambda: [self._form(row) for row in self._rows])
        self.topology = cache(self._topology)
        self.context = cache(self._context)

    @cached_property
    def runner(self) -> Runner:
        return Runner(runner_command())

    @cached_property
    def _listing(self) -> list[str]:
        lines = self.runner.ask("forms")
        machine = parsed(lines[0]) if lines else {}
        if machine.get("interface") != INTERFACE:
            raise UserError(
                f"the loaded module is of version {machine.get('version', 'unknown')}, this is {__version__}",
                "--on kernel",
                "sudo rmmod linewright, and build it again: make -C kmod",
            )
        return lines

    @property
    def machine(self) -> dict[str, str]:
        """What the module says of its kernel."""
        return parsed(self._listing[0])

    @cached_property
    def _rows(self) -> list[dict[str, str]]:
        # A reason has spaces in it: it is the rest of the line.
        rows = []
        for line in self._listing[1:]:
            head, _, missing = line.partition(" missing=")
            rows.append(parsed(head) | {"missing": missing})
        return rows

    def _form(self, row: dict[str, str]) -> Form:
        return Form(
            name=row["name"],
            operation=row["operation"],
            order=row["order"],
            arch=self.topology().arch,
            width_bits=int(row["width"]),
            atomic=row["racy"] == "0",
            available=not row["missing"],
            reason=row["missing"],
        )

    def _topology(self) -> Topology:
        if not self.elsewhere:
            return LocalTarget().topology()
        cpus = [Cpu(cpu=number) for number in cpu_list(self.machine["cpus"], "linewright.ko")]
        return Topology(arch=of_machine(self.machine["arch"]) or "generic", cpus=cpus)

    def _context(self) -> Context:
        """This machine's context as the probe sees it, with what is different inside the kernel.

        The machine's id is one of its own: a form in user space and the same form in the kernel are not one cell.
        """
        base = _elsewhere(self.machine, self._topology()) if self.elsewhere else LocalTarget().context()
        inside = hashlib.sha256(f"{base.machine_id}:{self.machine['release']}:kernel".encode()).hexdigest()[:16]
        return msgspec.structs.replace(
            base,
            machine_id=inside,
            target=self.name,
            tool_version=__version__,
            kernel=self.machine["release"],
            cpu_model=f"{base.cpu_model}, inside the kernel",
            time_source="clock_monotonic",
            tick_ns=1.0,
            timer_cost_ns=float(self.machine["clock_ns"]),
            loop_offset_bytes=0,
            counters="unavailable",
            counters_reason="the module counts no events",
            rseq="none",
        )

    def check(self, plan: Plan) -> None:
        """Every cell can be said to the module; whether it can run there is the module's to say."""
        known = {(form.operation, form.name, form.width_bits) for form in self.forms()}
        for cell in plan.cells:
            operation = "readers_pair" if cell.operation == "readers_grace" else cell.operation
            if (operation, cell.form, cell.width_bits) not in known:
                raise UserError(f"the module has no form {cell.form} of {cell.operation}", cell.id)
            self.request(cell, plan, 0, 1)

    # ---- cells ----

    def cpus_of(self, cell: Cell, plan: Plan) -> list[int]:
        """A CPU for each thread, the timed one's first."""
        if cell.placement.startswith("cpus:"):
            return [int(number) for number in cell.placement.removeprefix("cpus:").split(",")][: cell.threads]
        topology = self.topology()
        usable = list(plan.cpus) or topology.usable()
        if cell.placement != "auto":
            pairs = topology.pairs.get(cell.placement, [])
            found = [[int(a), int(b)] for a, b in (pair.split(",") for pair in pairs)]
            near = next((pair for pair in found if usable[0] in pair), None)
            if near is None or cell.threads != 2:
                raise UserError(f"no pair of CPUs {cell.placement}", cell.id, "placement auto, or cpus:A,B")
            return [usable[0], *(cpu for cpu in near if cpu != usable[0])]
        beside = partner(topology, usable[0]) if not plan.cpus else None
        order = [usable[0], *([beside] if beside is not None else [])]
        return [*order, *(cpu for cpu in usable if cpu not in order)][: cell.threads]

    def request(self, cell: Cell, plan: Plan, first_line: int, windows: int) -> str:
        """The cell as the module reads it."""
        if cell.work == "nop_loop" and cell.work_iters:
            raise UserError(
                "the module's work is a chain, not the NOP loop", cell.id, "plans rmw, percpu, readers, cache"
            )
        state = cell.params.get("state")
        if state is not None and state not in STATES:
            raise UserError(f"the module cannot make lines {state}", cell.id, f"states: {', '.join(STATES)}")
        strange = set(cell.params) - {*PARAMETERS, "state", "align_bytes"}
        if strange or cell.params.get("align_bytes", 0) not in (0, "0"):
            raise UserError(f"the module has no parameter {', '.join(sorted(strange)) or 'align_bytes'}", cell.id)
        window_us = 1000 * (plan.contended_window_ms if is_contended(cell) else plan.window_ms)
        fields = {
            "operation": cell.operation,
            "form": cell.form,
            "width": cell.width_bits,
            "threads": cell.threads,
            "cpus": ",".join(map(str, self.cpus_of(cell, plan))),
            "contender": cell.contender,
            "contender_iters": cell.contender_iters,
            "work": cell.work_iters,
            "lines": cell.lines,
            "first_line": first_line % cell.lines,
            "windows": windows,
            "window_us": int(max(10, min(window_us, 1_000_000))),
            "limit_ms": LONGEST_CELL_MS,
        }
        fields |= {key: cell.params[name] for name, key in PARAMETERS.items() if name in cell.params}
        if state is not None:
            fields["state"] = STATES[state]
        return "\n".join(f"{key}={value}" for key, value in fields.items())

    # ---- runs ----

    def run(self, plan: Plan, done: Done = ()) -> Iterator[Event]:
        return in_turn(plan, done, lambda launch, held: _Launch(self, launch, held).events())

    def close(self) -> None:
        """End the runner, which unloads the module if it loaded it."""
        if "runner" in self.__dict__:
            self.runner.close()


class _Progress(Struct):
    """One cell of a launch while its windows come in."""

    cell: Cell
    started_s: float = 0.0
    windows: list[Window] = []
    starts: list[int] = []
    """First lines of the requests left in this round of all lines."""
    expected: int = 0
    found: int = 0
    wrong: int = 0
    refused: str = ""


class _Launch:
    """One launch of a plan: rounds over the cells of each block, in random order, until they are precise or time is
    up."""

    def __init__(self, target: KernelTarget, plan: Plan, interrupts: Interrupts) -> None:
        self.target, self.plan, self.interrupts = target, plan, interrupts
        self.start = time.monotonic()
        self.order = random.Random(f"{plan.seed} {plan.launch}")
        self.sleeping = {(row["operation"], row["name"]) for row in target._rows if row["sleeps"] == "1"}
        self.done = 0
        context = target.context()
        self.context = msgspec.structs.replace(
            context,
            context_id=secrets.token_hex(8),
            started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            plan=plan.name,
            launch=plan.launch,
            launches=plan.launches,
        )

    def events(self) -> Iterator[Event]:
        yield self.context
        total = cells_s(self.plan, self.plan.cells)
        for block in blocks(self.plan, self.plan.cells):
            until = time.monotonic() + self.plan.budget_s * cells_s(self.plan, block) / total
            for cell in self._block([_Progress(cell) for cell in block], until):
                self.done += 1
                yield self._record(cell)
                yield Progress(
                    self.plan.launch, cell.cell.id, self.done, len(self.plan.cells), self.done, len(self.plan.cells)
                )

    def _block(self, cells: list[_Progress], until: float) -> list[_Progress]:
        least = {cell.cell.id: least_windows(self.plan, cell.cell) for cell in cells}
        open_cells = list(cells)
        while open_cells:
            self.order.shuffle(open_cells)
            for cell in open_cells:
                self._some_windows(cell)
            late = time.monotonic() > until
            open_cells = [
                cell
                for cell in open_cells
                if not cell.refused
                and len(cell.windows) < self.plan.max_windows
                and (len(cell.windows) < least[cell.cell.id] or not (late or self._precise(cell)))
            ]
        return cells

    def _some_windows(self, cell: _Progress) -> None:
        if self.interrupts.caught:
            raise RunError(f"stopped by {self.interrupts.caught.name} in launch {self.plan.launch}, at {cell.cell.id}")
        if not cell.windows:
            cell.started_s = time.monotonic() - self.start
        try:
            request = self.target.request(cell.cell, self.plan, self._next_line(cell), ROUND_WINDOWS)
            answer = self.target.runner.ask(request)
        except UserError as refused:
            cell.refused = str(refused)
            return
        for line in answer:
            words = parsed(line)
            if line.startswith("window "):
                numbers = {key: int(value) for key, value in words.items() if key != "threads"}
                threads = [int(count) for count in words["threads"].split(",")]
                cell.windows.append(Window(threads=threads, **numbers))
            elif line.startswith("sum "):
                cell.expected += int(words["expected"])
                cell.found += int(words["found"])
                cell.wrong += int(words["wrong"])

    def _next_line(self, cell: _Progress) -> int:
        """Where the next request begins: all lines once a round, in an order drawn anew, as the probe draws it.

        Drift while a cell is measured must not appear as a difference of lines.
        """
        if not cell.starts:
            cell.starts = list(range(0, cell.cell.lines, ROUND_WINDOWS))
            self.order.shuffle(cell.starts)
        return cell.starts.pop()

    def _precise(self, cell: _Progress) -> bool:
        kept = self._kept(cell)
        if not kept:
            return False
        found = issue_interval([window.ns / window.ops for window in kept])
        return found.high_ns - found.low_ns <= 2 * self.plan.precision * found.median_ns

    def _kept(self, cell: _Progress) -> list[Window]:
        return [window for window in cell.windows if not self._discarded(cell.cell, window)]

    def _discarded(self, cell: Cell, window: Window) -> str:
        """Why a window is thrown out, empty when it is kept."""
        batch_ns = window.ns * window.batch / window.ops if window.ops else 0.0
        if not window.ops or window.longest_ns > max(LONG_BATCH_NS, LONG_BATCHES * batch_ns):
            return "long_batch"
        operation = "readers_pair" if cell.operation == "readers_grace" else cell.operation
        sleeps = cell.operation == "readers_grace" or (operation, cell.form) in self.sleeping
        away = window.longest_ns - batch_ns > max(SWITCHED_NS, SWITCHED_SHARE * window.ns)
        return "switched" if window.switches and away and not sleeps else ""

    # ---- records ----

    def _record(self, cell: _Progress) -> Record:
        status, reason = self._status(cell)
        kept = self._kept(cell) if status in ("ok", "error") else []
        causes = [self._discarded(cell.cell, window) for window in cell.windows]
        record = Record(
            linewright_record=2,
            context_id=self.context.context_id,
            id=cell.cell.id,
            cell=cell.cell,
            plan=self.plan.name,
            launch=self.plan.launch,
            started_s=cell.started_s,
            status=status,
            reason=reason,
            cpus=self.target.cpus_of(cell.cell, self.plan),
            discarded=Discarded(switched=causes.count("switched"), long_batch=causes.count("long_batch")),
            sum_expected=cell.expected % 2**64,
            sum_found=cell.found % 2**64,
        )
        return _with_times(record, kept, self._precise(cell)) if kept and status == "ok" else record

    def _status(self, cell: _Progress) -> tuple[str, str]:
        if cell.refused:
            return "unavailable", cell.refused
        if cell.expected != cell.found:
            return "error", f"the line holds {cell.found}, the operations add up to {cell.expected}"
        if cell.wrong:
            return "error", f"readers saw {cell.wrong} times what an updater had taken away"
        if not self._kept(cell):
            return "unreliable", f"all {len(cell.windows)} windows were disturbed"
        return "ok", ""


def issue_interval(values: Sequence[float]) -> Interval:
    """Median and its order-statistic interval."""
    from linewright.analysis.intervals import order_ranks  # SciPy comes with it, which a refusal need not wait for

    ordered = sorted(values)
    low, high, reached = order_ranks(len(ordered))
    half = len(ordered) // 2
    median = ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
    return Interval(median_ns=median, low_ns=ordered[low], high_ns=ordered[high], confidence=reached)


def _with_times(record: Record, kept: list[Window], precise: bool) -> Record:
    """The record with what its windows say."""
    values = [window.ns / window.ops for window in kept]
    total_ns = sum(window.ns for window in kept)
    ops = [sum(counts) for counts in zip(*(window.threads for window in kept), strict=True)]
    rates = [count / total_ns for count in ops]
    squares = sum(rate * rate for rate in rates)
    return msgspec.structs.replace(
        record,
        stop="precision" if precise else "budget",
        window_ns=values,
        window_line=[window.line for window in kept],
        baseline_ns=[window.baseline_ns / window.baseline_ops if window.baseline_ops else 0.0 for window in kept],
        issue=issue_interval(values),
        thread_ops=ops,
        thread_ns=[total_ns / count if count else 0.0 for count in ops],
        total_mops=sum(rates) * 1e3,
        fairness=sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0,
    )


def _elsewhere(machine: dict[str, str], topology: Topology) -> Context:
    """The context of a kernel that only the module has described: a runner on another machine."""
    described = hashlib.sha256(repr(sorted(machine.items())).encode()).hexdigest()[:16]
    return Context(
        linewright_context=2,
        context_id=secrets.token_hex(8),
        machine_id=described,
        started_utc=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        target="kernel",
        plan="none",
        launch=0,
        tool_version=__version__,
        compiler="unknown",
        arch=topology.arch,
        cpu_model=f"{machine['arch']} of another machine",
        cpu_ids=[],
        features=[],
        kernel=machine["release"],
        virtualised="unknown",
        emulated=os.environ.get("LINEWRIGHT_KERNEL_EMULATED") == "1",
        cpus=topology.cpus,
        line_bytes=int(machine["line_bytes"]),
        page_bytes=int(machine["page_bytes"]),
        time_source="clock_monotonic",
        tick_ns=1.0,
        timer_cost_ns=float(machine["clock_ns"]),
        nop_iter_ns=0.0,
        cycle_ns=0.0,
        governor="",
        smt="unknown",
        counters="unavailable",
        rseq="none",
        locked_memory=False,
        realtime=False,
    )


def open_kernel(rest: str) -> KernelTarget:
    """The target that ``kernel`` names."""
    if rest:
        raise UserError(f"no target 'kernel:{rest}'", "--on", "kernel takes nothing behind a colon")
    return KernelTarget()
