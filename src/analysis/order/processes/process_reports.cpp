// SPDX-License-Identifier: Apache-2.0
#include "analysis/order/processes/process_reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "analysis/order/processes/process_lines.h"
#include "analysis/order/processes/take_over.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/order.h"
#include "base/text.h"
#include "model/events/imported/cuda_error.h"

namespace stalltrace::analysis {
namespace {

using Kind = ProcessReport::Kind;

constexpr size_t kMostErrors = 4;  // of CUDA, that differ

constexpr std::string_view kLookAtGpu =
    "look at the kernel log of its host for Xid messages (dmesg | grep -i xid) and at nvidia-smi -q -d "
    "ECC,ROW_REMAPPER; reset the GPU or restart the host, and have the GPU replaced if it comes back";
constexpr std::string_view kLookAtKernels =
    "run the program with CUDA_LAUNCH_BLOCKING=1 to see the call, or under compute-sanitizer; the kernel log of the "
    "host "
    "(dmesg | grep -i xid) shows whether the GPU is to blame";
constexpr std::string_view kFreeMemory =
    "look at what else uses this GPU (nvidia-smi), and at the memory of the program: torch.cuda.memory_summary()";

/// Nothing but what the program of a rank raised stands between the error and its end.
bool raised_by(const Finding& finding, const std::set<int32_t>& ranks) {
  return finding.cause == Cause::kDeadRank && finding.culprit && finding.culprit->rank &&
         ranks.contains(*finding.culprit->rank);
}

class Judge {
 public:
  Judge(const ProcessLog& log, std::vector<Finding>& findings, std::vector<std::string>& notes)
      : log_(log), findings_(findings), notes_(notes) {}

  void judge() {
    judge_cuda_errors();
    judge_duplicates();
    judge_ended_processes(log_, findings_, notes_);
    judge_nccl_errors();
    judge_stuck();
  }

