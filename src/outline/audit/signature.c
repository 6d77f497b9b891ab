/* SPDX-License-Identifier: MIT */
/* Encodings of helper bodies as gcc 10 and later and compiler-rt assemble them: one sequence, with or without BTI C,
 * and two for the 16-byte compare-and-swap, which gcc 14 changed. */
#include "signature.h"

#define ADRP_X16 0x90000010u
#define ADRP_MASK 0x9f00001fu /* all but the immediate */
#define LDRB_W16_X16 0x39400210u
#define LDRB_MASK 0xffc003ffu
#define CBZ_W16_LLSC 0x34000070u /* three words on */
#define RET 0xd65f03c0u
#define DMB_ISH 0xd5033bbfu
#define BNE_3 0x54000061u
#define NOP 0xd503201fu
#define B_LLSC 0x14000003u /* the CBZ's way, always taken */
#define PRFM_PSTL1STRM 0xf9800011u
#define PRFM_BASE_SHIFT 5

/* Suffix bits of the LSE instructions; LDXR, STXR and their pairs know one, bit 15. */
#define CAS_A 0x400000u
#define CAS_L 0x8000u
#define SWP_A 0x800000u
#define SWP_L 0x400000u
#define EXCLUSIVE_ORDERED 0x8000u

static const char *const op_names[LW_OUTLINE_OPS] = {"cas", "swp", "ldadd", "ldclr", "ldset", "ldeor"};
static const char *const order_names[LW_ORDERS] = {"relax", "acq", "rel", "acq_rel", "sync"};

/* The LSE instruction on bytes, relaxed, with the helpers' registers, by operation. */
static const uint32_t lse_base[LW_OUTLINE_OPS] = {0x08a07c41, 0x38208020, 0x38200020, 0x38201020, 0x38203020, 0x38202020};
/* What computes the new value in an LL/SC loop: ADD, BIC, ORR, EOR W17, W0, W16. */
static const uint32_t compute_base[LW_OUTLINE_OPS] = {0, 0, 0x0b100011, 0x0a300011, 0x2a100011, 0x4a100011};
#define CASP_BASE 0x48207c82u
#define SIXTY_FOUR 0x80000000u /* X instead of W registers, in register-to-register instructions */

static int acquires(const struct lw_helper *h)
{
    return h->order == LW_ACQ || h->order == LW_ACQ_REL || h->order == LW_SYNC;
}

/* __sync_lock_test_and_set is an acquire only. */
static int releases(const struct lw_helper *h)
{
    return h->order == LW_REL || h->order == LW_ACQ_REL || (h->order == LW_SYNC && h->op != LW_OUTLINE_SWP);
}

static uint32_t size_bits(unsigned size)
{
    return size == 1 ? 0 : size == 2 ? 1u << 30 : size == 4 ? 2u << 30 : 3u << 30;
}

static uint32_t lse_word(const struct lw_helper *h)
{
    uint32_t a = h->op == LW_OUTLINE_CAS ? CAS_A : SWP_A;
    uint32_t l = h->op == LW_OUTLINE_CAS ? CAS_L : SWP_L;
    uint32_t base = h->size == 16 ? CASP_BASE : lse_base[h->op] | size_bits(h->size);

    return base | (acquires(h) ? a : 0) | (releases(h) ? l : 0);
}

