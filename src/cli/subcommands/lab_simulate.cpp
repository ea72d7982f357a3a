// SPDX-License-Identifier: Apache-2.0
// `stalltrace lab simulate`: recordings of a job that never ran, of any shape and size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/files/own_folder.h"
#include "base/text.h"
#include "cli/fleet/light_nodes.h"
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "lab/cluster/simulated/truth_of.h"
#include "lab/simulation/job.h"
#include "lab/simulation/shapes.h"
#include "store/write/writer.h"

namespace stalltrace::cli {
namespace {

constexpr int64_t kMostRanks = 16'384;
/// Rows that the writer keeps until flush().
constexpr size_t kRowsPerFlush = 20'000;

/// Stores what it accepts, now and then.
class FlushingSink final : public EventSink {
 public:
  explicit FlushingSink(store::RecordingWriter& writer) : writer_(writer) {}

  void accept(Event event) override {
    writer_.accept(std::move(event));
    if (writer_.buffered() >= kRowsPerFlush && stored_) {
      stored_ = writer_.flush();
    }
  }
  [[nodiscard]] Status close() {
    ST_TRY(stored_);
    return writer_.close();
  }

 private:
  store::RecordingWriter& writer_;
  Status stored_;
};

double seconds(const std::optional<int64_t>& time_ns) {
  return static_cast<double>(time_ns.value_or(0)) / static_cast<double>(kNsPerSecond);
}

/// "3=skewed:-5s,50ppm"; none: not of this form.
std::optional<std::pair<int, simulation::WrongClock>> parse_skew(std::string_view text) {
  constexpr std::string_view kSkewed = "=skewed:";
  constexpr std::string_view kPpm = "ppm";
  constexpr int64_t kMostAheadNs = 3600 * kNsPerSecond;
  constexpr int64_t kMostPpm = 1000;
  const size_t sign = text.find(kSkewed);
  const size_t comma = text.find(',');
  if (sign == std::string_view::npos || comma == std::string_view::npos || comma < sign || !text.ends_with(kPpm)) {
    return std::nullopt;
  }
  std::string_view ahead = text.substr(0, comma).substr(sign + kSkewed.size());
  const bool behind = ahead.starts_with('-');
  ahead.remove_prefix(behind ? 1 : 0);
  text.remove_suffix(kPpm.size());
  const auto node = parse_integer(text.substr(0, sign));
  const auto ahead_ns = parse_duration_ns(ahead);
  const auto ppm = parse_integer(text.substr(std::min(comma + 1, text.size())));
  if (!node || *node < 0 || *node > INT32_MAX || !ahead_ns || *ahead_ns > kMostAheadNs || !ppm || *ppm > kMostPpm ||
      *ppm < -kMostPpm) {
    return std::nullopt;
  }
  return std::pair(static_cast<int>(*node), simulation::WrongClock{.ahead_s = (behind ? -1 : 1) * seconds(*ahead_ns),
                                                                   .drift_ppm = static_cast<double>(*ppm)});
}

class LabSimulateSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "lab simulate",
            .summary = "write the recordings of a simulated job, of any shape and size",
            .example = "stalltrace lab simulate --nodes 8 --fault late_rank:rank=5,ms=80 --out simulated",
            .details =
                "Leaves DIR/node0.db ... (what the agent of each node would have recorded) and truth.json (what\n"
                "was wrong, where and when), for `stalltrace explain DIR/*.db`. Nothing runs, and no rights are\n"
                "needed. The same words give the same recordings.\n"
                "Shapes:\n" +
                simulation::shape_help() + "Faults, as CAUSE:key=value,... with their keys:\n" +
                simulation::fault_help()};
  }
  std::vector<Flag> flags() override {
    return {
        text_flag("--shape", "SHAPE", "what the job is, as listed below", &options_.shape),
        integer_flag("--nodes", "N", "nodes, with a clock and a network interface each", 1, 4096, &nodes_),
        integer_flag("--ranks-per-node", "N", "ranks of a node", 1, 64, &ranks_per_node_),
        text_flag("--parallel", "SIZES", "tp=2,pp=2,dp=4: a mesh of tensor groups, stages and data groups", &parallel_),
        integer_flag("--steps", "N", "training steps", 1, 1'000'000, &steps_),
        texts_flag("--fault", "FAULT", "what is wrong, as listed below", &faults_),
        integer_flag("--seed", "N", "draws all that is chance", 0, INT64_MAX, &seed_),
        text_flag("--out", "DIR", "folder of the recordings; holds no earlier run", &out_dir_),
        switch_flag("--plugin", "the ranks have loaded the profiler plugin", &options_.plugin),
        choice_flag("--evidence", "which tables: calls, TCP and waits (default), or all that an agent fills",
                    {"usual", "all"}, &evidence_),
        integer_flag("--channels", "N", "channels of each communicator, in the plugin's rows of transfers (default: 2)",
                     1, 64, &channels_),
        duration_flag("--attach", "tracing begins that long after the first step (default: before the job)",
                      &attach_ns_),
        duration_flag("--cut", "tracing ends that long after the first step (default: after the job)", &cut_ns_),
        duration_flag("--clock-error", "clocks of nodes are wrong by up to that, and drift", &clock_error_ns_),
        integer_flag("--clock-drift", "PPM", "clocks of nodes drift by up to that", 0, 1000, &clock_drift_ppm_),
        switch_flag("--no-tcp", "the data between nodes do not go over TCP", &no_tcp_),
        switch_flag("--no-waits", "the scheduler's waits are not recorded", &no_waits_),
        switch_flag("--ports", "counters of InfiniBand ports are recorded", &options_.ports),
        switch_flag("--serve", "then serve each node's recording at a loopback address of its own", &serve_),
        texts_flag(
            "--node-fault", "N=FAULT",
            "of --serve: what is wrong with node N: down, hangs, stalls, trickles, slow, refuses, garbage, bad-rows, "
            "version, skewed:5s,50ppm",
            &node_faults_)};
  }
  Result<int> run(Console& console) override {
    ST_TRY(complete_options());
    std::optional<LightNodes> light;
    if (serve_) {
      ST_ASSIGN(light, LightNodes::listen(options_.nodes, node_troubles_));
    }
    ST_ASSIGN(const OwnFolder folder, OwnFolder::claim(out_dir_, Readers::kOwner));
    const simulation::Job job(options_);
    std::vector<std::string> files;
    for (int node = 0; node < options_.nodes; ++node) {
      const std::string path = fmt::format("{}/{}.db", folder.path(), simulation::Job::node_name(node));
      ST_ASSIGN(const std::unique_ptr<store::RecordingWriter> writer, store::RecordingWriter::create(path));
      FlushingSink sink(*writer);
      job.record(node, sink);
      ST_TRY(sink.close());
      files.push_back(path);
    }
    ST_TRY(write_file(folder.path() + "/truth.json", lab::to_json(lab::truth_of(job))));
    hand_over_folder(folder.path());
    console.note(fmt::format("{} ranks on {} nodes, {} steps; to explain it: stalltrace explain {}/*.db",
                             options_.ranks(), options_.nodes, options_.steps, out_dir_));
    if (light) {
      ST_TRY(write_file(folder.path() + "/nodes", fmt::format("{}\n", fmt::join(light->addresses(), "\n"))));
      const auto announce = [&] {
        console.note(fmt::format("serving; to ask all: stalltrace explain --nodes @{}/nodes", out_dir_));
      };
      const int64_t served_ns = utc_now_ns();
      const auto simulated_clock = [&job, served_ns](int node) {  // time goes on from the end of the recordings
        const int64_t time_ns = job.recorded_to_ns() + utc_now_ns() - served_ns;
        return serve::HostClock{.now_ns = job.clock(node).at(time_ns),
                                .monotonic_ns = job.monotonic_ns(node, time_ns),
                                .boot_id = simulation::Job::boot_id(node),
                                .utc_error_ns = {}};
      };
      ST_TRY(options_.clocks.empty() ? light->serve(files, announce) : light->serve(files, announce, simulated_clock));
    }
    return kExitDone;
  }

 private:
  Status complete_options() {
    options_.nodes = static_cast<int>(nodes_);
    options_.ranks_per_node = static_cast<int>(ranks_per_node_);
    options_.steps = static_cast<int>(steps_);
    options_.seed = static_cast<uint64_t>(seed_);
    options_.all_evidence = evidence_ == "all";
    options_.channels = static_cast<int>(channels_);
    if (options_.ranks() > kMostRanks) {
      return fail(fmt::format("{} ranks are too many", options_.ranks()), fmt::format("give up to {}", kMostRanks),
                  ErrorKind::kUsage);
    }
    const std::string shape = parallel_.empty() ? options_.shape : "tp-pp-dp";
    ST_TRY(simulation::apply_shape(shape, options_));
    if (!parallel_.empty()) {
      ST_TRY(simulation::apply_parallel(parallel_, options_));
    }
    options_.attach_s = seconds(attach_ns_);
    options_.cut_s = seconds(cut_ns_);
    options_.clock_error_ms = 1000 * seconds(clock_error_ns_);
    options_.clock_drift_ppm = static_cast<double>(clock_drift_ppm_);
    options_.tcp = !no_tcp_;
    options_.waits = !no_waits_;
    for (const std::string& text : faults_) {
      ST_ASSIGN(simulation::Fault fault, simulation::parse_fault(text, options_));
      options_.faults.push_back(std::move(fault));
    }
    for (const std::string& text : node_faults_) {
      const auto skew = parse_skew(text);
      std::pair<int, NodeTrouble> trouble{skew ? skew->first : 0, NodeTrouble::kNone};
      if (!skew) {
        auto parsed = parse_node_trouble(text);
        if (!parsed) {
          parsed.error().remedy += ", 3=skewed:5s,50ppm";
          return std::unexpected(std::move(parsed.error()));
        }
        trouble = *parsed;
      }
      if (!serve_ || trouble.first >= options_.nodes) {
        return fail("--node-fault: " +
                        (serve_ ? fmt::format("there is no node {}", trouble.first) : std::string("nothing is served")),
                    serve_ ? "nodes count from 0" : "give --serve, too", ErrorKind::kUsage);
      }
      if (skew) {
        options_.clocks.insert(*skew);
      } else {
        node_troubles_.insert(trouble);
      }
    }
    return {};
  }

  simulation::JobOptions options_;
  int64_t nodes_ = 2;
  int64_t ranks_per_node_ = 4;
  int64_t steps_ = 60;
  int64_t seed_ = 1;
  std::string evidence_ = "usual";
  int64_t channels_ = 2;
  std::string parallel_;
  std::vector<std::string> faults_;
  std::string out_dir_ = "stalltrace-simulated";
  std::optional<int64_t> attach_ns_;
  std::optional<int64_t> cut_ns_;
  std::optional<int64_t> clock_error_ns_;
  int64_t clock_drift_ppm_ = 0;
  bool no_tcp_ = false;
  bool no_waits_ = false;
  bool serve_ = false;
  std::vector<std::string> node_faults_;
  std::map<int, NodeTrouble> node_troubles_;
};

}  // namespace

std::unique_ptr<Subcommand> make_lab_simulate_subcommand() { return std::make_unique<LabSimulateSubcommand>(); }

}  // namespace stalltrace::cli
