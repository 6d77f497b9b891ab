/* Picks the cache-maintenance forms of the architecture built for (or of the model, with LW_CACHE_MODEL). */
#ifndef LINEWRIGHT_CACHE_FORMS_H
#define LINEWRIGHT_CACHE_FORMS_H

#if defined(LW_CACHE_MODEL)
#include <linewright/arch/model/cache.h>
#elif defined(__x86_64__)
#include <linewright/arch/x86_64/cache.h>
#elif defined(__i386__)
#include <linewright/arch/i386/cache.h>
#elif defined(__aarch64__)
#include <linewright/arch/arm64/cache.h>
#else
#include <linewright/arch/generic/cache.h>
#endif

#endif