/* The loop's words behind the mov (or uxt) that saves x0; returns where the next word goes. */
static uint32_t *loop_words(const struct lw_helper *h, uint32_t *w)
{
    uint32_t size = size_bits(h->size), wide = h->size >= 8 ? SIXTY_FOUR : 0;
    uint32_t load = acquires(h) && h->order != LW_SYNC ? EXCLUSIVE_ORDERED : 0; /* _sync has the DMB instead */
    uint32_t store = releases(h) ? EXCLUSIVE_ORDERED : 0;

    if (h->size == 16) {
        *w++ = 0xc87f0480 | load; /* ldxp x0, x1, [x4] */
        *w++ = 0xeb10001f;        /* cmp x0, x16 */
        *w++ = 0xfa510020;        /* ccmp x1, x17, #0, eq */
        if (h->writes_back) {
            *w++ = 0x9a80004f;         /* csel x15, x2, x0, eq */
            *w++ = 0x9a81006e;         /* csel x14, x3, x1, eq */
            *w++ = 0xc82d388f | store; /* stxp w13, x15, x14, [x4] */
            *w++ = 0x35ffff4d;         /* cbnz w13, the ldxp */
        } else {
            *w++ = BNE_3;
            *w++ = 0xc82f0c82 | store; /* stxp w15, x2, x3, [x4] */
            *w++ = 0x35ffff6f;         /* cbnz w15, the ldxp */
        }
    } else if (h->op == LW_OUTLINE_CAS) {
        *w++ = 0x085f7c40 | size | load;  /* ldxr w0, [x2] */
        *w++ = 0x6b10001f | wide;         /* cmp w0, w16 */
        *w++ = BNE_3;
        *w++ = 0x08117c41 | size | store; /* stxr w17, w1, [x2] */
        *w++ = 0x35ffff91;                /* cbnz w17, the ldxr */
    } else if (h->op == LW_OUTLINE_SWP) {
        *w++ = 0x085f7c20 | size | load;  /* ldxr w0, [x1] */
        *w++ = 0x08117c30 | size | store; /* stxr w17, w16, [x1] */
        *w++ = 0x35ffffd1;                /* cbnz w17, the ldxr */
    } else {
        *w++ = 0x085f7c20 | size | load;       /* ldxr w0, [x1] */
        *w++ = compute_base[h->op] | wide;
        *w++ = 0x080f7c31 | size | store;      /* stxr w15, w17, [x1] */
        *w++ = 0x35ffffaf;                     /* cbnz w15, the ldxr */
    }
    return w;
}

static int exists(const struct lw_helper *h)
{
    return h->op < LW_OUTLINE_OPS && h->order < LW_ORDERS && h->writes_back <= (h->size == 16) &&
           (h->size == 1 || h->size == 2 || h->size == 4 || h->size == 8 || (h->size == 16 && h->op == LW_OUTLINE_CAS));
}

size_t lw_body_words(const struct lw_helper *h, uint32_t out[LW_BODY_MAX])
{
    uint32_t *w = out + LW_BODY_CBZ;

    if (!exists(h))
        return 0;
    *w++ = CBZ_W16_LLSC;
    *w++ = lse_word(h);
    *w++ = RET;
    if (h->op == LW_OUTLINE_CAS && h->size < 4)
        *w++ = h->size == 1 ? 0x53001c10 : 0x53003c10; /* uxtb, uxth w16, w0 */
    else
        *w++ = 0x2a0003f0 | (h->size >= 8 ? SIXTY_FOUR : 0); /* mov w16, w0 */
    if (h->size == 16)
        *w++ = 0xaa0103f1; /* mov x17, x1 */
    w = loop_words(h, w);
    if (h->order == LW_SYNC)
        *w++ = DMB_ISH;
    *w++ = RET;
    return (size_t)(w - out);
}

/* The operation and size of an LSE word with the helpers' registers, whatever its order; 0 when it is none. */
static int which(uint32_t word, struct lw_helper *h)
{
    if ((word & ~(CAS_A | CAS_L)) == CASP_BASE) {
        h->op = LW_OUTLINE_CAS;
        h->size = 16;
        return 1;
    }
    h->size = 1u << (word >> 30);
    for (unsigned op = 0; op < LW_OUTLINE_OPS; op++) {
        uint32_t order = op == LW_OUTLINE_CAS ? CAS_A | CAS_L : SWP_A | SWP_L;

        h->op = (enum lw_outline_op)op;
        if ((word & ~(order | 3u << 30)) == lse_base[op])
            return 1;
    }
    return 0;
}

