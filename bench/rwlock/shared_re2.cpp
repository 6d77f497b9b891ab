// SPDX-License-Identifier: MIT
// One RE2 object that all threads match with: what a server does that compiles its patterns once. Run as it is and with
// `linewright run --locks` (programs.py); it prints how many matches a second all threads made.
#include <re2/re2.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

int main(int count, char **words) {
    const int threads = count > 1 ? std::atoi(words[1]) : 2;
    const std::chrono::duration<double> time(count > 2 ? std::atof(words[2]) : 1.0);
    const RE2 pattern("([a-z]+)@([a-z]+)\\.(com|org)");
    const std::string text = "someone@example.org";
    std::atomic<bool> go{false}, stop{false};
    std::atomic<long> matches{0}, wrong{0};
    std::vector<std::thread> running;
    for (int t = 0; t < threads; t++)
        running.emplace_back([&] {
            long own = 0;
            while (!go)
                std::this_thread::yield();
            for (; !stop.load(std::memory_order_relaxed); own++)
                if (!RE2::FullMatch(text, pattern))
                    wrong++;
            matches += own;
        });
    const auto begin = std::chrono::steady_clock::now();
    go = true;
    std::this_thread::sleep_for(time);
    stop = true;
    for (std::thread &t : running)
        t.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.0f matches/s\n", static_cast<double>(matches.load()) / took.count());
    return wrong != 0;
}
