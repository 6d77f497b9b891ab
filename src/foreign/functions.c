/* SPDX-License-Identifier: MIT */
/* Every function that the headers define, as a real function of the same name, for callers that do not compile the
 * headers. */
#define LW_INLINE __attribute__((visibility("default")))
#define LW_ALWAYS_INLINE LW_INLINE
#define LW_SRCU_LIBRARY /* names are functions, not macros that look at a domain's type */
#undef LW_DEBUG /* whose checks are of the place of the call */

#pragma GCC diagnostic ignored "-Wmissing-prototypes" /* the headers have no other declaration */
#include <linewright/atomic.h>
#include <linewright/percpu.h>
#include <linewright/rwlock.h>
#include <linewright/slice.h>
#include <linewright/srcu.h>
#include <linewright/wait.h>
#include <linewright/wide.h>
