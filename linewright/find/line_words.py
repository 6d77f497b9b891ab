# SPDX-License-Identifier: MIT
"""Every word of `linewright find`: one text for each thing that a result holds as data."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

from msgspec import structs

from linewright import numbers
from linewright.find.line_verdict import (
    SELDOM_AT_ONCE,
    bystanders,
    lock_users,
    own_language,
    waits_at,
)
from linewright.find.results import (
    APART,
    BIASED,
    Ceiling,
    CodeName,
    FieldBytes,
    Hot,
    LayoutAdvice,
    Object,
    Remark,
    Result,
    Site,
    Touch,
)

MOST_NAMES = 3
"""Further objects of a line that are named."""
_NAME_LENGTH = 15
"""Characters of a thread's name that the kernel keeps."""
HARDLY = 0.5
"""Of the baseline's turns, those below which the page says that threads took few."""
MOST_FIELDS = 4
"""Fields that one thread's bytes, or objects of one type, are named by."""
MOST_USERS = 16
"""Users of a line that the picture tells apart."""


def object_text(what: Object, whole: bool = False) -> str:
    """An address's object, and where in it that lies unless the `whole` is meant."""
    inside = "" if whole or not what.offset else f" + {what.offset}"
    far = "" if whole else f" + {what.offset:#x}"
    match what.kind:
        case "static" if what.symbol:
            return f"{what.symbol}{inside}"
        case "static":
            return f"static data of {what.file}" + ("" if whole else f" at {what.offset:#x}")
        case "thread_local":
            copy = f"{what.symbol}{inside}" if what.symbol else f"storage of {what.file}"
            return f"thread-local {copy} of thread {what.thread}"
        case "heap" if what.allocator:
            at = "" if whole else f", + {what.offset}"
            called = f", called from {place_text(what.caller)}" if what.caller else ""
            by = place_text(what.allocator) + called
            return f"heap block of {what.size} bytes allocated in {by}{at}"
        case "heap":
            return "heap block, allocating call unknown"
        case "stack":
            return f"stack or thread-local storage of thread {what.thread}"
        case "shared_mapping":
            return f"shared mapping ({what.file or 'anonymous'}){far}"
        case "mapping":
            large = what.size >= 2**20
            size = f"{what.size / 2**20:.0f} MiB" if large else f"{what.size // 1024} KiB"
            return f"anonymous memory, {size} mapped" + (far and f",{far}")
        case _:
            return f"unknown memory at {what.offset:#x}"


def line_text(hot: Hot) -> str:
    """What lies on a line: the first object in full, then what else is there; of many lines the
    object or the type of the objects, with the fields that are used."""
    if hot.lines > 1:
        used = f" ({', '.join(hot.used_fields[:MOST_FIELDS])})" if hot.used_fields else ""
        typed = f"objects of type {hot.type}{used}"
        return f"{typed if hot.type else object_text(hot.objects[0], True)}, on {hot.lines} lines"
    apart: dict[Object, Object] = {}  # of blocks of one allocating call the first one
    for what in hot.objects:
        apart.setdefault(structs.replace(what, offset=0, start=0), what)
    first, *named = dict.fromkeys(map(object_text, apart.values()))
    more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
    return ", ".join([first, *named[:MOST_NAMES]]) + more


def place_text(named: CodeName) -> str:
    """A function, with file name and line where they are known."""
    function = function_text(named.function)
    return f"{function} ({PurePath(named.source).name})" if named.source else function


def function_text(name: str) -> str:
    """A function as its author knows it: of the library's functions that are made for a lambda
    (std::thread's `_State_impl<…>`, std::function's `_Function_handler<…>`) the lambda, by the
    function that it stands in; of Rust's closures, too."""
    outer = _CLOSURE.sub("", name)
    if outer != name:
        return f"closure in {outer}"
    found = _LAMBDA.search(name)
    if found is None or not name.startswith(_MADE_FOR):
        return name
    begin, deep = found.start(), 0
    while begin > 0 and (deep or name[begin - 1] not in "<, "):
        begin -= 1
        deep += {">": 1, ")": 1, "<": -1, "(": -1}.get(name[begin], 0)
    return f"lambda in {name[begin : found.start()]}"


