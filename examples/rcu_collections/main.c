/* SPDX-License-Identifier: MIT */
/* rcu_collections: readers search a map and walk a list of sessions while updaters add, replace and remove them and resize
 * the map. Every reader checks what it sees; exit code 1: one saw what it must not see. */
#include "list.h"
#include "map.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

LW_DEFINE_SRCU(struct lw_srcu_fast, domain);

enum { KEYS = 512, LIVE = 0x11fe, GONE = 0x90e }; /* even keys are there all the time, odd ones come and go */

struct session {
    struct rcu_list_node node;
    struct rcu_map_node by_key;
    struct lw_srcu_head head;
    unsigned state; /* LIVE; GONE once no reader may see the session */
    uint64_t twice_the_key;
    unsigned version;
};

static struct rcu_list sessions = RCU_LIST_INIT(sessions);
static struct rcu_map map;
static pthread_mutex_t updating = PTHREAD_MUTEX_INITIALIZER;
static bool over; /* atomic */
static bool with_grace_periods = true;
static unsigned long made, gone; /* under `updating`; by the worker thread */

static void wrong(const char *what)
{
    fprintf(stderr, "rcu_collections: a reader saw %s\n", what);
    _Exit(1);
}

/* ---- readers ---- */

static void check(const struct session *s, uint64_t key)
{
    if (s->state != LIVE)
        wrong("a session that was gone");
    if (s->by_key.key != key || s->twice_the_key != 2 * key)
        wrong("a session that was not whole");
}

struct counted {
    unsigned even;
    unsigned all;
};

static void count(struct rcu_map_node *node, void *argument)
{
    struct counted *counted = argument;

    check(rcu_list_entry(node, struct session, by_key), node->key);
    counted->even += node->key % 2 == 0;
    counted->all++;
}

static void search(uint64_t key)
{
    lw_srcu_guard(&domain);
    struct rcu_map_node *node = rcu_map_find(&map, key);

    if (!node && key % 2 == 0)
        wrong("no session of a key that was there all the time");
    if (!node)
        return;
    check(rcu_list_entry(node, struct session, by_key), key);
    sched_yield(); /* a critical section may sleep: the session stays as it is */
    check(rcu_list_entry(node, struct session, by_key), key);
}

static void walk(void)
{
    struct counted in_list = {0, 0}, in_map = {0, 0};

    lw_srcu_guard(&domain);
    rcu_list_for_each(node, &sessions) count(&rcu_list_entry(node, struct session, node)->by_key, &in_list);
    rcu_map_visit(&map, count, &in_map);
    if (in_list.even != KEYS / 2 || in_map.even != KEYS / 2)
        wrong("not each of the sessions that were there all the time, or one twice");
}

static void *reader(void *number)
{
    uint64_t random = (uint64_t)(uintptr_t)number + 1;
    unsigned long searches = 0;

    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        search((random >> 33) % KEYS);
        if (++searches % 64 == 0)
            walk();
    }
    return (void *)(uintptr_t)searches;
}

/* ---- updaters ---- */

static struct session *new_session(uint64_t key, unsigned version)
{
    struct session *s = calloc(1, sizeof *s);

    if (!s) {
        perror("rcu_collections");
        exit(3);
    }
    *s = (struct session){.by_key.key = key, .twice_the_key = 2 * key, .version = version, .state = LIVE};
    made++;
    return s;
}

static void end_session(struct lw_srcu_head *head)
{
    struct session *s = rcu_list_entry(head, struct session, head);

    s->state = GONE;
    gone++;
    if (with_grace_periods)
        free(s);
}

static void retire(struct session *s)
{
    if (!with_grace_periods)
        end_session(&s->head); /* what the tests must notice */
    else if (lw_srcu_call(&domain, &s->head, end_session))
        exit(3);
}

/* What one update does, decided by a random number: replaces any session, or adds or removes one with an odd key. */
static void update(uint64_t random)
{
    uint64_t key = random % KEYS;
    struct rcu_map_node *node = rcu_map_find(&map, key);
    struct session *old = node ? rcu_list_entry(node, struct session, by_key) : NULL;

    if (!old) {
        struct session *s = new_session(key, 0);

        rcu_list_add_last(&sessions, &s->node);
        if (rcu_map_insert(&map, &s->by_key))
            exit(3);
    } else if (key % 2 && random >> 20 & 1) {
        rcu_map_remove(&map, key);
        rcu_list_remove(&old->node);
        retire(old);
    } else {
        struct session *s = new_session(key, old->version + 1);

        rcu_list_replace(&old->node, &s->node);
        rcu_map_replace(&map, &s->by_key);
        retire(old);
    }
}

static void *updater(void *number)
{
    uint64_t random = (uint64_t)(uintptr_t)number + 77;
    unsigned long updates = 0;

    while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        pthread_mutex_lock(&updating);
        if (random >> 40 & 63)
            update(random >> 33);
        else if (rcu_map_resize(&map, (unsigned)(random >> 50) % 11))
            exit(3);
        pthread_mutex_unlock(&updating);
        if (++updates % 256 == 0 && lw_srcu_barrier(&domain)) /* bounds how many sessions wait to be freed */
            exit(3);
    }
    return (void *)(uintptr_t)updates;
}

/* ---- both ---- */

enum { READERS = 3, UPDATERS = 2 };

/* Runs for so long; returns how many sessions were never freed. */
static long run(long milliseconds)
{
    pthread_t threads[READERS + UPDATERS];
    unsigned long done[2] = {0, 0};
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000};

    for (uintptr_t i = 0; i < READERS + UPDATERS; i++)
        if (pthread_create(&threads[i], NULL, i < READERS ? reader : updater, (void *)i))
            exit(3);
    nanosleep(&pause, NULL);
    __atomic_store_n(&over, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < READERS + UPDATERS; i++) {
        void *result;

        pthread_join(threads[i], &result);
        done[i >= READERS] += (unsigned long)(uintptr_t)result;
    }
    for (uint64_t key = 0; key < KEYS; key++) {
        struct rcu_map_node *node = rcu_map_remove(&map, key);

        if (node) {
            rcu_list_remove(&rcu_list_entry(node, struct session, by_key)->node);
            retire(rcu_list_entry(node, struct session, by_key));
        }
    }
    if (lw_srcu_barrier(&domain) || rcu_list_first(&sessions) || map.count)
        return -1;
    printf("%lu searches, %lu updates, %lu sessions made, %lu freed\n", done[0], done[1], made, gone);
    return (long)(made - gone);
}

int main(int argc, char **argv)
{
    long milliseconds = argc > 1 ? atol(argv[1]) : 0;

    if (milliseconds < 1 || argc > 3 || (argc == 3 && strcmp(argv[2], "without-grace-periods") != 0)) {
        fprintf(stderr, "rcu_collections: expected: rcu_collections MILLISECONDS [without-grace-periods]\n");
        return 2;
    }
    with_grace_periods = argc == 2;
    if (rcu_map_init(&map, &domain.srcu, 3))
        return 3;
    for (uint64_t key = 0; key < KEYS; key += 2) {
        struct session *s = new_session(key, 0);

        rcu_list_add_last(&sessions, &s->node);
        if (rcu_map_insert(&map, &s->by_key))
            return 3;
    }
    long left = run(milliseconds);
    rcu_map_destroy(&map);
    if (left || lw_srcu_cleanup(&domain)) {
        fprintf(stderr, "rcu_collections: %ld sessions were not freed, or readers are inside\n", left);
        return 1;
    }
    return 0;
}
