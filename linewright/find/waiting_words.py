# SPDX-License-Identifier: MIT
"""What is said of words that threads wait for: what keeps the thread that has them, and a remedy
for that."""

from __future__ import annotations

from collections.abc import Sequence

from linewright import numbers
from linewright.find.line_words import object_text, place_text
from linewright.find.results import Wait
from linewright.say.document import Sentence, Topic, sentence_as_written

PARTS = {
    "preempted": "while the thread that they wait for was preempted",
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


def waiting_topic(waits: Sequence[Wait]) -> Topic:
    """The words that threads wait for, those with most time first."""
    lines: list[Sentence] = []
    for wait in waits:
        what = object_text(wait.what) if wait.what else "a word"
        at = f" in {place_text(wait.where)}" if wait.where else ""
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