/* Where ADRP X16 and LDRB W16, [X16, #lo12] together point. */
static uint64_t byte_address(uint32_t adrp, uint32_t ldrb, uint64_t pc)
{
    /* 21 bits, immhi:immlo, moved to the top and back down to extend the sign. */
    uint64_t pages = (uint64_t)(adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3);
    int64_t offset = (int64_t)(pages << 43) >> 31;

    return (pc & ~(uint64_t)0xfff) + (uint64_t)offset + (ldrb >> 10 & 0xfff);
}

static int same(const uint32_t *a, const uint32_t *b, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (a[i] != b[i])
            return 0;
    return 1;
}

static int is_address_and_load(const uint32_t *words)
{
    return (words[LW_BODY_ADRP] & ADRP_MASK) == ADRP_X16 && (words[LW_BODY_LDRB] & LDRB_MASK) == LDRB_W16_X16;
}

int lw_body_match(const uint32_t *words, size_t count, uint64_t address, struct lw_body *found)
{
    uint32_t body[LW_BODY_MAX];

    if (count <= LW_BODY_LLSC || !is_address_and_load(words) || !which(words[LW_BODY_LSE], &found->helper))
        return 0;
    /* The LSE instruction is the same for _acq_rel and _sync (swp: for _acq and _sync), the loop is not: try every order,
     * and every loop. */
    for (unsigned way = 0; way < 2 * LW_ORDERS; way++) {
        found->helper.order = (enum lw_helper_order)(way % LW_ORDERS);
        found->helper.writes_back = way / LW_ORDERS;
        found->words = lw_body_words(&found->helper, body);
        if (found->words && found->words <= count && same(words, body, LW_BODY_CBZ, found->words)) {
            found->address = address;
            found->have_lse = byte_address(words[LW_BODY_ADRP], words[LW_BODY_LDRB], address);
            return 1;
        }
    }
    return 0;
}

/* A block without a branch in it, which compilers turn into vector code: programs have megabytes of text. */
enum { BLOCK = 32 };

static uint32_t block_has_load(const uint32_t *words)
{
    uint32_t any = 0;

    for (int i = 0; i < BLOCK; i++)
        any |= (words[i] & LDRB_MASK) == LDRB_W16_X16;
    return any;
}

size_t lw_body_next(const uint32_t *words, size_t count, size_t from)
{
    size_t load = from + LW_BODY_LDRB; /* the load is the rarer of the two, and looked for first */

    while (load < count) {
        if (load + BLOCK <= count && !block_has_load(words + load)) {
            load += BLOCK;
            continue;
        }
        if (is_address_and_load(words + load - LW_BODY_LDRB))
            return load - LW_BODY_LDRB;
        load++;
    }
    return count;
}

static uint32_t prefetch_of(const struct lw_helper *helper)
{
    uint32_t line = helper->op != LW_OUTLINE_CAS ? 1 : helper->size == 16 ? 4 : 2; /* the register with the address */

    return PRFM_PSTL1STRM | line << PRFM_BASE_SHIFT;
}

void lw_edit_words(const struct lw_helper *helper, unsigned form, uint32_t to[LW_BODY_CBZ + 1])
{
    to[LW_BODY_ADRP] = form & LW_OUTLINE_PREFETCH ? prefetch_of(helper) : NOP;
    to[LW_BODY_LDRB] = NOP;
    to[LW_BODY_CBZ] = form & LW_OUTLINE_LSE ? NOP : B_LLSC;
}

static char *append(char *at, const char *text)
{
    while (*text)
        *at++ = *text++;
    return at;
}

void lw_helper_name(const struct lw_helper *h, char name[LW_HELPER_NAME])
{
    static const char *const sizes[] = {[1] = "1", [2] = "2", [4] = "4", [8] = "8", [16] = "16"};
    char *at = append(name, "__aarch64_");

    at = append(at, op_names[h->op]);
    at = append(at, sizes[h->size]);
    at = append(at, "_");
    *append(at, order_names[h->order]) = '\0';
}