 private:
  /// Each text of CUDA's for itself.
  void judge_cuda_errors() {
    std::map<std::string_view, std::pair<const CudaError*, ProcessLines>> by_text;
    for (const ProcessLine* line : log_.of(Kind::kCudaError)) {
      const CudaError* const error = cuda_error_in(line->report.error);
      if (error->of != CudaError::Of::kDevice && log_.after_timeout(*line)) {
        continue;  // a call that was aborted
      }
      auto& [known, lines] = by_text[error->text];
      known = error;
      const auto same = std::ranges::find_if(
          lines, [&](const ProcessLine* other) { return other->row.rank && other->row.rank == line->row.rank; });
      if (same == lines.end()) {  // a rank may print it again
        lines.push_back(line);
      }
    }
    std::vector<Finding> found;
    for (const auto& [text, error] : by_text) {
      if (found.size() < kMostErrors) {
        add_cuda_error(*error.first, error.second, found);
      }
    }
    std::ranges::stable_sort(found, std::greater<>(), &Finding::severity);
    findings_.insert(findings_.begin(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }

  void add_cuda_error(const CudaError& error, const ProcessLines& lines, std::vector<Finding>& found) {
    const std::set<int32_t> ranks = ranks_of(lines);
    if (error.of == CudaError::Of::kMemory) {
      for (Finding& raised : findings_) {
        if (raised_by(raised, ranks)) {
          raised.evidence.push_back({"log_line", 1, quote_of(*lines.front()), {}});
          return;
        }
      }
    }
    const bool device = error.of == CudaError::Of::kDevice;
    const bool memory = error.of == CudaError::Of::kMemory;
    Finding finding = finding_on(log_, lines, memory ? Cause::kDeadRank : Cause::kDeviceError,
                                 device ? kOutsideConfidence : kStandingStillConfidence);
    finding.severity = device || memory ? Severity::kCritical : Severity::kHigh;
    finding.summary = fmt::format("CUDA reported \"{}\" on {}.{}", error.text, who_text(log_, lines),
                                  device   ? " This is an error of the GPU."
                                  : memory ? ""
                                  : error.of == CudaError::Of::kProgram
                                      ? " As a rule this is an error of the program, not of the GPU."
                                      : " It may be due to the GPU, the driver or the program.");
    finding.remedy = device ? kLookAtGpu : memory ? kFreeMemory : kLookAtKernels;
    if (!device && !memory) {
      finding.evidence.push_back({"log_line",
                                  0,
                                  "CUDA reports it with a later call: a line of Python that raised it need not be the "
                                  "one that made the error",
                                  {}});
    }
    std::erase_if(findings_, [&](const Finding& other) {
      const bool same = finding.culprit && raised_by(other, ranks);
      if (same) {
        finding.evidence.push_back({"python_exception", 1, other.summary, {}});
      }
      return same;
    });
    take_over_waiting(ranks, findings_, finding);
    found.push_back(std::move(finding));
  }

  /// NCCL refuses two ranks on one GPU; each of them prints it.
  void judge_duplicates() {
    const ProcessLines lines = log_.of(Kind::kDuplicateGpu);
    if (lines.empty()) {
      return;
    }
    Finding finding = finding_on(log_, lines, Cause::kInitFailure, kLeftConfidence);
    finding.culprit.reset();
    finding.op = Operation::kCommInitRank;
    finding.summary = fmt::format("A communicator could not be set up: two of its ranks have the same GPU ({}).",
                                  printable(trim(lines.front()->report.error)));
    finding.remedy =
        "give each rank of a host a GPU of its own: torch.cuda.set_device(local_rank) before the first collective, or "
        "CUDA_VISIBLE_DEVICES";
    take_over_waiting({}, findings_, finding);
    findings_.push_back(std::move(finding));
  }

  /// A connection that a peer closed: that one is to be looked at.
  void judge_nccl_errors() {
    ProcessLines lines = log_.of(Kind::kNcclError);
    const ProcessLines peers = log_.of(Kind::kPeerGone);
    lines.insert(lines.end(), peers.begin(), peers.end());
    if (lines.empty()) {
      return;
    }
    std::set<std::string> names;
    for (const ProcessLine* line : peers) {
      names.insert(printable(line->report.peer));
    }
    const std::string text = names.empty() ? fmt::format("communication of {} failed", who_text(log_, lines))
                                           : fmt::format("{} lost the connection to {}, where it was closed",
                                                         who_text(log_, lines), *names.begin());
    if (!findings_.empty() || lines.size() == peers.size()) {  // NCCL warns of it at the end of a job as well
      notes_.push_back(text);
      return;
    }
    Finding finding = finding_on(log_, lines, Cause::kUnknown, kSomeRanksConfidence);
    finding.culprit.reset();  // it is the one that was left
    finding.summary = fmt::format("{}: what ended the other process, or the connection, is not in these lines.", text);
    finding.summary[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(finding.summary[0])));
    finding.remedy = names.empty()
                         ? "give the logs of all ranks; the first that ended is the one to look at"
                         : fmt::format("look at the log of the process at {}, and whether it or its host ended (dmesg)",
                                       *names.begin());
    findings_.push_back(std::move(finding));
  }

  /// The thread that watches collectives waits itself: in a call of CUDA or NCCL, or for Python's lock.
  void judge_stuck() {
    const ProcessLines lines = log_.of(Kind::kStuck);
    if (lines.empty()) {
      return;
    }
    int64_t longest_s = 0;
    for (const ProcessLine* line : lines) {
      longest_s = std::max(longest_s, line->report.stuck_s);
    }
    const std::string text =
        fmt::format("the watchdog thread of {} made no progress for {} s", who_text(log_, lines), longest_s);
    if (!findings_.empty()) {
      findings_.front().evidence.push_back({"log_line", std::ssize(lines), text, {}});
      return;
    }
    Finding finding = finding_on(log_, lines, Cause::kUnknown, kSomeRanksConfidence);
    finding.culprit.reset();  // a kernel that waits for another rank blocks it as well
    finding.summary = fmt::format(
        "T{}: a call of CUDA or NCCL there did not return, or another thread kept Python's lock.", text.substr(1));
    finding.remedy =
        "see where the threads of that process are (stalltrace stacks, py-spy dump --native), and the kernel log of "
        "its "
        "host (dmesg | grep -i xid)";
    findings_.push_back(std::move(finding));
  }

  const ProcessLog& log_;
  std::vector<Finding>& findings_;
  std::vector<std::string>& notes_;
};

}  // namespace

Status add_process_reports(EventSource& source, std::vector<Finding>& findings, std::vector<std::string>& notes) {
  ST_ASSIGN(const std::unique_ptr<ProcessLog> log, ProcessLog::read(source));
  Judge(*log, findings, notes).judge();
  return {};
}

}  // namespace stalltrace::analysis
