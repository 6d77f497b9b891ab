/* SPDX-License-Identifier: MIT */
/* What a scenario is: a few threads around the shipped text, which engine.cpp runs in every execution that C11 allows. */
#ifndef RC11_H
#define RC11_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RC11_THREADS 4 /* at most */

struct rc11_scenario {
    const char *name;
    void (*run[RC11_THREADS])(void);
    void (*begin)(void); /* before all threads, alone; NULL: nothing */
    void (*end)(void); /* after all threads, alone */
    bool (*cut)(void); /* true: no longer explored from here, because a counter that never falls is this high; NULL: never */
    const char *outcomes; /* all that rc11_outcome() may say, sorted, separated by blanks; NULL: not compared */
    unsigned refused; /* bit i: thread i is refused membarrier */
    bool time; /* the clock jumps once, by half an hour, at any moment; waits with a limit end then */
    bool patient; /* no wait with a limit ends by it: a wake-up that only shortens a wait is one that must come */
    bool slow; /* for the long lane */
};

/* A scenario's file defines them. */
extern struct rc11_scenario rc11_scenarios[];
extern const size_t rc11_count;

/* The scenario's place in that list. */
unsigned rc11_number(void);
/* The calling thread's number. */
unsigned rc11_me(void);
/* What the C library calls at the calling thread's end: the destructors of all keys, with a value that none of them uses. */
void rc11_thread_ends(void);
/* What the C library calls in a child of fork(), where the calling thread goes on: the handlers of pthread_atfork(). */
void rc11_forked(void);
/* A property of the text: what is false is reported with the execution that led to it. */
void rc11_check(bool true_here, const char *what);
/* The calling thread waits until it can read `value` (or, where `other`, something else) from the word, with acquire order. */
void rc11_await(const uint32_t *word, uint32_t value, bool other);
/* How often the word was stored to in this execution, since begin(). */
unsigned rc11_stores(const uint32_t *word);
/* One more letter of this execution's outcome; in end(), where all threads are over. */
void rc11_outcome(const char *text);
/* A spin loop's hint. */
void rc11_relax(void);
/* membarrier(PRIVATE_EXPEDITED) without the system call. */
void rc11_membarrier(void);

#endif
