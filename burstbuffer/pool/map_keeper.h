// The placement map that follows from who is registered and who runs, and when it is written.
//
// Any member may write it: they all see the same and come to the same map, and compare-and-swap lets one of them
// through for each epoch. So that mostly only one tries, each waits longer the later its name comes. No thread, socket
// or clock.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "burstbuffer/pool/records.h"
#include "burstbuffer/pool/time.h"
#include "burstbuffer/pool/view.h"

namespace fabric::pool {

// The map that is right. A registered node that does not run is `down` in it while it was in the one before and is not
// in `given_up`. The epoch is the one before when nothing is different, else the next.
MapRecord next_map(const View& view, const std::set<std::string>& given_up);

class MapKeeper {
  public:
    struct Options {
        std::string prefix;
        std::string node;
        std::chrono::milliseconds grace{60'000};  // a node that does not run stays in the map for so long
        std::chrono::milliseconds step{200};      // between two members' tries
    };

    explicit MapKeeper(Options options) : options_(std::move(options)), keys_(options_.prefix) {}

    // What is at etcd now; as often as it changes.
    void observe(const View& view, Time now);
    // The map to be written at `now`; each is answered once. Nothing: it is right, or not our turn before wake().
    std::optional<etcd::Txn> next(Time now);
    void answered(const Result<etcd::Reply>& reply, Time now);
    Time wake() const;

  private:
    std::set<std::string> given_up(Time now) const;
    void plan(Time now);

    const Options options_;
    const Keys keys_;
    View view_;
    std::map<std::string, Time> missing_;  // since when a node of the map has not been running
    std::optional<MapRecord> wanted_;
    Time due_ = never;
    etcd::Revision tried_ = -1;  // the map's revision that a write was begun from
    bool under_way_ = false;
};

}  // namespace fabric::pool
