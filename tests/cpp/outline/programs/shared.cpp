// SPDX-License-Identifier: MIT
// std::atomic and std::shared_ptr from several threads, and in a constructor that runs before main.
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

namespace {

std::atomic<long> alive{0}, total{0};

struct Counted {
    Counted() { ++alive; }
    ~Counted() { --alive; }
};

// Runs while constructors run: whatever form the helpers take by then must be right.
const long early = [] {
    for (int i = 0; i < 1000; ++i)
        total.fetch_add(2);
    return total.load();
}();

} // namespace

int main() {
    auto shared = std::make_shared<Counted>();
    std::vector<std::thread> pool;
    for (int t = 0; t < 4; ++t)
        pool.emplace_back([&shared] {
            for (int i = 0; i < 3000; ++i) {
                std::shared_ptr<Counted> copy = shared;
                std::weak_ptr<Counted> weak = copy;
                if (auto again = weak.lock())
                    total.fetch_add(1, std::memory_order_relaxed);
            }
        });
    for (auto &thread : pool)
        thread.join();
    const bool exact = early == 2000 && total == 2000 + 4 * 3000 && shared.use_count() == 1 && alive == 1;
    shared.reset();
    const bool good = exact && alive == 0;
    std::puts(good ? "sums exact" : "sums wrong");
    return good ? 0 : 1;
}
