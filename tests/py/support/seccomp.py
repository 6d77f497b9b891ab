# SPDX-License-Identifier: MIT
"""System calls refused as containers and services refuse them: filters from the profiles that
Debian's packages hold."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from ctypes.util import find_library
from pathlib import Path

CONTAINERS = Path("/usr/share/containers/seccomp.json")
"""The default profile of Docker's successors, made from Docker's own; package
golang-github-containers-common."""
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
UNKNOWN = -1
OPERATORS = {
    "SCMP_CMP_NE": 1,
    "SCMP_CMP_LT": 2,
    "SCMP_CMP_LE": 3,
    "SCMP_CMP_EQ": 4,
    "SCMP_CMP_GE": 5,
    "SCMP_CMP_GT": 6,
    "SCMP_CMP_MASKED_EQ": 7,
}
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Argument(ctypes.Structure):
    """`struct scmp_arg_cmp` of <seccomp.h>."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


Rule = tuple[int, str, list[Argument]]
"""Action, name of the system call, and what its arguments must be."""


def _library() -> ctypes.CDLL | None:
    name = find_library("seccomp")
    return ctypes.CDLL(name) if name else None


def refusing(*names: str) -> Callable[[], None]:
    """For a child: these system calls fail with EPERM, all others are allowed."""
    return _filter(ALLOW, [(ERRNO | errno.EPERM, name, []) for name in names])


def containers() -> Callable[[], None]:
    """For a child: the profile of a container without capabilities."""
    profile = json.loads(CONTAINERS.read_text())
    return _filter(
        _action(profile["defaultAction"], profile.get("defaultErrnoRet")),
        list(_of_profile(profile)),
    )


def _of_profile(profile: dict) -> Iterator[Rule]:
    here = ARCHITECTURES[os.uname().machine]
    for group in profile["syscalls"]:
        wanted, unwanted = group.get("includes") or {}, group.get("excludes") or {}
        if (
            wanted.get("caps")
            or here not in wanted.get("arches", [here])
            or here in unwanted.get("arches", [])
        ):
            continue
        tests = [
            Argument(a["index"], OPERATORS[a["op"]], a["value"], a["valueTwo"])
            for a in group.get("args") or []
        ]
        for name in group["names"]:
            yield _action(group["action"], group.get("errnoRet")), name, tests


def _action(name: str, number: int | None) -> int:
    return (
        ALLOW if name == "SCMP_ACT_ALLOW" else ERRNO | (errno.EPERM if number is None else number)
    )


def service() -> Callable[[], None]:
    """For a child: SystemCallFilter=@system-service of a unit, what is not in it refused with
    EPERM."""
    return _filter(
        ERRNO | errno.EPERM, [(ALLOW, name, []) for name in sorted(_members("@system-service"))]
    )


def _members(group: str) -> set[str]:
    """System calls of a group of systemd's, and of the groups in it."""
    done = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True
    )
    words = [line.strip() for line in done.stdout.splitlines()[1:]]
    found = {word for word in words if word and not word.startswith(("#", "@"))}
    return found.union(*(_members(word) for word in words if word.startswith("@")))


def missing() -> str:
    """What is not installed of what the profiles need; empty where all is."""
    if _library() is None:
        return "libseccomp2"
    if not CONTAINERS.exists():
        return "golang-github-containers-common"
    return "" if shutil.which("systemd-analyze") else "systemd"


def _filter(default: int, rules: list[Rule]) -> Callable[[], None]:
    """Built here, before the fork; the child only loads it. System calls that this kernel's library
    does not know are left out."""
    library = _library()
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(default))
    for action, name, tests in rules:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number == UNKNOWN or action == default:
            continue
        array = (Argument * len(tests))(*tests)
        failed = library.seccomp_rule_add_array(context, action, number, len(tests), array)
        assert failed == 0, (name, os.strerror(-failed))

    def load() -> None:
        failed = library.seccomp_load(context)
        assert failed == 0, os.strerror(-failed)

    return load
