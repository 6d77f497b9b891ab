/* SPDX-License-Identifier: MIT */
/* Wide atomics against gcc and libatomic, side by side in one run: prints a table for each goal and what came of it.
 *
 * Windows of all sides are interleaved, so that a change of clock or neighbour hits all alike; what is printed is a
 * median. Contended numbers come from relaunched processes, since one launch has its own luck (the program calls
 * itself with --launch), with an interval over launches. A missed goal is reported; exit code 1 means a torn value. */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include "../brief.h"
#include "forms.h"
#include "side.h"

#define SIDE(name) extern const struct side side_##name;
#include "sides.def"
#undef SIDE

static const struct side *const sides[] = {
#define SIDE(name) &side_##name,
#include "sides.def"
#undef SIDE
};
#define N_SIDES ((int)(sizeof(sides) / sizeof(sides[0])))

enum { MOST_LAUNCHES = 12, MAX_ROWS = 16, MAX_LOOPS = 64, MOST_WINDOWS = 25 };
static int launches, windows_each; /* as many, or fewer for a brief run */

static const char *const operation_names[OPERATIONS] = {
    "read relaxed",  "read acquire", "read seq_cst", "write relaxed", "write release",
    "write seq_cst", "add relaxed",  "fetch_add",    "xchg",          "cmpxchg",
};

/* "No slower" allows for what two windows of the same loop differ by here. */
static const double noise = 1.05;
static int missed, torn_anywhere;

/* The operand, alone on its lines; written by two threads, so nothing else is near. */
static struct {
    char before[256];
    wide value;
    char after[256];
} shared;

static double now_ns(void) {
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values, int n) {
    double sorted[256];

    memcpy(sorted, values, (size_t)n * sizeof(*values));
    qsort(sorted, (size_t)n, sizeof(*sorted), ascending);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static int cpu_of[2];
static cpu_set_t allowed; /* what the process was started with */

static void pin(void) {
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu_of[0], &set);
    if (sched_setaffinity(0, sizeof(set), &set)) {
        fprintf(stderr, "bench: cannot run on CPU %d\n", cpu_of[0]);
        exit(3);
    }
}

/* The first two CPUs that this process may use. */
static void choose_cpus(void) {
    int found = 0;

    sched_getaffinity(0, sizeof(allowed), &allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &allowed))
            cpu_of[found++] = cpu;
    if (found < 2) {
        fprintf(stderr, "bench: two CPUs are needed\n");
        exit(3);
    }
}

static void verdict(int reached, const char *text) {
    printf("%s %s\n", reached ? "reached:" : "MISSED: ", text);
    missed += !reached;
}

/* ---- One thread ---------------------------------------------------------------------------------------------- */

static volatile uint64_t sink;

/* Nanoseconds per operation, each window about a millisecond, all loops in turn. */
static void alone(loop *const *loops, int n, double *medians) {
    static double windows[MAX_LOOPS][MOST_WINDOWS];
    uint64_t ops[MAX_LOOPS];

    pin();
    for (int i = 0; i < n; i++) {
        double start = now_ns();

        sink += loops[i](&shared.value, 20000);
        ops[i] = (uint64_t)(1e6 / ((now_ns() - start) / 20000)) + 1000;
    }
    for (int w = 0; w < windows_each; w++)
        for (int i = 0; i < n; i++) {
            double start = now_ns();

            sink += loops[i](&shared.value, ops[i]);
            windows[i][w] = (now_ns() - start) / (double)ops[i];
        }
    for (int i = 0; i < n; i++)
        medians[i] = median(windows[i], windows_each);
}

static int is_ours(const struct side *side) { return strncmp(side->name, "linewright", 10) == 0; }

/* What a program gets from the compiler with the options of this side of ours. */
static int peer_of(const struct side *ours) {
    for (int s = 0; s < N_SIDES; s++)
        if (!is_ours(sides[s]) && !strstr(ours->name, "_sse2") == !strstr(sides[s]->name, "_sse2"))
            return s;
    return -1;
}

/* Over the placements of each side's loop: the median one and the slowest. */
struct placed {
    double median, worst;
};

