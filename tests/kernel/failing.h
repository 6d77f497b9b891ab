/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included before every file of a copy of the module (test_faults.py), for kernels of 6.1: the n-th allocation of a request
 * fails when the test says so, and what has been taken and not given back is counted.
 */
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/percpu-rwsem.h>
#include <linux/percpu.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/srcu.h>
#include <linux/string.h>
#include <linux/vmalloc.h>

/* Under lwk_running: allocations until the one that fails (0: none does), and those that are held. */
extern int lwk_left, lwk_live;

static inline bool lwk_fails(void) { return lwk_left && !--lwk_left; }

#define TRY(call)                            \
    ({                                       \
        typeof(call) got_ = (typeof(call))0; \
        if (!lwk_fails())                    \
            got_ = (call);                   \
        lwk_live += !!got_;                  \
        got_;                                \
    })
#define TRY_INT(call)                                \
    ({                                               \
        int error_ = lwk_fails() ? -ENOMEM : (call); \
        lwk_live += !error_;                         \
        error_;                                      \
    })
#define GIVE(pointer, call)      \
    ({                           \
        lwk_live -= !!(pointer); \
        call;                    \
    })

#undef alloc_pages
#undef alloc_percpu
#undef free_page
#undef percpu_init_rwsem

#define kzalloc(...) TRY(kzalloc(__VA_ARGS__))
#define kcalloc(...) TRY(kcalloc(__VA_ARGS__))
#define kvzalloc(...) TRY(kvzalloc(__VA_ARGS__))
#define kvcalloc(...) TRY(kvcalloc(__VA_ARGS__))
#define kvmalloc_array(...) TRY(kvmalloc_array(__VA_ARGS__))
#define vzalloc(...) TRY(vzalloc(__VA_ARGS__))
#define get_zeroed_page(...) TRY(get_zeroed_page(__VA_ARGS__))
#define alloc_pages(...) TRY(alloc_pages(__VA_ARGS__))
#define alloc_percpu(type) TRY((typeof(type) __percpu *)__alloc_percpu(sizeof(type), __alignof__(type)))
#define __alloc_percpu_gfp(...) TRY(__alloc_percpu_gfp(__VA_ARGS__))
#define kmem_cache_alloc(...) TRY(kmem_cache_alloc(__VA_ARGS__))
#define sg_alloc_table(...) TRY_INT(sg_alloc_table(__VA_ARGS__))
#define init_srcu_struct(...) TRY_INT(init_srcu_struct(__VA_ARGS__))
#define percpu_init_rwsem(sem)                          \
    ({                                                  \
        static struct lock_class_key key_;              \
        TRY_INT(__percpu_init_rwsem(sem, #sem, &key_)); \
    })
#define kthread_create_on_node(...) (lwk_fails() ? ERR_PTR(-ENOMEM) : kthread_create_on_node(__VA_ARGS__))
/* The request itself comes before the test can say which one fails. */
#define memdup_user_nul(...) (lwk_live++, memdup_user_nul(__VA_ARGS__))

#define kfree(p) GIVE(p, kfree(p))
#define kvfree(p) GIVE(p, kvfree(p))
#define vfree(p) GIVE(p, vfree(p))
#define free_page(p) GIVE(p, free_pages(p, 0))
#define __free_pages(p, order) GIVE(p, __free_pages(p, order))
#define free_percpu(p) GIVE(p, free_percpu(p))
#define kmem_cache_free(c, p) GIVE(p, kmem_cache_free(c, p))
#define sg_free_table(t) GIVE(t, sg_free_table(t))
#define cleanup_srcu_struct(s) GIVE(s, cleanup_srcu_struct(s))
#define percpu_free_rwsem(s) GIVE(s, percpu_free_rwsem(s))
