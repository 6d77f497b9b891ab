/* SPDX-License-Identifier: MIT */
/* What the library makes of LINEWRIGHT_ATOMICS before main, seen from a function that runs before its constructor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <linewright/policy.h>

static uint32_t word_before_constructor;
static int saved_stderr;
static FILE *caught;

/* Runs before every constructor: catches standard error. The environment is the test's: ctest sets it. */
static void before_constructors(void) {
    word_before_constructor = lw_policy_word;
    caught = tmpfile();
    saved_stderr = dup(2);
    dup2(fileno(caught), 2);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_constructors;

/* What must be active: with LSE, without LSE, and whether the setting is refused with a line. */
static const struct expectation {
    const char *setting, *lse, *no_lse;
    int refused, refused_without_lse;
} expectations[] = {
    {"unset", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 0, 0},
    {"default", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 0, 0},
    {"empty", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 0, 0},
    {"store", "void=store fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 0, 1},
    {"load", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 0, 1},
    {"llsc", "void=llsc fetch=llsc xchg=llsc cas=llsc ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 0, 0},
    {"prefetch", "void=load+prefetch fetch=load+prefetch xchg=load+prefetch cas=load+prefetch ",
     "void=llsc+prefetch fetch=llsc+prefetch xchg=llsc+prefetch cas=llsc+prefetch ", 0, 0},
    {"store,prefetch", "void=store+prefetch fetch=load+prefetch xchg=load+prefetch cas=load+prefetch ",
     "void=llsc fetch=llsc xchg=llsc cas=llsc ", 0, 1},
    {"prefetch,cas=llsc", "void=load+prefetch fetch=load+prefetch xchg=load+prefetch cas=llsc+prefetch ",
     "void=llsc+prefetch fetch=llsc+prefetch xchg=llsc+prefetch cas=llsc+prefetch ", 0, 0},
    {"sotre", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 1, 1},
    {"cas=store", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 1, 1},
    {"near", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 1, 1},
    {"store,load", "void=load fetch=load xchg=load cas=load ", "void=llsc fetch=llsc xchg=llsc cas=llsc ", 1, 1},
};

static int failures;

static void expect(int held, const char *what, const char *seen) {
    if (held)
        return;
    fprintf(stderr, "not so: %s\n  seen: %s\n", what, seen);
    failures++;
}

static int lines_in(const char *text) {
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

int main(int argc, char **argv) {
    const struct expectation *e = expectations, *end = expectations + sizeof(expectations) / sizeof(expectations[0]);
    char said[2000] = "", line[400];
    int refused;

    dup2(saved_stderr, 2);
    rewind(caught);
    said[fread(said, 1, sizeof(said) - 1, caught)] = '\0';
    while (argc > 1 && e < end && strcmp(argv[1], e->setting) != 0)
        e++;
    if (argc != 2 || e == end) {
        fprintf(stderr, "usage: policy_startup SETTING (one of the table's)\n");
        return 2;
    }
    lw_policy_describe(line, sizeof(line));
#if defined(__aarch64__)
    refused = lw_has_lse() ? e->refused : e->refused_without_lse;
    expect(strncmp(line, lw_has_lse() ? e->lse : e->no_lse, strlen(lw_has_lse() ? e->lse : e->no_lse)) == 0,
           lw_has_lse() ? e->lse : e->no_lse, line);
    expect(word_before_constructor == 0x2222, "LL/SC everywhere before the constructor", "another word");
#else
    refused = e->refused;
    expect(strstr(line, "without effect") != NULL, "described as without effect", line);
    expect(word_before_constructor == 0, "one form everywhere", "another word");
#endif
    expect(lines_in(said) == 1 + refused, "one line when verbose and one more when refused", said);
    expect((strstr(said, "default is used\n") != NULL) == refused, "a refusal says what is used instead", said);
    expect(!refused || strstr(said, "allowed") != NULL, "a refusal names what is allowed", said);
    expect(!refused || strstr(line, "LINEWRIGHT_ATOMICS was refused") != NULL, "the description says so too", line);
    expect(strstr(said, line) != NULL, "LINEWRIGHT_VERBOSE=1 prints the description", said);
    return failures != 0;
}