static void time_operation(int op, struct placed *out) {
    loop *loops[MAX_LOOPS];
    double ns[MAX_LOOPS];

    for (int s = 0; s < N_SIDES; s++)
        for (int k = 0; k < PLACEMENTS; k++)
            loops[s * PLACEMENTS + k] = sides[s]->loops[k][op];
    alone(loops, N_SIDES * PLACEMENTS, ns);
    for (int s = 0; s < N_SIDES; s++) {
        const double *here = ns + s * PLACEMENTS;

        out[s].median = median(here, PLACEMENTS);
        out[s].worst = here[0];
        for (int k = 1; k < PLACEMENTS; k++)
            out[s].worst = fmax(out[s].worst, here[k]);
    }
}

/* Of one side of ours: its reads or writes, at each order, against the compiler's with the same options. */
static void no_slower(int ours, struct placed (*ns)[MAX_ROWS], const char *what, int first, int last) {
    int peer = peer_of(sides[ours]);
    double median = 0, worst = 0;
    char line[200];

    for (int op = first; op <= last; op++) {
        median = fmax(median, ns[op][ours].median / ns[op][peer].median);
        worst = fmax(worst, ns[op][ours].worst / ns[op][peer].worst);
    }
    snprintf(line, sizeof(line), "%s: a %s is no slower than %s's: median placements %.2f of its time, worst ones %.2f",
             sides[ours]->name, what, sides[peer]->name, median, worst);
    verdict(median <= noise && worst <= noise, line);
}

static void compare_alone(void) {
    static struct placed ns[OPERATIONS][MAX_ROWS];

    printf(
        "One thread, ns per operation (median of %d windows): median of %d placements of the loop, and the worst\n\n%-14s",
        windows_each, PLACEMENTS, "");
    for (int s = 0; s < N_SIDES; s++)
        printf(" %17s", sides[s]->name);
    printf("\n");
    for (int op = 0; op < OPERATIONS; op++) {
        if (!sides[0]->loops[0][op])
            continue;
        time_operation(op, ns[op]);
        printf("%-14s", operation_names[op]);
        for (int s = 0; s < N_SIDES; s++)
            printf(" %9.2f (%5.2f)", ns[op][s].median, ns[op][s].worst);
        printf("\n");
    }
    printf("\n");
    for (int s = 0; s < N_SIDES; s++)
        if (is_ours(sides[s])) {
            no_slower(s, ns, "read", READ_RELAXED, READ_SEQ_CST);
            no_slower(s, ns, "write", WRITE_RELAXED, WRITE_SEQ_CST);
        }
}

/* ---- Two threads, in launches of their own --------------------------------------------------------------------- */

/* What the second thread does while the first is timed. */
struct contender {
    loop *loop;
    waiting_loop *waiting;
    volatile int running, stop;
    uint64_t ops, longest;
    char apart[256];
};

static void *contend(void *context) {
    struct contender *c = context;

    c->running = 1;
    while (!c->stop) {
        if (c->waiting)
            c->waiting(&shared.value, 64, &c->longest);
        else
            sink += c->loop(&shared.value, 64);
        c->ops += 64;
    }
    return 0;
}

/* Placed before it runs: it would inherit the CPU of a thread that spins until it has started. */
static pthread_t on_second_cpu(void *(*body)(void *), void *context) {
    pthread_attr_t attributes;
    pthread_t thread;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu_of[1], &set);
    pthread_attr_init(&attributes);
    if (pthread_attr_setaffinity_np(&attributes, sizeof(set), &set) || pthread_create(&thread, &attributes, body, context)) {
        fprintf(stderr, "bench: no thread on CPU %d\n", cpu_of[1]);
        exit(3);
    }
    pthread_attr_destroy(&attributes);
    return thread;
}

static pthread_t start(struct contender *c) {
    pthread_t thread;

    c->running = c->stop = 0;
    c->ops = c->longest = 0;
    thread = on_second_cpu(contend, c);
    while (!c->running)
        ;
    return thread;
}

static struct contender second;

/* ns per operation of the first thread while the second one runs `other` on the same operand. */
static double against(loop *timed, loop *other, int ms) {
    pthread_t thread;
    uint64_t ops = 0;
    double begin, end;

    pin();
    second.loop = other;
    second.waiting = 0;
    thread = start(&second);
    begin = now_ns();
    do {
        sink += timed(&shared.value, 4096); /* enough that reading the clock between adds nothing that shows */
        ops += 4096;
        end = now_ns();
    } while (end - begin < ms * 1e6);
    second.stop = 1;
    pthread_join(thread, 0);
    return (end - begin) / (double)ops;
}

