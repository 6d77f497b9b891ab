"""Where draws and fits run: on processes of this machine, or on those of a Dask cluster."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor

from linewright.errors import UserError


def executor(jobs: int | None, scheduler: str | None, *, programs: bool = False) -> Executor:
    """What runs `jobs` tasks at once (default: one a CPU), or as many as the cluster behind a
    scheduler's address has.

    `programs`: the tasks wait for programs that they start, so that threads of this process do for
    them."""
    if scheduler is None:
        kind = ThreadPoolExecutor if programs else ProcessPoolExecutor
        return kind(jobs or os.cpu_count())
    from distributed import Client

    try:
        return Client(scheduler, timeout="10s").get_executor()
    except (OSError, ValueError, TimeoutError) as error:
        allowed = "the address that dask scheduler prints"
        raise UserError(f"no scheduler answers: {error}", "--set scheduler", allowed) from None
