/* SPDX-License-Identifier: MIT */
/* lw::counter, a statistics counter for C++; part of percpu.h. */
#ifndef LINEWRIGHT_PERCPU_H
#include <linewright/percpu.h> /* it includes this file, but under LW_C_API */
#endif
#ifndef LINEWRIGHT_PERCPU_COUNTER_H
#define LINEWRIGHT_PERCPU_COUNTER_H

#ifdef __cplusplus
extern "C++" { /* also where the program includes this inside extern "C" */
#include <cstdint>
#include <cstdlib>
#include <new>

namespace lw
{

/* Counts from any thread at any time, in signal handlers too; read now and then. 64 bits, wraps. A static one may be used as
 * soon as its constructor has run. Its memory is per-CPU: it cannot be copied, and moving it leaves a counter that may only
 * be destroyed or assigned to. */
class counter
{
public:
    counter()
    {
        if (lw_counter_init(&counter_) != 0) {
#ifdef __cpp_exceptions
            throw std::bad_alloc();
#else
            std::abort();
#endif
        }
    }
    counter(counter &&other) noexcept : counter_(other.counter_)
    {
        other.counter_.words = nullptr;
    }
    counter &operator=(counter &&other) noexcept
    {
        const lw_counter mine = counter_;
        counter_ = other.counter_;
        other.counter_ = mine;
        return *this;
    }
    counter(const counter &) = delete;
    counter &operator=(const counter &) = delete;
    ~counter()
    {
        lw_counter_destroy(&counter_);
    }

    LW__ALWAYS_INLINE void operator++()
    {
        lw_counter_inc(&counter_);
    }
    LW__ALWAYS_INLINE void operator--()
    {
        lw_counter_add(&counter_, -1);
    }
    LW__ALWAYS_INLINE void operator+=(std::int64_t v)
    {
        lw_counter_add(&counter_, v);
    }
    LW__ALWAYS_INLINE void operator-=(std::int64_t v)
    {
        lw_this_cpu_sub_u64(counter_.words, static_cast<std::uint64_t>(v));
    }

    /* What lw_percpu_sum() says of adds that run at the same time holds here. */
    std::int64_t sum() const
    {
        return lw_counter_sum(&counter_);
    }

private:
    lw_counter counter_;
};

} /* namespace lw */
} /* extern "C++" */

#endif

#endif
