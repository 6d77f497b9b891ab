"""A result of find as a document: the lines that travel, what they cost, what to do, and what this
source is blind to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise

from linewright import numbers
from linewright.find.line_prices import BIASED
from linewright.find.results import (
    Ceiling,
    FieldBytes,
    Hot,
    LayoutAdvice,
    LineFacts,
    Movement,
    Result,
    Site,
    Tasks,
    Touch,
)
from linewright.say.document import Document, TextTable, Topic, document_of
from linewright.say.sentence import Sentence, sentence_as_written

OPEN = "Undecided whether the {} moves between CPUs; a longer run tells"
MOST_PARTS = 4
"""Parts of a type that are drawn on lines of their own."""
MOST_FIELDS = 4
"""Fields that one thread's bytes are named by."""
MOST_USERS = 16
"""Users of a line that the picture tells apart."""
SHOWN = 5
"""Lines on the page; ``--json`` has all."""
FENCE = ", a full fence: it waits for the stores before it, whose lines may be what costs"
_STAYS = {"by_turns": "shared by turns", "one_cpu": "shared, on one CPU"}


def kind_text(hot: LineFacts) -> str:
    """The verdict in two or three words."""
    verdict = hot.verdict
    if verdict.stays:
        return _STAYS[verdict.answer]
    if not verdict.sharing:
        return "read by several" if hot.kind == "read" else "alone"
    how = "false sharing" if verdict.sharing == "false" else "true sharing"
    return f"{how} on 128-byte lines only" if verdict.line_bytes == 128 else how


def bytes_text(touches: list[Touch], threads: int, fields: Sequence[FieldBytes] = ()) -> list[str]:
    """Which threads touch which bytes: one line for each set of bytes, with the fields they are."""
    groups: dict[tuple[tuple[int, int], ...], list[Touch]] = defaultdict(list)
    for touch in touches:
        groups[tuple(touch.bytes)].append(touch)
    said = []
    for where, some in sorted(groups.items()):
        spans = spans_text(where)
        names = [f.name for f in fields if any(_meets(f, *span) for span in where)]
        if names:
            more = f" and {len(names) - MOST_FIELDS} more" if len(names) > MOST_FIELDS else ""
            spans += f" ({', '.join(names[:MOST_FIELDS])}{more})"
        names = " ".join(str(t.thread) for t in some[:4]) + (
            f" and {len(some) - 4} more" if len(some) > 4 else ""
        )
        verb = "write" if any(t.writes for t in some) else "read"
        verb += "s" if len(some) == 1 else ""
        said.append(f"bytes {spans}: thread{'s' if len(some) > 1 else ''} {names} {verb}")
    if threads > len(touches):
        said.append(f"and {threads - len(touches)} threads more")
    return said


