/* SPDX-License-Identifier: MIT */
/* The safe order of edits: branch, then byte load, then address computation; one instruction for one of equal length. */
#include "edit.h"

#include <linux/membarrier.h>

#include "self.h"

/* An emulator may hand out a memory file in which this process lies elsewhere, or not at all. */
static int is_this_memory(long memory, const struct lw_body *body)
{
    const volatile uint32_t *here = (const volatile void *)body->address;
    uint32_t there[LW_BODY_MAX];
    size_t size = body->words * sizeof(there[0]);

    if (lw_pread(memory, there, size, body->address) != (long)size)
        return 0;
    for (size_t i = 0; i < body->words; i++)
        if (here[i] != there[i])
            return 0;
    return 1;
}

enum lw_edit_result lw_edit(long memory, const struct lw_body *body, unsigned form)
{
    volatile uint32_t *words = (volatile void *)body->address;
    uint32_t to[LW_BODY_CBZ + 1];

    lw_edit_words(&body->helper, form, to);
    if (!is_this_memory(memory, body))
        return LW_EDIT_NONE;
    /* From the last word to the first. Without its branch the helper uses one form whatever the byte says; then the loaded
     * value is not used, and the load may go; then the address is not used. A thread that is anywhere in the helper
     * meanwhile completes it correctly: no write adds a return or moves the atomic instruction. */
    for (int i = LW_BODY_CBZ; i >= LW_BODY_ADRP; i--) {
        uint64_t at = body->address + (uint64_t)i * sizeof(to[i]);

        if (lw_pwrite(memory, &to[i], sizeof(to[i]), at) != sizeof(to[i]) || words[i] != to[i])
            return i == LW_BODY_CBZ ? LW_EDIT_NONE : LW_EDIT_PART;
    }
    __builtin___clear_cache((void *)body->address, (char *)body->address + sizeof(to));
    return LW_EDIT_DONE;
}

void lw_edits_done(void)
{
    static int registered;

    if (!registered)
        registered = lw_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE) == 0;
    if (registered)
        lw_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
    __asm__ volatile("isb" ::: "memory"); /* this thread, also where membarrier is refused */
}
