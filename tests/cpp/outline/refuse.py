# SPDX-License-Identifier: MIT
"""refuse.py SYSCALL PROGRAM …: runs a program under a filter that answers one system call of this
machine with EPERM."""

import ctypes
import errno
import os
import platform
import struct
import sys

NUMBERS = {
    "x86_64": {"pwrite64": 18, "membarrier": 324},
    "aarch64": {"pwrite64": 68, "membarrier": 283},
}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD_WORD, JUMP_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000

number = NUMBERS[platform.machine()][sys.argv[1]]
filters = b"".join(
    struct.pack("=HBBI", *instruction)
    for instruction in (
        (LOAD_WORD, 0, 0, 0),  # the system call's number is the first word of what a filter sees
        (JUMP_EQUAL, 0, 1, number),
        (RETURN, 0, 0, ERRNO | errno.EPERM),
        (RETURN, 0, 0, ALLOW),
    )
)


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]


libc = ctypes.CDLL(None, use_errno=True)
program = Program(len(filters) // 8, filters)
if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(
    PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0
):
    sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
os.execvp(sys.argv[2], sys.argv[2:])
