/* SPDX-License-Identifier: MIT */
/* Waiting for a word: programs' loops of wait.h, and the sleepers of src/wait/park.c.
 *
 * Written by hand: how long a thread spins before it sleeps (not at all, or for one look: no number makes the sleep right), and a round of a loop, which counts: a
 * thread that has looked in vain often enough is not explored further. Which hint a round is makes no difference: none orders anything. */
#include "rc11.h"

static unsigned rounds[RC11_THREADS];
#define lw_cpu_relax() (void)rounds[rc11_me()]++
#include <linewright/wait.h>

#define LW_PARK_BUCKETS 1u /* so that all words share a count of sleepers */
#include "src/wait/park.c"

uint32_t lw_wait_word;
struct lw__wait_choice lw__wait_choice;
uint32_t lw__backoff_step(struct lw_backoff *backoff) { return (void)backoff, 1; }
void lw__relax_chosen_on_u32(const uint32_t *word, uint32_t seen, uint32_t chosen) { (void)word, (void)seen, (void)chosen; }
void lw__relax_chosen_on_u64(const uint64_t *word, uint64_t seen, uint32_t chosen) { (void)word, (void)seen, (void)chosen; }

static uint32_t word, other, data; /* `data` is plain: a race where who reads it came too early */

static void begin(void) {
    word = other = data = 0;
    lw__wait_choice.park_ns = 0;
    for (unsigned i = 0; i < RC11_THREADS; i++)
        rounds[i] = 0;
}

static void begin_with_a_look(void) {
    begin();
    lw__wait_choice.park_ns = 1;
}

static bool looked_in_vain(void) {
    for (unsigned i = 0; i < RC11_THREADS; i++)
        if (rounds[i] > 2)
            return true;
    return false;
}

static void store(uint32_t *to, uint32_t value) { __atomic_store_n(to, value, __ATOMIC_RELEASE); }

static void publishes(void) {
    data = 1;
    store(&word, 1);
}

static void publishes_and_wakes(void) {
    publishes();
    lw_unpark_u32(&word);
}

static void changes_twice_and_wakes(void) {
    store(&word, 2);
    lw_unpark_u32(&word);
    publishes_and_wakes();
}

static void wakes_for_another_word(void) {
    store(&other, 1);
    lw_unpark_u32(&other);
}

static void sees_data(void) { rc11_check(data == 1, "what was stored before the word is seen"); }

static void waits_until(void) {
    lw_wait_until_u32(&word, 1);
    sees_data();
}

static void waits_while(void) {
    rc11_check(lw_wait_while_u32(&word, 0) == 1, "the value that ended the wait");
    sees_data();
}

static void sleeps_while(void) {
    rc11_check(lw_park_while_u32(&word, 0) == 1, "the value that ended the wait");
    sees_data();
}

static void sleeps_until(void) {
    lw_park_until_u32(&word, 1);
    sees_data();
}

static void sleeps_and_wakes(void) {
    sleeps_while();
    wakes_for_another_word();
}

static void sleeps_for_the_other(void) {
    lw_park_until_u32(&other, 1);
    sees_data();
}

static void no_sleeper_is_left(void) { rc11_check(buckets[0].sleepers == 0, "no sleeper is left"); }

struct rc11_scenario rc11_scenarios[] = {
    {.name = "until a value", .run = {publishes, waits_until}, .begin = begin, .cut = looked_in_vain},
    {.name = "while a value", .run = {publishes, waits_while}, .begin = begin, .cut = looked_in_vain},
    {.name = "asleep while a value", .run = {publishes_and_wakes, sleeps_while}, .begin = begin, .end = no_sleeper_is_left},
    {.name = "asleep after a look",
     .run = {publishes_and_wakes, sleeps_while},
     .begin = begin_with_a_look,
     .end = no_sleeper_is_left},
    {.name = "asleep until a value, another first",
     .run = {changes_twice_and_wakes, sleeps_until},
     .begin = begin,
     .end = no_sleeper_is_left},
    {.name = "asleep, two",
     .run = {publishes_and_wakes, sleeps_while, sleeps_while},
     .begin = begin,
     .end = no_sleeper_is_left},
    {.name = "asleep, one wakes the next",
     .run = {publishes_and_wakes, sleeps_and_wakes, sleeps_for_the_other},
     .begin = begin,
     .end = no_sleeper_is_left,
     .slow = true},
};
const size_t rc11_count = sizeof rc11_scenarios / sizeof *rc11_scenarios;
