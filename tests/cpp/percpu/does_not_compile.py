# SPDX-License-Identifier: MIT
"""Combinations that are not supported are errors of the compiler, not surprises at run time.

    does_not_compile.py INCLUDE SCRATCH CC CXX      compilers with their flags, a word each

Every line is a function of its own; those of one header that compile are one file, which shows that
the others, in a second file, fail for their own reason."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HEADERS = ("atomic", "cache", "percpu", "policy", "rwlock", "srcu", "wide")
PARTS = ("atomic_ref", "percpu_counter", "rwlock_mark", "rwlock_mutex", "srcu_guard")
"""What belongs to one of them, and may be included by its own name."""
# By header: what compiles, and what does not, with the message that it fails with.
RIGHT = {
    "percpu": [
        "lw_this_cpu_add((uint64_t *)p, 1)",
        "lw_this_cpu_xchg((uint8_t *)p, 1)",
        "lw_this_cpu_xchg((void **)p, p)",
    ],
    "srcu": [],
}
WRONG = {
    "percpu": [
        ("lw_this_cpu_add((uint8_t *)p, 1)", ""),
        ("lw_this_cpu_add((uint16_t *)p, 1)", ""),
        ("lw_this_cpu_inc((int *)p)", ""),
        ("lw_this_cpu_inc((float *)p)", ""),
        ("lw_this_cpu_inc((void **)p)", ""),
        ("lw_this_cpu_inc(p)", ""),
        ("(void)lw_percpu_sum((uint16_t *)p)", ""),
        ("lw_this_cpu_write((double *)p, 1)", ""),
        ("lw_this_cpu_or((void **)p, p)", ""),
        ("(void)lw_this_cpu_fetch_add((void **)p, 1)", ""),
        ("(void)lw_this_cpu_xchg((_Bool *)p, 1)", ""),
        ("(void)lw_this_cpu_xchg((__int128 *)p, 1)", ""),
        ("lw_this_cpu_write((const uint32_t *)p, 1)", ""),
    ],
    "srcu": [
        ("if (lw_srcu_synchronize((int *)p)) return", ""),
        # The common part has no flavour.
        ("if (lw_srcu_init((struct lw_srcu *)p)) return", ""),
        ("(void)lw_srcu_read_lock_fast((struct lw_srcu *)p).pair", ""),
    ],
}
# SRCU: updaters take every flavour's domains, each flavour's readers those of their own flavour.
UPDATERS = (
    "cleanup(D)",
    "synchronize(D)",
    "synchronize_expedited(D)",
    "synchronize_timeout(D, 1)",
    "barrier(D)",
    "cond_synchronize(D, 2)",
    "get_state(D)",
    "poll(D, 2)",
    "start_poll(D)",
    "describe(D, 0, 0)",
    "on_stall(D, 1, 0, 0)",
    "forget_readers(D)",
    "cleanup_idle(D)",
    "read_lock_held(D)",
    "call(D, (struct lw_srcu_head *)p, 0)",
)
READERS = {
    "normal": ("read_lock", "read_unlock"),
    "fast": ("read_lock_fast", "read_unlock_fast"),
    "fast_updown": ("down_read_fast", "up_read_fast"),
}
for flavour in ("", *(f"_{name}" for name in READERS)):
    domain = f"(struct lw_srcu{flavour} *)p"
    RIGHT["srcu"] += [f"if (lw_srcu_{u.replace('(D', f'({domain}')}) return" for u in UPDATERS]
for name, (lock, unlock) in READERS.items():
    domain = f"(struct lw_srcu_{name} *)p"
    RIGHT["srcu"].append(
        f"if (lw_srcu_init({domain})) return; lw_srcu_{unlock}({domain}, lw_srcu_{lock}({domain}))"
    )
    for other in (other for other in READERS if other != name):
        message = rf"(onver|eneric).*lw_srcu_{other} ?[*]|lw_srcu_{other} ?[*].*compatible"
        domain = f"(struct lw_srcu_{other} *)p"
        WRONG["srcu"] += [
            (f"(void)lw_srcu_{lock}({domain}).pair", message),
            (f"lw_srcu_index i = {{0, 0}}; lw_srcu_{unlock}({domain}, i)", message),
        ]
# Programs that forbid themselves casts of C's may include every header.
CASTS = """LW_DEFINE_STATIC_PERCPU(unsigned, defined);
unsigned f();
unsigned f()
{
    unsigned *copy;
    lw_percpu_for_each(copy, defined) *copy = 1;
    lw_this_cpu_inc(defined);
    return lw_this_cpu_xchg(defined, 2u);
}
"""
STRICT = [
    "-std=c++17",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wold-style-cast",
    "-Wconversion",
    "-Wsign-conversion",
    "-Wshadow",
    "-Wcast-align",
    "-Wcast-qual",
    "-Wswitch-enum",
    "-Wundef",
    "-Wzero-as-null-pointer-constant",
    "-Werror",
    "-fsyntax-only",
]
OF_GCC = ["-Wuseless-cast"]
BARE = ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-Wall", "-Werror", "-fsyntax-only"]
C_ALONE = ["-std=c++17", "-DLW_C_API", "-nostdinc++", "-Wall", "-Werror", "-fsyntax-only"]
"""The C API in C++: without a single header of the C++ library."""
# The other dialect of assembly. Compilers for other architectures do not know the option.
INTEL = r"AT&T syntax; compile this file without -masm=intel|unrecognized|unknown argument"
CONTEXT = re.compile(r"^In file included from|^\S+: In |required from|^ +from ")


def compiled(command: list[str], file: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What a compiler answers to a text, in English and without colours."""
    file.write_text(text)
    environment = os.environ | {"LC_ALL": "C", "GCC_COLORS": ""}
    return subprocess.run([*command, file], capture_output=True, text=True, env=environment)


