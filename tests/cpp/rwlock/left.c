/* SPDX-License-Identifier: MIT */
/* What the interposer finds to be left until times that no clock reaches. Built so that an overflow of a signed number ends the program. */
#include "../../../src/rwlock/interpose/interpose.c"

int main(void) {
    const struct when least = {INT64_MIN, 0}, most = {INT64_MAX, 999999999}, begin = {0, 0};
    return left(CLOCK_REALTIME, least) != 0 || left(CLOCK_MONOTONIC, least) != 0 || left(CLOCK_REALTIME, begin) != 0 ||
           left(CLOCK_MONOTONIC, most) != LW_RWLOCK_FOREVER - 1;
}
