/* SPDX-License-Identifier: MIT */
/* lw::atomic_ref<T>: the interface of C++20's std::atomic_ref, from C++17 on, made of the operations of atomic.h.
 *
 * T is trivially copyable and 1, 2, 4, 8 or, on 64-bit machines, 16 bytes long. The object must be aligned to
 * `required_alignment`, which is its size. On i386 that is more than the compiler gives an 8-byte type by itself: write
 * `alignas(8)`. There the constructor checks it and ends the program with one line that says so; g++ refuses to compile a
 * misalignment that it can see. Orders are those of the standard, with one addition: memory_order_seq_cst read-modify-writes
 * are fully ordered, as unsuffixed operations of atomic.h are. Two groups of members differ in their form:
 *   - fetch_add and its like return the old value, so they never take a store form;
 *   - add, sub, and_, andnot, or_, xor_ are additions to the interface: void, relaxed or release, and under the
 *     policy `store` they are STADD and its like.
 * At 16 bytes there are load, store, exchange, compare-exchange and wait. load() is lw_read_u128_any: on a CPU without a
 * read that never writes it needs writable memory. is_always_lock_free is false on x86-64 unless the compiler may use
 * CMPXCHG16B (-mcx16); is_lock_free() asks the CPU.
 * Padding does not count: a compare-exchange succeeds when all values of T are equal, whatever padding either side holds,
 * and what is stored has zeros there. That needs a compiler with __builtin_clear_padding (gcc). With another,
 * compare_exchange and wait refuse types that may have padding; declare `template <> inline constexpr bool
 * lw::has_no_padding<T> = true;` for a type that has none although the language cannot tell (a structure of floats). wait()
 * blocks in the kernel on Linux; as with the standard library's, a notify does not reach a waiter in a shared object that
 * dlopen() keeps apart (say, from a program linked without -rdynamic). */
#ifndef LINEWRIGHT_ATOMIC_REF_H
#define LINEWRIGHT_ATOMIC_REF_H

#include "api.h"

LW__HEADER_BEGINS

#if defined(__cplusplus) && __cplusplus >= 201703L

#include "atomic.h"

