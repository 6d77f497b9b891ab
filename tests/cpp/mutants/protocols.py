# SPDX-License-Identifier: MIT
"""Steps of the shipped text that are left out, swapped or changed, and the scenario of
tests/cpp/rc11 that must catch each."""

from typing import NamedTuple


class Protocol(NamedTuple):
    """A mutant: in a file stands for each of `changes` the second text instead of the first."""

    room: str
    file: str
    name: str
    changes: list[tuple[str, str]]
    scenario: str


SLICES = "time slices: two writers, the setting changes"
POLLED = "cleanup: a step that a poll asked for"
PROTOCOLS = [
    Protocol(
        "rwlock",
        "src/rwlock/quick.h",
        "a release ends no section",
        [
            (
                "        return false;\n    __atomic_store_n(&l->writer",
                "        ;\n    __atomic_store_n(&l->writer",
            )
        ],
        SLICES,
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "a writer that becomes a reader goes on asking",
        [("    if (__builtin_expect(lw__rw_own.sections, 0))\n        end_section();\n", "")],
        SLICES,
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "a release ends a section that it did not begin",
        [("return quick_write_unlock(l) ? 0 : unlock_section(l);", "return unlock_section(l);")],
        SLICES,
    ),
    Protocol(
        "rwlock",
        "src/rwlock/quick.h",
        "held is not lowered",
        [("        lw__rw_own.held = last;\n", "        ;\n")],
        "plain: a thread that held the lock, a writer that waits",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "a refused barrier taken for one",
        [("!sure;", "false;"), ("sure ? limit : &brief", "limit")],
        "biased: reader, writer that is refused membarrier later",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "destroy looks at no mark",
        [("return is_seen_marked(l) ? -EBUSY : 0;", "return 0;")],
        "biased: last reader, destroy",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "writers that wait for a mark sleep on a flag",
        [("&turn, turn + 1, true", "&turn, turn - 1, true")],
        "biased: a reader goes out, two writers wait for it",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "a writer says that it sleeps after the barrier",
        [
            ("    uint32_t turn = __atomic_fetch_or(&t->waited, 1, __ATOMIC_RELAXED) | 1;\n", ""),
            (
                "    bool sure = !barrier_in_every_thread();\n",
                "    bool sure = !barrier_in_every_thread();\n"
                "    uint32_t turn = __atomic_fetch_or(&t->waited, 1, __ATOMIC_RELAXED) | 1;\n",
            ),
        ],
        "biased: reader, writer",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/marks.c",
        "a child gives its own marks back",
        [("if (t != lw__rw_self && t->used)", "if (t->used)")],
        "fork inside, a thread of the child",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "stay_plain is ignored",
        [(" || __atomic_load_n(&stay_plain, __ATOMIC_RELAXED))", ")")],
        "plain from now on: reader",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/rwlock.c",
        "a doubtful mark is trusted",
        [("__atomic_load_n(&l->biased, __ATOMIC_ACQUIRE) != LW__RW_BIASED;", "false;")],
        "biased: try of a handler that interrupted a reader, try of a writer",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/marks.c",
        "a chunk is published before its link",
        [
            (
                "    c->next = __atomic_load_n(&chunks, __ATOMIC_RELAXED);\n",
                "    struct chunk *old = __atomic_load_n(&chunks, __ATOMIC_RELAXED);\n",
            ),
            ("&chunks, &c->next, c, false", "&chunks, &old, c, false"),
            ("        ;\n    return c;\n", "        ;\n    c->next = old;\n    return c;\n"),
        ],
        "biased: a chunk comes, try of a writer",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/plain.h",
        "a writer wakes no reader beside a writer",
        [("last && (held == WRITER || !(left & WRITERS_WAIT))", "last && !(left & WRITERS_WAIT)")],
        "plain: a reader that asks for its turn beside two writers",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/plain.h",
        "a reader's entry leaves its turn to no one, and a writer sleeps on",
        [("counting(s & ~asked, 1)", "counting(s, 1)")],
        "plain: a reader that asks for its turn, a writer that comes again",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/plain.h",
        "a writer that was woken keeps out for one that starves",
        [("    w->blocking = kept_out_once_woken();\n    return -EAGAIN;", "    return -EAGAIN;")],
        "plain: a writer that starves, another that is woken",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/plain.h",
        "a writer that was woken, and gives up, wakes no other",
        [
            (
                "        change_queue(l);\n        lw_futex_wake(&l->queue, 1);\n    }\n    if (s",
                "        change_queue(l);\n    }\n    if (s",
            )
        ],
        "plain: a writer that is woken as its limit passes, another",
    ),
    # Two mistakes that the lock had until 26 November 2026, as they would stand in today's text.
    Protocol(
        "rwlock",
        "src/rwlock/again.h",
        "a thread marks again without a second look at the count",
        [("readers_in(LW_RW_LOAD(&l->state, ACQUIRE)) >= 0 && ", "")],
        "handed over: marks again while its older mark's release is counted",
    ),
    Protocol(
        "rwlock",
        "src/rwlock/again.h",
        "a thread takes its old mark back, with the release that is counted for it",
        [
            (
                "    LW_RW_STORE(&self->again[at], again, RELEASE); /*",
                "    uint32_t s = LW_RW_LOAD(&l->state, RELAXED);\n"
                "    while (readers_in(s) < 0 && again == 0)\n"
                "        if (EXCHANGE(l, &s, counting(s, 1), RELEASE)) {\n"
                "            LW_RW_STORE(&self->mark[at], (struct lw_rwlock *)0, RELEASE);\n"
                "            return false;\n"
                "        }\n"
                "    LW_RW_STORE(&self->again[at], again, RELEASE); /*",
            )
        ],
        "handed over: marks again while a writer adds up",
    ),
    Protocol(
        "srcu",
        "include/linewright/srcu.h",
        "a reader's lock without B",
        [("self + pair), barrier); /* B;", "self + pair), false); /* B;")],
        "normal: reader, updater",
    ),
    Protocol(
        "srcu",
        "src/srcu/records.c",
        "self is not cleared at a thread's end",
        [("    self_over = 1;\n    lw__srcu_self = NULL;\n", "    self_over = 1;\n")],
        "records: reads on after its end",
    ),
    Protocol(
        "srcu",
        "src/srcu/records.c",
        "signals are not blocked at a thread's end",
        [("    block_signals(&mask); /* a handler that forks would wait for the lock */\n", "")],
        "records: a thread ends, a sum",
    ),
    Protocol(
        "srcu",
        "src/srcu/records.c",
        "groups_wanted after the list is read",
        [
            (
                "    __atomic_store_n(&groups_wanted, groups + 1, __ATOMIC_SEQ_CST);\n"
                "    for (struct chunk *c = first_chunk(); c && good; c = c->next)\n",
                "    struct chunk *first = first_chunk();\n"
                "    __atomic_store_n(&groups_wanted, groups + 1, __ATOMIC_SEQ_CST);\n"
                "    for (struct chunk *c = first; c && good; c = c->next)\n",
            )
        ],
        "records: a further group, a thread's first record",
    ),
    Protocol(
        "srcu",
        "src/srcu/fold.h",
        "sums that begin during a fold",
        [("!(before & 1) && ", "")],
        "records: a thread ends, a sum",
    ),
    Protocol(
        "srcu",
        "src/srcu/fold.h",
        "sums that do not look for a fold",
        [("if (!(before & 1) && LW_FOLD_NUMBER_AGAIN() == before)", "(void)before;")],
        "records: a thread ends, a sum",
    ),
    Protocol(
        "srcu",
        "src/srcu/batch.h",
        "a cookie taken before the queue is",
        [
            (
                "    LW_BATCH_TAKE(d);\n",
                "    unsigned long cookie = LW_BATCH_COOKIE(d);\n    LW_BATCH_TAKE(d);\n",
            ),
            ("LW_BATCH_SET_COOKIE(d, LW_BATCH_COOKIE(d));", "LW_BATCH_SET_COOKIE(d, cookie);"),
        ],
        "callback: reader that calls, another's grace period",
    ),
    Protocol(
        "srcu",
        "src/srcu/queue.c",
        "returned is counted before the callback",
        [
            ("        call_back(head);\n", ""),
            (
                "RELEASE); /* pairs with lw__srcu_queued() */\n    }",
                "RELEASE);\n        call_back(head);\n    }",
            ),
        ],
        "callback: called by one of two that wait",
    ),
    Protocol(
        "srcu",
        "src/srcu/queue.c",
        "a step of a domain that has ended",
        [("    if (__atomic_load_n(&d->srcu, __ATOMIC_RELAXED)) {", "    if (true) {")],
        POLLED,
    ),
    Protocol(
        "srcu",
        "src/srcu/domain.c",
        "a domain ends beside a step",
        [
            ("    lw_futex_lock(&d->step_lock); /* the worker may", "    /* the worker may"),
            ("    lw_futex_unlock(&d->step_lock); /* before", "    /* before"),
        ],
        POLLED,
    ),
    Protocol(
        "srcu",
        "src/srcu/queue.c",
        "joined the other way round",
        [("joined(d->ready, d->waiting)", "joined(d->waiting, d->ready)")],
        "callbacks: in their order",
    ),
    Protocol(
        "srcu",
        "src/srcu/queue.c",
        "no one is woken after a batch",
        [("    wake_sleepers(&batches);\n", "")],
        "callback: called by one of two that wait",
    ),
    Protocol(
        "srcu",
        "src/srcu/wait.c",
        "expedited wakes no driver",
        [
            (
                "        wake_sleepers(&d->check); /* a driver in a long pause",
                "        ; /* a driver in a long pause",
            )
        ],
        "fast: reader that leaves and waits expedited, updater",
    ),
    Protocol(
        "srcu",
        "src/srcu/worker.c",
        "a worker reads the number after it has looked whether it goes on",
        [
            (
                "        uint32_t seen = __atomic_load_n(&worker.work.number, __ATOMIC_ACQUIRE);\n"
                "        if (__atomic_load_n(&worker.current, __ATOMIC_RELAXED) != me)\n"
                "            break;\n",
                "        if (__atomic_load_n(&worker.current, __ATOMIC_RELAXED) != me)\n"
                "            break;\n"
                "        uint32_t seen = __atomic_load_n(&worker.work.number, __ATOMIC_ACQUIRE);\n",
            )
        ],
        "worker: calls back, is stopped",
    ),
    Protocol(
        "wait",
        "src/wait/park.c",
        "a sleeper does not look again",
        [("    while ((seen = ", "    if ((seen = ")],
        "asleep while a value",
    ),
    Protocol(
        "wait",
        "src/wait/park.c",
        "a sleeper is counted once it sleeps no more",
        [
            ("    __atomic_fetch_add(sleepers, 1, __ATOMIC_RELAXED);", "    "),
            ("    __atomic_fetch_sub(sleepers, 1, __ATOMIC_RELAXED);", "    "),
        ],
        "asleep while a value",
    ),
    Protocol(
        "wait",
        "src/wait/park.c",
        "a sleeper is counted for ever",
        [("    __atomic_fetch_sub(sleepers, 1, __ATOMIC_RELAXED);", "    ")],
        "asleep while a value",
    ),
    Protocol(
        "wait",
        "src/wait/park.c",
        "one of two sleepers is woken",
        [("lw_futex_wake_all((uint32_t *)word)", "lw_futex_wake((uint32_t *)word, 1)")],
        "asleep, two",
    ),
]