_CLOSURE = re.compile(r"(::\{(\{closure\}|closure#\d+)\})+$")
_LAMBDA = re.compile(r"::(\{lambda\(|\$_\d|'lambda\d*')")
_MADE_FOR = ("std::thread::_State_impl<", "std::_Function_handler<", "void* std::__")


def kind_text(hot: Hot) -> str:
    """The verdict in two or three words."""
    verdict = hot.verdict
    if verdict.stays:
        return "shared by turns" if verdict.answer == "by_turns" else "shared, on one CPU"
    if not verdict.sharing:
        return "read by several" if hot.kind == "read" else "alone"
    how = {"false": "false sharing", "lock": "lock"}.get(verdict.sharing, "true sharing")
    return f"{how} on 128-byte lines only" if verdict.line_bytes == 128 else how


def cost_text(hot: Hot) -> str:
    """The line's share of time, or its accesses where the source counts no time."""
    cost = numbers.share(hot.share) if hot.share is not None else str(hot.accesses)
    return f"about {cost}" if hot.estimated else cost


def bytes_text(hot: Hot, program: str = "") -> list[str]:
    """Which threads touch which bytes: one line for each set of bytes, with the fields they are,
    the most used first; threads with their names, unless all are the `program`'s."""
    touches, named = hot.touches, _tell_apart(hot, program)
    groups: dict[tuple[tuple[int, int], ...], list[Touch]] = defaultdict(list)
    for touch in touches:
        groups[tuple(touch.bytes)].append(touch)
    said = []
    for where, some in sorted(groups.items()):
        spans = ", ".join(f"{at}-{at + size - 1}" if size > 1 else f"{at}" for at, size in where)
        met = [f for f in hot.fields if any(_meets(f, *span) for span in where)]
        names = [f.name for f in sorted(met, key=lambda f: -f.share)]
        if names:
            more = f" and {len(names) - MOST_FIELDS} more" if len(names) > MOST_FIELDS else ""
            spans += f" ({', '.join(names[:MOST_FIELDS])}{more})"
        writers, readers = ([t for t in some if t.writes == writes] for writes in (True, False))
        who = [_users(writers, "write", named)] * bool(writers)
        who += [_users(readers, "read", named)] * bool(readers)
        said.append(f"bytes {spans}: {', '.join(who)}")
    if hot.threads > len(touches):
        said.append(f"and {hot.threads - len(touches)} threads more")
    return said


def _tell_apart(hot: Hot, program: str) -> bool:
    """Whether its threads' names say which they are."""
    called = {t.name for t in hot.touches}
    return len(called) > 1 or bool(program and called != {program[:_NAME_LENGTH]})


def lock_text(hot: Hot, program: str = "") -> str:
    """Who holds a lock of the line and who waits for it, as far as samples show."""
    names = {t.thread: t for t in hot.touches}
    said = [
        f"{how} {_threads([names[tid] for tid in tids if tid in names], _tell_apart(hot, program))}"
        for how, tids in zip(("held by", "waited for by"), lock_users(hot), strict=True)
        if not names.keys().isdisjoint(tids)
    ]
    return f"by samples in the lock's functions, {', '.join(said)}" if said else ""


def _users(some: Sequence[Touch], verb: str, named: bool) -> str:
    return f"{_threads(some, named)} {verb}{'s' * (len(some) == 1)}"


def _threads(some: Sequence[Touch], named: bool) -> str:
    names = [f"{t.thread} ({t.name})" if named and t.name else f"{t.thread}" for t in some[:4]]
    more = f" and {len(some) - 4} more" if len(some) > 4 else ""
    return f"thread{'s' * (len(some) > 1)} {' '.join(names)}{more}"


def _meets(field: FieldBytes, at: int, size: int) -> bool:
    return field.offset < at + size and at < field.offset + field.bytes


