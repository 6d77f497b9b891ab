# SPDX-License-Identifier: MIT
"""The memory instructions of each form of one line, for the tests that look at timed loops in the
probe and in the kernel module."""

from __future__ import annotations

from linewright.forms import made_of

X86 = {
    "empty": [],
    "plain_add": ["add"],
    "mov_read": ["mov"],
    "builtin_add": ["lock add"],
    "builtin_fetch_add": ["lock xadd"],
    "builtin_cmpxchg_loop_read_first": ["mov", "lock cmpxchg"],
    "builtin_xchg": ["xchg"],
    "builtin_read": ["mov"],
}
ARM64 = {
    "empty": [],
    "plain_add": ["ldr", "str"],
    "ldr_read": ["ldr"],
    "builtin_add": ["ldxr", "stxr"],
    "builtin_fetch_add": ["ldaxr", "stlxr"],
    "builtin_cmpxchg_loop_read_first": ["ldr", "ldaxr", "stlxr"],
    "builtin_xchg": ["ldaxr", "stlxr"],
    "builtin_read": ["ldr"],
}
"""Forms of which the form table does not say what they are made of: of the others the loop is held
to what it says."""
PREFETCH_INSTRUCTIONS = {
    "prefetchw": "prefetchw",
    "prfm_keep": "prfm pstl1keep",
    "prfm_strm": "prfm pstl1strm",
}


def expected(arch: str, form: str) -> list[str]:
    """Memory instructions of a form, in program order; a prefetching form is its prefetch, then the
    plain one's."""
    made, others = made_of(form), ARM64 if arch == "arm64" else X86
    if made.prefetch:
        return [PREFETCH_INSTRUCTIONS[made.prefetch], *expected(arch, made.base)]
    if form in others:
        return others[form]
    load, swap = ("ldr", "cas") if arch == "arm64" else ("mov", "lock cmpxchg")
    atomic = ["ldxr", "stxr"] if made.exclusive else [swap] if made.loop else []
    found = [load, *atomic] if made.loop == "read_first" else atomic
    assert found or made.instruction, f"{form}: its row does not say what it is made of"
    return found or [made.instruction.lower()]
