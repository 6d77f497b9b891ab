/* SPDX-License-Identifier: MIT */
/* A plugin of QEMU's system emulator (its interface 1 or, with -DINTERFACE=4, 4; Debian packages no header): how often
 * chosen instructions ran, by address.
 *
 *   -plugin count_plugin.so,to=FILE,MASK:VALUE=on[,MASK:VALUE=on…]
 *
 * counts instructions whose first four bytes, read as a word, give (word & MASK) == VALUE, hexadecimal; FILE gets lines
 * "VALUE ADDRESS COUNT" when the emulator ends. Counts are not atomic: run it with -accel tcg,thread=single. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction, void (*call)(unsigned cpu, void *given),
                                            enum qemu_plugin_cb_flags flags, void *given);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*call)(qemu_plugin_id_t, void *), void *given);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
#if INTERFACE < 3
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction);
#else
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction, void *to, size_t bytes);
#endif
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);

extern int qemu_plugin_version;
int qemu_plugin_version = INTERFACE;
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

#define KINDS 8
#define PLACES 65536 /* a power of two, far above how many barriers a kernel has */

static struct {
    uint32_t mask, value;
} kinds[KINDS];
static int kinds_used;
static struct place {
    uint64_t address, count;
    uint32_t value;
} places[PLACES];
static int places_used;
static const char *to;

/* The counter of an instruction; a block that is translated again finds it again. */
static struct place *place_of(uint64_t address, uint32_t value) {
    size_t at = address * 0x9E3779B1u % PLACES;

    while (places[at].address && places[at].address != address)
        at = (at + 1) % PLACES;
    if (!places[at].address && ++places_used == PLACES)
        abort();
    places[at].address = address;
    places[at].value = value;
    return &places[at];
}

static uint32_t word_of(const struct qemu_plugin_insn *instruction) {
    size_t bytes = qemu_plugin_insn_size(instruction);
    uint32_t word = 0;

    bytes = bytes < sizeof word ? bytes : sizeof word;
#if INTERFACE < 3
    memcpy(&word, qemu_plugin_insn_data(instruction), bytes);
#else
    qemu_plugin_insn_data(instruction, &word, bytes);
#endif
    return word;
}

static void executed(unsigned cpu, void *given) {
    struct place *place = given;

    (void)cpu;
    place->count++;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(block); i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        uint32_t word = word_of(instruction);

        for (int kind = 0; kind < kinds_used; kind++) {
            if ((word & kinds[kind].mask) != kinds[kind].value)
                continue;
            struct place *place = place_of(qemu_plugin_insn_vaddr(instruction), kinds[kind].value);

            qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, QEMU_PLUGIN_CB_NO_REGS, place);
        }
    }
}

static void ended(qemu_plugin_id_t id, void *given) {
    FILE *file = fopen(to, "w");

    (void)id, (void)given;
    if (!file)
        return;
    for (size_t at = 0; at < PLACES; at++)
        if (places[at].count)
            fprintf(file, "%x %llx %llu\n", places[at].value, (unsigned long long)places[at].address,
                    (unsigned long long)places[at].count);
    fclose(file);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "to=", 3) == 0)
            to = strdup(argv[i] + 3);
        else if (kinds_used == KINDS || sscanf(argv[i], "%x:%x", &kinds[kinds_used].mask, &kinds[kinds_used].value) != 2)
            return 1;
        else
            kinds_used++;
    }
    if (!to)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
