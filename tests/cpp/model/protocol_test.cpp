// SPDX-License-Identifier: MIT
// Every state that two or three cores and one line can reach, in every order of messages, under the engine's own protocol
// text.
#include "model/protocol.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <string>

namespace {

using namespace lw::model;

constexpr std::array requests{Request::read_shared, Request::read_unique, Request::far_atomic};

enum class Turn : char { idle, asked, served };
enum class Home : char { idle, snooping, granted };

// One line with its cores, and which of the copies hold the value written last.
struct World {
    explicit World(unsigned cores)
        : line(cores), step(cores, Turn::idle), wants(cores, Request::read_shared), fresh(cores) {}

    Line line;
    std::vector<Turn> step;
    std::vector<Request> wants;
    std::vector<bool> fresh;
    bool home_fresh = true;
    Home home = Home::idle;

    std::string key() const {
        std::string text;
        for (unsigned core = 0; core < step.size(); ++core) {
            text += static_cast<char>('0' + static_cast<int>(line.state(core)));
            text += static_cast<char>('a' + static_cast<int>(step[core]));
            text += step[core] == Turn::idle ? '-' : static_cast<char>('A' + static_cast<int>(wants[core]));
            text += fresh[core] ? '+' : '.';
            text += line.unanswered().test(core) && home == Home::snooping ? '!' : '.';
            text += line.holders().test(core) ? 'h' : '.';
        }
        text += static_cast<char>('0' + static_cast<int>(home));
        text += home_fresh ? '+' : '.';
        if (home != Home::idle)
            text += static_cast<char>('0' + line.requester());
        return text;
    }

    // The newest value is where a reader would find it.
    std::string broken() const {
        if (!line.coherent())
            return "not a single writer or many readers";
        bool dirty = false;
        for (unsigned core = 0; core < step.size(); ++core) {
            dirty |= line.dirty(core);
            if (line.state(core) != State::I && !fresh[core])
                return "a core holds a stale copy";
        }
        if (!dirty && !home_fresh && home == Home::idle)
            return "the newest value is lost";
        return "";
    }

    void written_by(unsigned core) {
        line.write(core);
        std::fill(fresh.begin(), fresh.end(), false);
        fresh[core] = true;
        home_fresh = false;
    }

    void snoop(unsigned core) {
        const bool was = fresh[core];
        if (line.answer(core) && was)
            home_fresh = true; // the home sees what passes to the requester
        if (line.state(core) == State::I)
            fresh[core] = false;
    }

    void grant() {
        const unsigned core = line.requester();
        const bool had = line.state(core) != State::I;
        const State state = line.grant();
        if (line.request() == Request::far_atomic) {
            EXPECT_TRUE(home_fresh) << "the home performs an atomic on a stale value";
            std::fill(fresh.begin(), fresh.end(), false);
        } else if (state != State::I && !had) {
            fresh[core] = home_fresh;
        }
        if (state == State::I)
            fresh[core] = false;
        home = Home::granted;
        step[core] = Turn::served;
    }
};

template <class Visit> void successors(const World &world, Visit visit) {
    const unsigned cores = static_cast<unsigned>(world.step.size());
    for (unsigned core = 0; core < cores; ++core) {
        if (world.step[core] == Turn::idle) {
            for (Request request : requests) {
                World next = world;
                next.step[core] = Turn::asked;
                next.wants[core] = request;
                visit(next);
            }
        }
        // A unique holder writes when it likes, also while its own request is on the way.
        if (is_unique(world.line.state(core))) {
            World next = world;
            next.written_by(core);
            visit(next);
        }
        if (world.home == Home::idle && world.step[core] == Turn::asked) {
            World next = world;
            next.line.begin(core, world.wants[core]);
            next.home = Home::snooping;
            visit(next);
        }
        if (world.home == Home::snooping && world.line.unanswered().test(core)) {
            World next = world;
            next.snoop(core);
            visit(next);
        }
    }
    if (world.home == Home::snooping && world.line.unanswered().none()) {
        World next = world;
        next.grant();
        visit(next);
    }
    if (world.home == Home::granted) {
        World next = world;
        next.step[world.line.requester()] = Turn::idle;
        next.line.release();
        next.home = Home::idle;
        visit(next);
    }
}

std::size_t explore(unsigned cores) {
    std::set<std::string> seen;
    std::deque<World> waiting{World(cores)};
    seen.insert(waiting.front().key());
    while (!waiting.empty()) {
        const World world = waiting.front();
        waiting.pop_front();
        const std::string broken = world.broken();
        if (!broken.empty()) {
            ADD_FAILURE() << broken << " in " << world.key();
            return seen.size();
        }
        unsigned ways = 0;
        successors(world, [&](const World &next) {
            ++ways;
            if (seen.insert(next.key()).second)
                waiting.push_back(next);
        });
        if (ways == 0)
            ADD_FAILURE() << "deadlock in " << world.key();
    }
    return seen.size();
}

TEST(Protocol, TwoCoresInEveryOrder) { EXPECT_GT(explore(2), 100u); }
TEST(Protocol, ThreeCoresInEveryOrder) { EXPECT_GT(explore(3), 1500u); }

TEST(Protocol, NoRequestLeavesAnotherWriterBesideAUniqueHolder) {
    for (State held : {State::I, State::SC, State::UC, State::UD}) {
        EXPECT_EQ(snooped(Request::read_unique, held).after, State::I);
        EXPECT_EQ(snooped(Request::far_atomic, held).after, State::I);
        EXPECT_FALSE(is_unique(snooped(Request::read_shared, held).after));
    }
}

TEST(Protocol, ADirtyCopyIsNeverDropped) {
    for (Request request : requests)
        EXPECT_TRUE(snooped(request, State::UD).supplies);
}

} // namespace
