// SPDX-License-Identifier: MIT
// The map from C++: users by number. Readers look up under a guard, an updater replaces users, and each old one is deleted
// after a grace period. Exit code 0: every lookup found a user whose fields belong together.
#include "map.h"

#include <linewright/percpu.h>
#include <linewright/srcu.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace
{

LW_DEFINE_STATIC_SRCU(lw_srcu_fast, domain);
lw::counter lookups;

struct User {
    rcu_map_node by_number{}; // first: a node's address is its user's
    std::uint64_t version, check;
    User(std::uint64_t number, std::uint64_t v) : version(v), check(~v)
    {
        by_number.key = number;
    }
    ~User()
    {
        check = version;
    } // what a reader must not see
};

struct Directory {
    static constexpr std::uint64_t users = 16;
    rcu_map map{};
    std::mutex updating;

    bool put(std::uint64_t number, std::uint64_t version)
    {
        auto *fresh = new User(number, version);
        const std::lock_guard<std::mutex> lock(updating);
        if (auto *old = rcu_map_replace(&map, &fresh->by_number))
            return lw::retire(domain, reinterpret_cast<User *>(old)) == 0;
        return rcu_map_insert(&map, &fresh->by_number) == 0;
    }
    bool is_whole(std::uint64_t number) const
    {
        const lw::srcu_guard<lw_srcu_fast> guard(domain); // to the end of this function
        const auto *user = reinterpret_cast<const User *>(rcu_map_find(&map, number));
        ++lookups;
        return user && user->check == ~user->version;
    }
};

} // namespace

int main()
{
    Directory directory;
    if (rcu_map_init(&directory.map, &domain, 3) != 0)
        return 1;
    bool good = true;
    for (std::uint64_t n = 0; n < Directory::users; ++n)
        good &= directory.put(n, 0);
    std::atomic<bool> all_whole{true};
    std::vector<std::thread> readers;
    for (int i = 0; i < 2; ++i)
        readers.emplace_back([&] {
            for (std::uint64_t n = 0; n < 100'000; ++n)
                if (!directory.is_whole(n % Directory::users))
                    all_whole = false;
        });
    for (std::uint64_t version = 1; version < 2'000; ++version)
        good &= directory.put(version % Directory::users, version);
    for (std::thread &reader : readers)
        reader.join();
    for (std::uint64_t n = 0; n < Directory::users; ++n)
        delete reinterpret_cast<User *>(rcu_map_remove(&directory.map, n));
    good &= lw_srcu_barrier(&domain) == 0 && lookups.sum() == 200'000;
    rcu_map_destroy(&directory.map);
    return good && all_whole ? 0 : 1;
}
