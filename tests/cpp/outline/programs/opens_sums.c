/* SPDX-License-Identifier: MIT */
/* Opens libraries at run time while threads already run: opens_sums [-r ROUNDS] LIBRARY … */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_int stop;
static atomic_long spun;

static void *spin(void *arg) {
    while (!atomic_load(&stop))
        atomic_fetch_add(&spun, 1);
    return arg;
}

static int open_and_sum(const char *path) {
    void *library = dlopen(path, RTLD_NOW);
    int (*sums)(void), bad;
    void (*tell)(const char *);

    if (!library) {
        puts("cannot be opened");
        return 0;
    }
    *(void **)&sums = dlsym(library, "sums");
    *(void **)&tell = dlsym(library, "tell");
    if (tell)
        tell(path);
    bad = sums ? sums() : 0;
    return bad | dlclose(library);
}

int main(int argc, char **argv) {
    pthread_t spinner;
    int rounds = 1, first = 1, bad = 0;

    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        rounds = atoi(argv[2]);
        first = 3;
    }
    bad |= pthread_create(&spinner, NULL, spin, NULL);
    while (rounds--)
        for (int i = first; i < argc; i++)
            bad |= open_and_sum(argv[i]);
    atomic_store(&stop, 1);
    bad |= pthread_join(spinner, NULL);
    return bad;
}
