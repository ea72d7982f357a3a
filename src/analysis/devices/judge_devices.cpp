// SPDX-License-Identifier: Apache-2.0
#include "analysis/devices/judge_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "analysis/devices/device_log.h"
#include "analysis/devices/message_meaning.h"
#include "analysis/thresholds/devices.h"
#include "base/clock.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kLongestQuote = 200;
constexpr size_t kNamesListed = 8;
constexpr size_t kOthersListed = 4;

/// Devices of one host with one error, which may have one reason: a switch, a link's other end, the board.
struct Failure {
  std::string host;
  std::string name;
  XidMeaning meaning;
  std::vector<const DeviceLog*> devices;
  std::vector<const KernelMessage*> messages;  // with this error, in the order of their devices and times
  std::vector<const KernelMessage*> others;    // of the same devices
};

class Judge {
 public:
  Judge(const DeviceLogs& logs, Report& report) : logs_(logs), report_(report) {}

  /// Returns the number of findings that were put before those of the report.
  size_t judge() {
    for (const DeviceLog& device : logs_.devices()) {
      sort(device);
    }
    std::vector<Finding> findings;
    for (const auto& [key, failure] : failures_) {
      findings.push_back(describe(failure));
    }
    judge_ended(findings);
    std::ranges::stable_sort(findings, std::greater<>(), &Finding::severity);
    // A rank's own failure is nearer to the cause than what the job shows of it.
    const auto others = std::stable_partition(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.culprit && finding.culprit->rank.has_value();
    });
    std::vector<Finding>& all = report_.findings;
    all.insert(all.end(), std::make_move_iterator(others), std::make_move_iterator(findings.end()));
    const auto before = static_cast<size_t>(others - findings.begin());
    all.insert(all.begin(), std::make_move_iterator(findings.begin()), std::make_move_iterator(others));
    add_notes();
    return before;
  }

 private:
  /// The message that says most: of the class that is nearest to the hardware, the first.
  void sort(const DeviceLog& device) {
    const KernelMessage* first = nullptr;
    XidMeaning what;
    for (const KernelMessage& message : device.messages) {
      const XidMeaning meaning = meaning_of(message);
      if (first == nullptr || meaning.who < what.who) {
        first = &message;
        what = meaning;
      }
    }
    if (first == nullptr || what.who == XidClass::kConsequence || what.who == XidClass::kNotice) {
      for (const KernelMessage& message : device.messages) {
        ++harmless_[{device.host, device.device, name_of(message)}];
      }
      return;
    }
    const std::string name = name_of(*first);
    Failure& failure = failures_[{device.host, name}];
    failure.host = device.host;
    failure.name = name;
    failure.meaning = what;
    failure.devices.push_back(&device);
    for (const KernelMessage& message : device.messages) {
      (name_of(message) == name ? failure.messages : failure.others).push_back(&message);
    }
  }

  struct Named {
    std::vector<NamedRank> ranks;
    int32_t pid = 0;  // of the first process that is named, in the job or not
    std::string process;
  };
  [[nodiscard]] Named named_in(const Failure& failure) const {
    Named named;
    for (const auto* messages : {&failure.messages, &failure.others}) {
      for (const KernelMessage* message : *messages) {
        if (message->pid > 0 && named.pid == 0) {
          named.pid = message->pid;
          named.process = message->process;
        }
        const auto rank = logs_.rank_of(*message);
        if (rank && std::ranges::find(named.ranks, rank->rank, &NamedRank::rank) == named.ranks.end()) {
          named.ranks.push_back(*rank);
        }
      }
    }
    return named;
  }

  static std::string devices_text(const Failure& failure) {
    const std::string_view what = subject_of(*failure.messages.front());
    if (what.empty()) {
      return fmt::format("the kernel of {}", failure.host);
    }
    if (failure.devices.size() == 1 && failure.devices.front()->device.empty()) {
      return fmt::format("a {} of {}", what, failure.host);
    }
    std::vector<std::string_view> names;
    for (size_t i = 0; i < failure.devices.size() && i < kNamesListed; ++i) {
      names.push_back(failure.devices[i]->device);
    }
    const bool one = failure.devices.size() == 1;
    return one ? fmt::format("{} {} of {}", what, names.front(), failure.host)
               : fmt::format("{} {}s of {} ({}{})", failure.devices.size(), what, failure.host, fmt::join(names, ", "),
                             names.size() < failure.devices.size() ? ", ..." : "");
  }

  static std::string ranks_text(const Named& named) {
    if (named.ranks.empty()) {
      return named.pid == 0 ? ""
                            : fmt::format(" while pid {}{} used it", named.pid,
                                          named.process.empty() ? "" : fmt::format(" ({})", named.process));
    }
    std::vector<std::string> texts;
    for (size_t i = 0; i < named.ranks.size() && i < kNamesListed; ++i) {
      texts.push_back(fmt::format("rank {} (pid {})", named.ranks[i].rank, named.ranks[i].pid));
    }
    return fmt::format(" while {} used it", fmt::join(texts, ", "));
  }

  Finding describe(const Failure& failure) {
    const Named named = named_in(failure);
    const bool program = failure.meaning.who == XidClass::kApplication;
    const std::optional<bool> in_job = logs_.in_job(failure.host);
    Finding finding{.cause = Cause::kDeviceError, .cost_known = false};
    const bool timed = failure.devices.front()->timed;
    int64_t first_ns = failure.messages.front()->timestamp_ns;
    int64_t last_ns = first_ns;
    for (const KernelMessage* message : failure.messages) {
      first_ns = std::min(first_ns, message->timestamp_ns);
      last_ns = std::max(last_ns, message->timestamp_ns);
    }
    finding.window = {first_ns, last_ns};
    if (!named.ranks.empty()) {
      const bool one = named.ranks.size() == 1;
      finding.culprit = Culprit{named.ranks.front().node, one ? std::optional(named.ranks.front().rank) : std::nullopt,
                                one ? named.ranks.front().pid : 0};
      finding.severity = program ? Severity::kHigh : Severity::kCritical;
      finding.confidence = named.ranks.front().by_pid_alone ? kDeviceOfHostConfidence : kDeviceOfRankConfidence;
    } else {
      finding.culprit = Culprit{failure.host, std::nullopt, named.pid};
      finding.severity = program ? Severity::kMedium : Severity::kHigh;
      finding.confidence = in_job.value_or(false) ? kDeviceOfHostConfidence : kDeviceAloneConfidence;
    }
    finding.summary = fmt::format(
        "{} reported {} ({}){}{}.{}", devices_text(failure), failure.name, failure.meaning.meaning, ranks_text(named),
        timed ? fmt::format(", at {}", format_utc(first_ns)) : "",
        program                                       ? " As a rule this is an error of the program, not of the GPU."
        : failure.meaning.who == XidClass::kUndecided ? " It may be due to the GPU, the driver or the program."
                                                      : "");
    finding.summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(finding.summary[0])));
    finding.remedy = fmt::format("on {}: {}", failure.host, failure.meaning.remedy);
    add_evidence(failure, in_job, timed, finding);
    join(named, finding);
    return finding;
  }

  static std::string quote(const KernelMessage& message) {
    return fmt::format("{}:{}: {}", base_name(message.file), message.line, message.text.substr(0, kLongestQuote));
  }

  void add_evidence(const Failure& failure, std::optional<bool> in_job, bool timed, Finding& finding) const {
    const auto add = [&](std::string kind, int64_t count, std::string text) {
      finding.evidence.push_back({std::move(kind), count, std::move(text), {}});
    };
    add("kernel_message", std::ssize(failure.messages), quote(*failure.messages.front()));
    std::vector<std::pair<std::string, std::pair<int64_t, const KernelMessage*>>> others;
    for (const KernelMessage* message : failure.others) {
      const std::string name = name_of(*message);
      const auto known = std::ranges::find(others, name, [](const auto& one) { return one.first; });
      if (known != others.end()) {
        ++known->second.first;
      } else {
        others.emplace_back(name, std::pair(int64_t{1}, message));
      }
    }
    for (size_t i = 0; i < others.size() && i < kOthersListed; ++i) {
      const auto& [count, message] = others[i].second;
      add("kernel_message", count, fmt::format("the same device: {}", quote(*message)));
    }
    if (!timed) {
      add("kernel_message", 0, "the log has no clock times: whether it happened in this job is not known");
    }
    if (in_job && !*in_job) {
      add("process", 0,
          fmt::format("no other evidence shows {}: whether it had a part in the job is not known", failure.host));
    }
  }

  /// Findings about the same process say what the job saw of it.
  void join(const Named& named, Finding& finding) {
    for (Finding& other : report_.findings) {
      if (!other.culprit || !other.culprit->rank) {
        continue;
      }
      const auto rank = std::ranges::find(named.ranks, *other.culprit->rank, &NamedRank::rank);
      if (rank == named.ranks.end() || (other.culprit->pid != 0 && other.culprit->pid != rank->pid)) {
        continue;
      }
      finding.evidence.push_back({"finding", 1, fmt::format("{}: {}", to_text(other.cause), other.summary), {}});
      other.evidence.push_back({"kernel_message", 1, finding.summary, {}});
    }
  }

  void judge_ended(std::vector<Finding>& findings) {
    for (const auto& [host, message] : logs_.ended()) {
      const auto rank = logs_.rank_of(message);
      if (!rank) {
        others_ended_.push_back(fmt::format("{} (pid {} on {})", message.process, message.pid, host));
        continue;
      }
      const std::string text = fmt::format("the kernel ended the process for lack of memory: {}", quote(message));
      const auto known = std::ranges::find_if(report_.findings, [&, &message = message](const Finding& one) {
        return one.culprit && one.culprit->rank == rank->rank &&
               (one.culprit->pid == 0 || one.culprit->pid == message.pid);
      });
      if (known != report_.findings.end()) {
        known->evidence.push_back({"kernel_message", 1, text, {}});
        continue;
      }
      Finding finding{.cause = Cause::kDeadRank, .severity = Severity::kCritical};
      finding.confidence = rank->by_pid_alone ? kDeviceOfHostConfidence : kDeviceOfRankConfidence;
      finding.culprit = Culprit{rank->node, rank->rank, message.pid};
      finding.window = {message.timestamp_ns, message.timestamp_ns};
      finding.summary = fmt::format("Rank {} ({}, pid {}) was ended by the kernel for lack of memory.", rank->rank,
                                    rank->node, message.pid);
      finding.evidence.push_back({"kernel_message", 1, text, {}});
      finding.remedy = fmt::format(
          "give the job more memory on {}, or a higher limit of its cgroup; look at workers of data loaders and at "
          "pinned memory",
          rank->node);
      findings.push_back(std::move(finding));
    }
  }

  void add_notes() {
    size_t listed = 0;
    for (const auto& [key, count] : harmless_) {
      if (++listed > kNamesListed) {
        report_.notes.push_back(fmt::format("kernel logs: {} more devices with messages that are no finding",
                                            harmless_.size() - kNamesListed));
        break;
      }
      const auto& [host, device, name] = key;
      report_.notes.push_back(fmt::format("kernel log of {}: {}{}, which is no finding by itself", host,
                                          count == 1 ? name : fmt::format("{} times {}", count, name),
                                          device.empty() ? "" : " of " + device));
    }
    if (!others_ended_.empty()) {
      const size_t count = std::min(others_ended_.size(), kNamesListed);
      report_.notes.push_back(fmt::format(
          "the kernel ended {} for lack of memory; no evidence shows that they were ranks: {}{}",
          count_of(std::ssize(others_ended_), "process"),
          fmt::join(others_ended_.begin(), others_ended_.begin() + static_cast<std::ptrdiff_t>(count), ", "),
          count < others_ended_.size() ? ", ..." : ""));
    }
    if (logs_.outside() > 0) {
      report_.notes.push_back(
          fmt::format("{} of kernel logs: before or after the job, not judged", count_of(logs_.outside(), "message")));
    }
    if (!logs_.silent().empty()) {
      const auto& silent = logs_.silent();
      const size_t count = std::min(silent.size(), kNamesListed);
      report_.notes.push_back(fmt::format(
          "kernel log of {}{}: no Xid or SXid, no reset of an AMD GPU, no PCIe error, no failure of an mlx5 "
          "adapter, no panic, and no process that was ended for lack of memory; other messages are not read",
          fmt::join(silent.begin(), silent.begin() + static_cast<std::ptrdiff_t>(count), ", "),
          count < silent.size() ? ", ..." : ""));
    }
  }

  const DeviceLogs& logs_;
  Report& report_;
  std::map<std::pair<std::string, std::string>, Failure> failures_;  // by host and error
  std::map<std::tuple<std::string, std::string, std::string>, int64_t> harmless_;
  std::vector<std::string> others_ended_;
};

}  // namespace

Result<size_t> add_device_errors(EventSource& source, Report& report) {
  ST_ASSIGN(const DeviceLogs logs, DeviceLogs::read(source, report));
  if (logs.count() == 0) {
    return 0;
  }
  const size_t before = Judge(logs, report).judge();
  if (report.nodes == 0) {
    report.nodes = logs.count();
    report.range = logs.range();
    report.judged_range = report.range;
  }
  report.healthy = report.findings.empty();
  return before;
}

}  // namespace stalltrace::analysis
