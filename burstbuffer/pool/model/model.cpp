#include "burstbuffer/pool/model/model.h"

#include <algorithm>
#include <deque>
#include <string_view>
#include <type_traits>
#include <unordered_map>

namespace fabric::pool::model {
namespace {

std::string name(size_t node) { return std::string(1, static_cast<char>('A' + node)); }
std::string text(uint8_t number) { return std::to_string(number); }

// Builds the states that follow one.
class Successors {
  public:
    Successors(const State& state, const Rules& rules, const Limits& limits)
        : state_(state), rules_(rules), limits_(limits) {}

    std::vector<Step> all() && {
        for (size_t n = 0; n < nodes; ++n) {
            if (state_.node[n].lost) continue;
            environment(n);
            if (state_.node[n].dead) continue;
            membership(n);
            ownership(n);
            write(n);
            drain(n);
        }
        return std::move(steps_);
    }

  private:
    State& add(std::string what) {
        steps_.push_back({std::move(what), state_});
        return steps_.back().state;
    }

    // Rule 1. The fence is earlier than the end of the lease at etcd, so who finds himself within it has the lease
    // still, at the moment of looking; what he then does may come any time later.
    bool may_serve(const Node& node) const {
        if (node.believes == 0) return false;
        return !rules_.fence || node.lease == node.believes;
    }
    bool owner_is(size_t n, uint8_t incarnation) const {
        return state_.owner == static_cast<int8_t>(n) && state_.owner_incarnation == incarnation;
    }

    static void stop(Node& node) {
        node.believes = 0;
        node.owns = false;
        node.writing = 0;
        node.copied = false;
        node.drained = 0;
        node.replica = nobody;
    }

    void environment(size_t n) {
        const Node& node = state_.node[n];
        if (node.lease != 0 && (node.dead || state_.expiries < limits_.expiries)) {
            State& after = add("etcd ends the lease of " + name(n));
            after.node[n].lease = 0;
            if (!node.dead) ++after.expiries;
        }
        if (!node.dead && state_.kills < limits_.kills) {
            State& after = add(name(n) + " is killed");
            ++after.kills;
            stop(after.node[n]);
            after.node[n].draining = 0;  // a process is gone when its calls have returned
            if (!rules_.remember_on_disk) after.node[n].superseded = {};
            after.node[n].dead = true;
        }
        if (state_.losses < limits_.losses) {
            State& after = add(name(n) + " is lost with its disks");
            ++after.losses;
            after.node[n] = Node{.dead = true, .lost = true};
        }
        if (node.dead) {
            // The next process on the same disks ends the lease of the one before.
            State& after = add(name(n) + " starts again");
            after.node[n].dead = false;
            join(after.node[n]);
        }
    }

    static void join(Node& node) { node.lease = node.believes = ++node.last; }

    void membership(size_t n) {
        const Node& node = state_.node[n];
        if (node.believes != 0 && node.lease != node.believes) {
            stop(add(name(n) + " sees that its lease is gone").node[n]);
        }
        if (node.believes == 0 && node.lease == 0 && (node.draining == 0 || !rules_.return_before_joining)) {
            join(add(name(n) + " joins anew").node[n]);
        }
    }

    void ownership(size_t n) {
        const Node& node = state_.node[n];
        // All of these are transactions that etcd does only while the node's member key is there.
        if (node.believes == 0 || node.lease != node.believes) return;
        if (state_.owner == nobody && !node.owns) {
            for (size_t r = 0; r < nodes; ++r) {
                if (r == n || state_.node[r].lease == 0) continue;
                State& after = add(name(n) + " claims the file, replica " + name(r));
                own(after, n);
                after.replica = after.node[n].replica = static_cast<int8_t>(r);
                if (!rules_.copies_of_one_ownership) continue;
                // Told by what they carry, wherever they are.
                for (Node& one : after.node) one.copy = 0;
            }
        }
        if (state_.owner != nobody && !node.owns) take_over(n);
        if (node.owns && owner_is(n, node.believes)) change_replica(n);
    }

