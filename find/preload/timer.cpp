// SPDX-License-Identifier: MIT
// Preloaded where perf_event_open is refused: a CPU timer for each thread, whose signal handler writes samples to a ring.
//
// What it changes in the program: one real-time signal (SIGRTMAX - 2) is taken, pthread_create is wrapped, and threads are
// interrupted at the kernel's tick at most (250 times a second of CPU time with a tick of 4 ms). Only async-signal-safe
// calls are made in the handler.
#include "find/preload/ring.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

using namespace lw::find;

std::atomic<SharedRing *> ring;
const char *folder;
long long period_ns = 4'000'000;
pthread_key_t timer_key; // a thread's timer, deleted when the thread ends
bool ready;

int signal_number() { return SIGRTMAX - 2; }

// Words at an address, as many as can be read: no frame pointer is trusted.
unsigned words_at(Word address, Word *to, unsigned count) {
    iovec here{to, count * sizeof(Word)}, there{reinterpret_cast<void *>(address), count * sizeof(Word)};
    ssize_t got = syscall(SYS_process_vm_readv, getpid(), &here, 1ul, &there, 1ul, 0ul);
    return got < 0 ? 0 : static_cast<unsigned>(static_cast<std::size_t>(got) / sizeof(Word));
}

// The first words of the stack.
unsigned top_of(Word stack, std::uint64_t *to) {
    Word words[top_words];
    unsigned count = words_at(stack, words, top_words);
    std::copy_n(words, count, to);
    return count;
}

// The caller's registers in the order of perf's numbers; the frame pointer and the stack pointer are handed back too.
void registers_of(const ucontext_t *context, std::uint64_t *to, Word &frame, Word &stack) {
#if defined(__x86_64__)
    constexpr int order[] = {REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_RIP,
                             REG_EFL, REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    for (int number : order)
        *to++ = static_cast<std::uint64_t>(context->uc_mcontext.gregs[number]);
    frame = static_cast<Word>(context->uc_mcontext.gregs[REG_RBP]);
    stack = static_cast<Word>(context->uc_mcontext.gregs[REG_RSP]);
#elif defined(__i386__)
    constexpr int order[] = {REG_EAX, REG_EBX, REG_ECX, REG_EDX, REG_ESI, REG_EDI, REG_EBP, REG_ESP, REG_EIP, REG_EFL};
    for (int number : order)
        *to++ = static_cast<std::uint32_t>(context->uc_mcontext.gregs[number]);
    frame = static_cast<Word>(context->uc_mcontext.gregs[REG_EBP]);
    stack = static_cast<Word>(context->uc_mcontext.gregs[REG_ESP]);
#else
    for (std::uint64_t value : context->uc_mcontext.regs)
        *to++ = value;
    *to++ = context->uc_mcontext.sp;
    *to = context->uc_mcontext.pc;
    frame = context->uc_mcontext.regs[29];
    stack = context->uc_mcontext.sp;
#endif
}

unsigned walk(Word frame, Word stack, std::uint64_t *chain) {
    unsigned count = 0;
    Word pair[2]; // the caller's frame pointer, the return address
    while (count < most_frames && frame > stack && frame % sizeof(Word) == 0 && words_at(frame, pair, 2) == 2 && pair[1]) {
        chain[count++] = pair[1];
        if (pair[0] <= frame)
            break;
        frame = pair[0];
    }
    return count;
}

Slot *claim(SharedRing &to) {
    std::uint64_t head = to.head.load(std::memory_order_relaxed);
    do {
        // Acquire: pairs with the reader's release store of tail (signals.cpp): the slot has been read.
        if (head - to.tail.load(std::memory_order_acquire) >= ring_slots) {
            to.lost.fetch_add(1, std::memory_order_relaxed);
            return nullptr;
        }
    } while (!to.head.compare_exchange_weak(head, head + 1, std::memory_order_relaxed));
    return &to.slots[head % ring_slots];
}

std::uint64_t now_ns() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

void on_tick(int, siginfo_t *, void *where) {
    int before = errno;
    SharedRing *to = ring.load(std::memory_order_acquire);
    std::uint64_t began = now_ns();
    Slot *slot = to ? claim(*to) : nullptr;
    if (slot) {
        Word frame, stack;
        registers_of(static_cast<ucontext_t *>(where), slot->registers, frame, stack);
        slot->tid = static_cast<std::uint32_t>(syscall(SYS_gettid));
        slot->cpu = static_cast<std::uint32_t>(sched_getcpu()); // the rseq area or the vDSO: safe in a handler
        slot->time_ns = began;
        slot->frames = walk(frame, stack, slot->chain);
        slot->words = top_of(stack, slot->top);
        // Release: pairs with the acquire load of the sampler's drain, which then sees the whole sample (signals.cpp).
        slot->full.store(1, std::memory_order_release);
    }
    if (to)
        to->handler_ns.fetch_add(now_ns() - began, std::memory_order_relaxed);
    errno = before;
}

void delete_timer(void *held) { timer_delete(reinterpret_cast<timer_t>(reinterpret_cast<std::uintptr_t>(held) - 1)); }

// A timer on the calling thread's CPU time. Failing leaves the thread unsampled, never the program harmed.
void start_timer() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = signal_number();
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    timer_t timer;
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0)
        return;
    timespec period{static_cast<time_t>(period_ns / 1'000'000'000), static_cast<long>(period_ns % 1'000'000'000)};
    itimerspec setting{period, period};
    timer_settime(timer, 0, &setting, nullptr);
    pthread_setspecific(timer_key, reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(timer) + 1));
}

