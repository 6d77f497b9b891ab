# SPDX-License-Identifier: MIT
"""Callers without the headers: the shared library has every function that a public header defines,
and what Python's ctypes calls does what it says.

    every_function.py INCLUDE LIBRARY CC      a compiler with its flags, a word each"""

from __future__ import annotations

import ctypes
import re
import shlex
import subprocess
import sys
import threading
from pathlib import Path

HEADERS = ("atomic", "cache", "percpu", "policy", "rwlock", "slice", "srcu", "wait", "wide")
PRIVATE = re.compile(r"lw_(_|arch_|u128_)")
"""How the names begin of what no program calls."""
MARKER = re.compile(r'^# \d+ "([^"]+)"')
DEFINED = re.compile(r"\bstatic\b[^;{}()=]*?\b(lw_\w+) ?\([^;{}]*\)\s*\{")


def defined(include: Path, cc: list[str]) -> set[str]:
    """The functions that the public headers define, as the compiler sees them."""
    text = "".join(f"#include <linewright/{header}.h>\n" for header in HEADERS)
    words = [*cc, f"-I{include}", "-E", "-DLW_SRCU_LIBRARY", "-D__attribute__(x)=", "-x", "c", "-"]
    seen = subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"\b(lw_xchg_u\d+) ?\(", seen))  # a form in arch/x86, and an operation
    public, keep = "", False
    for line in seen.splitlines():
        if marker := MARKER.match(line):
            keep = Path(marker[1]).resolve().parent == (include / "linewright").resolve()
        elif keep:
            public += line + "\n"
    names.update(DEFINED.findall(public))
    return {name for name in names if not PRIVATE.match(name)}


class Lock(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint32 * 5)]


class Domain(ctypes.Structure):
    _fields_ = [("words", ctypes.c_void_p * 4)]


class Index(ctypes.Structure):
    _fields_ = [("pair", ctypes.c_size_t), ("ticket", ctypes.c_size_t)]


def rwlock(library: ctypes.CDLL) -> None:
    lock = Lock()
    at = ctypes.byref(lock)
    assert library.lw_rwlock_read_lock(at) == 0
    answers = []
    other = threading.Thread(target=lambda: answers.append(library.lw_rwlock_try_write(at)))
    other.start()
    other.join()
    assert answers == [-16], "a writer beside a reader"
    assert library.lw_rwlock_read_unlock(at) == 0
    assert library.lw_rwlock_write_lock(at) == 0
    assert library.lw_rwlock_try_read(at) == -16
    assert library.lw_rwlock_write_unlock(at) == 0
    assert library.lw_rwlock_read_unlock(at) == -1, "released once too often"
    for _ in range(1000):  # also where it is biased
        assert library.lw_rwlock_read_lock(at) == 0 == library.lw_rwlock_read_unlock(at)
    assert library.lw_rwlock_destroy(at) == 0


def srcu(library: ctypes.CDLL) -> None:
    library.lw_srcu_read_lock_fast.restype = Index
    library.lw_srcu_read_unlock_fast.argtypes = [ctypes.c_void_p, Index]
    domain = Domain()
    at = ctypes.byref(domain)
    assert library.lw_srcu_init_fast(at) == 0
    index = library.lw_srcu_read_lock_fast(at)
    assert library.lw_srcu_cleanup(at) == -16, "a reader is inside"
    library.lw_srcu_read_unlock_fast(at, index)
    assert library.lw_srcu_synchronize(at) == 0
    assert library.lw_srcu_cleanup(at) == 0


def percpu(library: ctypes.CDLL) -> None:
    library.lw_percpu_alloc.restype = ctypes.c_void_p
    library.lw_percpu_sum_u64.restype = ctypes.c_uint64
    handle = ctypes.c_void_p(library.lw_percpu_alloc(ctypes.c_size_t(8), ctypes.c_size_t(8)))
    for _ in range(100):
        library.lw_this_cpu_add_u64(handle, ctypes.c_uint64(3))
    assert library.lw_percpu_sum_u64(handle) == 300
    assert library.lw_percpu_free(handle) == 0


def atomic(library: ctypes.CDLL) -> None:
    word = ctypes.c_uint32(40)
    assert library.lw_fetch_add_u32(ctypes.byref(word), ctypes.c_uint32(2)) == 40
    assert library.lw_xchg_u32(ctypes.byref(word), ctypes.c_uint32(7)) == 42
    assert word.value == 7


def main() -> int:
    """Print what is missing; 1 when anything is."""
    include, library, cc = Path(sys.argv[1]), ctypes.CDLL(sys.argv[2]), shlex.split(sys.argv[3])
    names = defined(include, cc)
    missing = sorted(name for name in names if not hasattr(library, name))
    for name in missing:
        print(f"{name} is defined in a header, and no function of the library")
    kinds = ("lw_rwlock_", "lw_srcu_", "lw_this_cpu_", "lw_percpu_", "lw_counter_", "lw_fetch_")
    unseen = [kind for kind in kinds if not any(name.startswith(kind) for name in names)]
    assert not unseen and "lw_read_u32" in names, f"nothing was found of {unseen}"
    for check in (rwlock, srcu, percpu, atomic):
        check(library)
    print(f"{len(names)} functions")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
