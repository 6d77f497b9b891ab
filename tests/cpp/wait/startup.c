/* SPDX-License-Identifier: MIT */
/* What the library makes of LINEWRIGHT_WAIT before main, and what it says of it. The environment is the test's: ctest sets it. */
#include <linewright/wait.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int saved_stderr;
static FILE *caught;

/* Runs before every constructor: catches standard error. */
static void before_constructors(void) {
    caught = tmpfile();
    saved_stderr = dup(2);
    dup2(fileno(caught), 2);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = before_constructors;

static int failures;

static void expect(int held, const char *what, const char *seen) {
    if (held)
        return;
    fprintf(stderr, "not so: %s\n  seen: %s\n", what, seen);
    failures++;
}

/* How often `part` stands in the text. */
static int times_in(const char *text, const char *part) {
    int n = 0;

    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}

int main(int argc, char **argv) {
    char said[4000] = "", line[400];
    const char *name = argc == 2 ? argv[1] : "", *value = getenv("LINEWRIGHT_WAIT");
    int lacks = !strcmp(name, "lacks") && value && !lw_wait_has(value), refused = !strcmp(name, "refused") || lacks;

    dup2(saved_stderr, 2);
    rewind(caught);
    said[fread(said, 1, sizeof(said) - 1, caught)] = '\0';
    lw_wait_describe(line, sizeof(line));

    expect(times_in(said, "linewright: LINEWRIGHT_WAIT: ") == refused, "one line where refused, none else", said);
    expect(times_in(said, "; auto is used\n") == refused, "a refusal says what is used instead", said);
    expect(times_in(said, "linewright: waiting: ") == (value != NULL), "one line where verbose and set", said);
    expect(!value || strstr(said, line) != NULL, "which is the description", said);
    expect(!refused || strstr(line, "LINEWRIGHT_WAIT was refused") != NULL, "the description says so too", line);
    if (!strcmp(name, "refused"))
        expect(strstr(said, "'puase' is no hint of this architecture; allowed: auto, ") != NULL, "what is allowed", said);
    else if (lacks)
        expect(strstr(said, ", or refused it when tried; it has none") != NULL, "what the CPU has", said);
    else if (!strcmp(name, "usual"))
        expect(lw_wait_word != 0 && strstr(line, "*4, back-off default up to 900 ns, asleep after 20000 ns") != NULL,
               "the setting is in force", line);
    else if (!strcmp(name, "slices"))
        expect(lw_wait_word == 0 && strstr(line, "time slice extensions") &&
                   strstr(line, "up to 900 ns, asleep after 20000 ns, "),
               "the usual hint, and what there is of extensions", line);
    else if (strcmp(name, "lacks") != 0)
        expect(lw_wait_word == 0 && strstr(line, "by setting 'auto'") != NULL, "auto", line);
    return failures != 0;
}