    static void own(State& after, size_t n) {
        Node& node = after.node[n];
        after.owner = static_cast<int8_t>(n);
        after.owner_incarnation = node.believes;
        after.joining = nobody;
        node.owns = true;
        node.copied = false;
        node.drained = 0;
        node.replica = nobody;
    }

    // The old owner stays named: it has a copy, until the next replica has one.
    void take_over(size_t n) {
        auto before = static_cast<size_t>(state_.owner);
        bool itself = before == n, named = state_.replica == static_cast<int8_t>(n);
        bool gone = state_.node[before].lease != state_.owner_incarnation;
        if ((!itself && !named) || (rules_.take_over_guard && !gone)) return;
        State& after = add(name(n) + (itself ? " takes up again what it owned" : " takes over from " + name(before)));
        own(after, n);
        if (!rules_.old_in_record) after.old = {};
        after.old[n] = 0;  // rule 10
        if (itself) return;
        after.replica = rules_.name_the_old ? static_cast<int8_t>(before) : nobody;
        Node& node = after.node[n];
        node.superseded[before] = std::max(node.superseded[before], state_.owner_incarnation);
        after.old[before] = state_.owner_incarnation;
    }

    // First it is named, so that it keeps what it gets; when it has everything, it is the replica and the one before is
    // not.
    void change_replica(size_t n) {
        const Node& node = state_.node[n];
        if (node.replica != nobody) return;
        if (state_.joining == nobody) {
            for (size_t r = 0; r < nodes; ++r) {
                if (r == n || state_.node[r].lease == 0) continue;
                add(name(n) + " names " + name(r) + " as the next replica").joining = static_cast<int8_t>(r);
            }
        } else if (node.copied || node.copy == 0) {
            State& after = add(name(static_cast<size_t>(state_.joining)) + " is the replica of " + name(n));
            after.replica = after.node[n].replica = state_.joining;
            after.joining = nobody;
        } else {
            replicate(n, static_cast<size_t>(state_.joining));
        }
    }

    void write(size_t n) {
        const Node& node = state_.node[n];
        if (node.owns && node.replica != nobody && may_serve(node) && state_.issued < limits_.generations) {
            State& after = add(name(n) + " stores generation " + text(state_.issued + 1) + " of a client");
            Node& writer = after.node[n];
            writer.copy = writer.writing = ++after.issued;
            writer.copied = false;
        }
        if (node.writing != 0 && !node.copied) replicate(n, static_cast<size_t>(node.replica));
        if (node.writing != 0 && (node.copied || !rules_.both_have_it) &&
            (may_serve(node) || !rules_.check_before_answer)) {
            State& after = add(name(n) + " acknowledges generation " + text(node.writing));
            if (node.writing < after.acknowledged) after.went_back = true;
            after.acknowledged = std::max(after.acknowledged, node.writing);
            after.node[n].writing = 0;
        }
    }

    void replicate(size_t n, size_t r) {
        const Node& node = state_.node[n];
        const Node& to = state_.node[r];
        if (to.dead || to.lost) return;
        if (rules_.refuse_superseded && (to.owns || to.superseded[n] >= node.believes)) return;
        State& after = add(name(r) + " stores generation " + text(node.copy) + " for " + name(n));
        after.node[r].copy = node.copy;
        after.node[n].copied = true;
    }

    void drain(size_t n) {
        const Node& node = state_.node[n];
        if (node.owns && may_serve(node) && node.draining == 0 && node.copy != 0 && node.drained != node.copy) {
            State& after = add(name(n) + " looks at the fence and is about to drain generation " + text(node.copy));
            after.node[n].draining = node.copy;
        }
        if (node.draining != 0) {
            State& after = add(name(n) + " writes generation " + text(node.draining) + " to the backing store");
            after.backing = node.draining;
            Node& drainer = after.node[n];
            if (drainer.owns) drainer.drained = drainer.draining;
            drainer.draining = 0;
        }
        if (node.owns && owner_is(n, node.believes)) learn_of_the_old(n);
        if (node.owns && node.drained != 0 && node.writing == 0 && node.draining == 0) release(n);
        if (!node.owns && node.copy != 0) forget(n);
    }

