# SPDX-License-Identifier: MIT
"""Writes the protocols of SRCU (headers in src/srcu that several programs compile) with one
deliberate mistake in each copy; the interleaver and the tests must see each.

usage: mutants.py --list                names of those that the directed cases of
                                        linewright-torture see, for CMake
       mutants.py --texts               the files that are mutated, for CMake
       mutants.py --all SOURCES FOLDER  every mutant of every file in SOURCES, and machines.h,
                                        which includes them side by side
A mutant whose original text is not in the source exactly once is an error: it must move with the
code."""

import sys
from pathlib import Path

SECOND_SCAN = (
    "    if (!gp_scan(d, LW_GP_INDEX(d) ^ 1, &error))\n        return -error;\n    "
    "LW_GP_POINT(END);\n"
)
BARRIER = "    *error = LW_GP_HEAVY_BARRIER(d);\n"
SCAN = "        if (!gp_scan(d, LW_GP_INDEX(d) ^ 1, &error))\n            return -error;\n"
SIGNATURE = "static bool gp_scan(LW_GP_DOMAIN *d, unsigned index, int *error)\n"

# Name: (what is wrong, replacements of the original text).
MUTANTS = {
    "as_it_is": ("as it is", []),
    "no_barrier_in_first_scan": (
        "no barrier in the first scan",
        [(BARRIER, "    if (d->phase != LW__SRCU_FIRST_SCAN)\n    " + BARRIER)],
    ),
    "no_barrier_in_second_scan": (
        "no barrier in the second scan",
        [(BARRIER, "    if (d->phase != LW__SRCU_SECOND_SCAN)\n    " + BARRIER)],
    ),
    "locks_before_unlocks": (
        "locks before unlocks",
        [
            (
                "unsigned long unlocks = LW_GP_SUM_UNLOCKS",
                "unsigned long unlocks = LW_GP_SUM_LOCKS",
            ),
            ("    if (LW_GP_SUM_LOCKS(d, index) != unlocks)\n        return false;\n", ""),
            ("unsigned long locks = LW_GP_SUM_LOCKS", "unsigned long locks = LW_GP_SUM_UNLOCKS"),
        ],
    ),
    "first_scan_only": ("first scan only", [(SECOND_SCAN, "    LW_GP_POINT(END);\n")]),
    "second_scan_only": ("second scan only", [(SCAN, "")]),
    "no_flip": (
        "no flip",
        [("        LW_GP_FLIP(d);\n", "        if (0)\n            LW_GP_FLIP(d);\n")],
    ),
    "no_fence_before_the_cookie": ("no fence before the cookie", [("    LW_GP_FENCE();\n", "")]),
}
ONLY_BY_INTERLEAVING = {"as_it_is", "no_fence_before_the_cookie"}
"""One thread's accesses are reordered: only a machine that does so, or the interleaver, shows
it."""


