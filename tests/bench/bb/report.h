// What the burst buffer's benchmarks print: a table, and JSON in the form of all benchmarks here.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace fabric::bench {

inline double median(std::vector<double> values) {
    std::ranges::sort(values);
    size_t half = values.size() / 2;
    return values.size() % 2 != 0 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class Report {
  public:
    // The runs of one thing, ours and a peer's in turn.
    void add(const std::string& name, const std::string& unit, const std::string& better, const std::string& peer,
             const std::vector<double>& ours, const std::vector<double>& theirs) {
        double own = median(ours), other = theirs.empty() ? 0 : median(theirs);
        nlohmann::json one{{"name", name},
                           {"unit", unit},
                           {"better", better},
                           {"ours", own},
                           {"peers", nlohmann::json::object()},
                           {"ratios", nlohmann::json::object()},
                           {"runs", ours.size()}};
        std::string beside;
        if (!theirs.empty()) {
            one["peers"][peer] = other;
            one["ratios"][peer] = own / other;
            beside = fmt::format("{:>12.1f} {:<22} ratio {:.2f}", other, peer, own / other);
        }
        all_.push_back(one);
        fmt::print("{:<34} {:>12.1f} {:<10} {}\n", name, own, unit, beside);
        std::fflush(stdout);
    }
    bool write(const std::string& path) const {
        std::ofstream file(path);
        file << all_.dump(2) << "\n";
        return file.good();
    }

  private:
    nlohmann::json all_ = nlohmann::json::array();
};

}  // namespace fabric::bench
