"""Where draws and fits run: on threads of this machine, or on a Dask cluster."""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor

from linewright.errors import UserError

ANSWER_S = 10
"""A scheduler that does not answer meanwhile is none."""


def executor(scheduler: str | None) -> Executor:
    """What runs a task on each CPU, or as many at once as the cluster behind a scheduler's address
    has; tasks wait for programs that they start, so that threads of this process do for them."""
    if scheduler is None:
        return ThreadPoolExecutor(os.cpu_count())
    from distributed import Client

    try:
        return Client(scheduler, timeout=ANSWER_S).get_executor()
    except (OSError, ValueError, TimeoutError) as error:
        allowed = "the address that dask scheduler prints"
        raise UserError(f"no scheduler answers: {error}", "--set scheduler", allowed) from None