// A ring of this process's own, named by its number.
void make_ring() {
    ring.store(nullptr, std::memory_order_relaxed);
    char path[4096];
    if (std::snprintf(path, sizeof path, "%s/%d", folder, getpid()) >= static_cast<int>(sizeof path))
        return;
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return;
    void *base = ftruncate(file, sizeof(SharedRing)) == 0
                     ? mmap(nullptr, sizeof(SharedRing), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)
                     : MAP_FAILED;
    close(file);
    if (base == MAP_FAILED)
        return;
    auto *made = static_cast<SharedRing *>(base);
    made->period_ns = static_cast<std::uint64_t>(period_ns);
    // Release: pairs with the sampler's acquire load before it uses the ring (signals.cpp).
    made->magic.store(ring_magic, std::memory_order_release);
    ring.store(made, std::memory_order_release);
}

// Timers do not survive a fork; the child's one thread gets a new one, and a ring that is not its parent's.
void in_child() {
    make_ring();
    start_timer();
}

struct Start {
    void *(*run)(void *);
    void *argument;
};

void *run_thread(void *given) {
    Start start = *static_cast<Start *>(given);
    std::free(given);
    start_timer();
    return start.run(start.argument);
}

[[gnu::constructor]] void begin() {
    folder = std::getenv("LINEWRIGHT_FIND_RINGS");
    const char *period = std::getenv("LINEWRIGHT_FIND_PERIOD_NS");
    if (!folder || pthread_key_create(&timer_key, delete_timer) != 0)
        return;
    if (period && std::atoll(period) > 0)
        period_ns = std::atoll(period);
    struct sigaction action{};
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    if (sigaction(signal_number(), &action, nullptr) != 0)
        return;
    ready = true;
    make_ring();
    pthread_atfork(nullptr, nullptr, in_child);
    start_timer();
}

} // namespace

extern "C" [[gnu::visibility("default")]] int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                             void *(*run)(void *), void *argument) {
    static auto *next = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    auto *start = ready ? static_cast<Start *>(std::malloc(sizeof(Start))) : nullptr;
    if (!start)
        return next(thread, attributes, run, argument);
    *start = {run, argument};
    int error = next(thread, attributes, run_thread, start);
    if (error)
        std::free(start);
    return error;
}