def picture(touches: list[Touch], fields: Sequence[FieldBytes] = ()) -> str:
    """The 64 bytes: which thread, by its place among those named, uses each; `*` several of which
    one writes, `+` several that read, `-` a field that none was seen to use."""

    def mark(byte: int) -> str:
        users = [n for n, t in enumerate(touches) if any(0 <= byte - at < s for at, s in t.bytes)]
        if not users:
            return "-" if any(_meets(f, byte, 1) for f in fields) else "."
        if len(users) == 1:
            return "123456789abcdefg"[users[0]]
        return "*" if any(touches[n].writes for n in users) else "+"

    return "".join(map(mark, range(64)))


def task_touches(hot: Hot) -> list[Touch]:
    """Of a line that a runtime's tasks share falsely, what each of them uses."""
    return [
        Touch(thread=number, name="", bytes=part, writes=True, reads=False)
        for number, part in enumerate(hot.tasks.parts[:MOST_USERS] if hot.tasks else ())
    ]


def advised_text(advised: LayoutAdvice, apart: int | None) -> str:
    """What the separation does to the type, and what memory it takes."""
    advised = advised.at(apart or APART)
    what = f"on {', '.join(advised.aligned)}" if advised.aligned else f"on {advised.type}"
    more = (advised.bytes_after - advised.bytes_before) * advised.count
    of = f", {numbers.count(advised.count, 'element')}" if advised.count > 1 else ""
    return (
        f"alignas({advised.bytes_apart}) {what}: {advised.type} grows from "
        f"{advised.bytes_before} to {advised.bytes_after} bytes{of}, {more} bytes of memory in all"
    )


def site_text(site: Site) -> str:
    """Instruction, function and source line, and for a library's site who called it."""
    place = function_text(site.function) or f"{site.module}+{site.offset:#x}"
    if site.source:
        place += f" ({tail(site.source)})"
    called = f", called from {site.caller}" if site.caller else ""
    return f"{site.instruction or site.access} in {place}{called}"


def tail(source: str) -> str:
    """The last two parts of a path with its line."""
    return "/".join(source.split("/")[-2:])


OPEN = "Undecided whether the {} moves between CPUs; a longer run tells"


def movement_text(hot: Hot) -> str:
    """What the CPUs of the samples say of a line, with the numbers that it rests on."""
    movement, because = hot.movement, hot.verdict.because
    line = "line" if hot.verdict.line_bytes == 64 else "pair of lines"
    said = {
        "moves": f"The {line} moves between CPUs",
        "by_turns": f"One CPU uses the {line} for a while, then another",
        "one_cpu": f"One CPU alone uses the {line}",
        "open": OPEN.format(line),
    }[movement.answer]
    if because == "lock" and movement.answer == "one_cpu":
        said = f"One CPU ran all that use the {line}, and nothing is known of turns between CPUs"
    elif because == "lock":
        said += ", in turns that the lock makes: what waits for it is held up"
    elif because == "seldom_at_once":
        share = f" {numbers.percent(hot.at_once, False)} of that time" if hot.at_once else ""
        said = (
            f"Undecided whether the {line} moves: one CPU at a time used it, but its threads ran "
            f"at once{share or ' hardly ever'}, as where they wait for each other or for a CPU"
        )
    of = numbers.count(movement.samples, "sample")
    if movement.changes is None:
        only = ". One CPU was seen" if movement.answer == "open" else ""
        return f"{said}{only}: all {of} are on it"
    ratio, seen = movement.changes, f"{of} change CPU"
    within = _short(movement.close_ns)
    if movement.close and (movement.answer == "moves" or movement.close.high < ratio.high):
        ratio = movement.close
        seen = f"pairs of samples of two CPUs within {within} occur"
    often = numbers.about_times(ratio.value, ratio.low, ratio.high)
    return f"{said}: {seen} {often} as often as with CPUs in random order"


