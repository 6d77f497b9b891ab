"""The memory instructions of each form of one line, for the tests that look at timed loops in the probe and in the
kernel module."""

from __future__ import annotations

X86 = {
    "empty": [],
    "plain_add": ["add"],
    "lock_add": ["lock add"],
    "lock_xadd": ["lock xadd"],
    "cmpxchg_loop_guess_first": ["lock cmpxchg"],
    "cmpxchg_loop_read_first": ["mov", "lock cmpxchg"],
    "xchg": ["xchg"],
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
    "stadd": ["stadd"],
    "ldadd": ["ldadd"],
    "ldaddal": ["ldaddal"],
    "llsc_add": ["ldxr", "stxr"],
    "cas_loop_guess_first": ["cas"],
    "cas_loop_read_first": ["ldr", "cas"],
    "swp": ["swp"],
    "llsc_swp": ["ldxr", "stxr"],
    "llsc_fetch_add": ["ldxr", "stxr"],
    "llsc_cas_loop_read_first": ["ldr", "ldxr", "stxr"],
    "ldr_read": ["ldr"],
    "builtin_add": ["ldxr", "stxr"],
    "builtin_fetch_add": ["ldaxr", "stlxr"],
    "builtin_cmpxchg_loop_read_first": ["ldr", "ldaxr", "stlxr"],
    "builtin_xchg": ["ldaxr", "stlxr"],
    "builtin_read": ["ldr"],
}
PREFETCHES = {"prefetchw_": "prefetchw", "prfm_keep_": "prfm pstl1keep", "prfm_strm_": "prfm pstl1strm"}


def expected(arch: str, form: str) -> list[str]:
    """Memory instructions of a form, in program order; a prefetching form is its prefetch, then the plain one's."""
    for prefix, instruction in PREFETCHES.items():
        if form.startswith(prefix):
            return [instruction, *expected(arch, form.removeprefix(prefix))]
    return (ARM64 if arch == "arm64" else X86)[form]
