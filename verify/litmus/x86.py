# SPDX-License-Identifier: MIT
"""Every execution of an x86 litmus test, on the abstract machine x86-TSO.

The machine is that of Sewell, Sarkar, Owens, Zappa Nardelli and Myreen (CACM 53(7), 2010): memory,
and for each thread a queue of its stores, oldest first. A load takes its thread's newest queued
store to the word, else memory. A queue's oldest store reaches memory at any time. A locked
instruction and MFENCE wait for the own queue to be empty; a locked one acts on memory."""

from __future__ import annotations

import re

from litmus import Litmus


def allowed(test: Litmus) -> bool:
    """Whether some execution ends in the state that the test asks for."""
    memory = tuple((v, 0) for v in test.variables)
    start = (
        memory,
        tuple((0, (), ()) for _ in test.threads),
    )  # per thread: position, registers, queue
    seen, todo = {start}, [start]
    while todo:
        state = todo.pop()
        followers = list(_followers(test, state))
        if not followers and _final(test, state):
            return True
        for follower in followers:
            if follower not in seen:
                seen.add(follower)
                todo.append(follower)
    return False


def _followers(test: Litmus, state):
    _memory, threads = state
    for number, (position, registers, queue) in enumerate(threads):
        if queue:
            (variable, value), *rest = queue
            yield _with(state, number, position, registers, tuple(rest), {variable: value})
        if position < len(test.threads[number]):
            yield from _step(state, number, test.threads[number][position])


def _step(state, number: int, instruction: str):
    memory, threads = state
    position, registers, queue = threads[number]
    values = dict(memory) | dict(queue)  # the newest store of a word comes last
    locked = instruction.startswith("lock ")
    if (locked or instruction == "mfence") and queue:
        return
    if instruction == "mfence":
        yield _with(state, number, position + 1, registers, queue)
    elif store := re.fullmatch(r"(?:lock )?(movq|addq) \$(\d+),\[([a-z])\]", instruction):
        value = int(store[2]) + (values[store[3]] if store[1] == "addq" else 0)
        if locked:
            yield _with(state, number, position + 1, registers, queue, {store[3]: value})
        else:
            yield _with(state, number, position + 1, registers, (*queue, (store[3], value)))
    elif load := re.fullmatch(r"movq \[([a-z])\],%(r[a-d]x)", instruction):
        loaded = tuple(sorted((dict(registers) | {load[2]: values[load[1]]}).items()))
        yield _with(state, number, position + 1, loaded, queue)


def _with(state, number, position, registers, queue, stored=None):
    memory, threads = state
    changed = tuple((v, (stored or {}).get(v, value)) for v, value in memory)
    return changed, (*threads[:number], (position, registers, queue), *threads[number + 1 :])


def _final(test: Litmus, state) -> bool:
    memory, threads = state
    for left, wanted in test.condition:
        thread, _, register = left.rpartition(":")
        found = dict(threads[int(thread)][1])[register] if thread else dict(memory)[left]
        if found != wanted:
            return False
    return True