def spans_text(where: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{at}-{at + size - 1}" if size > 1 else f"{at}" for at, size in where)


def _meets(field: FieldBytes, at: int, size: int) -> bool:
    return field.offset < at + size and at < field.offset + field.bytes


def picture(touches: list[Touch], fields: Sequence[FieldBytes] = ()) -> str:
    """The 64 bytes: which thread, by its place among those named, uses each; `*` several of which
    one writes, `+` several that read, `-` a field that none was seen to use."""
    named = {byte for f in fields for byte in range(f.offset, f.offset + f.bytes)}
    users: list[list[int]] = [[] for _ in range(64)]
    for number, touch in enumerate(touches):
        for at, size in touch.bytes:
            for byte in range(at, min(64, at + size)):
                users[byte].append(number)
    marks = [
        ".-"[byte in named]
        if not some
        else "123456789abcdefg"[some[0]]
        if len(some) == 1
        else "*"
        if any(touches[n].writes for n in some)
        else "+"
        for byte, some in enumerate(users)
    ]
    return "".join(marks)


def _tasks(hot: Hot) -> list[Touch]:
    """Of a line that a runtime's tasks share falsely, what each of them uses."""
    return [
        Touch(thread=number, name="", bytes=part, writes=True, reads=False)
        for number, part in enumerate(hot.tasks.parts[:MOST_USERS] if hot.tasks else ())
    ]


def _eights(marks: str) -> str:
    return " ".join(marks[at : at + 8] for at in range(0, len(marks), 8))


def after_text(hot: Hot, marks: str) -> str:
    """The same bytes after the advised change: what begins on a line of its own, and the padding
    behind it."""
    advised, size = hot.advised, hot.advised.bytes_before
    first = max(0, -advised.offset // size)
    elements = range(first, min(advised.count, first + 64 // size + 2))
    begins = [advised.offset + n * size + at for n in elements for at in [0, *advised.starts]]
    end = advised.offset + (elements.stop) * size
    parts = [
        f"{_eights(marks[max(0, begin) : behind])}{' …' * (behind > 64)}"
        f" +{-(behind - begin) % advised.bytes_apart}"
        for begin, behind in pairwise([*begins, end])
        if begin < 64 and behind > 0
    ]
    more = f" | {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
    return f"after: {' | '.join(parts[:MOST_PARTS])}{more}   + bytes of padding"


def advised_text(advised: LayoutAdvice) -> str:
    """What the separation does to the type, and what memory it takes."""
    what = f"on {', '.join(advised.aligned)}" if advised.aligned else f"on {advised.type}"
    more = (advised.bytes_after - advised.bytes_before) * advised.count
    of = f", {numbers.count(advised.count, 'element')}" if advised.count > 1 else ""
    return (
        f"alignas({advised.bytes_apart}) {what}: {advised.type} grows from "
        f"{advised.bytes_before} to {advised.bytes_after} bytes{of}, {more} bytes of memory in all"
    )


_SITE_STAYS = {"one_cpu": ", on one CPU alone", "by_turns": ", by CPUs in turns"}
"""Of an instruction that uses a line on one CPU at a time, where others may move it."""


def site_text(site: Site) -> str:
    """Instruction, function and source line, and for a library's site who called it."""
    place = site.function or f"{site.module}+{site.offset:#x}"
    if site.source:
        place += f" ({_tail(site.source)})"
    called = f", called from {site.caller}" if site.caller else ""
    return f"{site.instruction or site.access} in {place}{called}"


def _tail(source: str) -> str:
    """The last two parts of a path with its line."""
    return "/".join(source.split("/")[-2:])


def movement_text(movement: Movement, line: str = "line") -> str:
    """What the CPUs of the samples say of a line, with the numbers that it rests on."""
    of = numbers.count(movement.samples, "sample")
    if movement.changes is None:
        all_on = f"all {of} are on it"
        if movement.answer == "open":
            return f"{OPEN.format(line)}. One CPU was seen to use it: {all_on}"
        return f"One CPU alone uses the {line}: {all_on}"
    said = {
        "moves": f"The {line} moves between CPUs",
        "by_turns": f"One CPU uses the {line} for a while, then another",
        "open": OPEN.format(line),
    }
    ratio, seen = movement.changes, f"{of} change CPU"
    within = f"{numbers.figure(movement.close_ns / 1000)} µs"
    if movement.close and (movement.answer == "moves" or movement.close.high < ratio.high):
        ratio = movement.close
        seen = f"pairs of samples of two CPUs within {within} occur"
    often = numbers.about_times(ratio.value, ratio.low, ratio.high)
    return f"{said[movement.answer]}: {seen} {often} as often as with CPUs in random order"


def tasks_text(known: Tasks) -> str:
    """Whether threads use the same bytes at one time."""
    ratio = numbers.about_times(known.ratio.value, known.ratio.low, known.ratio.high)
    within = f"{numbers.figure(known.within_ns / 1000)} µs"
    seen = (
        f"{known.pairs} pairs of samples of two threads within {within} meet in the same bytes "
        f"{ratio} as often as at random"
    )
    return {
        "tasks": "A runtime seems to move tasks between these threads, each with bytes of its own: "
        + seen,
        "threads": f"Threads use these bytes at one time: {seen}; tasks that a runtime moves "
        "between threads more often would look the same",
        "open": "Undecided whether threads share these bytes, or a runtime moves tasks between "
        f"them, each with bytes of its own; a longer run tells: {seen}",
    }[known.answer]


def ceiling_text(ceiling: Ceiling) -> str:
    gain, alone, contended = ceiling.gain, ceiling.alone_ns, ceiling.contended_ns
    if alone is None or contended is None:
        return (
            f"an estimate: 0 to {numbers.percent(gain.high, False)} of CPU time to gain. Plain "
            "accesses have no price, and their stalls surface anywhere in the functions that make "
            "them"
        )
    if ceiling.form == BIASED:
        low, high = numbers.percent(gain.low, False), numbers.percent(gain.high, False)
        return (
            f"with readers that write no shared line: {low} to {high} of CPU time to gain"
            f"{_slowed(ceiling)} (a reader beside a second CPU: pthread_rwlock_t "
            f"{numbers.span(contended.low_ns, contended.high_ns, 'ns')}, biased "
            f"{numbers.span(alone.low_ns, alone.high_ns, 'ns')})"
        )
    plain = "; all time of the functions with plain accesses" if ceiling.plain >= 0.005 else ""
    return (
        f"at most {numbers.percent(gain.high, False)} of CPU time to gain{_slowed(ceiling)} "
        f"({ceiling.form}: alone {numbers.quantity(alone.median_ns, 'ns')}, "
        f"contended {numbers.span(contended.low_ns, contended.high_ns, 'ns')}{plain})"
    )


def most_text(ceiling: Ceiling | None) -> str:
    """The upper end alone."""
    return numbers.percent(ceiling.gain.high, False) if ceiling else numbers.ABSENT


def _slowed(ceiling: Ceiling) -> str:
    """The thread for which it could be clearly more."""
    if ceiling.most_slowed < 1.1 * ceiling.gain.high + 0.01:
        return ""
    return f", {numbers.percent(ceiling.most_slowed, False)} of thread {ceiling.slowed_thread}'s"


def document(result: Result) -> Document:
    """What was found, the lines that travel, what to do about each, and what this source is blind
    to."""
    shown = result.lines[:SHOWN]
    rest = len(result.lines) - len(shown)
    topics = [_details(number, hot) for number, hot in enumerate(shown, 1)]
    if rest:
        more = f"{rest} more lines: --json lists them."
        topics[-1].lines.append(_of(result.lines[SHOWN:], more))
    topics += [topic for topic in (_alone(result), _helpers(result)) if topic.lines]
    return document_of(
        headline=[_of([*result.lines, *result.alone], headline(result))],
        tables=[_table(shown)] if shown else [],
        topics=topics,
        limits=[
            *(sentence_as_written(text, basis="run") for text in result.notes),
            sentence_as_written(f"blind to: {'; '.join(result.blind)}", basis="rule"),
        ],
    )


def _of(lines: Sequence[Hot], text: str) -> Sentence:
    """A sentence that rests on these lines, named by their addresses; without any on the run."""
    names = [f"{hot.address:#x}" for hot in lines]
    return sentence_as_written(text, names, "lines" if names else "run")


def _alone(result: Result) -> Topic:
    """Atomics on lines that do not travel."""
    lines = [
        _of(
            [hot],
            f"{numbers.share(hot.share)}  {hot.object}: "
            f"{site_text(hot.sites[0]) if hot.sites else ''}{FENCE if is_fence(hot) else ''}",
        )
        for hot in result.alone[:3]
    ]
    title = "Atomics that one thread alone pays for:"
    return Topic(name="alone", title=title, lines=lines, data=result.alone)


def is_fence(hot: Hot) -> bool:
    """A locked operation on the thread's own stack, as compilers write a full fence on x86."""
    return (
        hot.object_kind == "stack"
        and bool(hot.sites)
        and hot.sites[0].instruction.startswith(("lock or", "lock add"))
    )


def _helpers(result: Result) -> Topic:
    """Where outline helpers are called from, the most frequent first."""
    lines = []
    for call in result.helpers[:SHOWN]:
        place = (
            f"{call.function} ({_tail(call.source)})"
            if call.source
            else f"{call.function}, {call.module}+{call.offset:#x}"
        )
        text = f"{call.count}  {call.helper} from {place}"
        lines.append(sentence_as_written(text, [call.function], "functions"))
    if more := result.helpers[SHOWN:]:
        text = f"{len(more)} more call sites: --json lists them."
        lines.append(sentence_as_written(text, [call.function for call in more], "functions"))
    title = "Outline helpers by call site, on whatever line:"
    return Topic(name="helpers", title=title, lines=lines, data=result.helpers)


def headline(result: Result) -> str:
    """What was found, from how much, at what cost."""
    verdicts = [hot.verdict for hot in result.lines]
    undecided = [h for h in result.lines if h.verdict.travels and h.verdict.answer == "undecided"]
    count = sum(v.travels for v in verdicts) - len(undecided)
    wide = sum(v.line_bytes == 128 and not v.stays for v in verdicts)
    staying = sum(v.stays for v in verdicts)
    found = f"{count} lines travel" if count > 1 else "1 line travels"
    if not count:
        found = "No line is shown to travel" if undecided else "No line travels"
    beside = [f"{wide} more on 128-byte lines only"] * bool(wide)
    beside += [f"{staying} shared without contention"] * bool(staying)
    if undecided:
        most = numbers.percent(max(h.share.value for h in undecided), False)
        beside.insert(0, f"{len(undecided)} undecided (the largest takes {most} of the time)")
    found = ", ".join([found, *beside]) + "," * bool(beside)
    timed = f"{result.samples} samples of {result.threads} threads in {result.seconds:.1f} s"
    cost = (
        f", finding took about {numbers.percent(result.overhead, False)} of their time"
        if result.overhead is not None
        else ""
    )
    if cost and result.beside_s is not None:
        cost += f" and {result.beside_s:.2f} s of CPU time beside them"
    if result.source == "exact":
        timed = f"{result.samples} accesses of {result.threads} threads, emulated"
    return f"{found} in {result.program} ({timed}{cost})"


def cost_text(hot: Hot) -> str:
    """The line's share of time, or its accesses where the source counts no time."""
    cost = numbers.share(hot.share) if hot.share is not None else str(hot.accesses)
    return f"about {cost}" if hot.estimated else cost


def _table(lines: list[Hot]) -> TextTable:
    rows = []
    for number, hot in enumerate(lines, 1):
        rows.append([str(number), cost_text(hot), kind_text(hot), str(hot.threads), hot.object])
    time = "time" if lines[0].share is not None else "accesses"
    return TextTable(
        title="",
        headings=["", time, "kind", "threads", "what"],
        left=[True, False, True, False, True],
        rows=rows,
        folds=(4,),
        what="line",
    )


def _details(number: int, hot: Hot) -> Topic:
    """One line: who touches which bytes, from where, what it costs and what to do."""
    lines = bytes_text(hot.touches, hot.threads, hot.fields)[:4] if hot.lines == 1 else []
    if hot.kind == "false" and hot.lines == 1 and hot.touches:
        users = "threads " + " ".join(str(t.thread) for t in hot.touches)
        marks = picture(_tasks(hot) or hot.touches, hot.fields)
        before = "before: " if hot.advised and not hot.verdict.stays else ""
        lines.append(f"{before}{_eights(marks)}   1, 2, … are {'tasks' if hot.tasks else users}")
        lines += [after_text(hot, marks)] if before else []
    for site in hot.sites[:3]:
        share = f"{numbers.percent(site.share, False)}  " if hot.share is not None else ""
        stays = _SITE_STAYS.get(site.movement.answer, "") if site.movement else ""
        lines.append(f"{share}{site_text(site)}{'' if hot.verdict.stays else stays}")
    named = "line" if hot.verdict.line_bytes == 64 else "pair of lines"
    lines += [movement_text(hot.movement, named)] if hot.movement else []
    lines += [tasks_text(hot.tasks)] if hot.tasks and not hot.verdict.stays else []
    lines += [ceiling_text(hot.ceiling)] if hot.ceiling else []
    lines += [hot.remedy] if hot.remedy else []
    lines += [advised_text(hot.advised)] if hot.advised and not hot.verdict.stays else []
    lines += [f"next: {hot.next_command}"] if hot.next_command else []
    at = "" if " at 0x" in hot.object else f" at {hot.address:#x}"
    title = f"{number}  {hot.object}{at}: {kind_text(hot)}, {hot.certainty}"
    return Topic(name="line", title=title, lines=[_of([hot], text) for text in lines], data=hot)
