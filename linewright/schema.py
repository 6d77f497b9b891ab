# SPDX-License-Identifier: MIT
"""The one definition of plans, contexts and records; JSON Schema and the C++ side are checked
against it.

Every field that has a unit names it: ``_ns`` nanoseconds, ``_ops`` operations, ``_bits`` bits,
``_s`` seconds. ``work_iters`` counts units of the cell's kind of work, ``contender_iters``
iterations of a loop around one NOP. Times are per operation unless the name says otherwise."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct


class Architecture(Struct, frozen=True, kw_only=True):
    """One architecture, by the name that the probe and the records have."""

    name: str
    word_bits: int = 64
    """Width of a general register."""
    uname: tuple[str, ...] = ()
    """Machines as ``uname -m`` names them; none: no static probe is built for it."""
    elf: str = ""
    """``e_machine`` of its programs, as pyelftools names it."""
    triplet: str = ""
    """Debian's name of it, which the folders of its libraries have."""
    library_folder: str = "lib64"
    forms_differ: bool = False
    """Whether an operation has several forms in the library, among which LINEWRIGHT_ATOMICS
    chooses."""
    far_atomics: bool = False
    """Whether an atomic may be performed outside of the core, so that single lines are judged."""


ARCHITECTURES = (
    Architecture(
        name="x86_64", uname=("x86_64", "amd64"), elf="EM_X86_64", triplet="x86_64-linux-gnu"
    ),
    Architecture(
        name="i386",
        word_bits=32,
        uname=("i386", "i486", "i586", "i686"),
        elf="EM_386",
        triplet="i386-linux-gnu",
        library_folder="lib32",
    ),
    Architecture(
        name="arm64",
        uname=("aarch64", "arm64"),
        elf="EM_AARCH64",
        triplet="aarch64-linux-gnu",
        forms_differ=True,
        far_atomics=True,
    ),
    Architecture(name="generic"),
)
"""The last one stands for every architecture without an entry."""
ARCHITECTURE_NAMES = tuple(architecture.name for architecture in ARCHITECTURES)
PROBED = tuple(architecture.name for architecture in ARCHITECTURES if architecture.uname)
"""Those that static probes are built for."""


def architecture_of(name: str) -> Architecture:
    """The entry of a name; ``generic`` for one that is not in the list."""
    return next((a for a in ARCHITECTURES if a.name == name), ARCHITECTURES[-1])


def architecture_of_machine(machine: str) -> str:
    """The architecture of a machine as ``uname -m`` names it; empty where there is no probe for
    it."""
    return next((a.name for a in ARCHITECTURES if machine in a.uname), "")


VERSIONS = {"plan": (2,), "context": (2,), "record": (2, 3)}
"""Versions of each shape that are read, the last of them written; a reader refuses every other and
names both. A record of version 2 does not say what its form is made of."""

Name = Annotated[str, Meta(pattern=r"^[a-z0-9_]+$(?!\n)", min_length=1, max_length=64)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**31)]
U64 = Annotated[int, Meta(ge=0)]
"""An unsigned 64-bit count. msgspec cannot state the upper bound; the C++ side does."""

Contender = Literal["none", "placebo", "same_line"]
"""``placebo`` spins beside the timed thread and never touches its line; ``same_line`` performs the
same form on it."""

Order = Literal["relaxed", "acquire", "release", "acq_rel", "seq_cst", "full"]
"""``full`` is the kernel's meaning: nothing before moves after, nothing after moves before."""

Work = Literal["chain", "nop_loop", "memory"]
"""``chain``: a unit is one instruction of one cycle that depends on the one before it, in a
straight line, so that latency sets its time.  ``nop_loop``: a unit is one iteration of a loop
around one NOP, the stand-in of published tables; its time is not proportional to the number of
units.  ``memory``: a unit is one iteration of a loop that counts in memory, as code that was not
optimised does (two loads, a store, a branch): what a posted store competes with."""
_UNITS = {
    "chain": ("w", "units of work"),
    "nop_loop": ("nop", "iterations of the NOP loop"),
    "memory": ("mem", "iterations of a loop in memory"),
}
"""Of each kind of work, how an id counts its units and how sentences do."""

Placement = Annotated[
    str,
    Meta(pattern=r"^(auto|smt_sibling|same_l3|other_l3|other_socket|cpus:[0-9]+(,[0-9]+)*)$(?!\n)"),
]
"""Where the contenders run, seen from the timed thread's CPU; ``cpus:A,B…`` names every thread's
CPU, timed first."""