struct shares {
    double mops, jain, longest_us;
};

/* Both threads add; first without clock reads for throughput and fairness, then with them for the longest wait. */
static struct shares both_add(loop *add, waiting_loop *waiting, int ms, double ticks_per_us) {
    struct shares out;
    uint64_t ops = 0, before, longest = 0;
    double begin, end, a, b;
    pthread_t thread;

    pin();
    second.loop = add;
    second.waiting = 0;
    thread = start(&second);
    before = second.ops;
    begin = now_ns();
    do {
        sink += add(&shared.value, 1024);
        ops += 1024;
        end = now_ns();
    } while (end - begin < ms * 1e6);
    a = (double)ops;
    b = (double)(second.ops - before);
    second.stop = 1;
    pthread_join(thread, 0);
    out.mops = (a + b) / (end - begin) * 1e3;
    out.jain = (a + b) * (a + b) / (2 * (a * a + b * b));

    second.waiting = waiting;
    thread = start(&second);
    begin = now_ns();
    do
        waiting(&shared.value, 64, &longest);
    while (now_ns() - begin < ms * 1e6);
    second.stop = 1;
    pthread_join(thread, 0);
    out.longest_us = (double)(longest > second.longest ? longest : second.longest) / ticks_per_us;
    return out;
}

/* Who adds: every guise, then every form of ours. */
static int adders(const char **names, loop **adds, waiting_loop **waits) {
    int n = 0;

    for (int s = 0; s < N_SIDES; s++)
        if (sides[s]->waiting_add) {
            names[n] = sides[s]->name;
            adds[n] = sides[s]->loops[0][ADD];
            waits[n++] = sides[s]->waiting_add;
        }
    for (const struct add_form *f = add_forms; f->name; f++) {
        names[n] = f->name;
        adds[n] = f->add;
        waits[n++] = f->waiting;
    }
    return n;
}

static double ticks_per_us(void) {
    double begin = now_ns();
    uint64_t ticks = __rdtsc();

    while (now_ns() - begin < 5e6)
        ;
    return (double)(__rdtsc() - ticks) / ((now_ns() - begin) / 1e3);
}

/* Who reads: every form of ours, then each of the others at its strongest order. */
static int readers(const char **names, loop **reads) {
    int n = 0;

    for (const struct read_form *f = read_forms; f->name; f++) {
        names[n] = f->name;
        reads[n++] = f->read;
    }
    for (int s = 0; s < N_SIDES; s++)
        if (!is_ours(sides[s])) {
            names[n] = sides[s]->name;
            reads[n++] = sides[s]->loops[0][READ_SEQ_CST];
        }
    return n;
}

/* One launch: prints its numbers for the parent, one line each. `seed` turns the order, so that no row is always first. */
static int launch(int seed) {
    const char *names[MAX_ROWS];
    loop *adds[MAX_ROWS];
    waiting_loop *waits[MAX_ROWS];
    const char *reader_names[MAX_ROWS];
    loop *reads[MAX_ROWS];
    int n = adders(names, adds, waits), n_reads = readers(reader_names, reads);
    double ticks = ticks_per_us();
    loop *writer = sides[0]->loops[0][sides[0]->loops[0][ADD] ? FETCH_ADD : XCHG];

    for (int k = 0; k < n_reads; k++) {
        int i = (k + seed) % n_reads;

        printf("read %d %.4f %.4f %.4f\n", i, against(reads[i], reads[i], 10), against(reads[i], writer, 10),
               against(reads[i], store, 10));
    }
    for (int k = 0; k < n; k++) {
        int i = (k + seed) % n;
        struct shares s = both_add(adds[i], waits[i], 15, ticks);

        printf("add %d %.4f %.5f %.4f\n", i, s.mops, s.jain, s.longest_us);
    }
    return 0;
}

/* Contended reads, by who the contender is. */
enum { SAME, ADDS, STORES, CONTENDERS };
static double read_ns[CONTENDERS][MAX_ROWS][MOST_LAUNCHES];
static double add_mops[MAX_ROWS][MOST_LAUNCHES], add_jain[MAX_ROWS][MOST_LAUNCHES], add_longest[MAX_ROWS][MOST_LAUNCHES];

