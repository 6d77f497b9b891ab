# SPDX-License-Identifier: MIT
"""Writes the texts that interleave.cpp explores: what is done to a lock's bias, its marks and their
slots, and each mutant of it; and the same of the plain lock for plain_interleave.cpp.

    mutants.py ROOT OUT    every text in a namespace of its own, and the list TEXTS; beside it
                           plain_texts.h, the same of the plain lock, and
                           MUTANT.h, src/rwlock/revoke.h with a mistake that the torture sees
    mutants.py --list      those mutants, for CMake

Fails where a mutant's place is not found in the files."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FILES = [
    "include/linewright/rwlock_mark.h",
    "src/rwlock/bias.h",
    "src/rwlock/plain.h",
    "src/rwlock/revoke.h",
    "src/rwlock/again.h",
    "src/rwlock/slot.h",
]
PLAIN = "src/rwlock/plain.h"
END = (
    "    (void)LW_RW_SWAP(&l->biased, LW__RW_BIASED, LW__RW_ENDING, RELAXED); "
    "/* B; pairs with R */\n"
)
GONE = "    (void)LW_RW_AND(&l->biased, LW__RW_STAYS_PLAIN, RELEASE);"
HEAVY = "    int error = LW_RW_HEAVY_BARRIER(); /* F; pairs with M and R */\n"
REVOKED = """    int error = end_bias(l);
    if (error)
        return error;
    if (!wait_for_marks(l, limit)) {
"""
AGAIN = (
    "            (void)LW_RW_SWAP(&l->biased, LW__RW_ENDING, LW__RW_BIASED, RELAXED); "
    "/* as in end_bias() */\n"
)
KEEP_OUT = "    (void)LW_RW_SWAP(&l->biased, LW__RW_BIASED, LW__RW_ENDING, RELAXED);\n"
SLOT = "    return !LW_RW_LOAD(&t->used, RELAXED) && LW_RW_TAKE(&t->used);"
MARKED = "LW_RW_LOAD(&l->biased, ACQUIRE) == LW__RW_BIASED"
# Name: replacements of the original text.
MUTANTS = {
    "no_barrier": [("int error = LW_RW_HEAVY_BARRIER();", "int error = 0;")],
    "barrier_before_the_bias_ends": [
        (END + HEAVY, "    int error = LW_RW_HEAVY_BARRIER();\n" + END),
    ],
    "scan_before_the_bias_ends": [
        (
            REVOKED,
            """    bool none = wait_for_marks(l, limit);
    int error = end_bias(l);
    if (error)
        return error;
    if (!none) {
""",
        )
    ],
    "bias_does_not_end": [(END, "    ;\n"), (GONE, "    ;")],
    "no_wait": [("while (marked_in(t, l)) {", "while (0 && marked_in(t, l)) {")],
    "reader_looks_before_it_marks": [
        (
            "    LW_RW_STORE(&self->mark[at], l, RELAXED); /* M; pairs with F and S in "
            "src/rwlock/revoke.h */\n",
            f"    bool still = {MARKED};\n"
            "    LW_RW_STORE(&self->mark[at], l, RELAXED);\n    if (still)\n        return true;\n",
        )
    ],
    "mark_is_taken_back_first": [
        ("return 1ul + LW_RW_LOAD(&t->again[at], ACQUIRE);", "return 0ul;"),
    ],
    "one_handed_over_ends_the_wait": [("return marked(l) + counted <= 0;", "return counted < 0;")],
    "limit_reached_and_the_lock_left_plain": [
        (AGAIN, AGAIN.replace("LW__RW_ENDING, LW__RW_BIASED", "LW__RW_ENDING, 0"))
    ],
    "barrier_refused_and_the_lock_left_plain": [
        (
            "LW__RW_ENDING, LW__RW_BIASED, RELAXED); /* R pairs with give_bias(), as before */\n",
            "LW__RW_ENDING, 0, RELAXED);\n",
        ),
    ],
    "waiting_writer_is_passed": [
        (KEEP_OUT, "    (void)l;\n"),
    ],
    "waiting_writer_leaves_the_lock_plain": [
        (
            KEEP_OUT,
            KEEP_OUT.replace("LW__RW_ENDING", "0"),
        ),
    ],
    "waiting_writer_looks_first": [("    LW_RW_FENCE(); /* W; pairs with G */\n", "")],
    "bias_given_without_a_fence": [("    LW_RW_FENCE(); /* G; pairs with W */\n", "")],
    "bias_given_without_a_look": [("    if (LW_RW_WRITER_WAITS(l))\n", "    if (0)\n")],
    "reader_marks_while_the_bias_ends": [
        (MARKED, "LW_RW_LOAD(&l->biased, ACQUIRE) != 0"),
        (
            "LW_RW_LOAD(&l->biased, RELAXED) != LW__RW_BIASED",
            "LW_RW_LOAD(&l->biased, RELAXED) == 0",
        ),
    ],
    "plain_before_the_marks_are_gone": [(END, END.replace("LW__RW_ENDING", "0"))],
    "plain_while_the_bias_ends": [
        (
            "ACQUIRE) &\n             (LW__RW_BIASED | LW__RW_ENDING)); /*",
            "ACQUIRE) & (LW__RW_BIASED)); /*",
        )
    ],
    "slot_given_back_early": [
        ("LW_RW_STORE(&t->used, 0, RELEASE)", "LW_RW_STORE(&t->used, 0, RELAXED)"),
    ],
    "successor_clears_the_marks": [
        (
            SLOT,
            "    if (LW_RW_LOAD(&t->used, RELAXED) || !LW_RW_TAKE(&t->used))\n"
            "        return false;\n"
            "    struct lw_rwlock *none = 0;\n    LW_RW_STORE(&t->mark[0], none, RELAXED);\n"
            "    return true;",
        )
    ],
    "marks_of_ended_threads_are_passed_over": [
        (
            "while (marked_in(t, l)) {",
            "while (LW_RW_LOAD(&t->used, RELAXED) && marked_in(t, l)) {",
        )
    ],
    "new_marks_are_passed_over": [("            raise_ever(c, i + 1);\n", "")],
    "count_of_marks_falls": [
        (
            "LW_RW_SWAP(&c->ever, seen, count, RELAXED))\n            return;",
            "(LW_RW_STORE(&c->ever, count, RELAXED), 1))\n            return;",
        ),
    ],
}
# Of again.h.
AGAIN_MUTANTS = {
    "marks_again_without_a_second_look": [
        ("if (readers_in(LW_RW_LOAD(&l->state, ACQUIRE)) >= 0 &&", "if (1 ||"),
    ],
    "marks_again_without_a_fence": [("    LW_RW_FENCE(); /* N; pairs with L in revoke.h */\n", "")],
    "marks_again_with_a_retired_mark": [
        (">= 0 && LW_RW_LOAD(&self->mark[at], RELAXED) == l)", ">= 0)"),
    ],
    "marks_again_and_leaves_it": [
        ("    LW_RW_STORE(&self->again[at], again, RELEASE); /*", "    /*"),
    ],
    "marks_not_retired": [
        ("        retire_marks(l);\n", "        if (0)\n            retire_marks(l);\n")
    ],
    "count_not_settled": [
        ("EXCHANGE(l, &s, s & ~READERS, RELEASE)", "EXCHANGE(l, &s, s, RELEASE)")
    ],
    "released_though_none_is_held": [
        ("return -EPERM;\n    if (readers_in(s) == 0", "return -EPERM;\n    if (0")
    ],
    "release_refused_by_one_scan": [("LW_RW_HEAVY_BARRIER() != 0 || marked(l) != 0;", "0;")],
    "bias_goes_on_after_a_hand_over": [
        ("LW__RW_ENDING | LW__RW_STAYS_PLAIN, RELAXED))", "LW__RW_ENDING, RELAXED))"),
    ],
    "count_taken_twice": [
        ("counting(s, READERS), RELEASE) ? 0", "counting(s, READERS - 1), RELEASE) ? 0")
    ],
}
# The same of the plain lock, for plain_interleave.cpp.
PLAIN_MUTANTS = {
    "downgraded_and_not_counted": [("~(WRITER | slept), 1)", "~(WRITER | slept), 0)")],
    "downgraded_beside_itself": [("~(WRITER | slept), 1)", "~slept, 1)")],
    "queue_does_not_change": [
        ("    __atomic_fetch_add(&l->queue, 1, __ATOMIC_RELEASE);", "    (void)l;"),
    ],
    "queue_changes_after_the_release": [
        ("                change_queue(l);\n", ""),
        ("    if (wakes)\n", "    if (wakes)\n        change_queue(l);\n    if (wakes)\n"),
    ],
    "sleeps_though_it_is_woken": [
        ("if (!keeps_out(s, w->blocking) || s & WOKEN)", "if (!keeps_out(s, w->blocking))")
    ],
    "woken_for_ever": [("(s - w->counted) & ~(WOKEN | STARVES)", "(s - w->counted) & ~STARVES")],
    "waits_for_ever": [("? (s - w->counted) & ~(WOKEN", "? s & ~(WOKEN")],
    "starves_beside_itself": [
        (
            "        waits |= STARVES;\n        w->blocking = kept_out_once_woken();\n",
            "        waits |= STARVES;\n",
        ),
    ],
    "starves_for_ever": [("(s - w->counted) & ~(WOKEN | STARVES)", "(s - w->counted) & ~WOKEN")],
    "turn_outlives_the_reader_that_asked": [("counting(s & ~asked, 1)", "counting(s | asked, 1)")],
    "turn_outlives_a_reader_that_gives_up": [("give_up(l, 0, READERS_TURN)", "give_up(l, 0, 0)")],
    "turn_of_another_ends_with_a_limit": [("asked & READERS_TURN || !(left", "!(left")],
    "turn_is_a_writers": [
        ("passes_others ? 0 : STARVES | READERS_TURN)", "passes_others ? 0 : STARVES)")
    ],
    "turn_is_a_waiting_writers": [
        ("return WRITER | READERS | READERS_TURN;", "return WRITER | READERS;")
    ],
    "turn_wakes_no_reader": [("(held == WRITER || !(left", "(!(left")],
    "sleeps_and_has_not_asked": [("asks = !w->counted && s & WRITER;", "asks = false;")],
    "asks_and_forgets_it": [("    w->counted = READERS_TURN;\n", "")],
    "gives_up_without_a_word": [("left |= WOKEN;", "left |= 0;")],
    "gives_up_and_readers_sleep": [("left &= ~READERS_SLEEP;", "left |= 0;")],
    "writer_gives_up_and_readers_sleep": [
        (
            "else if (asked & READERS_TURN || !(left & (WRITER | WRITERS_WAIT)))",
            "else if (asked & READERS_TURN)",
        ),
    ],
    "gives_up_and_readers_are_not_woken": [
        ("    if (s & ~left & READERS_SLEEP)\n", "    if (0)\n")
    ],
    "released_without_a_count": [("held == WRITER || readers_in(s) > 0", "held == WRITER || 1")],
    "released_past_those_that_wait": [("wakes_none(s - 1)))", "1))")],
    "released_past_a_writer_that_sleeps": [
        ("left & WOKEN || !(left & WRITERS_WAIT)", "1"),
    ],
    "downgraded_and_readers_sleep_on": [("slept = s & READERS_SLEEP;", "slept = 0;")],
    "readers_wait_beside_a_reader": [("return (blocking & READERS) == READERS;", "return true;")],
    "counted_beside_a_writer": [
        ("if (s >= (uint32_t)MOST_READERS)", "if ((s & READERS) >= (uint32_t)MOST_READERS)")
    ],
    "readers_sleep_on": [("left & READERS_SLEEP : 0;", "0 * left : 0;")],
    "writer_meets_readers": [
        ("blocking = WRITER | READERS | (passes_others", "blocking = WRITER | (passes_others"),
    ],
}
SEEN_BY_THE_TORTURE = ["bias_does_not_end", "no_wait"]
"""Every time; the others want a moment of some ns."""
_OPENING = re.compile(r"\A/\*.*?\*/\n", re.DOTALL)
_GUARDED = re.compile(r"#define LINEWRIGHT_RWLOCK_MARK_H\n(.*)#endif\n\Z", re.DOTALL)
_PLAIN = re.compile(r"#define LINEWRIGHT_SRC_RWLOCK_PLAIN_H\n(.*)#endif\n\Z", re.DOTALL)
_INCLUDES = re.compile(r"(?m)^#include .*\n")
_DEFAULTS = re.compile(r"#ifndef LW_RW_\w+\n.*?#endif\n", re.DOTALL)


def texts(files: list[str]) -> dict[str, str]:
    """The original and every mutant; ValueError where a mutant's place is not found once."""
    mark, *rest = files
    bias, plain, *rest = (_OPENING.sub("", part) for part in rest)
    plain = _PLAIN.search(plain)[1].replace('#include "bias.h"\n', bias)
    parts = [_GUARDED.search(mark)[1], plain, *rest]
    whole = "".join(_DEFAULTS.sub("", part) for part in parts)
    return mutated(_INCLUDES.sub("", whole), MUTANTS | AGAIN_MUTANTS)


def plain_texts(file: str) -> dict[str, str]:
    """The same of the plain lock."""
    return mutated(_INCLUDES.sub("", _PLAIN.search(file)[1]), PLAIN_MUTANTS)


def mutated(whole: str, mutants: dict[str, list[tuple[str, str]]]) -> dict[str, str]:
    """A text under the name "original", and every mutant of it."""
    made = {"original": whole}
    for name, replacements in mutants.items():
        text = whole
        for before, after in replacements:
            if text.count(before) != 1:
                raise ValueError(
                    f"mutant {name}: its text stands {text.count(before)} times, not once"
                )
            text = text.replace(before, after)
        made[name] = text
    return made


def write(out: Path, made: dict[str, str], after: str = "") -> None:
    """The texts in a namespace each, and the list TEXTS."""
    spaces = [f"namespace {name} {{\n{text}}}\n{after}" for name, text in made.items()]
    names = ", ".join(f"LW_TEXT({name})" for name in made)
    out.write_text("\n".join(spaces) + f"#define TEXTS {names}\n")


def main() -> int:
    """Write the files of all texts."""
    if sys.argv[1:] == ["--list"]:
        print(";".join(SEEN_BY_THE_TORTURE), end="")
        return 0
    root, out = map(Path, sys.argv[1:])
    write(out, texts([(root / file).read_text() for file in FILES]), "#undef LIMIT_REACHED\n")
    write(out.parent / "plain_texts.h", plain_texts((root / PLAIN).read_text()))
    for name in SEEN_BY_THE_TORTURE:
        text = (root / "src/rwlock/revoke.h").read_text()
        for before, after in MUTANTS[name]:
            text = text.replace(before, after)
        (out.parent / f"{name}.h").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