ParamValue = Annotated[str, Meta(pattern=r"^[a-z0-9_.+-]+$(?!\n)", max_length=64)] | Count
Params = dict[Name, ParamValue]


CounterName = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9_./-]+$(?!\n)", max_length=64)]
"""A performance counter's name, as perf spells it: ``cycles``, ``task-clock``, or ``PMU/NAME`` of
the CPU's own list."""


class Situation(Struct, frozen=True, kw_only=True):
    """Where an operation is performed: all of a cell but operation, form and order, and but the
    library's setting. Forms are compared in one situation."""

    contender: Contender = "none"
    contender_iters: int = 0
    """The contender spacing."""
    work: Work = "chain"
    work_iters: int = 0
    placement: str = "auto"
    lines: int = 32
    threads: int = 1
    width_bits: int = 64
    params: tuple[tuple[str, str | int], ...] = ()
    """Sorted by name, without ``policy``."""

    @property
    def contended(self) -> bool:
        return self.contender == "same_line"

    @property
    def rank(self) -> tuple:
        """Sorts situations: alone, placebo, then contended; by placement, threads and spacing."""
        kind = ("none", "placebo", "same_line").index(self.contender)
        return (kind, self.placement, self.threads, self.contender_iters)

    def param(self, name: str, otherwise: str | int = 0) -> str | int:
        return dict(self.params).get(name, otherwise)

    def without(self, *names: str) -> Situation:
        """The situation with these fields as if they were not stated, to group by the others."""
        usual = Situation()
        return msgspec.structs.replace(self, **{name: getattr(usual, name) for name in names})

    @property
    def sharers(self) -> str:
        """Who shares the word, in words."""
        others = self.threads - 1
        if self.contender == "none":
            return "alone"
        if self.contender == "placebo":
            return f"beside {'a placebo' if others == 1 else f'{others} placebos'}"
        text = "with a second CPU" if others == 1 else f"with {others} other CPUs"
        text += f", spacing {self.contender_iters}" if self.contender_iters else ""
        return text + self.where

    @property
    def where(self) -> str:
        """Where the plan placed the threads, in brackets; nothing where the probe chose."""
        text = self.placement.replace("cpus:", "CPU ").replace(",", "+").replace("_", " ")
        return "" if self.placement == "auto" else f" ({text})"

    @property
    def around(self) -> str:
        """The work around the operation, in words."""
        if not self.work_iters:
            return "back to back"
        return f"with {self.work_iters} {self.units}"

    @property
    def units(self) -> str:
        """What `work_iters` counts, in words."""
        return _UNITS[self.work][1]

    def words(self) -> str:
        """The situation in words: ``alone, back to back``, ``with a second CPU, spacing 100, with
        20 units of work``."""
        return f"{self.sharers}, {self.around}"

    def short(self) -> str:
        """The same for the heading of a column: ``alone``, ``2 CPUs``, ``work 200``."""
        placebos = "placebo" if self.threads <= 2 else f"{self.threads - 1} placebos"
        who = f"{self.threads} CPUs" if self.contended else placebos
        parts = [] if self.contender == "none" else [who]
        parts += [f"spacing {self.contender_iters}"] if self.contender_iters else []
        parts += [f"work {self.work_iters}"] if self.work_iters else []
        return ", ".join(parts) or "alone"