    // An owner of before has joined anew, so its threads have returned (rule 10), or it was lost.
    void learn_of_the_old(size_t n) {
        for (size_t o = 0; o < nodes; ++o) {
            const Node& old = state_.node[o];
            if (state_.old[o] == 0 || (!old.lost && old.lease <= state_.old[o])) continue;
            State& after = add(name(n) + " learns that " + name(o) + " of before writes no more");
            after.old[o] = 0;
            if (rules_.drain_again) after.node[n].drained = 0;
        }
    }

    void release(size_t n) {
        const Node& node = state_.node[n];
        if (rules_.generations && node.drained != node.copy) return;
        bool is_owner = owner_is(n, node.believes);
        if (rules_.guarded_release && !is_owner) return;
        // Who is not the owner any more knows nothing of others after it.
        if (rules_.wait_for_the_old && is_owner && state_.old != decltype(state_.old){}) return;
        State& after = add(name(n) + " has drained and releases the file");
        after.owner = after.replica = after.joining = nobody;
        after.owner_incarnation = 0;
        after.old = {};
        Node& owner = after.node[n];
        owner.owns = owner.copied = false;
        owner.copy = owner.drained = 0;
        owner.replica = nobody;
    }

    // A copy is kept while the record may name its holder.
    void forget(size_t n) {
        auto self = static_cast<int8_t>(n);
        bool named = state_.owner == self || state_.replica == self || state_.joining == self;
        if (rules_.keep_until_released && (named || (state_.owner == nobody && state_.node[n].believes == 0))) return;
        if (!rules_.keep_until_released && state_.backing < state_.node[n].copy) return;
        add(name(n) + " forgets its copy").node[n].copy = 0;
    }

    const State& state_;
    const Rules& rules_;
    const Limits& limits_;
    std::vector<Step> steps_;
};

struct Hash {
    size_t operator()(const State& state) const {
        static_assert(std::has_unique_object_representations_v<State>);
        return std::hash<std::string_view>()({reinterpret_cast<const char*>(&state), sizeof state});
    }
};
using Seen = std::unordered_map<State, const State*, Hash>;  // and from where it was reached first

std::vector<std::string> trace(const Seen& seen, const State* last, const Rules& rules, const Limits& limits) {
    std::vector<std::string> steps;
    for (const State* before = seen.at(*last); before != nullptr; last = before, before = seen.at(*last)) {
        for (const Step& step : next(*before, rules, limits)) {
            if (step.state != *last) continue;
            steps.push_back(step.what);
            break;
        }
    }
    std::ranges::reverse(steps);
    return steps;
}

}  // namespace

std::vector<Step> next(const State& state, const Rules& rules, const Limits& limits) {
    return Successors(state, rules, limits).all();
}

std::optional<std::string> violation(const State& state) {
    if (state.went_back) return "an older generation was acknowledged after a newer one";
    if (state.owner == nobody) {
        if (state.backing >= state.acknowledged) return std::nullopt;
        return "nobody owns the file, and the backing store has generation " + text(state.backing) + " for " +
               text(state.acknowledged);
    }
    uint8_t best = state.node[static_cast<size_t>(state.owner)].copy;
    if (state.replica != nobody) best = std::max(best, state.node[static_cast<size_t>(state.replica)].copy);
    if (best >= state.acknowledged || state.backing >= state.acknowledged) return std::nullopt;
    return "generation " + text(state.acknowledged) + " was acknowledged, and neither the owner nor its replica has it";
}

Result explore(const Rules& rules, const Limits& limits) {
    State first;
    for (Node& node : first.node) node.lease = node.believes = node.last = 1;
    Seen seen{{first, nullptr}};
    std::deque<const State*> open{&seen.begin()->first};
    while (!open.empty()) {
        const State* state = open.front();
        open.pop_front();
        for (const Step& step : next(*state, rules, limits)) {
            auto [reached, added] = seen.try_emplace(step.state, state);
            if (!added) continue;
            if (auto wrong = violation(step.state)) {
                return {seen.size(), wrong, trace(seen, &reached->first, rules, limits)};
            }
            open.push_back(&reached->first);
        }
    }
    return {seen.size(), std::nullopt, {}};
}

}  // namespace fabric::pool::model
