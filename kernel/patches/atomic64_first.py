# SPDX-License-Identifier: GPL-2.0-only
"""How operations of atomic64_t on 32-bit x86 first touch their line: chosen at boot.

What: atomic64_first=own|read: read-modify-writes by CMPXCHG8B find their first comparand by a
locked instruction, which asks for the line at once, or by a plain read of both halves (a torn pair
fails the compare and costs a round). atomic64_read=own|shared: reads are one LOCK CMPXCHG8B, or a
plain read of both halves and then a locked compare, as in 2.6.31 to 2.6.34.

Why: a plain read fetches a contended line shared, and the locked instruction behind it has to
upgrade it: two transfers. A locked first read costs a whole failed round where the line is at hand
already.

Switch: CONFIG_ATOMIC64_FIRST compiles it in; without the boot parameters the kernel does what it
does without the patch.

Kernels: 6.1 and 6.12, i386 with CMPXCHG8B.

Upstream: atomic64_read() has asked for ownership at once since 2.6.35. Read-modify-writes began
with a locked read, or the guess 0, until 6.9 and begin with a plain read since 6.10. Conditional
ones (add_unless, inc_not_zero, dec_if_positive) begin with a locked read in all kernels, and here:
a torn value would decide whether they write."""

# ruff: noqa: E101 (Kconfig text is indented by a tab and two blanks)
from lwkernel.edits import Edit

ARCHES = ("i386",)
SERIES = ("6.1", "6.12")
CONFIG = ("CONFIG_ATOMIC64_FIRST=y",)

FILES = {"arch/x86/kernel/atomic64_first.c": "atomic64_first/atomic64_first.c"}

HEADER = "arch/x86/include/asm/atomic64_32.h"
CODE = "arch/x86/lib/atomic64_cx8_32.S"

PLAIN = r"movl (%[p]), %%eax\n\tmovl 4(%[p]), %%edx"
LOCKED = r"movl %%ebx, %%eax\n\tmovl %%ecx, %%edx\n\tlock cmpxchg8b (%[p])"


def first(name: str, is_own: int, usual: str, other: str) -> str:
    """The inline function that gives a loop its first comparand."""
    return f"""\
#ifdef CONFIG_ATOMIC64_FIRST
/* Without atomic64_first= on the command line, as without the patch. */
#define ATOMIC64_FIRST_IS_OWN {is_own}

/* The first comparand of a loop; it may be torn, and the loop's compare finds out. */
static __always_inline s64 {name}(const atomic64_t *v)
{{
	s64 first;

	asm volatile(ALTERNATIVE("{usual}",
				 "{other}",
				 X86_FEATURE_ATOMIC64_OTHER)
		     : "=&A" (first) : [p] "r" (v) : "memory");
	return first;
}}
#else
"""


EDITS = (
    Edit(
        path="arch/x86/Kconfig.cpu",
        before=r"^config X86_CMPXCHG64$",
        text="""\
config ATOMIC64_FIRST
	bool "First access of 64-bit atomic operations chosen at boot"
	depends on X86_32 && X86_CMPXCHG64
	help
	  atomic64_first=own|read and atomic64_read=own|shared choose how
	  operations on atomic64_t first touch their cache line.

""",
    ),
    Edit(
        path="arch/x86/include/asm/cpufeatures.h",
        before=r"^#define X86_BUG\(x\)",
        text="""\
#define X86_FEATURE_ATOMIC64_OTHER	(21*32+30) /* "atomic64_other" other first reads in loops */
#define X86_FEATURE_ATOMIC64_SHARED	(21*32+31) /* "atomic64_shared" a plain read first */
""",
    ),
    Edit(
        path="arch/x86/kernel/Makefile",
        after=r"^obj-y\s+\+= bootflag\.o e820\.o$",
        text="obj-$(CONFIG_ATOMIC64_FIRST)\t+= atomic64_first.o",
    ),
    # ---- loops in C ----
    Edit(
        path=HEADER,
        series=("6.12",),
        before=r"^static __always_inline s64 arch_atomic64_read_nonatomic\(",
        text=first("arch_atomic64_read_nonatomic", 0, PLAIN, LOCKED),
    ),
    Edit(
        path=HEADER,
        series=("6.12",),
        before=r"^#define __ATOMIC64_DECL\(sym\)",
        text="#endif\n",
    ),
    Edit(
        path=HEADER,
        series=("6.1",),
        before=r"^static inline void arch_atomic64_and\(",
        text=first("arch_atomic64_first", 1, r"xorl %%eax, %%eax\n\txorl %%edx, %%edx", PLAIN)
        + "#define arch_atomic64_first(v) 0\n#endif\n",
    ),
    Edit(
        path=HEADER,
        series=("6.1",),
        times=7,
        replace=r"^\ts64 old, c = 0;$",
        text="\ts64 old, c = arch_atomic64_first(v);",
    ),
    # ---- loops in assembly ----
    Edit(path=CODE, after=r"^#include <asm/alternative\.h>$", text="#include <asm/cpufeatures.h>"),
    Edit(
        path=CODE,
        before=r"^SYM_FUNC_START\(atomic64_read_cx8\)$",
        text="""\
#ifdef CONFIG_ATOMIC64_FIRST
/*
 * Both halves plainly, then a locked compare that they belong together, until they do.
 * Keeps all but EDX:EAX.
 */
SYM_FUNC_START_LOCAL(atomic64_read_shared)
	pushl %ebx
	pushl %esi
	movl %ecx, %esi
1:
	movl (%esi), %eax
	movl 4(%esi), %edx
	movl %eax, %ebx
	movl %edx, %ecx
	lock cmpxchg8b (%esi)
	jne 1b
	movl %esi, %ecx
	popl %esi
	popl %ebx
	RET
SYM_FUNC_END(atomic64_read_shared)
#endif
""",
    ),
    Edit(
        path=CODE,
        after=r"^SYM_FUNC_START\(atomic64_read_cx8\)$",
        text="""\
#ifdef CONFIG_ATOMIC64_FIRST
	ALTERNATIVE "", "jmp atomic64_read_shared", X86_FEATURE_ATOMIC64_SHARED
#endif
""",
    ),
    Edit(
        path=CODE,
        series=("6.1",),
        before=r"^\.macro addsub_return ",
        text="""\
#ifdef CONFIG_ATOMIC64_FIRST
.macro read64_first reg
	ALTERNATIVE "movl %ebx, %eax; movl %ecx, %edx; lock cmpxchg8b (\\reg)", \\
		"movl (\\reg), %eax; movl 4(\\reg), %edx", \\
		X86_FEATURE_ATOMIC64_OTHER
.endm
/* Up to the conditional operations, which must not see a torn value. */
#define read64 read64_first
#endif
""",
    ),
    Edit(
        path=CODE,
        series=("6.1",),
        before=r"^SYM_FUNC_START\(atomic64_dec_if_positive_cx8\)$",
        text="#undef read64\n",
    ),
    Edit(
        path=CODE,
        series=("6.12",),
        before=r"^\.macro addsub_return ",
        text="""\
#ifdef CONFIG_ATOMIC64_FIRST
.macro read64_first reg
	ALTERNATIVE "movl (\\reg), %eax; movl 4(\\reg), %edx", \\
		"movl %ebx, %eax; movl %ecx, %edx; lock cmpxchg8b (\\reg)", \\
		X86_FEATURE_ATOMIC64_OTHER
.endm
#define read64_nonatomic read64_first
#endif
""",
    ),
)
