/* SPDX-License-Identifier: MIT */
/* The barrier on all threads of the process, by membarrier(PRIVATE_EXPEDITED). */
#define _GNU_SOURCE
#include "membarrier.h"

#include <errno.h>
#include <linux/membarrier.h>

static bool registered;

static int membarrier(int command)
{
    int saved = errno;
#ifdef LW_SRCU_TEST
    int (*refuse)(int) = __atomic_load_n(&lw__srcu_test_membarrier, __ATOMIC_ACQUIRE); /* loaded once: a test may reset it */
    int refused = refuse ? refuse(command) : 0;
    if (refused)
        return refused;
#endif
    int err = syscall(SYS_membarrier, command, 0, 0) < 0 ? errno : 0;
    errno = saved;
    return err;
}

void lw__srcu_membarrier_start(void)
{
    registered = !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

void lw__srcu_membarrier_after_fork(void)
{
    if (registered) /* kernels pass the registration on to the child; registering again is harmless */
        (void)membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool lw__srcu_registered(void)
{
    return registered;
}

bool lw__srcu_have_membarrier(void)
{
    return registered && !membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

bool lw__srcu_may_membarrier(void)
{
    return registered && !membarrier(MEMBARRIER_CMD_QUERY);
}

int lw__srcu_membarrier(void)
{
    return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

int lw__srcu_heavy_barrier(struct lw__srcu_domain *d)
{
    lw_full_fence(); /* pairs with B and C in srcu.h */
    return d->reader_barriers ? 0 : lw__srcu_membarrier();
}
