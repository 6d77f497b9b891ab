"""Writes SRCU's step machine (src/srcu/gp.h) with one deliberate mistake in it; the interleaver and the tests must see
each.

usage: mutants.py --list            names of those that the directed cases of linewright-torture see, for CMake
       mutants.py NAME SOURCE TARGET       that mutant; as_it_is: the original
       mutants.py --all SOURCE FOLDER      every mutant, and machines.h, which includes them side by side
A mutant whose original text is not in the source exactly as often as said is an error: it must move with the code.
"""

import sys
from pathlib import Path

SECOND_SCAN = "    if (!gp_scan(d, LW_GP_INDEX(d) ^ 1, &error))\n        return -error;\n    LW_GP_POINT(END);\n"
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
            ("unsigned long unlocks = LW_GP_SUM_UNLOCKS", "unsigned long unlocks = LW_GP_SUM_LOCKS"),
            ("    if (LW_GP_SUM_LOCKS(d, index) != unlocks)\n        return false;\n", ""),
            ("unsigned long locks = LW_GP_SUM_LOCKS", "unsigned long locks = LW_GP_SUM_UNLOCKS"),
        ],
    ),
    "first_scan_only": ("first scan only", [(SECOND_SCAN, "    LW_GP_POINT(END);\n")]),
    "second_scan_only": ("second scan only", [(SCAN, "")]),
    "no_flip": ("no flip", [("        LW_GP_FLIP(d);\n", "        if (0)\n            LW_GP_FLIP(d);\n")]),
    "no_fence_before_the_cookie": ("no fence before the cookie", [("    LW_GP_FENCE();\n", "")]),
}
ONLY_BY_INTERLEAVING = {"as_it_is", "no_fence_before_the_cookie"}
"""One thread's accesses are reordered: only a machine that does so, or the interleaver, shows it."""


def mutated(name: str, source: Path) -> str:
    text = source.read_text()
    for original, replacement in MUTANTS[name][1]:
        if text.count(original) != 1:
            raise SystemExit(
                f"mutants.py: {name}: its original text is in {source} {text.count(original)} times, not once"
            )
        text = text.replace(original, replacement)
    return text


def write_all(source: Path, folder: Path) -> None:
    lines = ["// Made by mutants.py: every step machine in a namespace of its own."]
    for name in MUTANTS:
        (folder / f"{name}.h").write_text(mutated(name, source))
        lines += [f"namespace {name} {{", f'#include "{name}.h"', "}"]
    entries = [f'{{"{what}", {n}::gp_step, {n}::gp_cookie, {n}::gp_passed}},' for n, (what, _) in MUTANTS.items()]
    lines += ["#define MACHINES \\", *(f"    {entry} \\" for entry in entries), ""]
    (folder / "machines.h").write_text("\n".join(lines) + "\n")


def main(arguments: list[str]) -> int:
    if arguments == ["--list"]:
        print(";".join(name for name in MUTANTS if name not in ONLY_BY_INTERLEAVING), end="")
        return 0
    what, source, target = arguments
    if what == "--all":
        write_all(Path(source), Path(target))
    else:
        Path(target).write_text(mutated(what, Path(source)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
