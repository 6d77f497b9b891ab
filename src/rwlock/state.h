/* SPDX-License-Identifier: MIT */
/* What the plain lock's `state` says: plain.h. */
#ifndef LINEWRIGHT_SRC_RWLOCK_STATE_H
#define LINEWRIGHT_SRC_RWLOCK_STATE_H

#include <stdint.h>

#define READERS \
    0x000fffffu /* readers that counted themselves less releases of marked read locks by threads without a mark, in two's complement: again.h */
#define MOST_READERS 0x0007ffff
#define FEWEST_READERS (-0x00080000)
#define WRITERS_WAIT 0x07f00000u /* how many: each sleeps, or slept and has not got the lock yet */
#define ONE_WAITS 0x00100000u
#define READERS_TURN 0x08000000u /* a reader has asked for it: writers keep out until it has had its turn */
#define WRITER 0x10000000u /* a writer is inside, or waits for marked readers */
#define WOKEN 0x20000000u /* one of the writers that wait is on its way, so that a release wakes no other */
#define READERS_SLEEP 0x40000000u /* on `state` */
#define STARVES \
    0x80000000u /* one of the writers that wait has done so for too long: those that do not wait yet keep out, too */

static inline int32_t readers_in(uint32_t s)
{
    return (int32_t)(s << 12) >> 12;
}

#endif
