// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/job_ras.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <optional>
#include <variant>

#include "base/clock.h"
#include "base/net/loopback.h"
#include "base/text.h"
#include "cli/evidence/ask_ras.h"

namespace stalltrace::cli {
namespace {

using autopsy::RankState;
using autopsy::TcpSocket;

constexpr uint16_t kDefaultPort = 28028;
// RAS itself gives a process that does not answer 10 s.
constexpr int64_t kJobAnswerNs = 12 * kNsPerSecond;
constexpr int kPauseMs = 1000;
// Of all jobs together: any user may start many, each with a listener that answers slowly, or much.
constexpr size_t kAllAnswersBytes = size_t{128} << 20;
constexpr size_t kMostStatements = 100'000;  // of one answer

uint16_t ras_port(const Procfs& procfs, pid_t pid) {
  const auto environment = procfs.environment(pid);
  const std::string address(environment ? value_of(*environment, "NCCL_RAS_ADDR") : "");
  const size_t colon = address.rfind(':');
  const auto port = parse_integer(colon == std::string::npos ? "" : address.substr(colon + 1));
  return port && *port > 0 && *port <= UINT16_MAX ? static_cast<uint16_t>(*port) : kDefaultPort;
}

/// Where the process can be asked: it has to hold the listening socket itself.
std::optional<std::string> ras_address(const Procfs& procfs, const RankState& rank) {
  const bool listens = std::ranges::any_of(
      rank.sockets, [](const TcpSocket& socket) { return socket.state == autopsy::TcpState::kListen; });
  if (!listens || rank.run_state != autopsy::RunState::kAlive) {
    return std::nullopt;
  }
  const uint16_t port = ras_port(procfs, rank.pid);
  for (const TcpSocket& socket : rank.sockets) {
    if (socket.state == autopsy::TcpState::kListen && socket.local.port == port) {
      const bool any = socket.local.address == "0.0.0.0" || socket.local.address == "::";
      return format_endpoint({any ? kLocalhostNumber : socket.local.address, port});
    }
  }
  return std::nullopt;
}

/// What is left for the jobs that are still to be asked.
class Allowance {
 public:
  explicit Allowance(int64_t all_ns) : all_ns_(all_ns), deadline_ns_(monotonic_now_ns() + all_ns) {}
  [[nodiscard]] int64_t all_ns() const { return all_ns_; }
  [[nodiscard]] int64_t answer_ns() const { return std::min(kJobAnswerNs, deadline_ns_ - monotonic_now_ns()); }
  [[nodiscard]] size_t bytes() const { return bytes_; }
  [[nodiscard]] bool is_used_up() const { return bytes_ == 0 || answer_ns() <= 0; }
  void use(size_t bytes) { bytes_ -= std::min(bytes, bytes_); }

 private:
  int64_t all_ns_;
  int64_t deadline_ns_;
  size_t bytes_ = kAllAnswersBytes;
};

JobRas ask(const Procfs& procfs, const RankState& rank, const std::string& address, Allowance& left) {
  JobRas ras{.job = rank.job, .answers = {}, .problem = {}};
  for (int i = 0; i < 2; ++i) {
    if (i > 0) {
      ::poll(nullptr, 0, kPauseMs);
    }
    if (left.is_used_up()) {
      ras.problem =
          fmt::format("NCCL's RAS at {} was asked but once: those of all jobs together have {} and {}", address,
                      format_duration(left.all_ns()), format_size(static_cast<int64_t>(kAllAnswersBytes)));
      break;
    }
    auto answer = ask_ras_of(procfs, rank.pid, address, left.answer_ns(), left.bytes());
    if (!answer) {
      ras.problem = answer.error().what;
      break;
    }
    left.use(answer->text.size());
    ras.answers.push_back(std::move(*answer));
  }
  return ras;
}

/// Keeps what an import makes rows of.
class Statements final : public EventSink {
 public:
  explicit Statements(autopsy::RasAccount& account) : account_(account) {}
  void accept(Event event) override {
    auto* row = std::get_if<LogLine>(&event);
    if (row == nullptr) {
      return;
    }
    if (row->kind == LogKind::kVersion) {
      account_.report = std::move(row->text);
    } else if (account_.statements.size() < kMostStatements) {
      account_.statements.push_back(std::move(row->text));
    }
  }

 private:
  autopsy::RasAccount& account_;
};

}  // namespace

std::vector<JobRas> ask_ras_of_jobs(const Procfs& procfs, const autopsy::Snapshot& last, int64_t all_ns,
                                    Console& console) {
  std::vector<JobRas> asked;
  std::vector<JobRas> not_asked;
  Allowance left(all_ns);
  for (const RankState& rank : last.ranks) {
    const bool known = std::ranges::find(asked, rank.job, &JobRas::job) != asked.end() ||
                       std::ranges::find(not_asked, rank.job, &JobRas::job) != not_asked.end();
    const auto address = known ? std::nullopt : ras_address(procfs, rank);
    if (!address) {
      continue;
    }
    if (left.is_used_up()) {
      not_asked.push_back({.job = rank.job, .answers = {}, .problem = {}});
      continue;
    }
    if (console.shows_progress()) {
      console.live(fmt::format("asking NCCL's RAS at {}", *address));
    }
    asked.push_back(ask(procfs, rank, *address, left));
    if (console.shows_progress()) {
      console.live("");
    }
  }
  for (JobRas& job : not_asked) {
    job.problem = fmt::format(
        "NCCL's RAS of {} here was not asked, this one among them: those of all jobs together have {} and {}; "
        "--pid chooses a job",
        count_of(std::ssize(not_asked), "job"), format_duration(all_ns),
        format_size(static_cast<int64_t>(kAllAnswersBytes)));
    asked.push_back(std::move(job));
  }
  return asked;
}

std::vector<autopsy::RasAccount> read_ras_answers(std::vector<JobRas>& jobs) {
  std::vector<autopsy::RasAccount> accounts;
  for (JobRas& job : jobs) {
    for (const import::RasAnswer& answer : job.answers) {
      autopsy::RasAccount account{.job = job.job, .address = answer.address, .asked_ns = answer.asked_ns};
      Statements statements(account);
      const auto read = import::import_ras_answers(std::span(&answer, 1), statements, [](const std::string&) {});
      if (read) {
        accounts.push_back(std::move(account));
      } else {
        job.problem = read.error().what;
      }
    }
  }
  return accounts;
}

}  // namespace stalltrace::cli
