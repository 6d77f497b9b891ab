# SPDX-License-Identifier: MIT
"""Workers of a Dask cluster as other machines, ``--on dask:WORKER``: a command there with its
streams here, as ssh has it.

`python -m linewright.fleet.dask_transport SCHEDULER WORKER COMMAND…` takes the place of ssh's
program. A worker needs nothing but Dask: what runs there is sent along.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from linewright.errors import UserError, one_line
from linewright.run.transport import Transport
from linewright.wings import need_extra

LOST = 255
"""Exit code where no worker is reached, or it is lost; ssh's own."""
UNREACHED = ("no scheduler at ", "no worker of ", "the worker is gone")
"""How the line begins that says why."""
SHORTEST_S, LONGEST_S = 0.02, 1.0
"""Times between two looks at what a command has written: they grow while it writes nothing."""
SILENT_S = 30.0
"""A command whose output is not asked for in so long is ended by the worker."""
MOST = 1 << 20
"""Bytes of a stream that one look brings."""


class DaskTransport(Transport):
    """A worker, by its name, host or address, of the scheduler that Dask's configuration names
    (``DASK_SCHEDULER_ADDRESS``); how long it is asked is that configuration's, too
    (``DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT``)."""

    may_emulate = False

    def __init__(self, worker: str) -> None:
        need_extra("fleet", "--on dask:WORKER")
        import dask.config

        scheduler = dask.config.get("scheduler-address", None)
        if not scheduler or not worker:
            what = "no scheduler named" if worker else "no worker named"
            allowed = "a worker's name, host or address; DASK_SCHEDULER_ADDRESS=tcp://HOST:8786"
            raise UserError(what, "--on dask:WORKER", allowed)
        self.name = f"dask:{worker}"
        self.words = [sys.executable, "-m", __name__, scheduler, worker]

    def reason(self, said: str) -> str:
        return next((why for why in said.splitlines() if why.startswith(UNREACHED)), "")


# ---- what runs on a worker: run as a program, this module's functions are sent by value ----------


def begin(token: str, command: list[str], silent_s: float, dask_worker: Any) -> None:
    """Start a command; its input comes, and its output goes, by `exchange`."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    for stream in (process.stdout, process.stderr):
        os.set_blocking(stream.fileno(), False)
    run = {"process": process, "input": queue.SimpleQueue(), "heard": time.monotonic()}
    vars(dask_worker).setdefault("linewright_runs", {})[token] = run

    def feed() -> None:
        """Hand on what comes; the end of the input asks the command to end."""
        left = silent_s
        with contextlib.suppress(OSError, queue.Empty):
            while (data := run["input"].get(timeout=left)) is not None:
                process.stdin.write(data)
                process.stdin.flush()
                left = silent_s
        with contextlib.suppress(OSError):
            process.stdin.close()
        while process.poll() is None:
            time.sleep(1)
            if time.monotonic() - run["heard"] > 2 * silent_s:
                os.killpg(process.pid, 9)

    threading.Thread(target=feed, daemon=True).start()


def exchange(
    token: str, data: bytes, over: bool, dask_worker: Any
) -> tuple[bytes, bytes, int | None]:
    """Give a command input, or its end; what it has written since, and at its end its exit
    code."""
    runs = vars(dask_worker)["linewright_runs"]
    run = runs[token]
    run["heard"] = time.monotonic()
    run["input"].put(data)
    if over:
        run["input"].put(None)
    said, ended = [b"", b""], True
    for number, stream in enumerate((run["process"].stdout, run["process"].stderr)):
        try:
            said[number] = os.read(stream.fileno(), MOST)
            ended = ended and not said[number]
        except BlockingIOError:
            ended = False
    code = run["process"].poll() if ended else None
    if code is not None:
        del runs[token]
    return said[0], said[1], code


# ---- the program that takes ssh's place ----------------------------------------------------------


def main(scheduler: str, worker: str, *command: str) -> int:
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its end is said in one line
    try:
        client = Client(scheduler, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        return _lost(f"no scheduler at {scheduler}: {one_line(str(error))}")
    try:
        address = address_of(client, worker)
        if address is None:
            return _lost(f"no worker of this name or host at {scheduler}")
        return _bridge(client, address, list(command))
    except (OSError, TimeoutError, LookupError):
        return _lost("the worker is gone")
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(timeout=5)


def _lost(why: str) -> int:
    print(why, file=sys.stderr)
    return LOST


def address_of(client: Any, worker: str) -> str | None:
    """The address of the worker of this name, host or address."""
    for address, about in client.scheduler_info(n_workers=-1)["workers"].items():
        if worker in (address, address.partition("://")[2], str(about["name"]), about["host"]):
            return address
    return None


def _bridge(client: Any, address: str, command: list[str]) -> int:
    """Run a command on a worker with this process's streams; its exit code."""
    given: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):  # the end of the input, too
        signal.signal(number, lambda number, frame: given.put(b""))
    token = secrets.token_hex(8)

    def ask(function: Callable[..., Any], *words: Any) -> Any:
        return client.run(function, token, *words, workers=[address])[address]

    ask(begin, command, SILENT_S)
    threading.Thread(target=_read, args=(given,), daemon=True).start()
    wait, over = SHORTEST_S, False
    while True:
        data = None
        with contextlib.suppress(queue.Empty):
            data = given.get(timeout=wait)
        out, errors, code = ask(exchange, data or b"", data == b"" and not over)
        over = over or data == b""
        for stream, text in ((sys.stdout.buffer, out), (sys.stderr.buffer, errors)):
            stream.write(text)
            stream.flush()
        if code is not None:
            return code if code >= 0 else 128 - code
        wait = SHORTEST_S if data or out or errors else min(LONGEST_S, 1.5 * wait)


def _read(given: queue.SimpleQueue[bytes]) -> None:
    """Hand on this process's input, and an empty piece at its end."""
    data = b"-"
    while data:
        data = os.read(0, MOST)
        given.put(data)


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # what Dask does at the end of a client that never connected takes 40 s