def _short(ns: int) -> str:
    """A distance of samples."""
    return f"{numbers.figure(ns / 1000)} µs" if ns < 1e6 else numbers.quantity(ns / 1e9, "s")


def tasks_text(hot: Hot) -> str:
    """Whether threads use the same bytes at one time: undecided where they were not seen to run at
    once. Empty of a lock, which tasks and threads share alike, and of a line that stays."""
    known, verdict = hot.tasks, hot.verdict
    if known is None or verdict.stays or verdict.sharing == "lock":
        return ""
    seldom = hot.at_once is not None and hot.at_once < SELDOM_AT_ONCE
    ratio = numbers.about_times(known.ratio.value, known.ratio.low, known.ratio.high)
    within = _short(known.within_ns)
    seen = (
        f"{numbers.count(known.pairs, 'pair')} of samples of two threads within {within} meet in "
        "the same bytes "
        f"{ratio} as often as at random"
    )
    return {
        "tasks": "A runtime seems to move tasks between these kernel threads, each with bytes of "
        f"its own: {seen}",
        "threads": f"Threads use these bytes at one time: {seen}; tasks that a runtime moves "
        "between threads more often would look the same",
        "open": "Undecided whether threads share these bytes, or a runtime moves tasks between "
        "them, each with bytes of its own, which then want lines of their own; a longer run with "
        f"CPUs of its own tells: {seen}",
    }["open" if seldom and known.answer == "threads" else known.answer]


def gain_text(hot: Hot) -> str:
    """What an end of the contention could bring; empty where nothing can be said."""
    if hot.ceiling is None:
        paid = bool(hot.sites) and hot.share is not None and hot.verdict.travels
        if paid and all(site.access != "atomic" for site in hot.sites):
            return "gain unknown: an end of sharing plain stores often gives 5 to 25 %"
        return ""
    ceiling = hot.ceiling
    gain, alone, contended = ceiling.gain, ceiling.alone_ns, ceiling.contended_ns
    if ceiling.form == BIASED:
        low, high = numbers.percent(gain.low, False), numbers.percent(gain.high, False)
        return (
            f"with readers that write no shared line: {low} to {high} of CPU time to gain"
            f"{_slowed(ceiling)} (a reader beside a second CPU: pthread_rwlock_t "
            f"{numbers.span(contended.low_ns, contended.high_ns, 'ns')}, biased "
            f"{numbers.span(alone.low_ns, alone.high_ns, 'ns')})"
        )
    said = f"at most {numbers.percent(gain.high, False)} of CPU time to gain{_slowed(ceiling)}"
    if waits_at(hot):
        return f"{said}: threads wait for each other there"
    plain = numbers.percent(ceiling.plain, False)
    beside = f"; {plain} of its time is at plain accesses, whose gain is unknown"
    return (
        f"{said}; {numbers.percent(gain.value, False)} at the prices of two busy "
        f"threads ({ceiling.form}: alone {numbers.quantity(alone.median_ns, 'ns')}, "
        f"contended {numbers.span(contended.low_ns, contended.high_ns, 'ns')})"
        f"{beside if ceiling.plain >= 0.005 else ''}"
    )


def _slowed(ceiling: Ceiling) -> str:
    """The thread for which it could be clearly more."""
    if ceiling.most_slowed < 1.1 * ceiling.gain.high + 0.01:
        return ""
    return f", {numbers.percent(ceiling.most_slowed, False)} of thread {ceiling.slowed_thread}'s"


def texts(block: str) -> dict[str, str]:
    """Texts by their names, each folded."""
    found = re.findall(r"^([\w+]+): (.*(?:\n  .*)*)", block, re.MULTILINE)
    return {key: " ".join(text.split()) for key, text in found}