static void relaunch(const char *self) {
    sched_setaffinity(0, sizeof(allowed), &allowed); /* a child inherits */
    for (int l = 0; l < launches; l++) {
        char command[4200], line[256];
        FILE *child;
        int i;
        double a, b, c;

        snprintf(command, sizeof(command), "'%s' --launch %d", self, l);
        child = popen(command, "r");
        if (!child) {
            fprintf(stderr, "bench: cannot launch %s\n", self);
            exit(3);
        }
        while (fgets(line, sizeof(line), child)) {
            if (sscanf(line, "read %d %lf %lf %lf", &i, &a, &b, &c) == 4) {
                read_ns[SAME][i][l] = a;
                read_ns[ADDS][i][l] = b;
                read_ns[STORES][i][l] = c;
            } else if (sscanf(line, "add %d %lf %lf %lf", &i, &a, &b, &c) == 4) {
                add_mops[i][l] = a;
                add_jain[i][l] = b;
                add_longest[i][l] = c;
            }
        }
        if (pclose(child)) {
            fprintf(stderr, "bench: launch %d failed\n", l);
            exit(3);
        }
    }
}

static int row_of(const char *const *names, int n, const char *part) {
    for (int i = 0; i < n; i++)
        if (strstr(names[i], part))
            return i;
    return -1;
}

/* How many times as fast as the verify loop a read is; and, where the goal was missed, what came nearest to it. */
static void compare_reads(void) {
    static const char *const contenders[] = {"both read (published)", "the other one adds", "the other one stores"};
    const char *names[MAX_ROWS];
    loop *reads[MAX_ROWS];
    int n = readers(names, reads), verify = row_of(names, n, "verify"), operation = row_of(names, n, "operation");

    printf("\nReads of one location, two threads, ns per read (median of %d launches, smallest and largest)\n\n%-28s",
           launches, "");
    for (int c = 0; c < CONTENDERS; c++)
        printf(" %26s", contenders[c]);
    printf("\n");
    for (int i = 0; i < n; i++) {
        printf("%-28s", names[i]);
        for (int c = 0; c < CONTENDERS; c++) {
            double sorted[MOST_LAUNCHES];

            memcpy(sorted, read_ns[c][i], sizeof(sorted));
            qsort(sorted, launches, sizeof(double), ascending);
            printf(" %8.2f (%6.2f … %6.2f)", median(sorted, launches), sorted[0], sorted[launches - 1]);
        }
        printf("\n");
    }
    printf("\n%-28s", "times as fast as verify");
    for (int c = 0; c < CONTENDERS; c++)
        printf(" %26s", contenders[c]);
    printf("\n");
    for (int i = 0; i < n; i++) {
        printf("%-28s", names[i]);
        for (int c = 0; c < CONTENDERS; c++)
            printf(" %26.1f", median(read_ns[c][verify], launches) / median(read_ns[c][i], launches));
        printf("\n");
    }
    printf("\n");
    for (int c = 0; c < CONTENDERS; c++) {
        double times = median(read_ns[c][verify], launches) / median(read_ns[c][operation], launches);
        char line[200];

        snprintf(line, sizeof(line), "at least 20 times as fast as the verify loop, %s: %.1f", contenders[c], times);
        verdict(times >= 20, line);
    }
}

/* 95 % interval of the ratio of two medians over launches, by resampling both. */
static void ratio_interval(const double *a, const double *b, double *low, double *high) {
    enum { RESAMPLES = 2000 };
    static double ratios[RESAMPLES];
    uint64_t state = 12345;

    for (int r = 0; r < RESAMPLES; r++) {
        double x[MOST_LAUNCHES], y[MOST_LAUNCHES];

        for (int i = 0; i < launches; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            x[i] = a[(state >> 33) % launches];
            state = state * 6364136223846793005u + 1442695040888963407u;
            y[i] = b[(state >> 33) % launches];
        }
        ratios[r] = median(x, launches) / median(y, launches);
    }
    qsort(ratios, RESAMPLES, sizeof(double), ascending);
    *low = ratios[RESAMPLES / 40];
    *high = ratios[RESAMPLES - 1 - RESAMPLES / 40];
}