def failures(errors: str, file: str) -> dict[int, str]:
    """What is said of each line of a file that an error is about, its context included."""
    groups: list[list[str]] = [[]]
    for line in errors.splitlines():
        begun = any(" error: " in other for other in groups[-1])
        if begun and (" error: " in line or CONTEXT.search(line)):
            groups.append([])
        groups[-1].append(line)
    said: dict[int, str] = {}
    for text in ("\n".join(group) for group in groups):
        if " error: " in text:
            for number in {int(n) for n in re.findall(rf"{re.escape(file)}:(\d+):", text)}:
                said[number] = said.get(number, "") + text
    return said


def functions(header: str, codes: list[str]) -> str:
    """One function for each code, a line each, from the second one on."""
    lines = [
        f"void f{n}(void *p); void f{n}(void *p) {{ {code}; }}" for n, code in enumerate(codes)
    ]
    return "\n".join([f"#include <linewright/{header}.h>", *lines, ""])


def complaints(header: str, compiler: list[str], ending: str, scratch: Path) -> list[str]:
    """What is wrong with the lines of a header in one language."""
    right, wrong = (scratch / f"{header}_{what}.{ending}" for what in ("right", "wrong"))
    done = compiled(compiler, right, functions(header, RIGHT[header]))
    found = [f"should compile and does not:\n{done.stderr}"] if done.returncode else []
    done = compiled(compiler, wrong, functions(header, [code for code, _ in WRONG[header]]))
    said = failures(done.stderr, str(wrong))
    for number, (code, message) in enumerate(WRONG[header], 2):
        if number not in said:
            found.append(f"compiles and should not ({ending}): {code}")
        elif not re.search(message, said[number]):
            found.append(f"fails without the message {message!r}: {code}\n{said[number]}")
    return found


def strict(header: str, cxx: list[str], scratch: Path) -> list[str]:
    """What a strict C++ compiler finds in a header."""
    text = f"#include <linewright/{header}.h>\n" + (CASTS if header == "percpu" else "")
    words = [*STRICT, *OF_GCC] if is_gcc(cxx) else STRICT
    done = compiled([*cxx, *words], scratch / f"{header}_casts.cpp", text)
    return [f"{header}.h warns in C++:\n{done.stderr}"] if done.returncode else []


def is_gcc(compiler: list[str]) -> bool:
    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True)
    return "clang" not in version.stdout


def alone(header: str, compiler: list[str], scratch: Path, ending: str = "cpp") -> list[str]:
    """Whether a header compiles as all that a file includes."""
    name = re.sub(r"\W", "", "".join(compiler[-6:]))
    text = f"#include <linewright/{header}.h>\n"
    done = compiled(compiler, scratch / f"{header}_{name}.{ending}", text)
    words = shlex.join(compiler)
    return [f"{header}.h alone, {words}:\n{done.stderr}"] if done.returncode else []


def intel(cc: list[str], scratch: Path) -> list[str]:
    """Whether -masm=intel is refused with a reason."""
    command = [*cc, "-masm=intel", "-o", str(scratch / "intel.o"), "-c"]
    done = compiled(command, scratch / "intel.c", "#include <linewright/percpu.h>\n")
    if re.search(INTEL, done.stderr):
        return []
    return [f"-masm=intel is not refused with a reason:\n{done.stderr}"]


def main() -> int:
    """Print what is wrong; 1 when anything is."""
    include, scratch = map(Path, sys.argv[1:3])
    cc, cxx = ([*shlex.split(words), f"-I{include}"] for words in sys.argv[3:5])
    scratch.mkdir(exist_ok=True)
    languages = (([*cc, "-std=c11"], "c"), ([*cxx, "-std=c++17"], "cpp"))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        jobs = [
            pool.submit(complaints, header, [*compiler, "-fsyntax-only"], ending, scratch)
            for header in RIGHT
            for compiler, ending in languages
        ]
        jobs += [pool.submit(strict, header, cxx, scratch) for header in HEADERS]
        for header in HEADERS + PARTS:
            jobs.append(pool.submit(alone, header, [*cxx, *BARE], scratch))
            jobs.append(pool.submit(alone, header, [*cc, "-Werror", "-fsyntax-only"], scratch, "c"))
        jobs += [pool.submit(alone, header, [*cxx, *C_ALONE], scratch) for header in HEADERS]
        jobs.append(pool.submit(intel, cc, scratch))
        found = [complaint for job in jobs for complaint in job.result()]
    print(*found, sep="\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