class Cell(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One point of an experiment. `id` is its only identifier."""

    operation: Name
    form: Name
    width_bits: Literal[8, 16, 32, 64, 128] = 64
    order: Order = "relaxed"
    contender: Contender = "none"
    contender_iters: Annotated[int, Meta(ge=0, le=100_000_000)] = 0
    work_iters: Annotated[int, Meta(ge=0, le=100_000_000)] = 0
    work: Work = "chain"
    """What ``work_iters`` (and the parameter ``read_delay``) counts."""
    placement: Placement = "auto"
    lines: Annotated[int, Meta(ge=1, le=4096)] = 32
    threads: Annotated[int, Meta(ge=1, le=4096)] = 1
    params: Params = {}

    @property
    def situation(self) -> Situation:
        return Situation(
            contender=self.contender,
            contender_iters=self.contender_iters,
            work=self.work,
            work_iters=self.work_iters,
            placement=self.placement,
            lines=self.lines,
            threads=self.threads,
            width_bits=self.width_bits,
            params=tuple(sorted((k, v) for k, v in self.params.items() if k != "policy")),
        )

    @property
    def id(self) -> str:
        """Canonical id: every field in a fixed order, then the parameters sorted by name."""
        what = f"{self.operation}/{self.form}/u{self.width_bits}/{self.order}"
        work = f"{_UNITS[self.work][0]}{self.work_iters}"
        where = f"{self.contender}/ci{self.contender_iters}/{work}/{self.placement}"
        params = "".join(f"/{key}={self.params[key]}" for key in sorted(self.params))
        return f"{what}/{where}/l{self.lines}/t{self.threads}{params}"


class Plan(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ordered set of cells to run and how precisely. The same plan goes to every target."""

    linewright_plan: Literal[2]
    name: Name
    cells: Annotated[list[Cell], Meta(min_length=1, max_length=100_000)]
    seed: Count = 1
    """Seeds the order in which cells of a block are interleaved."""
    precision: Annotated[float, Meta(gt=0, le=0.5)] = 0.02
    """Wanted half-width of the interval of each cell's median, relative to that median."""
    budget_s: Annotated[float, Meta(gt=0, le=604_800)] = 60.0
    """For the whole run: every cell and every launch."""
    launches: Annotated[int, Meta(ge=1, le=1000)] = 5
    """Relaunched processes that each cell is run in."""
    block_cells: Annotated[int, Meta(ge=1, le=256)] = 16
    """Cells that are interleaved with each other."""
    window_ms: Annotated[float, Meta(gt=0, le=10_000)] = 2.0
    """Length of a timed window without a contender that touches the line."""
    contended_window_ms: Annotated[float, Meta(gt=0, le=10_000)] = 50.0
    min_windows: Annotated[int, Meta(ge=1, le=100_000)] = 6
    """Fewest windows of a cell in one launch; an uncontended cell also visits each of its lines
    `line_windows` times."""
    line_windows: Annotated[int, Meta(ge=1, le=1000)] = 1
    """Fewest windows on each line of an uncontended cell; 3 where lines are to be told apart."""
    max_windows: Annotated[int, Meta(ge=1, le=100_000)] = 512
    extra_windows: Annotated[int, Meta(ge=0, le=100_000)] = 100_000
    """Most short windows for single operations, and for completion, beside the first `min_windows`
    timed ones of a cell in one launch."""
    looks: Annotated[list[Annotated[int, Meta(ge=1, le=1000)]], Meta(max_length=2)] = []
    """Launches after which cells whose comparisons are decided are left out of the others."""
    cpus: list[Annotated[int, Meta(ge=0, le=65_535)]] = []
    """CPUs that may be used, the timed thread's first; empty: all that the process may run on."""
    launch: Annotated[int, Meta(ge=0, le=1000)] = 0
    """Which launch this is; in a plan of several the first one's number. Placement of code and the
    seed's order follow it."""
    counters: Annotated[list[CounterName], Meta(max_length=16)] = []
    """Events to count; empty: cycles, instructions and what the CPU names for snoops and
    exclusives; ``none``: nothing."""


FEWEST_LAUNCHES = 5
"""Launches that a claim needs: with fewer, a launch's luck passes for a difference."""


class Quantiles(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Percentiles with the log-linear histogram that they were read from.

    ``of`` says what one sample is: ``batch_mean`` (mean of ``ops_per_sample`` operations, the cost
    of reading the clock subtracted) or ``small_batch`` (a few operations, the time of as many
    iterations of the baseline loop subtracted). ``histogram`` maps bucket index to count; buckets
    hold picoseconds with 7 sub-bucket bits (relative width below 0.8 %): values below 256 are their
    own index, above that index = (e << 7) + (value >> e), e = floor(log2(value)) - 7."""

    of: Literal["batch_mean", "small_batch"]
    ops_per_sample: Positive
    samples: Count
    p50_ns: float
    p95_ns: float
    p99_ns: float
    max_ns: float
    histogram: list[tuple[Count, Count]]


class Interval(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A median and its interval at ``confidence``; from order statistics in the probe, from the
    variance between launches, or order statistics of one, in analysis."""

    median_ns: float
    low_ns: float
    high_ns: float
    confidence: float = 0.95


class Estimate(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A figure without a unit of its own (a ratio, a share) and its interval at ``confidence``."""

    value: float
    low: float
    high: float
    confidence: float = 0.95


class FormParts(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a form is made of, from the form table (wire/forms.def). A form that is one piece has
    its name as base and nothing else."""

    base: Name
    """The same form without its prefetch; itself where it has none."""
    prefetch: Literal["", "prefetchw", "prfm_keep", "prfm_strm"] = ""
    loop: Literal["", "read_first", "guess_first"] = ""
    """Of a compare-and-swap loop what it does before its first comparison."""
    exclusive: bool = False
    """Made of load- and store-exclusive (LL/SC)."""
    instruction: Annotated[str, Meta(pattern=r"^[A-Z0-9 ]*$(?!\n)", max_length=64)] = ""
    """The instruction, as people write it; empty where the form is no single one."""
    returns_old: bool = False
    """Whether it hands back the value that was in memory."""
    reach: Literal["", "near", "near_or_far"] = ""
    """``near``: performed in the CPU's own cache; ``near_or_far``: there or at the line's home, as
    the implementation chooses (which, a measurement finds); empty where neither is known."""
    word: Annotated[str, Meta(pattern=r"^[a-z0-9_]*$(?!\n)", max_length=64)] = ""
    """The form on one line that it performs, where `whose` is not empty."""
    whose: Literal["", "own", "shared"] = ""
    """``own``: on a word of the current CPU; ``shared``: on one word for all."""
    retries: bool = False
    """Whether the probe counts its rounds that failed."""


class Discards(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Windows thrown away, by cause. docs/reference/method.md states each rule."""

    switched: Count = 0
    """A thread was off its CPU for more than 0.5 % of the window (and more than 2 µs)."""
    stolen: Count = 0
    """The hypervisor took the CPU away (steal time of a CPU in use grew)."""
    long_batch: Count = 0
    """One batch lasted longer than ten median batches and a millisecond."""

    @property
    def total(self) -> int:
        return self.switched + self.stolen + self.long_batch


class DrawnCosts(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The issue interval of a simulated cell under draws of its machine's constants."""

    ns: list[float]
    """In the order of the draws, which is the same for every cell of a run."""
    misses: list[float] = []
    """Logarithms of simulated over measured, of cells of its kind that no fit had seen."""


class Record(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One cell as one launch measured it. Files of records concatenate: each names its context."""

    linewright_record: Literal[2, 3]
    context_id: str
    id: str
    cell: Cell
    made_of: FormParts | None = None
    """What the cell's form is made of; None in records of version 2."""
    plan: Name
    launch: Count = 0
    started_s: Annotated[float, Meta(ge=0)] | None = None
    """When the cell's first window opened, in seconds after the launch began (the context's
    ``started_utc``)."""
    status: Literal["ok", "unavailable", "error", "unreliable"]
    reason: str = ""
    """Why the status is not ok, as one sentence."""
    stop: Literal["precision", "budget", "windows", ""] = ""
    """What ended the cell: the interval was narrow enough, its share of time was spent, or
    ``max_windows``."""
    cpus: list[Count] = []
    """The CPU each thread really ran on, timed thread first."""
    placement_class: str = ""
    """Topology class of the farthest contender, seen from the timed thread."""
    window_ns: list[float] = []
    """Issue interval of each kept window: the timed thread's ns per operation, work included."""
    window_line: list[Count] = []
    """Index of the line that each window used."""
    window_round: list[Count] = []
    """The round in which each window ran: windows of one launch and round, of whatever cell, ran
    within one pass over their block, with the machine in one state. Empty in records of a program
    that does not say it."""
    baseline_ns: list[float] = []
    """The baseline loop's ns per iteration (same loop, same work, operation left out), one value
    per window above."""
    issue: Interval | None = None
    batch: Quantiles | None = None
    small_batch: Quantiles | None = None
    completion_ns: list[float] = []
    """Operation followed by what really waits for it, minus nothing: ns per operation, one value
    per window."""
    completion_baseline_ns: list[float] = []
    """The same loop with the wait alone."""
    thread_ops: list[Count] = []
    """Operations of every thread inside the timed windows, timed thread first."""
    thread_ns: list[float] = []
    """Each thread's ns per operation over its windows, its own work included."""
    thread_ticks: list[float] = []
    """The same in ticks of the context's time source, as counted."""
    total_mops: float = 0.0
    """All threads' operations per microsecond, within the windows."""
    fairness: float = 1.0
    """Jain's index over the threads' operation rates: 1 equal shares, 1/threads one thread has
    all."""
    sum_expected: U64 = 0
    sum_found: U64 = 0
    """Final value of the lines against what the operations add up to; unequal: status ``error``."""
    discarded: Discards = Discards()
    flags: list[Name] = []
    """Warnings: see docs/reference/records.md for each name."""
    metrics: dict[Name, float] = {}
    """Quantities particular to a plan, named with their unit."""
    drawn: DrawnCosts | None = None
    """None of a measured cell."""


class Cpu(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One logical CPU as sysfs describes it; -1 where it does not say."""

    cpu: Count
    core: int = -1
    cluster: int = -1
    l3: int = -1
    """Lowest CPU that shares the last-level cache."""
    socket: int = -1
    node: int = -1
    allowed: bool = True
    capacity: int = -1
    """Relative capacity on mixed chips, 1024 the largest."""
    midr: str = ""


class Context(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What was measured on, by what: written once per launch before its records."""

    linewright_context: Literal[2]
    context_id: str
    """16 hexadecimal digits, unique to the launch."""
    machine_id: str
    """16 hexadecimal digits, equal for every run on one machine, kernel and probe architecture."""
    started_utc: str
    target: str
    """``local``, ``ssh:USER@HOST:PORT``, ``exec:COMMAND``, or ``simulated:`` and what followed
    ``model:``."""
    plan: Name
    launch: Count
    launches: Count = 0
    """Launches that the plan asks for; 0 where that is not known."""
    tool_version: str
    compiler: str
    arch: Literal[ARCHITECTURE_NAMES]
    cpu_model: str
    cpu_ids: list[str]
    """MIDR_EL1 of each core type, or x86 family-model-stepping."""
    features: list[str]
    """Features that forms ask for and this CPU has: ``lse``, ``prefetchw`` …"""
    kernel: str
    virtualised: Literal["yes", "no", "unknown"]
    emulated: bool
    """Run by an emulator: times mean nothing."""
    cpus: list[Cpu]
    line_bytes: Positive
    page_bytes: Positive
    time_source: Literal["tsc", "cntvct", "clock_monotonic"]
    tick_ns: float
    """Length of one tick of the time source."""
    timer_cost_ns: float
    """Time between two back-to-back reads of the time source, median."""
    work_unit_ns: float | None = None
    """One unit of ``chain`` work; None where the probe did not measure it."""
    work_linearity: float | None = None
    """Largest deviation of the baseline loop's time from proportionality to the units of work, as a
    share (0.02 is 2 %)."""
    work_spread: float | None = None
    """90th less 10th percentile of repeated windows of one baseline loop with work, as a share of
    their median."""
    nop_iter_ns: float
    """One iteration of the loop around one NOP."""
    loop_offset_bytes: Count = 0
    """Distance of this launch's timed functions from a 64-byte boundary: placement varies from
    launch to launch."""
    cycle_ns: float
    """One core cycle as a chain of dependent register additions shows it (frequency as seen, no
    counter needed)."""
    governor: str
    """cpufreq governor of the timed CPU, empty where there is none."""
    smt: Literal["on", "off", "unknown"]
    counters: Literal["available", "unavailable"]
    """Hardware counters through perf_event."""
    rseq: str
    """Who registered restartable sequences: ``libc``, ``none`` …"""
    locked_memory: bool
    realtime: bool
    boot_parameters: str = ""
    counters_reason: str = ""
    """Which of the counters asked for are absent, and why; empty where none is."""
    other_probe: bool = False
    """Another probe was running a plan on this machine when the launch began."""
    other_load: float | None = None
    """CPUs that other programs kept busy while the probe described the machine, 0.1 s or longer;
    None where that is not known."""
    cpu_quota: float | None = None
    """As many CPUs' time as a quota (cgroup) allowed the probe; None where there was none, or where
    that is not known."""
    command: str = ""
    """The options that `linewright measure` was given, but for target and output; empty where
    something else ran the plan."""
    program: str = ""
    """The first 16 hexadecimal digits of the SHA-256 of the probe, where it is this machine's."""
    plan_digest: str = ""
    """Those of the plan that these options gave, but for launches and budget; empty as `command`.
    """

    @property
    def simulated(self) -> str:
        """The described machine, or its file, that made the records by a model; else empty."""
        kind, _, machine = self.target.partition(":")
        return machine if kind == "simulated" else ""

    @property
    def unit_ns(self) -> float:
        """Time of one unit of work: of the chain where it was measured, else of the NOP loop."""
        return self.nop_iter_ns if self.work_unit_ns is None else self.work_unit_ns


def schemas() -> dict[str, dict]:
    """JSON Schema of the three shapes, by name: ``plan``, ``context``, ``record``."""
    return {
        name: msgspec.json.schema(shape)
        for name, shape in (("plan", Plan), ("context", Context), ("record", Record))
    }
