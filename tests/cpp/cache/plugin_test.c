/* SPDX-License-Identifier: MIT */
/* Loads the cache library by dlopen() while other threads run and use SIGILL themselves. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_int stop, wrong;
static _Thread_local volatile sig_atomic_t caught;

static void on_illegal(int signal) {
    (void)signal;
    caught++;
}

/* A thread with SIGILL business of its own: none of its signals may get lost. */
static void *busy(void *arg) {
    (void)arg;
    for (int sent = 0; !atomic_load(&stop);) {
        raise(SIGILL);
        if (caught != ++sent)
            atomic_fetch_add(&wrong, 1);
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct sigaction action = {.sa_handler = on_illegal};
    pthread_t threads[3];
    char memory[300];

    sigaction(SIGILL, &action, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, busy, NULL);
    memset(memory, 1, sizeof(memory));
    for (int round = 0; argc == 2 && round < 20; round++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        int (*clean)(const void *, size_t) = NULL;

        if (plugin)
            *(void **)&clean = dlsym(plugin, "plugin_clean");
        if (!clean || clean(memory, sizeof(memory))) {
            fprintf(stderr, "round %d: %s\n", round, plugin ? "plugin_clean failed" : dlerror());
            atomic_fetch_add(&wrong, 1);
            break;
        }
        dlclose(plugin);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return argc != 2 || atomic_load(&wrong);
}
