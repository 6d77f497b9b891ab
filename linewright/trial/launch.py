"""Starts one program and reports what it took; run as a script of its own, standard library only.

Linux keeps a process's largest resident memory across exec.  A program started by the command itself would therefore
never show less than Python with its numerical libraries.  This script is small, and the process that it starts has its
own high-water mark.  The script's processor time is not counted as the program's.

Arguments: file descriptor for the report, changes to the environment as JSON, program, its arguments from argv[0] on.
Report: one JSON object, {"errno"} or {"status", "wall_s", "cpu_s", "maxrss_bytes"}.
"""

import json
import os
import signal
import sys
import time


def given() -> dict:
    """The environment without the LC_CTYPE that Python itself writes into it in the C locale (PEP 538)."""
    with open("/proc/self/environ", "rb") as file:
        words = os.fsdecode(file.read()).split("\0")
    return dict(word.split("=", 1) for word in words if "=" in word)


def main() -> None:
    report = int(sys.argv[1])
    os.set_inheritable(report, False)
    environment = {**given(), **json.loads(sys.argv[2])}
    # Signals that end the program must not end this process, which reports them.  The program does not inherit the
    # signals that Python ignores, but it does inherit an ignored hangup (nohup).
    hangup = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    changed = (signal.SIGTERM, signal.SIGINT, *hangup)
    for number in changed:
        signal.signal(number, signal.SIG_IGN)
    started = time.perf_counter()
    try:
        child = os.posix_spawn(
            sys.argv[3], sys.argv[4:], environment, setsigdef=(*changed, signal.SIGPIPE, signal.SIGXFSZ)
        )
    except OSError as error:
        os.write(report, json.dumps({"errno": error.errno}).encode())
        return
    _, status, usage = os.wait4(child, 0)
    wall_s = time.perf_counter() - started
    answer = {
        "status": status,
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "maxrss_bytes": usage.ru_maxrss * 1024,
    }
    os.write(report, json.dumps(answer).encode())


if __name__ == "__main__":
    main()