ADVICE = texts("""
stays: Change nothing: one CPU at a time uses the line while its threads run at once, so its
  operations would cost the same without sharing.
within: Separate the fields or elements within the block (alignas({apart}) on them); trial --pad
  separates whole blocks only.
false: Separate: give each thread's bytes a line of their own (alignas({apart}), or padding);
  nothing else has to change.
tasks: Separate: give what each task uses a line of its own (alignas({apart}), or padding); nothing
  else has to change.
pairs: Change nothing where lines have 64 bytes; alignas({apart}) where they have 128 or are fetched
  in pairs.
no_pairs: Change nothing: on this machine words {apart} bytes apart do not disturb each other.
in_pairs: Separate by alignas({apart}): on this machine words of neighbouring lines disturb each
  other.
alone: Change nothing: the line does not move between CPUs.
readers: Read under SRCU (<linewright/srcu.h>) what is rarely written, or take a lock whose readers
  write no shared line (<linewright/rwlock.h>): {seen} mostly readers take this lock, and each of
  them writes its word.
readers_own: Give each thread a lock of its own, of which a reader takes one and a writer all:
  {seen} mostly readers take this lock, and each of them writes its word.
replaceable: Without a new build: linewright run --locks gives the program such locks; the trial
  says what that brings.
both: Hold the lock less often, or split it: {seen} readers and writers both take this
  readers-writer lock, and each writes its word.
writers: Hold the lock less often, or split it: {seen} writers take this readers-writer lock at
  least as often as readers, and a lock with cheaper readers would do nothing for them.
lock: Hold the lock less often, split it, or do more under it at a time: the line is the lock
  itself.
references: Hand the object on by reference or move, or give each thread one reference of its own:
  each new pointer changes the shared reference count.
counted_uses: Take it less often: by its instructions this counts references or pending work (it is
  raised and lowered, and zero is acted on). Hand the object on by reference or move, or let each
  thread hold one for many uses.
countdown: Count down in batches: each thread takes off at once what it has finished, since zero is
  acted on.
waits: Let the waiting threads look less often (back-off), or sleep where a wait lasts longer than
  waking takes (a futex, a condition variable): they repeat a load until another thread stores, and
  each load takes the line from its writer.
retries: Store it less often, or more at a time: who reads it looks again until a value was whole or
  its turn came (a sequence lock, a queue's cell), which is no wait to sleep in while it is short.
numbers: Take several numbers at once per thread: the operation's old value is used (a ticket, a
  number, a length). Where it is not needed, count per CPU (<linewright/percpu.h>).
counting: Count per CPU (<linewright/percpu.h>) or in batches per thread, and sum up when reading.
numbers_own: Take several numbers at once per thread: the operation's old value is used (a ticket, a
  number, a length). Where it is not needed, count per thread, and sum up when reading.
counting_own: Count per thread, or in batches, and sum up when reading.
fought: Do fewer operations on the word, or use another form: several threads write it (linewright
  measure shows what each form costs contended).
several: Write it less often, only where the value changes, or give each thread a copy of its own
  that is combined when it is read: several threads write it.
written: Write it less often, or let readers keep a copy: one thread writes it and others read it.
beside: {threads} other bytes only: move them to a line of their own.
policy: Without a new build: choose the form by LINEWRIGHT_ATOMICS; the trial compares the forms.
""")
"""What to do, by the names of `Verdict.advice`; `own`: where this library's headers are of no
use."""


def advice(hot: Hot, apart: int | None = None) -> str:
    """What to do about a line; `apart`: how many bytes apart threads' words were measured to have
    to lie."""
    keys = hot.verdict.advice
    if keys == ("pairs",) and apart:
        keys = ("no_pairs" if apart <= 64 else "in_pairs",)
    alone = bystanders(hot.touches, hot.threads) if "beside" in keys else []
    more = " and others" if len(alone) > 4 else ""
    threads = f"Thread{'s' * (len(alone) > 1)} {' '.join(map(str, alone[:4]))}{more}"
    threads += " uses" if len(alone) == 1 else " use"
    seen = "by its accesses" if hot.certainty == "exact" else "by the samples"
    places = {"apart": apart or APART, "threads": threads, "seen": seen}
    if own_language(hot) or (hot.sites and not hot.sites[0].module):  # or of a JIT compiler
        keys = [f"{key}_own" if f"{key}_own" in ADVICE else key for key in keys]
    return " ".join(ADVICE[key].format(**places) for key in keys)


