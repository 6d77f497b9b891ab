/* SPDX-License-Identifier: MIT */
/* A library without sequences can be closed, replaced by another build and opened again; one with sequences stays.
 *
 *   percpu_replaced FIRST SECOND COUNTING SCRATCH      three libraries (replaced_plugin.c), and a file to copy the first two to */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(x)                                                      \
    do                                                                \
        if (!(x)) {                                                   \
            fprintf(stderr, "replaced: line %d: %s\n", __LINE__, #x); \
            exit(1);                                                  \
        }                                                             \
    while (0)

static void put(const char *from, const char *to) {
    char buffer[65536];
    size_t n;
    unlink(to); /* a new file, as an installation makes it */
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    CHECK(in && out);
    while ((n = fread(buffer, 1, sizeof buffer, in)) > 0)
        CHECK(fwrite(buffer, 1, n, out) == n);
    CHECK(!fclose(in) && !fclose(out));
}

static int version_of(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fprintf(stderr, "replaced: %s\n", dlerror());
    CHECK(library);
    int (*version)(void);
    *(void **)(void *)&version = dlsym(library, "plugin_version");
    CHECK(version);
    int answer = version();
    CHECK(!dlclose(library));
    return answer;
}

int main(int argc, char **argv) {
    CHECK(argc == 5);
    const char *scratch = argv[4];
    put(argv[1], scratch);
    CHECK(version_of(scratch) == 1);
    CHECK(!dlopen(scratch, RTLD_NOW | RTLD_NOLOAD));
    put(argv[2], scratch);
    CHECK(version_of(scratch) == 2);
    CHECK(version_of(argv[3]) == 3);
    CHECK(dlopen(argv[3], RTLD_NOW | RTLD_NOLOAD));
    return unlink(scratch);
}
