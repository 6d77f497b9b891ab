/* i386 cache-maintenance forms: the same instructions and the same rules as on x86-64. */
#ifndef LINEWRIGHT_ARCH_I386_CACHE_H
#define LINEWRIGHT_ARCH_I386_CACHE_H

#include <linewright/arch/x86_64/cache.h>

#endif