extern "C++" { /* also where the program includes this inside extern "C" */

#include <atomic> /* std::memory_order */
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#ifdef __linux__
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <thread>
#endif

#if defined(LW_WIDE_X86_64) || defined(LW_WIDE_ARM64) || defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
#define LW_REF_HAVE_16 1
#endif

namespace lw
{

/* For types whose every bit counts, where the language cannot tell: see above. */
template <class T> inline constexpr bool has_no_padding = false;

namespace detail
{

/* The operations of one width, by an order known when this is compiled or when it runs. */
template <std::size_t Size> struct Word;

#define LW_REF_VALUE(call, order, ...)      \
    switch (order) {                        \
    case std::memory_order_relaxed:         \
        return call##_relaxed(__VA_ARGS__); \
    case std::memory_order_consume:         \
    case std::memory_order_acquire:         \
        return call##_acquire(__VA_ARGS__); \
    case std::memory_order_release:         \
        return call##_release(__VA_ARGS__); \
    case std::memory_order_acq_rel:         \
        return call##_acq_rel(__VA_ARGS__); \
    default:                                \
        return call(__VA_ARGS__);           \
    }
#define LW_REF_FETCH(bits, op)                                                \
    static type fetch_##op(type *p, type v, std::memory_order order) noexcept \
    {                                                                         \
        LW_REF_VALUE(lw_fetch_##op##_u##bits, order, p, v)                    \
    }
/* release, or relaxed: there is nothing else an operation without a value could order */
#define LW_REF_VOID(bits, op)                                            \
    static void op##_(type *p, type v, std::memory_order order) noexcept \
    {                                                                    \
        if (order == std::memory_order_relaxed)                          \
            lw_##op##_u##bits(p, v);                                     \
        else                                                             \
            lw_##op##_u##bits##_release(p, v);                           \
    }
#define LW_REF_WORD(bits, word)                                                                                          \
    template <> struct Word<bits / 8> {                                                                                  \
        using bare = std::uint##bits##_t; /* without an alignment of its own */                                          \
        using type = word;                                                                                               \
        static type load(const type *p, std::memory_order order) noexcept                                                \
        {                                                                                                                \
            switch (order) {                                                                                             \
            case std::memory_order_relaxed:                                                                              \
                return lw_read_u##bits##_relaxed(p);                                                                     \
            case std::memory_order_consume:                                                                              \
            case std::memory_order_acquire:                                                                              \
                return lw_read_u##bits##_acquire(p);                                                                     \
            default:                                                                                                     \
                return lw_read_u##bits(p);                                                                               \
            }                                                                                                            \
        }                                                                                                                \
        static void store(type *p, type v, std::memory_order order) noexcept                                             \
        {                                                                                                                \
            switch (order) {                                                                                             \
            case std::memory_order_relaxed:                                                                              \
                return lw_write_u##bits(p, v);                                                                           \
            case std::memory_order_release:                                                                              \
                return lw_write_u##bits##_release(p, v);                                                                 \
            default:                                                                                                     \
                return lw_write_u##bits##_seq_cst(p, v);                                                                 \
            }                                                                                                            \
        }                                                                                                                \
        static type exchange(type *p, type v, std::memory_order order) noexcept                                          \
        {                                                                                                                \
            LW_REF_VALUE(lw_xchg_u##bits, order, p, v)                                                                   \
        }                                                                                                                \
        static bool compare_exchange(type *p, type *expected, type v, std::memory_order order) noexcept {                \
            LW_REF_VALUE(lw_try_cmpxchg_u##bits, order, p, expected, v)} LW_REF_FETCH(bits, add) LW_REF_FETCH(bits, sub) \
            LW_REF_FETCH(bits, and) LW_REF_FETCH(bits, andnot) LW_REF_FETCH(bits, or) LW_REF_FETCH(bits, xor)            \
                LW_REF_VOID(bits, add) LW_REF_VOID(bits, sub) LW_REF_VOID(bits, and) LW_REF_VOID(bits, andnot)           \
                    LW_REF_VOID(bits, or) LW_REF_VOID(bits, xor)                                                         \
    };

LW_REF_WORD(8, std::uint8_t)
LW_REF_WORD(16, std::uint16_t)
LW_REF_WORD(32, std::uint32_t)
#if defined(LW_HAVE_U64)
LW_REF_WORD(64, std::uint64_t)
#elif defined(LW_WIDE_I386)
LW_REF_WORD(64, lw_u64)
#endif
#ifdef LW_REF_HAVE_16
template <> struct Word<16> {
    using bare = lw_u128;
    using type = lw_u128;
    static type load(type *p, std::memory_order order) noexcept
    {
        switch (order) {
        case std::memory_order_relaxed:
            return lw_read_u128_any_relaxed(p);
        case std::memory_order_consume:
        case std::memory_order_acquire:
            return lw_read_u128_any_acquire(p);
        default:
            return lw_read_u128_any(p);
        }
    }
    static void store(type *p, type v, std::memory_order order) noexcept
    {
        switch (order) {
        case std::memory_order_relaxed:
            return lw_write_u128(p, v);
        case std::memory_order_release:
            return lw_write_u128_release(p, v);
        default:
            return lw_write_u128_seq_cst(p, v);
        }
    }
    static type exchange(type *p, type v, std::memory_order order) noexcept
    {
        LW_REF_VALUE(lw_xchg_u128, order, p, v)
    }
    static bool compare_exchange(type *p, type *expected, type v, std::memory_order order) noexcept
    {
        LW_REF_VALUE(lw_try_cmpxchg_u128, order, p, expected, v)
    }
};
#endif
#undef LW_REF_VALUE
#undef LW_REF_FETCH
#undef LW_REF_VOID
#undef LW_REF_WORD

/* The one order that gives what a compare-exchange wants of its success and of its failure. */
constexpr std::memory_order joined(std::memory_order success, std::memory_order failure) noexcept
{
    if (success == std::memory_order_seq_cst || failure == std::memory_order_seq_cst)
        return std::memory_order_seq_cst;
    if (failure == std::memory_order_acquire || failure == std::memory_order_consume)
        return success == std::memory_order_release || success == std::memory_order_acq_rel ? std::memory_order_acq_rel
                                                                                            : std::memory_order_acquire;
    return success;
}

constexpr std::memory_order failure_of(std::memory_order success) noexcept
{
    return success == std::memory_order_acq_rel   ? std::memory_order_acquire
           : success == std::memory_order_release ? std::memory_order_relaxed
                                                  : success;
}

/* Where the threads that wait on an address sleep: one of a few counters, shared by whatever hashes alike, and by every
 * shared object of the program, also one built with -fvisibility=hidden: notify must find who waits. */
struct alignas(64) Parking {
    std::uint32_t turn;    /* changes at every notify */
    std::uint32_t waiters; /* so that a notify without any costs no system call */
};
LW_API inline Parking parking[64];

inline Parking &parking_of(const void *p) noexcept
{
    auto address = reinterpret_cast<std::uintptr_t>(p);
    return parking[(address >> 3 ^ address >> 11) % 64];
}

/* The waiter counts itself, then looks at the value once more; the notifier has changed the value, then looks at
 * the count. Both are fully ordered, so one of them sees the other: the waiter the value or the notifier the count. */
template <class Unchanged> void park_while(const void *p, Unchanged unchanged) noexcept
{
    Parking &place = parking_of(p);
    while (unchanged()) {
        lw_inc_return_u32(&place.waiters);
        std::uint32_t turn = lw_read_u32(&place.turn);
        if (unchanged()) {
#ifdef __linux__
            syscall(SYS_futex, &place.turn, FUTEX_WAIT_PRIVATE, turn, nullptr, nullptr, 0);
#else
            (void)turn;
            std::this_thread::yield();
#endif
        }
        lw_dec_return_u32(&place.waiters);
    }
}

inline void unpark(const void *p) noexcept
{
    Parking &place = parking_of(p);
    lw_inc_return_u32(&place.turn); /* full: after the caller's store, before the look at `waiters` */
#ifdef __linux__
    if (lw_read_u32(&place.waiters) != 0)
        syscall(SYS_futex, &place.turn, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
#endif
}

#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
#define LW_REF_CLEARS_PADDING 1
#endif
#endif

/* Whether every bit of a T counts; a float has two zeros and many NaNs, but no padding. */
template <class T> constexpr bool whole_value() noexcept
{
    return std::has_unique_object_representations_v<T> || std::is_same_v<std::remove_cv_t<T>, float> ||
           std::is_same_v<std::remove_cv_t<T>, double> || has_no_padding<T>;
}

template <class T> class Ref_base
{
    static_assert(std::is_trivially_copyable_v<T>, "lw::atomic_ref needs a trivially copyable type");
#if defined(LW_REF_HAVE_16)
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 16,
                  "lw::atomic_ref needs a type of 1, 2, 4, 8 or 16 bytes");
#elif defined(LW_HAVE_U64) || defined(LW_WIDE_I386)
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "lw::atomic_ref needs a type of 1, 2, 4 or 8 bytes");
#else
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4, "lw::atomic_ref needs a type of 1, 2 or 4 bytes");
#endif

protected:
    using W = Word<sizeof(T)>;
    using Bits = typename W::type;
    using Order = std::memory_order;

    T *object;

    /* An atomic access through the unsigned type of the width: the builtins and the assembly know no other. Where
     * that type may not alias T, compiler barriers on both sides of the whole expression keep plain accesses to the
     * object on their side of it. */
    struct Access {
        Bits *p;
        explicit Access(T *object) noexcept : p(reinterpret_cast<Bits *>(object))
        {
            barrier();
        }
        Access(const Access &) = delete;
        ~Access()
        {
            barrier();
        }
        operator Bits *() const noexcept
        {
            return p;
        }
        static void barrier() noexcept
        {
            if constexpr (!may_alias())
                __asm__ __volatile__("" : : : "memory");
        }
        static constexpr bool may_alias() noexcept
        {
            if constexpr (std::is_integral_v<T> && !std::is_same_v<std::remove_cv_t<T>, bool>)
                return std::is_same_v<std::make_unsigned_t<std::remove_cv_t<T>>, typename W::bare>;
            else
                return false;
        }
    };
    Access word() const noexcept
    {
        return Access(object);
    }
    /* The value of `v`, with zeros for padding. */
    static Bits bits(const T &v) noexcept
    {
        Bits b;
        std::memcpy(&b, static_cast<const void *>(__builtin_addressof(v)), sizeof b);
        return cleared(b);
    }
    static Bits cleared(Bits b) noexcept
    {
#ifdef LW_REF_CLEARS_PADDING
        if constexpr (!whole_value<T>()) {
            Room room;
            put(room.v, b);
            __builtin_clear_padding(__builtin_addressof(room.v));
            std::memcpy(&b, static_cast<const void *>(__builtin_addressof(room.v)), sizeof b);
        }
#endif
        return b;
    }
    static constexpr void refuse_padding() noexcept
    {
#ifndef LW_REF_CLEARS_PADDING
        static_assert(whole_value<T>(), "this compiler cannot tell padding from values: see lw::has_no_padding");
#endif
    }
    /* A trivially copyable T may lack a default constructor and assignment: bytes are all that is copied. */
    static void put(T &to, Bits b) noexcept
    {
        std::memcpy(static_cast<void *>(__builtin_addressof(to)), &b, sizeof b);
    }
    union Room {
        char empty;
        std::remove_cv_t<T> v;
        Room() noexcept : empty() {}
    };
    static T value(Bits b) noexcept
    {
        Room room;
        put(room.v, b);
        return room.v;
    }

public:
    using value_type = T;
    static constexpr std::size_t required_alignment = sizeof(T) > alignof(T) ? sizeof(T) : alignof(T);
#if defined(LW_REF_HAVE_16) && defined(LW_WIDE_X86_64) && !defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
    static constexpr bool is_always_lock_free = sizeof(T) < 16;
#else
    static constexpr bool is_always_lock_free = true;
#endif

    explicit Ref_base(T &t) noexcept : object(__builtin_addressof(t))
    {
#ifdef LW_WIDE_I386
        if constexpr (sizeof(T) == 8)
            LW_WIDE_CHECK(object, 8);
#endif
    }
    Ref_base(const Ref_base &) noexcept = default;
    Ref_base &operator=(const Ref_base &) = delete;

    bool is_lock_free() const noexcept
    {
#ifdef LW_REF_HAVE_16
        if constexpr (sizeof(T) == 16)
            return lw_has_u128();
#endif
        return true;
    }
    void store(T v, Order order = std::memory_order_seq_cst) const noexcept
    {
        W::store(word(), bits(v), order);
    }
    T load(Order order = std::memory_order_seq_cst) const noexcept
    {
        return value(W::load(word(), order));
    }
    operator T() const noexcept
    {
        return load();
    }
    T operator=(T v) const noexcept
    {
        store(v);
        return v;
    }
    T exchange(T v, Order order = std::memory_order_seq_cst) const noexcept
    {
        return value(W::exchange(word(), bits(v), order));
    }
    bool compare_exchange_strong(T &expected, T desired, Order success, Order failure) const noexcept
    {
        refuse_padding();
        const Bits wanted = bits(expected), v = bits(desired);
        Bits found = wanted;
        /* Again where nothing but the padding differed: the object was last written by something else than this class. */
        do {
            if (W::compare_exchange(word(), &found, v, joined(success, failure)))
                return true;
        } while (!whole_value<T>() && cleared(found) == wanted);
        put(expected, found);
        return false;
    }
    bool compare_exchange_strong(T &expected, T desired, Order order = std::memory_order_seq_cst) const noexcept
    {
        return compare_exchange_strong(expected, desired, order, failure_of(order));
    }
    bool compare_exchange_weak(T &expected, T desired, Order success, Order failure) const noexcept
    {
        return compare_exchange_strong(expected, desired, success, failure);
    }
    bool compare_exchange_weak(T &expected, T desired, Order order = std::memory_order_seq_cst) const noexcept
    {
        return compare_exchange_strong(expected, desired, order);
    }
    void wait(T old, Order order = std::memory_order_seq_cst) const noexcept
    {
        refuse_padding();
        park_while(object, [&] { return cleared(W::load(word(), order)) == bits(old); });
    }
    void notify_one() const noexcept
    {
        unpark(object);
    } /* waiters of several addresses may share a place: wake all */
    void notify_all() const noexcept
    {
        unpark(object);
    }
};

/* bool, enumerations, structures: what the base has. */
template <class T, class = void> class Ref : public Ref_base<T>
{
public:
    using Ref_base<T>::Ref_base;
    using Ref_base<T>::operator=;
};

template <class T>
class Ref<T, std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<std::remove_cv_t<T>, bool> && sizeof(T) <= 8>>
    : public Ref_base<T>
{
    using Base = Ref_base<T>;
    using typename Base::Order;
    using typename Base::W;
    static constexpr Order seq_cst = std::memory_order_seq_cst;

public:
    using difference_type = T;
    using Base::Base;
    using Base::operator=;

    T fetch_add(T v, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_add(this->word(), this->bits(v), order));
    }
    T fetch_sub(T v, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_sub(this->word(), this->bits(v), order));
    }
    T fetch_and(T v, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_and(this->word(), this->bits(v), order));
    }
    T fetch_andnot(T v, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_andnot(this->word(), this->bits(v), order));
    }
    T fetch_or(T v, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_or(this->word(), this->bits(v), order));
    }
    T fetch_xor(T v, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_xor(this->word(), this->bits(v), order));
    }

    /* No value: relaxed, or release for any other order. */
    void add(T v, Order order = std::memory_order_relaxed) const noexcept
    {
        W::add_(this->word(), this->bits(v), order);
    }
    void sub(T v, Order order = std::memory_order_relaxed) const noexcept
    {
        W::sub_(this->word(), this->bits(v), order);
    }
    void and_(T v, Order order = std::memory_order_relaxed) const noexcept
    {
        W::and_(this->word(), this->bits(v), order);
    }
    void andnot(T v, Order order = std::memory_order_relaxed) const noexcept
    {
        W::andnot_(this->word(), this->bits(v), order);
    }
    void or_(T v, Order order = std::memory_order_relaxed) const noexcept
    {
        W::or_(this->word(), this->bits(v), order);
    }
    void xor_(T v, Order order = std::memory_order_relaxed) const noexcept
    {
        W::xor_(this->word(), this->bits(v), order);
    }

    /* Sums are made of the unsigned words, so that they wrap as the memory has. */
    T operator++() const noexcept
    {
        return this->value(static_cast<typename Base::Bits>(this->bits(fetch_add(1)) + 1));
    }
    T operator--() const noexcept
    {
        return this->value(static_cast<typename Base::Bits>(this->bits(fetch_sub(1)) - 1));
    }
    T operator++(int) const noexcept
    {
        return fetch_add(1);
    }
    T operator--(int) const noexcept
    {
        return fetch_sub(1);
    }
    T operator+=(T v) const noexcept
    {
        return this->value(static_cast<typename Base::Bits>(this->bits(fetch_add(v)) + this->bits(v)));
    }
    T operator-=(T v) const noexcept
    {
        return this->value(static_cast<typename Base::Bits>(this->bits(fetch_sub(v)) - this->bits(v)));
    }
    T operator&=(T v) const noexcept
    {
        return static_cast<T>(fetch_and(v) & v);
    }
    T operator|=(T v) const noexcept
    {
        return static_cast<T>(fetch_or(v) | v);
    }
    T operator^=(T v) const noexcept
    {
        return static_cast<T>(fetch_xor(v) ^ v);
    }
};

