# SPDX-License-Identifier: MIT
"""A result of find as a document, and several as a section of the page: the lines that travel, what
they cost, what to do, what threads wait for, and what this source is blind to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from linewright import numbers
from linewright.errors import one_line
from linewright.find import line_words as words
from linewright.find import results
from linewright.find.line_code import code_text
from linewright.find.results import APART, FENCES, Hot, Result, Wait, note
from linewright.say.document import (
    Column,
    Document,
    Section,
    Sentence,
    TextTable,
    Topic,
    document_of,
    sentence_as_written,
    table_of,
)

SHOWN = 5
"""Lines on the page; ``--json`` has all."""
FENCE = ", a full fence: it waits for the stores before it, whose lines may be what costs"
WHY = {
    "failed": "the program failed",
    "no_sample": "there is no sample",
    "held_back": "a CPU quota held its threads back",
    "went_on": "the program went on in another process",
    "one_cpu": "one CPU ran all of it",
    "few_cpus": "other programs held the CPUs",
    "never_at_once": "its threads hardly ever ran at once",
    "refused_all": "watchpoints were refused",
}
"""Why nothing was seen, by the notes that say it in full; the first one that a run has."""
_SITE_STAYS = {"one_cpu": ", on one CPU alone", "by_turns": ", by CPUs in turns"}
"""Of an instruction that uses a line on one CPU at a time, where others may move it."""

PARTS = {
    "preempted": "while the thread that they wait for was preempted",
    "turn": "while the thread whose turn had come was preempted in the queue",
    "asleep": "while it was asleep",
    "off": "while it was off its CPU, preempted or asleep",
    "running": "while it ran, as none that could have it was off its CPU",
    "handed": "while all that could have it ran this loop",
    "open": "not known",
}
"""What a waiting thread was met in, by the fields of `Wait`."""
REMEDIES = {
    "preempted": "Run fewer threads than there are CPUs, let waiting threads sleep (a mutex), or "
    "ask for more of the time slice while the lock is held (<linewright/slice.h>, Linux 7.0): most "
    "of the wait is for a thread that the kernel has taken off its CPU.",
    "turn": "Let any waiting thread take the lock (a mutex, a spin lock without tickets or a "
    "queue), or run fewer threads than there are CPUs: most of the wait is for the next thread of "
    "the queue, which the kernel has taken off its CPU while it waited.",
    "asleep": "Move what sleeps (input and output, another lock) out of the section, or let "
    "waiting threads sleep too (a mutex, a condition variable): most of the wait is for a thread "
    "that itself waits for something else.",
    "running": "Shorten the section, or split what it protects: most of the wait is for a thread "
    "that runs at code where one thread at a time is ever met.",
    "handed": "Let fewer threads fight for it, do more under it at a time, or use a lock whose "
    "waiting threads look at words of their own: most of the wait is for the word itself on its "
    "way from one thread to the next.",
    "undecided": "Undecided what most of the wait is for; a longer run, or one beside less other "
    "load, may tell.",
}
"""What to do, by the answer: one for each, and each for that cause alone."""


def document(result: Result) -> Document:
    """What was found, the lines that travel, what to do about each, and what this source is blind
    to."""
    shown = result.lines[:SHOWN]
    hottest = max(result.lines, key=lambda hot: hot.share.value if hot.share else 0.0, default=None)
    if hottest is not None and hottest not in shown:
        shown = [*shown[:-1], hottest]
    rest = [hot for hot in result.lines if hot not in shown]
    topics = [_details(number, hot, result) for number, hot in enumerate(shown, 1)]
    if rest:
        topics[-1].lines.append(_of(rest, f"{len(rest)} more lines: --json lists them."))
    more = (waiting_topic(result.waits), _alone(result), _helpers(result))
    topics += [topic for topic in more if topic.lines]
    return document_of(
        headline=[_of([*result.lines, *result.alone], headline(result))],
        tables=[_table(shown)] if shown else [],
        topics=topics,
        limits=[
            *(sentence_as_written(text, basis="run") for text in limits(result)),
            sentence_as_written(words.blind_text(result), basis="rule"),
        ],
    )


def limits(result: Result) -> list[str]:
    """What the reader must know before believing it: what the guard says, then the run's notes, and
    that the advised distance is a convention where none was measured."""
    said = [words.guard_text(result)] if result.against else []
    said += map(words.note_text, result.notes)
    if not result.bytes_apart and any("alignas" in words.advice(hot) for hot in result.lines):
        spacing = f"linewright measure{words.place(result.on)} --plan spacing"
        said.append(words.note_text(note("apart_usual", APART, spacing)))
    return said


def _of(lines: Sequence[Hot], text: str) -> Sentence:
    """A sentence that rests on these lines, named by their addresses; without any on the run."""
    names = [f"{hot.address:#x}" for hot in lines]
    return sentence_as_written(text, names, "lines" if names else "run")


def waiting_topic(waits: Sequence[Wait]) -> Topic:
    """The words that threads wait for, those with most time first."""
    lines: list[Sentence] = []
    for wait in waits:
        what = words.object_text(wait.what) if wait.what else "a word"
        at = f" in {words.place_text(wait.where)}" if wait.where else ""
        parts = {name: getattr(wait, name) for name in PARTS}
        said = [
            f"{numbers.percent(part, False)} {PARTS[name]}"
            for name, part in sorted(parts.items(), key=lambda item: (item[0] == "open", -item[1]))
            if part >= 0.005
        ]
        share = numbers.share(wait.share) if wait.share else ""
        text = f"{share}  {what}{at}: of that, {', '.join(said)}"
        lines += [sentence_as_written(t, basis="run") for t in (text, REMEDIES[wait.answer])]
    return Topic(name="waits", title="Waits for a word:", lines=lines, data=list(waits))


def _alone(result: Result) -> Topic:
    """Atomics on lines that do not travel."""
    lines = []
    for hot in result.alone[:3]:
        text = f"{numbers.share(hot.share)}  {words.line_text(hot)}: "
        for site in hot.sites[:1]:
            # A locked operation on the thread's own stack: compilers write a full fence so on x86.
            fence = hot.objects[0].kind == "stack" and site.instruction in FENCES
            text += words.site_text(site) + FENCE * fence
        lines.append(_of([hot], text))
    title = "Atomics on lines that no two threads were seen to share:"
    return Topic(name="alone", title=title, lines=lines, data=result.alone)


def _helpers(result: Result) -> Topic:
    """Where outline helpers are called from, the most frequent first."""
    said = []
    for call in result.helpers[:SHOWN]:
        at = f" ({words.tail(call.source)})" if call.source else f", {call.module}+{call.offset:#x}"
        said.append(([call], f"{call.count}  {call.helper} from {call.function}{at}"))
    if more := result.helpers[SHOWN:]:
        said.append((more, f"{len(more)} more call sites: --json lists them."))
    lines = [sentence_as_written(t, [c.function for c in of], "functions") for of, t in said]
    title = "Outline helpers by call site, on whatever line:"
    return Topic(name="helpers", title=title, lines=lines, data=result.helpers)


def headline(result: Result) -> str:
    """What is shown and what is not, and why nothing was seen where that has a reason; from how
    much, at what cost."""
    travelling = [hot for hot in result.lines if hot.verdict.travels]
    undecided = [hot for hot in travelling if hot.verdict.answer == "undecided"]
    unseen = sum(hot.verdict.answer == "not_seen" for hot in travelling)
    shown, exact = len(travelling) - len(undecided) - unseen, result.source == "exact"
    found = _counted(unseen, "shared") if exact else _counted(shown, "shown to travel")
    why = [WHY[said.kind] for said in result.notes if said.kind in WHY]
    if why and not shown:
        found += f": {why[0]}"
    most = numbers.percent(max((h.share.value for h in undecided), default=0.0), False)
    wide = sum(h.verdict.line_bytes == 128 and not h.verdict.stays for h in result.lines)
    counts = {
        f"undecided (the largest takes {most} of the time)": len(undecided),
        "shared, and on which CPUs was not seen": 0 if exact else unseen,
        "more on 128-byte lines only": wide,
        "shared without contention": sum(h.verdict.stays for h in result.lines),
    }
    beside = [f"{number} {text}" for text, number in counts.items() if number]
    found = ", ".join([found, *beside]) + "," * bool(beside)
    threads = numbers.count(result.threads, "thread")
    said = f"{numbers.count(result.samples, 'sample')} of {threads} in {result.seconds:.1f} s"
    if exact:
        said = f"{result.samples} accesses of {threads}, emulated"
    if result.overhead is not None:
        said += f", finding took about {numbers.percent(result.overhead, False)} of their time"
        beside_s = result.beside_s
        said += "" if beside_s is None else f" and {beside_s:.2f} s of CPU time beside them"
    return f"{found} in {result.program} ({said})"


def _counted(number: int, what: str) -> str:
    if number > 1:
        return f"{number} lines are {what}"
    return f"{'1' if number else 'No'} line is {what}"


def _table(lines: list[Hot]) -> TextTable:
    rows = [
        [str(number), words.cost_text(h), words.kind_text(h), str(h.threads), words.line_text(h)]
        for number, h in enumerate(lines, 1)
    ]
    time = "time" if lines[0].share is not None else "accesses"
    return TextTable(
        title="",
        headings=["", time, "kind", "threads", "what"],
        left=[True, False, True, False, True],
        rows=rows,
        folds=(4,),
        spare=(3, 2),
        what="line",
    )


def _details(number: int, hot: Hot, result: Result) -> Topic:
    """One line: who touches which bytes, from where, what it costs and what to do."""
    stays, name = hot.verdict.stays, words.line_text(hot)
    lines = words.bytes_text(hot, result.program)[:4] if hot.lines == 1 else []
    if hot.kind == "false" and hot.lines == 1 and hot.touches:
        users = "threads " + " ".join(str(t.thread) for t in hot.touches)
        marks = words.picture(words.task_touches(hot) or hot.touches, hot.fields)
        eights = " ".join(marks[at : at + 8] for at in range(0, len(marks), 8))
        lines.append(f"{eights}   1, 2, … are {'tasks' if hot.tasks else users}")
    for site in hot.sites[:3]:
        share = f"{numbers.percent(site.share, False)}  " if hot.share is not None else ""
        alone = _SITE_STAYS.get(site.movement.answer, "") if site.movement else ""
        lines.append(f"{share}{words.site_text(site)}{'' if stays else alone}")
    lines += [
        words.lock_text(hot, result.program),
        words.movement_text(hot) if hot.movement else "",
        words.tasks_text(hot),
        words.gain_text(hot),
        words.advice(hot, result.bytes_apart),
        words.advised_text(hot.advised, result.bytes_apart) if hot.advised and not stays else "",
        code_text(hot, result.bytes_apart),
    ]
    step = words.next_command(hot, result)
    lines += [f"next: {step}"] * bool(step)
    at = "" if " at 0x" in name else f" at {hot.address:#x}"
    title = f"{number}  {name}{at}: {words.kind_text(hot)}, {hot.certainty}"
    return Topic(
        name="line", title=title, lines=[_of([hot], text) for text in lines if text], data=hot
    )


_COLUMNS = {
    "line": words.line_text,
    "share of time": words.amount_text,
    "kind": lambda hot: f"{words.kind_text(hot)}, {hot.certainty}",
    "threads": lambda hot: str(hot.threads),
    "bytes": lambda hot: "; ".join(words.bytes_text(hot)),
    "sites": lambda hot: "; ".join(map(words.site_text, hot.sites[:3])),
    "at most to gain": lambda hot: (
        numbers.percent(hot.ceiling.gain.high, False) if hot.ceiling else numbers.ABSENT
    ),
    "what to do": words.advice,
}
COLUMNS = [
    Column(name, lambda hot, text=text: one_line(text(hot)), text=True)
    for name, text in _COLUMNS.items()
]


def section(paths: Sequence[str]) -> tuple[list[str], Section | None]:
    """The results of `linewright find` among some files, and a section with a table for each."""
    found = {path: results.read(path) for path in paths if results.is_result(path)}
    if not found:
        return [], None
    notes = []
    for result in found.values():
        name = one_line(result.program)
        said = [(f"{name}: {one_line(text)}", "run") for text in limits(result)]
        said.append((f"{name}, {words.blind_text(result)}.", "rule"))  # its blind spots always
        notes += [sentence_as_written(text, basis=basis) for text, basis in said]
    return list(found), Section(
        id="lines",
        title="Lines that travel",
        lead=sentence_as_written(
            "Cache lines that several threads of a program use, the most expensive first, as "
            "linewright find saw them. Shares are of the program's samples, with 95 % intervals; "
            "gains are ceilings, not promises.",
            basis="rule",
        ),
        blocks=[
            table_of(one_line(f"{headline(result)} ({PurePath(path).name})"), COLUMNS, result.lines)
            for path, result in found.items()
        ],
        notes=notes,
    )