/* +1: `a` is better than `b` beyond doubt, -1: worse, 0: the interval holds 1. */
static int better(const double *a, const double *b, int more_is_better) {
    double low, high;

    ratio_interval(a, b, &low, &high);
    if (low <= 1 && high >= 1)
        return 0;
    return (low > 1) == (more_is_better != 0) ? 1 : -1;
}

static void compare_adds(void) {
    const char *names[MAX_ROWS];
    loop *adds[MAX_ROWS];
    waiting_loop *waits[MAX_ROWS];
    int n = adders(names, adds, waits);

    if (!n)
        return;
    printf("\nAdds to one location, two threads (median of %d launches)\n\n%-18s %12s %14s %16s\n", launches, "",
           "million/s", "fairness", "longest wait");
    for (int i = 0; i < n; i++) {
        printf("%-18s %12.1f %14.3f %13.1f µs\n", names[i], median(add_mops[i], launches), median(add_jain[i], launches),
               median(add_longest[i], launches));
        if (i == N_SIDES - 1)
            printf("  forms of ours:\n");
    }
    printf("\n");
    for (int i = 0; i < N_SIDES; i++) {
        char text[200] = "", *end = text;
        int dominated = 0;

        if (!is_ours(sides[i]))
            continue;
        for (int j = 0; j < N_SIDES; j++) {
            int m, f, w;

            if (is_ours(sides[j]))
                continue;
            m = better(add_mops[i], add_mops[j], 1);
            f = better(add_jain[i], add_jain[j], 1);
            w = better(add_longest[i], add_longest[j], 0);
            dominated += m + f + w < 0 && m <= 0 && f <= 0 && w <= 0;
            end += snprintf(end, sizeof(text) - (size_t)(end - text), " %s %+d%+d%+d", sides[j]->name, m, f, w);
        }
        char line[320];
        snprintf(line, sizeof(line), "%s: on or beyond the front of (throughput, fairness, longest wait); against%s",
                 names[i], text);
        verdict(!dominated, line);
    }
}

/* ---- Torn values ------------------------------------------------------------------------------------------------ */

static volatile int stop_flipping;

static void *flipper(void *unused) {
    (void)unused;
    flip(&shared.value, &stop_flipping);
    return 0;
}

static void look_for_torn(uint64_t count) {
    int any = 0, control = 0;

    printf("\nTorn values in %.0e reads against a thread that turns all bits over\n\n%-30s %14s %16s\n", (double)count,
           "form", "torn", "changes seen");
    pin();
    for (const struct read_form *f = read_forms; f->name; f++) {
        pthread_t thread;
        uint64_t changes = 0, torn = 0;

        if (!f->torn)
            continue;
        shared.value = 0;
        stop_flipping = 0;
        thread = on_second_cpu(flipper, 0);
        for (uint64_t done = 0; done < count; done += 10000000)
            torn += f->torn(&shared.value, 10000000, &changes);
        stop_flipping = 1;
        pthread_join(thread, 0);
        printf("%-30s %14llu %16llu\n", f->name, (unsigned long long)torn, (unsigned long long)changes);
        fflush(stdout);
        if (f->tears)
            control = torn > 0;
        else
            any += torn > 0 || changes == 0;
    }
    printf("\n");
    verdict(control, "the control, two plain loads, is seen to tear");
    verdict(!any, "no other form tears, and each saw the value change");
    torn_anywhere = any;
}

int main(int argc, char **argv) {
    char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    launches = lw_bench_times(MOST_LAUNCHES, 1);
    windows_each = lw_bench_times(MOST_WINDOWS, 1);
    choose_cpus();
    if (argc == 3 && strcmp(argv[1], "--launch") == 0)
        return launch(atoi(argv[2]));
    if (argc > 1) {
        fprintf(stderr, "bench: '%s': no argument is allowed\n", argv[1]);
        return 2;
    }
    if (length < 0)
        return 3;
    self[length] = 0;
    setvbuf(stdout, 0, _IOLBF, 0);
    compare_alone();
    relaunch(self);
    compare_reads();
    compare_adds();
    look_for_torn((uint64_t)lw_bench_times(1000000000, 10000000));
    printf("\n%d goal%s missed\n", missed, missed == 1 ? "" : "s");
    return torn_anywhere;
}