template <class T> class Ref<T, std::enable_if_t<std::is_floating_point_v<T>>> : public Ref_base<T>
{
    using Base = Ref_base<T>;
    using typename Base::Order;
    static constexpr Order seq_cst = std::memory_order_seq_cst;

public:
    using difference_type = T;
    using Base::Base;
    using Base::operator=;

    /* The first look is relaxed and pairs with nothing: the exchange checks it. */
    T fetch_add(T v, Order order = seq_cst) const noexcept
    {
        T old = this->load(std::memory_order_relaxed);
        while (!this->compare_exchange_weak(old, old + v, order, std::memory_order_relaxed)) {
        }
        return old;
    }
    T fetch_sub(T v, Order order = seq_cst) const noexcept
    {
        return fetch_add(-v, order);
    }
    T operator+=(T v) const noexcept
    {
        return fetch_add(v) + v;
    }
    T operator-=(T v) const noexcept
    {
        return fetch_sub(v) - v;
    }
};

template <class T> class Ref<T *, void> : public Ref_base<T *>
{
    using Base = Ref_base<T *>;
    using typename Base::Bits;
    using typename Base::Order;
    using typename Base::W;
    static constexpr Order seq_cst = std::memory_order_seq_cst;
    static Bits bytes(std::ptrdiff_t n) noexcept
    {
        return static_cast<Bits>(n) * sizeof(T);
    }

public:
    using difference_type = std::ptrdiff_t;
    using Base::Base;
    using Base::operator=;

    T *fetch_add(std::ptrdiff_t n, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_add(this->word(), bytes(n), order));
    }
    T *fetch_sub(std::ptrdiff_t n, Order order = seq_cst) const noexcept
    {
        return this->value(W::fetch_sub(this->word(), bytes(n), order));
    }
    T *operator++() const noexcept
    {
        return fetch_add(1) + 1;
    }
    T *operator--() const noexcept
    {
        return fetch_sub(1) - 1;
    }
    T *operator++(int) const noexcept
    {
        return fetch_add(1);
    }
    T *operator--(int) const noexcept
    {
        return fetch_sub(1);
    }
    T *operator+=(std::ptrdiff_t n) const noexcept
    {
        return fetch_add(n) + n;
    }
    T *operator-=(std::ptrdiff_t n) const noexcept
    {
        return fetch_sub(n) - n;
    }
};

} // namespace detail

template <class T> class atomic_ref : public detail::Ref<T>
{
public:
    explicit atomic_ref(T &t) noexcept : detail::Ref<T>(t) {}
    atomic_ref(const atomic_ref &) noexcept = default;
    atomic_ref &operator=(const atomic_ref &) = delete;
    T operator=(T v) const noexcept
    {
        this->store(v);
        return v;
    }
};

} // namespace lw
} // extern "C++"

#endif
LW__HEADER_ENDS

#endif
