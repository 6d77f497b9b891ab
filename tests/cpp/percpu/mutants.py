# SPDX-License-Identifier: MIT
"""Writes the lock text of per-CPU words (src/percpu/lock.h) with one deliberate mistake in it; the
interleaver must see each, and the storm with pauses those that one run shows.

usage: mutants.py --list                   names of those that the storm sees, for CMake
       mutants.py --all SOURCE FOLDER      every mutant, and locks.h, which includes them all
A mutant whose original text is not in the source exactly once is an error: it must move with the
code."""

import sys
from pathlib import Path

ASKS = (
    "    lock_word(l);\n    LW_LOCK_POINT(LW__LOCKED);\n"
    "    if (LW_LOCK_HERE(cpu) || LW_LOCK_ABORT(cpu))\n"
)
MARKS = (
    "} else if (seen & LW_LOCK_SLEEPERS || LW_LOCK_SWAP(l, seen, seen | LW_LOCK_SLEEPERS)) {\n"
    "            LW_LOCK_SLEEP(l, seen | LW_LOCK_SLEEPERS);\n"
)
# Name: (what is wrong, the original text, what replaces it).
MUTANTS = {
    "as_it_is": ("as it is", "", ""),
    "no_abort": (
        "lock without abort",
        ASKS,
        "    lock_word(l);\n    LW_LOCK_POINT(LW__LOCKED);\n    (void)cpu;\n    if (true)\n",
    ),
    "abort_before_lock": (
        "sequences are aborted before the lock is stored",
        ASKS,
        "    bool done = LW_LOCK_ABORT(cpu);\n    lock_word(l);\n"
        "    LW_LOCK_POINT(LW__LOCKED);\n    if (LW_LOCK_HERE(cpu) || done)\n",
    ),
    "here_before_lock": (
        "asks for its CPU before it stores the lock",
        ASKS,
        "    bool here = LW_LOCK_HERE(cpu);\n    lock_word(l);\n"
        "    LW_LOCK_POINT(LW__LOCKED);\n    if (here || LW_LOCK_ABORT(cpu))\n",
    ),
    "lock_kept": (
        "keeps the lock where it could not abort",
        "    unlock_word(l);\n    return false;\n",
        "    return false;\n",
    ),
    "no_wake": (
        "frees the lock and wakes no sleeper",
        "    if (LW_LOCK_FREE(l) & LW_LOCK_SLEEPERS)\n        LW_LOCK_WAKE(l);\n",
        "    (void)LW_LOCK_FREE(l);\n",
    ),
    "sleepers_forgotten": (
        "locks after a sleep as if no other thread slept",
        "            want = me | LW_LOCK_SLEEPERS; /* other threads may still sleep */\n",
        "",
    ),
    "sleep_unmarked": (
        "sleeps without a mark for the holder",
        MARKS,
        "} else {\n            LW_LOCK_SLEEP(l, seen);\n",
    ),
    "inherited_waited_for": (
        "waits for a holder that another process has",
        "if (!seen || (seen & ~LW_LOCK_SLEEPERS) != me)",
        "if (!seen)",
    ),
    "held_not_seen": (
        "takes a lock that its own process holds",
        "if (!seen || (seen & ~LW_LOCK_SLEEPERS) != me)",
        "if (true)",
    ),
    "list_left": ("a list that is taken stays", "    LW_LIST_STORE(head, 0);\n", ""),
    "chain_cut": (
        "a push forgets what was on the list",
        "    LW_LIST_STORE(LW_LIST_NEXT(last), LW_LIST_LOAD(head));\n",
        "    LW_LIST_STORE(LW_LIST_NEXT(last), 0);\n",
    ),
}
SEEN_BY_THE_STORM = ["no_abort", "held_not_seen", "list_left"]


def mutated(name: str, source: Path) -> str:
    text = source.read_text()
    _, original, replacement = MUTANTS[name]
    if original and text.count(original) != 1:
        raise SystemExit(
            f"mutants.py: {name}: its original text is in {source} {text.count(original)} times, "
            "not once"
        )
    return text.replace(original, replacement) if original else text


def write_all(source: Path, folder: Path) -> None:
    lines = ["// Made by mutants.py: every lock text in a namespace of its own."]
    for name in MUTANTS:
        (folder / f"{name}.h").write_text(mutated(name, source))
        lines += ["#undef LW_LOCK_SLEEPERS", f"namespace {name} {{", f'#include "{name}.h"', "}"]
    entries = [
        f'{{"{what}", {n}::own_cpu, {n}::unlock_word, {n}::push_owned, {n}::pop_owned, '
        f"{n}::take_owned}},"
        for n, (what, _, _) in MUTANTS.items()
    ]
    lines += ["#define LOCKS \\", *(f"    {entry} \\" for entry in entries), ""]
    (folder / "locks.h").write_text("\n".join(lines) + "\n")


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        print(";".join(SEEN_BY_THE_STORM), end="")
        return 0
    if len(arguments) != 3 or arguments[0] != "--all":
        print("usage: mutants.py --list | --all SOURCE FOLDER", file=sys.stderr)
        return 2
    write_all(Path(arguments[1]), Path(arguments[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
