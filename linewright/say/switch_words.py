# SPDX-License-Identifier: MIT
"""Why an already-built program will run unchanged, or may not start, in words."""

from __future__ import annotations

from linewright.trial.switching import TLS_TUNABLE, SwitchProblem

_TEXTS = {
    "libraries_missing": "not found, so their thread-local memory is not provided for: {what}",
    "no_tunable": f"{{where}} knows no {TLS_TUNABLE} (glibc before 2.33): the program may stop at "
    "its start with 'cannot allocate memory in static TLS block', first for {what}",
    "tunable_too_small": "GLIBC_TUNABLES gives {where} bytes of thread-local memory; this program "
    "may need {what}",
    "other_rights": "{where} takes other rights ({what}), so the dynamic linker ignores the "
    "setting: it runs unchanged",
    "32_bit": "{where} is a 32-bit program, which cannot load the 64-bit {what}: it runs unchanged",
    "not_arm64": "{where} is no arm64 program: it runs unchanged",
    "static": "{where} is statically linked, so nothing can be switched at run time: it runs "
    "unchanged",
    "no_locks": "neither {where} nor a library loaded with it calls pthread_rwlock_*: --locks "
    "changes nothing, but in what it opens or starts by itself",
    "unaudited": "{where} is made for {what}, whose dynamic linker knows no auditing: it runs "
    "unchanged",
}


def problem_text(problem: SwitchProblem) -> str:
    """What the user should read before the program starts."""
    return _TEXTS[problem.kind].format(where=problem.where, what=problem.what)