def place(on: str) -> str:
    """The words of a command line that name the target."""
    return "" if on == "local" else f" --on {shlex.quote(on)}"


def next_command(hot: Hot, result: Result) -> str:
    """The command that proves or prices what is advised, for the machine that the program ran on;
    empty where there is none."""
    step = hot.verdict.next
    if not step or (step == "heap" and result.heap):
        return ""
    site = shlex.quote(hot.objects[0].site) if step == "pad" else ""
    verb, more = {
        "pad": ("trial", f" --pad {site}"),
        "heap": ("find", " --heap"),
        "locks": ("trial", " --locks"),
        "forms": ("trial", ""),
        "measure": ("measure", ""),
        "measure_counters": ("measure", " --plan percpu"),
    }[step]
    program = shlex.join(result.command) or "PROGRAM …"
    line = f"linewright {verb}{place(result.on)}{more}"
    return line if verb == "measure" else f"{line} -- {program}"


NOTES = texts("""
unmet_stores: plain stores that no watchpoint met
in_kernel: the kernel
rare: rare lines
plain: plain stores and loads: without perf_event_open there are no watchpoints, so false sharing
  between plain stores is unseen
unsignalled: statically linked programs, threads that block the signal or were not made by
  pthread_create
exact_time: time: how often a line moves on real hardware, and what that costs
not_executed: code that this run did not execute
between_processes: how processes take turns on memory that they share
by_kernel: what the kernel touches
unknown_pointers: accesses through %fs of threads whose thread pointer was not found: {}
unknown_pointers_i386: accesses through %gs: {} threads
unknown_pointers_arm64: names of thread-local variables of threads whose thread pointer was not
  found: {}
held_back: A CPU quota (cgroup) held threads back for {} s in {} s, all CPUs together: what they
  share was put to the test so much less.
failed: The program failed ({}): what it did until then counts.
went_on: Processes that the program started go on after its end and are not seen any more: the
  option --pid {} samples one.
one_cpu: One CPU ran all of it: what its threads share was not put to the test.
few_cpus: Other programs left {} CPUs, on which the program's threads can hardly run at once.
never_at_once: The program's threads were seen to run at once {} of the time that any ran: what
  they share has hardly been put to the test.
ended_by: Ended by {} before its time: what was seen until then counts.
damaged: Broken off: {}; what came before counts.
left_out: {} threads are not sampled: too few file descriptors (ulimit -n), and no permission for
  the whole machine.
assumed_cost: The cost of samples or watchpoints could not be measured here: the overhead rests on
  assumed figures.
lost: {} samples were lost: the machine was too busy to read them.
throttled: The kernel throttled the timers (kernel.perf_event_max_sample_rate).
refused: {} watchpoints were refused or found no free register.
refused_all: No watchpoint found a free register: other debuggers or tracers hold them, and plain
  stores are unseen.
unwatched: Lines that were not watched, or not to the end: {}. Watching stops with the program, and
  where it has taken 20 ms and 1 % of the program's time.
user_time: Shares are of user time: kernel.perf_event_paranoid does not allow samples of the
  kernel.
other_run: Another run was measuring or sampling on this machine when this one began: each
  disturbs the other.
ending: The program did not end by itself: it was ended from here ({}).
no_sample: No sample: the program used less CPU time than one period.
by_signal: {}. Chain by CPU timers and a signal handler in a preloaded library instead.
unread: Heap blocks have no names: {}
other_version: Heap blocks have no names: the interposed malloc is of another version; build it
  anew.
not_loaded: Heap blocks have no names: no process loaded the interposed malloc; is the program
  static?
too_large: {} has more than 512 MiB and was not fetched: its names are missing.
replaced: The file that the program mapped as {} cannot be read any more (it was replaced or
  deleted, or its container ended): it names nothing here.
packed: Fields are missing: the debug information of {} is compressed with zstd, and no objcopy
  here (binutils, LLVM) decompresses that.
java: Methods of Java (process {0}) have no names: start it with
  JAVA_TOOL_OPTIONS='-XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit' (JDK 17), or jcmd {0}
  Compiler.perfmap while it runs, then find --pid.
javascript: Functions of JavaScript (process {}) have no names: node --perf-basic-prof.
heap_dropped: {} heap blocks found no place in the table and have no name.
exact_order: Lines are in the order in which they changed hands most under emulation: that is no
  measure of time.
exact_seldom: {0} more lines changed hands fewer than {1} times, or none of their bytes was used
  as often, as at starts and ends of threads and in queues.
no_records: No ceiling: no records of this machine ({}){}. {} makes them.
several_models: No ceiling: the records are of several simulated machines, {}; name one file.
half_a_model: No ceiling: the records of simulated machine {} have no form both alone and
  contended.
of_a_model: Ceilings are priced on simulated machine {}: what a model says, and no measurement.
apart_measured: alignas({}) is what plan spacing measured on this machine: more gains at most {}.
apart_usual: alignas({}) is a convention: {} finds what the machine needs.
""")


