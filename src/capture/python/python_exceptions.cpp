// SPDX-License-Identifier: Apache-2.0
#include "capture/python/python_exceptions.h"

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "base/text.h"
#include "capture/python/traceback.h"

namespace stalltrace::capture {
namespace {

/// Time limit for reading records in each second: the rings fill while the child works.
constexpr int64_t kTimeNs = 100 * kNsPerMs;
/// Between the functions that print one exception.
constexpr uint64_t kPrintNs = kNsPerSecond;
constexpr size_t kThreadsKept = 64;            // of a process
constexpr size_t kExceptionsDelivered = 4096;  // remembered rows; older ones may be delivered again, which is harmless

std::unique_ptr<st_python_exception> record_in(const void* bytes, size_t size) {
  if (size < sizeof(st_python_exception)) {
    return nullptr;
  }
  auto record = std::make_unique<st_python_exception>();
  std::memcpy(record.get(), bytes, sizeof *record);
  return record;
}

HelperMessage serve_traceback(HelperMessage request) {
  std::string text = traceback_text(request.bytes);
  return {.bytes = text.empty() ? " " : std::move(text), .fd = {}};  // an empty message would be the end
}

/// Lines and their ends are all that a text of frames holds.
std::string printable_lines(std::string_view text) {
  std::string lines;
  for (const std::string_view line : split(text, '\n')) {
    lines += (lines.empty() ? "" : "\n") + printable(line);
  }
  return lines;
}

}  // namespace

std::string traceback_text(std::string_view record) {
  const auto exception = record_in(record.data(), record.size());
  return exception ? frames_to_text(frames_of(*exception)) : std::string();
}

PythonExceptions::PythonExceptions(const Node& node, UserShares& shares, EventSink& sink)
    : node_(node), shares_(shares), sink_(sink), reader_(serve_traceback, HelperProcess::Rights::kNone) {}

/// 0 where the traceback could not be read in time.
int64_t PythonExceptions::stack_of(const st_python_exception& record) {
  const int64_t begun_ns = monotonic_now_ns();
  if (begun_ns - second_ns_ >= kNsPerSecond) {
    second_ns_ = begun_ns;
    spent_ns_ = 0;
  }
  if (record.depth == 0 || spent_ns_ >= kTimeNs) {
    return 0;
  }
  const uint32_t user = shares_.user_of(static_cast<pid_t>(record.header.tgid));
  if (user != std::exchange(read_for_, user)) {
    reader_.end();
  }
  const HelperMessage request{.bytes = {reinterpret_cast<const char*>(&record), sizeof record}, .fd = {}};
  const auto answer = reader_.ask_and_wait(request, kTimeNs - spent_ns_);
  spent_ns_ += monotonic_now_ns() - begun_ns;
  const std::string frames = answer ? printable_lines(answer->bytes) : std::string();
  if (trim(frames).empty()) {
    return 0;
  }
  const auto id = static_cast<int64_t>(splitmix64_text(frames) >> 1);  // ids are positive
  if (delivered_.size() >= kExceptionsDelivered) {
    delivered_.clear();
  }
  if (delivered_.insert(id).second) {
    sink_.accept(Stack{id, frames});
  }
  return id;
}

bool PythonExceptions::note(std::span<const std::byte> bytes) {
  const auto record = record_in(bytes.data(), bytes.size());
  if (!record) {
    return false;
  }
  const auto pid = static_cast<pid_t>(record->header.tgid);
  const auto tid = static_cast<pid_t>(record->header.tid);
  Reported now{record->traceback, type_of(*record), record->header.time_ns};
  auto& threads = last_[pid];
  if (threads.size() >= kThreadsKept && !threads.contains(tid)) {
    threads.clear();
  }
  Reported& last = threads[tid];
  const bool same = last.traceback == now.traceback && last.type == now.type && now.time_ns - last.time_ns < kPrintNs;
  last = std::move(now);
  if (same || !shares_.take(pid, UserShares::Kind::kStack, static_cast<int64_t>(record->header.time_ns))) {
    return true;
  }
  const int64_t stack_id = stack_of(*record);
  sink_.accept(PythonException{.node_id = node_.node_id,
                               .timestamp_ns = static_cast<int64_t>(record->header.time_ns) + node_.clock_offset_ns,
                               .pid = pid,
                               .tid = tid,
                               .type = last.type,
                               .stack_id = stack_id,
                               .depth = record->depth});
  return true;
}

}  // namespace stalltrace::capture
