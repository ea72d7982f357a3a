// SPDX-License-Identifier: Apache-2.0
// `stalltrace nodes`: which nodes answer, and what they have.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/clock.h"
#include "base/text.h"
#include "cli/fleet/node_flags.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/reporting.h"
#include "cli/subcommands/subcommands.h"
#include "fleet/node_info.h"
#include "report/query_format.h"

namespace stalltrace::cli {
namespace {

class NodesSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "nodes",
            .summary = "list the nodes that answer, with their recordings, clocks and losses",
            .example = "stalltrace nodes --nodes gpu[001-128]:7700",
            .details =
                "One row for each recording that a node serves. clock_ms is that node's clock minus this host's;\n"
                "the true value is within +- clock_error_ms, half of the quickest round trip. utc_error_ms is how far "
                "that\n"
                "node reports that its clock may be off, as its kernel has it from chrony or ntpd; empty: its kernel\n"
                "reports no error.\n"
                "Without --nodes it asks those that /etc/stalltrace/stalltrace.toml lists as `nodes`."};
  }
  std::vector<Flag> flags() override {
    std::vector<Flag> all = nodes_.flags();
    all.push_back(choice_flag("--format", "how rows are printed", {"table", "json", "csv"}, &format_));
    return all;
  }
  Result<int> run(Console& console) override {
    nodes_.ask_configured_unless_given();
    ST_ASSIGN(const NodeFlags::Target target, nodes_.prepare(console));
    confine_to_reading({}, "", Makes::kFile, Network::kConnects);
    const fleet::NodesAnswer answer = fleet::ask_nodes(target.nodes, target.client);
    const Status judged = nodes_.judge(console, answer.failed, target.nodes.size());
    if (!answer.answered.empty()) {
      ST_TRY(print(console, answer));
    }
    ST_TRY(judged);
    return kExitDone;
  }

 private:
  Status print(Console& console, const fleet::NodesAnswer& answer) const {
    const auto formatter = report::make_query_formatter(
        *report::query_format_from_text(format_), [&console](std::string_view text) { print_rows(console, text); });
    ST_TRY(formatter->columns({"address", "version", "clock_ms", "clock_error_ms", "utc_error_ms", "recording", "nodes",
                               "state", "from", "to", "collectives", "lost_events"}));
    for (const fleet::NodeAnswer& node : answer.answered) {
      for (const fleet::RecordingInfo& recording : node.info.recordings) {
        ST_TRY(formatter->row(row_of(node, recording)));
      }
    }
    return formatter->finish();
  }

  static std::vector<Value> row_of(const fleet::NodeAnswer& node, const fleet::RecordingInfo& recording) {
    const auto ms = [](int64_t ns) { return std::round(static_cast<double>(ns) / 1e3) / 1e3; };
    const auto time = [](const std::optional<int64_t>& ns) { return ns ? Value(format_utc(*ns)) : Value(); };
    std::vector<Value> row;
    row.emplace_back(node.node);
    row.emplace_back(node.info.version);
    row.emplace_back(ms(node.clock.offset_ns));
    row.emplace_back(ms(node.clock.error_ns));
    row.push_back(node.info.utc_error_ns ? Value(ms(*node.info.utc_error_ns)) : Value());
    row.emplace_back(recording.name);
    row.emplace_back(fmt::format("{}", fmt::join(recording.nodes, ",")));
    row.emplace_back(!recording.problem.empty() ? recording.problem
                                                : std::string(recording.being_written ? "being written" : "complete"));
    row.push_back(time(recording.from_ns));
    row.push_back(time(recording.to_ns));
    row.emplace_back(recording.collectives);
    row.emplace_back(recording.lost_events);
    return row;
  }

  NodeFlags nodes_{10 * kNsPerSecond};
  std::string format_ = "table";
};

}  // namespace

std::unique_ptr<Subcommand> make_nodes_subcommand() { return std::make_unique<NodesSubcommand>(); }

}  // namespace stalltrace::cli