def note_text(said: Remark) -> str:
    """One remark with its figures."""
    return NOTES[said.kind].format(*said.values)


def name_text(hot: Hot) -> str:
    """What a line is called in every build."""
    first = hot.objects[0]
    if first.site:
        return f"heap block of {first.site}"
    if first.kind in ("static", "thread_local") and (first.symbol or not hot.sites):
        return first.symbol or f"static data of {first.file}"
    used = (
        function_text(hot.sites[0].function) or hot.sites[0].module if hot.sites else "unknown code"
    )
    return f"{first.kind.replace('_', ' ')} used by {used}"


def amount_text(hot: Hot) -> str:
    """What it costs, with the unit."""
    return cost_text(hot) + (" accesses" if hot.share is None else " of the time")


def guard_text(result: Result) -> str:
    """What is new against an earlier result, and what this run could have seen."""
    found = result.against
    said = [f"{name_text(h)} ({kind_text(h)}, {amount_text(h)})"
            for h in (result.lines[at] for at in found.new)]  # fmt: skip
    against = f" against {found.baseline}" if found.baseline else ""
    text = f"Guard: {'; '.join(said) or 'nothing'} {'are' if said[1:] else 'is'} new{against}."
    if result.source == "exact":
        return f"{text} Every access of this run was seen."
    text = (
        f"{text} Of {numbers.count(result.samples, 'sample')}, 999 in 1000 such runs name a new "
        f"line with {numbers.at_most(found.least)} of the time or more"
    )
    return f"{text}." if found.tells else f"{text}: the guard cannot tell. {_longer(result)}"


def _longer(result: Result) -> str:
    """What a run that can tell needs, in seconds."""
    found, said = result.against, []
    if found.unsure:
        lines = [result.unsure[at].identity[0] for at in found.unsure if result.unsure[at].identity]
        names = ", ".join(lines[:MOST_NAMES]) + ", …" * (len(lines) > MOST_NAMES)
        said.append(f"Whether threads share {names or 'a line'} is not known.")

    def seconds(samples: int) -> str:
        rate = result.samples / result.seconds if result.seconds else 0
        timed = f"a run of {samples / rate:.1f} s, " if rate else ""
        return f"{timed}{numbers.count(samples, 'sample')}"

    if found.turns < HARDLY:
        often = numbers.percent(found.turns, False)
        said.append(f"Its threads took turns {often} as often as the baseline's.")
    if found.baseline_wanted:
        said.append(f"The baseline wants {seconds(found.baseline_wanted)}.")
    if found.samples_wanted:
        said.append(f"Wanted: {seconds(found.samples_wanted)}, or --exact.")
    return " ".join(said)


def blind_text(result: Result) -> str:
    """What its source cannot see."""
    return f"blind to: {'; '.join(map(note_text, result.blind))} (docs/guide/find.md)"
