#include "packaging/probe/report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace fabric::probe {
namespace {

std::string remark(const Finding& finding) {
    if (!finding.status.ok()) return finding.status.message();
    if (finding.check == Check::exports)
        return fmt::format("{} export{}{}", finding.list.exports.size(), finding.list.exports.size() == 1 ? "" : "s",
                           finding.list.truncated ? ", and more that were not read" : "");
    if (finding.check != Check::nfs4) return "";
    std::string text = "minor versions";
    for (uint32_t minor : finding.minor_versions) text += fmt::format(" 4.{}", minor);
    return finding.minor_versions.empty() ? "no minor version of 0, 1 and 2" : text;
}

std::string milliseconds(const Finding& finding, double microseconds) {
    return finding.round_trips.count == 0 ? "-" : fmt::format("{:.3f}", microseconds / 1000);
}

nlohmann::ordered_json exports_json(const ExportList& list) {
    auto exports = nlohmann::ordered_json::array();
    for (const Export& entry : list.exports) {
        auto groups = nlohmann::ordered_json::array();
        for (const std::string& group : entry.groups) groups.push_back(printable(group));
        exports.push_back({{"path", printable(entry.path)}, {"groups", groups}});
    }
    return exports;
}

nlohmann::ordered_json finding_json(const Finding& finding) {
    nlohmann::ordered_json json{{"name", name_of(finding.check)}, {"ok", finding.status.ok()}};
    if (finding.port != 0) json["port"] = finding.port;
    if (!finding.status.ok()) {
        json["error"] = printable(finding.status.message());
        return json;
    }
    if (finding.check == Check::exports) {
        json["exports"] = exports_json(finding.list);
        json["truncated"] = finding.list.truncated;
        return json;
    }
    const RoundTrips& trips = finding.round_trips;
    json["rtt_us"] = {{"min", trips.min}, {"median", trips.median}, {"max", trips.max}, {"count", trips.count}};
    if (finding.check == Check::nfs4) json["minor_versions"] = finding.minor_versions;
    return json;
}

}  // namespace

std::string printable(std::string_view text) {
    std::string result;
    for (unsigned char c : text) {
        if (c == '\\')
            result += "\\\\";
        else if (c >= 0x20 && c < 0x7f)
            result += static_cast<char>(c);
        else
            result += fmt::format("\\x{:02x}", c);
    }
    return result;
}

std::string to_table(const Report& report) {
    std::string text = fmt::format("{}\n{:<8} {:>5}  {:<6}  {:>8} {:>8} {:>8}\n", report.host, "check", "port",
                                   "answer", "min ms", "median", "max");
    for (const Finding& finding : report.findings) {
        std::string line = fmt::format(
            "{:<8} {:>5}  {:<6}  {:>8} {:>8} {:>8}  {}", name_of(finding.check),
            finding.port == 0 ? "-" : std::to_string(finding.port), finding.status.ok() ? "ok" : "FAILED",
            milliseconds(finding, finding.round_trips.min), milliseconds(finding, finding.round_trips.median),
            milliseconds(finding, finding.round_trips.max), printable(remark(finding)));
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    for (const Finding& finding : report.findings) {
        for (const Export& entry : finding.list.exports) {
            text += "export   " + printable(entry.path) + "  for";
            for (const std::string& group : entry.groups) text += " " + printable(group);
            text += entry.groups.empty() ? " everybody\n" : "\n";
        }
    }
    return text;
}

std::string to_json(const Report& report) {
    nlohmann::ordered_json json{
        {"host", printable(report.host)}, {"ok", report.failures() == 0}, {"checks", nlohmann::ordered_json::array()}};
    for (const Finding& finding : report.findings) json["checks"].push_back(finding_json(finding));
    return json.dump(2) + "\n";
}

}  // namespace fabric::probe