# The other texts, in the same form: the first of each is the original.
RETRY = "if (!(before & 1) && LW_FOLD_NUMBER_AGAIN() == before)"
MOVES = """    for (unsigned g = 0; g < LW_FOLD_GROUPS(); g++)
        for (unsigned w = 0; w < LW_FOLD_WORDS; w++)
            fold_move(LW_FOLD_TO(g, w), LW_FOLD_FROM(r, g, w));
"""
GIVE = "    LW_FOLD_GIVE(r);\n"
FOLDS = {
    "fold_as_it_is": ("as it is", []),
    "fold_without_number": (
        "sums that do not look for a fold",
        [(RETRY, "(void)before;\n        if (true)")],
    ),
    "fold_sum_during_a_move": (
        "sums that begin during a fold",
        [("!(before & 1) && ", "")],
    ),
    "fold_gives_first": (
        "a record given back before its counts move",
        [(MOVES + GIVE, GIVE + MOVES)],
    ),
}
NOTE = "    LW_WAKE_NOTE(e);\n"
WAKE = "    if (LW_WAKE_SLEEPERS(e))\n        LW_WAKE_ALL(e);\n"
ENTER, SLEEP = "    LW_WAKE_ENTER(e);\n", "    LW_WAKE_SLEEP(e, seen, ns);\n"
NONE = "    LW_WAKE_WORKER_SET(w, 0);\n"
LOOK = "    bool end = LW_WAKE_WORKER_NUMBER(w) == seen;\n"
WAKES = {
    "wake_as_it_is": ("as it is", []),
    "wake_before_note": (
        "sleepers looked for before the number changes",
        [(NOTE + WAKE, WAKE + NOTE)],
    ),
    "wake_late_sleeper": (
        "a sleeper counts itself after it slept",
        [(ENTER + SLEEP, SLEEP + ENTER)],
    ),
    "wake_no_second_look": (
        "an idle worker ends without a second look",
        [(LOOK, "    bool end = true;\n    (void)seen;\n")],
    ),
    "wake_look_too_early": (
        "an idle worker looks before it says that it ends",
        [(NONE + LOOK, LOOK + NONE)],
    ),
}
TAKE = "    LW_BATCH_TAKE(d);\n"
SET_COOKIE = "        LW_BATCH_SET_COOKIE(d, LW_BATCH_COOKIE(d));\n"
CLEAR = "    (void)LW_BATCH_SWAP_LISTED(d, 0);\n"
BATCHES = {
    "batch_as_it_is": ("as it is", []),
    "batch_cookie_first": (
        "a cookie taken before the queue is",
        [
            (TAKE, "    unsigned long cookie = LW_BATCH_COOKIE(d);\n" + TAKE),
            (SET_COOKIE, "        LW_BATCH_SET_COOKIE(d, cookie);\n"),
        ],
    ),
    "batch_no_second_look": (
        "a domain leaves the list without a second look",
        [("return !LW_BATCH_LEFT(d) || LW_BATCH_SWAP_LISTED(d, 1);", "return true;")],
    ),
    "batch_look_too_early": (
        "the second look comes before the mark is cleared",
        [
            (
                CLEAR + "    return !LW_BATCH_LEFT(d) ||",
                "    bool left = LW_BATCH_LEFT(d);\n" + CLEAR + "    return !left ||",
            )
        ],
    ),
    "batch_lists_twice": (
        "a listed domain is listed again",
        [("    if (!LW_BATCH_SWAP_LISTED(d, 1))\n", "    (void)LW_BATCH_SWAP_LISTED(d, 1);\n")],
    ),
}
ENDS = {
    "end_as_it_is": ("as it is", []),
    "end_without_barrier": (
        "cleanup without its barrier",
        [("ordered ? 0 : LW_END_HEAVY_BARRIER(d)", "ordered ? 0 : 0")],
    ),
    "end_without_waiters": (
        "cleanup without looking at waiters",
        [("LW_END_QUEUED(d) || LW_END_WAITERS(d)", "LW_END_QUEUED(d)")],
    ),
    "end_without_queue": (
        "cleanup without looking at callbacks",
        [("LW_END_QUEUED(d) || LW_END_WAITERS(d)", "LW_END_WAITERS(d)")],
    ),
}
# File: the macro with the table of its mutants, the functions that an entry holds, the mutants.
TEXTS = {
    "gp.h": ("MACHINES", ["gp_step", "gp_cookie", "gp_passed"], MUTANTS),
    "fold.h": ("FOLDS", ["fold_record", "fold_sum"], FOLDS),
    "wake.h": ("WAKES", ["wake_sleepers", "wake_sleep", "wake_end_worker"], WAKES),
    "batch.h": ("BATCHES", ["batch_next", "batch_list", "batch_over"], BATCHES),
    "end.h": ("ENDS", ["end_refused"], ENDS),
}


def mutated(name: str, source: Path) -> str:
    text = source.read_text()
    for original, replacement in TEXTS[source.name][2][name][1]:
        if text.count(original) != 1:
            found = text.count(original)
            raise SystemExit(f"mutants.py: {name}: its text is in {source} {found} times, not once")
        text = text.replace(original, replacement)
    return text


def write_all(sources: Path, folder: Path) -> None:
    lines = ["// Made by mutants.py: every text and its mutants, in a namespace each."]
    tables = []
    for file, (table, functions, mutants) in TEXTS.items():
        for name in mutants:
            (folder / f"{name}.h").write_text(mutated(name, sources / file))
            lines += [f"namespace {name} {{", f'#include "{name}.h"', "}"]
        tables.append(f"#define {table} \\")
        for name, (what, _) in mutants.items():
            held = ", ".join(f"{name}::{function}" for function in functions)
            tables.append(f'    {{"{what}", {held}}}, \\')
        tables.append("")
    (folder / "machines.h").write_text("\n".join(lines + tables) + "\n")


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        print(";".join(name for name in MUTANTS if name not in ONLY_BY_INTERLEAVING), end="")
        return 0
    if arguments == ["--texts"]:
        print(";".join(TEXTS), end="")
        return 0
    if len(arguments) != 3 or arguments[0] != "--all":
        print(__doc__, file=sys.stderr)
        return 2
    write_all(Path(arguments[1]), Path(arguments[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
