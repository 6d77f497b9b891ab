// SPDX-License-Identifier: MIT
// A program that ends while callbacks queue themselves again: none runs beside the destructors of static objects, and a
// destructor can wait for those that are queued. With `keep` the worker goes on, as it was asked to.
#include <linewright/srcu.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include <unistd.h>

namespace {

std::atomic<long> ran;
std::atomic<bool> ending;
bool keep;
lw_srcu domain;
lw_srcu_head endless, queued;

struct Table {
    std::string name = "a table that callbacks read";
    ~Table() {
        ending = true;
        const long before = ran;
        do // with `keep` until one runs, or the alarm; without, as long as one that runs would need
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        while (keep && ran == before);
        const bool still = ran != before;
        std::printf("%s\n", still ? "callbacks beside a destructor" : "no callback beside a destructor");
        std::fflush(stdout);
        if (still != keep)
            _exit(1);
        if (keep)
            _exit(0);
        // What is queued can still be waited for, and runs here.
        static std::thread::id where;
        const auto note = +[](lw_srcu_head *) { where = std::this_thread::get_id(); };
        if (lw_srcu_call(&domain, &queued, note) || lw_srcu_barrier(&domain) || where != std::this_thread::get_id())
            _exit(2);
    }
} table;

void again(lw_srcu_head *head) {
    ran += static_cast<long>(table.name.size());
    if ((!ending || keep) && lw_srcu_call(&domain, head, again))
        _exit(3);
}

} // namespace

int main(int argc, char **argv) {
    alarm(300);
    keep = argc == 2 && !std::strcmp(argv[1], "keep");
    lw_srcu_worker_at_exit(!keep);
    if (lw__srcu_init(&domain, LW__SRCU_NORMAL) || lw_srcu_call(&domain, &endless, again))
        return 4;
    while (!ran)
        std::this_thread::yield();
    return 0;
}
