// SPDX-License-Identifier: MIT
// A C++ program that knows nothing of Linewright: std::shared_mutex and std::shared_timed_mutex, and locks that are copied, zeroed, unmapped
// and made again. Run as it is, and with liblinewright-rwlock.so preloaded. Exit code: 0, or the number of what went wrong.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

namespace {

std::atomic<int> wrong{0};
void needs(bool holds, const char *what) {
    if (holds)
        return;
    std::printf("not so: %s\n", what);
    wrong++;
}

template <class Mutex> struct Table {
    Mutex mutex;
    std::map<int, int> entries;
    long written = 0;

    void read(int key) {
        std::shared_lock lock(mutex);
        const auto found = entries.find(key);
        needs(found == entries.end() || found->second % 1000 == key, "an entry is whole");
    }
    void write(int key) {
        std::unique_lock lock(mutex);
        entries[key] = 1000 * static_cast<int>(++written % 1000) + key;
        if (written % 64 == 0)
            entries.clear();
    }
};

template <class Mutex> void used_by_threads() {
    Table<Mutex> table;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20000; i++)
                i % 128 == t ? table.write(i % 100) : table.read(i % 100);
        });
    for (std::thread &t : threads)
        t.join();
    std::shared_lock lock(table.mutex);
    needs(table.written == 4 * 157, "every write is there");
}

void waits_with_limits() {
    std::shared_timed_mutex mutex;
    for (int i = 0; i < 1000; i++)
        std::shared_lock lock(mutex);
    std::shared_lock reader(mutex);
    std::thread([&] {
        needs(!mutex.try_lock_for(std::chrono::milliseconds(2)), "a writer waits in vain");
        needs(mutex.try_lock_shared_until(std::chrono::system_clock::now() + std::chrono::hours(1)), "a reader does not");
        mutex.unlock_shared();
    }).join();
    reader.unlock();
    needs(mutex.try_lock_until(std::chrono::steady_clock::now()), "then the writer gets it");
    mutex.unlock();
}

bool is_free(pthread_rwlock_t *l) {
    int result = 1;
    std::thread([&] { result = pthread_rwlock_trywrlock(l) || pthread_rwlock_unlock(l); }).join();
    return result == 0;
}

void read_often(pthread_rwlock_t *l) {
    uint32_t biased = 0; // the third word of the preloaded library's lock; a bias may be put off
    for (int i = 0; std::getenv("LW_INTERPOSED") ? biased != 1 : i < 1000; i++) {
        needs(!pthread_rwlock_rdlock(l) && !pthread_rwlock_unlock(l), "it is read");
        std::memcpy(&biased, reinterpret_cast<const char *>(l) + 8, sizeof biased);
    }
}

void copied_zeroed_unmapped() {
    pthread_rwlock_t first = PTHREAD_RWLOCK_INITIALIZER, copy;
    read_often(&first);
    std::memcpy(&copy, &first, sizeof copy);
    needs(!pthread_rwlock_rdlock(&first), "the first is held");
    needs(is_free(&copy) && !is_free(&first), "a copy is a lock of its own");
    needs(!pthread_rwlock_unlock(&first) && is_free(&first), "the first is released");
    read_often(&copy);
    std::memset(&copy, 0, sizeof copy);
    needs(is_free(&copy), "zeroed memory is an unlocked lock");
    pthread_rwlock_t other = PTHREAD_RWLOCK_INITIALIZER;
    for (int i = 0; i < 100; i++) { // unmapped while readers mark, and at the same address again
        void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const auto l = static_cast<pthread_rwlock_t *>(page);
        std::memset(page, 0xa5, 4096);
        needs(!pthread_rwlock_init(l, nullptr), "it begins");
        needs(is_free(l), "it is free");
        read_often(l);
        read_often(&other);
        munmap(page, 4096);
        needs(is_free(&other), "a writer of another lock looks for readers");
    }
}

} // namespace

int main() {
    const std::pair<const char *, void (*)()> cases[] = {
        {"std::shared_mutex", used_by_threads<std::shared_mutex>},
        {"std::shared_timed_mutex", used_by_threads<std::shared_timed_mutex>},
        {"time limits of std::shared_timed_mutex", waits_with_limits},
        {"copied, zeroed, unmapped", copied_zeroed_unmapped},
    };
    for (const auto &[name, check] : cases) {
        const int before = wrong;
        check();
        std::printf("%s %s\n", wrong == before ? "PASS" : "FAIL", name);
    }
    std::printf("%d things went wrong\n", wrong.load());
    return wrong != 0;
}
