// SPDX-License-Identifier: Apache-2.0
// Time and peak memory of explain on a synthetic recording. The source makes its rows on demand, so that the benchmark
// measures the analysis and not a container of events.
//
//   bench_analysis [COLLECTIVES] [RANKS]        default: 10,000,000 of 8 ranks; budget 3 s, 512 MiB
#include <fmt/format.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>

#include "analysis/explain.h"
#include "base/hash.h"

namespace stalltrace {
namespace {

constexpr int64_t kBudgetMs = 3000;
constexpr int64_t kBudgetKib = 512 * 1024;
constexpr int64_t kStepNs = 5 * kNsPerMs;
constexpr int64_t kStart = 1'800'000'000LL * kNsPerSecond;

/// `rows` AllReduce calls of `ranks` ranks; one in 300 steps takes 60 ms longer, with a loss recovery on one link.
class Source final : public EventSource {
 public:
  Source(int64_t rows, int32_t ranks) : steps_(rows / ranks), ranks_(ranks) {}

  Status read_state(AnyRows rows) override {
    std::visit(
        [this](auto* all) {
          if constexpr (requires { make(*all); }) {
            make(*all);
          }
        },
        rows);
    return {};
  }
  Status read_stream(TimeRange range, AnyVisitor visitor) override {
    std::visit(
        [&](const auto* visit) {
          if constexpr (requires { make(range, *visit); }) {
            make(range, *visit);
          }
        },
        visitor);
    return {};
  }

 private:
  void make(std::vector<Node>& rows) const {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      Node node{.node_id = node_of_rank(rank), .name = fmt::format("node{}", rank), .boot_id = "boot"};
      node.ended_ns = kStart + steps_ * kStepNs + kNsPerSecond;
      rows.push_back(node);
    }
  }
  void make(std::vector<Process>& rows) const {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      Process process{.node_id = node_of_rank(rank), .pid = 1000 + rank, .exe = "/opt/train"};
      process.rank = rank;
      rows.push_back(process);
    }
  }
  void make(std::vector<Connection>& rows) const {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      const int32_t peer = (rank + 1) % ranks_;
      Connection row{.node_id = node_of_rank(rank), .cookie = 1, .pid = 1000 + rank, .family = 2};
      row.source = {fmt::format("10.0.0.{}", rank + 1), 40000};
      row.destination = {fmt::format("10.0.0.{}", peer + 1), 50000};
      rows.push_back(row);
    }
  }

  void make(TimeRange /*all*/, const Visitor<Collective>& visit) const {
    Collective row{.library = Library::kNccl, .comm_id_hash = 0x77};
    row.completion = Completion::kSync;
    row.nranks = ranks_;
    row.bytes = 1 << 20;
    for (int64_t step = 0; step < steps_; ++step) {
      for (int32_t rank = 0; rank < ranks_; ++rank) {
        const auto noise = static_cast<int64_t>(splitmix64_mix(static_cast<uint64_t>(step * ranks_ + rank)) % 400'000);
        row.event_id = make_event_id(node_of_rank(rank), static_cast<uint64_t>(step));
        row.node_id = node_of_rank(rank);
        row.timestamp_ns = start_of(step) + noise;
        row.duration_ns = start_of(step) + 3 * kNsPerMs + (slow(step) ? kSlowNs : 0) - row.timestamp_ns;
        row.seq = step;
        row.rank = rank;
        row.pid = 1000 + rank;
        visit(row);
      }
    }
  }
  void make(TimeRange range, const Visitor<TcpEvent>& visit) const {
    TcpEvent row{.node_id = node_of_rank(0), .event = TcpEventKind::kCongestionState, .pid = 1000, .cookie = 1};
    for (int64_t step = kSlowEvery; step < steps_; step += kSlowEvery) {
      for (const auto& [offset_ns, state] : {std::pair{kNsPerMs, 3}, std::pair{kSlowNs + kNsPerMs, 0}}) {
        row.timestamp_ns = start_of(step) + offset_ns;
        row.state = state;
        if (range.contains(row.timestamp_ns)) {
          visit(row);
        }
      }
    }
  }

  static constexpr int64_t kSlowEvery = 300;
  static constexpr int64_t kSlowNs = 60 * kNsPerMs;
  static NodeId node_of_rank(int32_t rank) { return static_cast<NodeId>(rank + 1); }
  static bool slow(int64_t step) { return step > 0 && step % kSlowEvery == 0; }
  /// A slow step delays all later ones.
  static int64_t start_of(int64_t step) {
    return kStart + step * kStepNs + (step > 0 ? (step - 1) / kSlowEvery * kSlowNs : 0);
  }

  int64_t steps_;
  int32_t ranks_;
};

int run(int64_t rows, int32_t ranks) {
  Source source(rows, ranks);
  const auto source_begin = std::chrono::steady_clock::now();
  int64_t visited = 0;
  (void)source.collectives({}, [&](const Collective&) { ++visited; });
  const auto begin = std::chrono::steady_clock::now();
  const Result<ExplainResult> result = explain(source);
  const auto end = std::chrono::steady_clock::now();
  if (!result) {
    fmt::print(stderr, "{}\n", result.error().what);
    return 1;
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](auto duration) { return std::chrono::duration_cast<std::chrono::milliseconds>(duration).count(); };
  fmt::print("explain: {} collectives of {} ranks: {} ms (of it {} ms making the rows), peak {} MiB, {} finding(s)\n",
             visited, ranks, ms(end - begin), ms(begin - source_begin), usage.ru_maxrss / 1024,
             result->report.findings.size());
  fmt::print("budget: {:.2f} of {} ms, {:.2f} of {} MiB\n",
             static_cast<double>(ms(end - begin)) / static_cast<double>(kBudgetMs), kBudgetMs,
             static_cast<double>(usage.ru_maxrss) / static_cast<double>(kBudgetKib), kBudgetKib / 1024);
  return 0;
}

}  // namespace
}  // namespace stalltrace

int main(int argc, char** argv) {
  const int64_t rows = argc > 1 ? std::atoll(argv[1]) : 10'000'000;
  const int ranks = argc > 2 ? std::atoi(argv[2]) : 8;
  return stalltrace::run(rows, ranks);
}
