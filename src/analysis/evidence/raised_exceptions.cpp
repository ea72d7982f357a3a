// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence/raised_exceptions.h"

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "analysis/thresholds/hangs.h"
#include "base/python_frames.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

/// Fills in the locations from the text of a traceback.
void locate(const std::string& stack, RaisedException& raised) {
  const std::vector<PythonFrame> frames = frames_from_text(stack);
  if (frames.empty()) {
    return;
  }
  const PythonLocation location = location_in(frames);
  raised.location = brief_text(*location.own);
  if (location.innermost != location.own) {
    raised.called = brief_text(*location.innermost);
  }
  const auto outermost =
      std::ranges::find_if_not(frames.rbegin(), frames.rend(), [](const PythonFrame& f) { return is_installed(f); });
  if (outermost != frames.rend() && &*outermost != location.own) {
    raised.began = brief_text(*outermost);
  }
}

}  // namespace

RaisedException RaisedException::of(const std::string& type, const std::string& traceback) {
  RaisedException raised{.type = printable(type)};
  locate(traceback, raised);
  return raised;
}

std::string RaisedException::brief() const { return location.empty() ? type : type + " in " + location; }

std::string RaisedException::text() const {
  return brief() + (called.empty() ? "" : ", which called " + called) + (began.empty() ? "" : ", from " + began);
}

Result<RaisedExceptions> RaisedExceptions::load(EventSource& source, const Cluster& cluster) {
  RaisedExceptions raised;
  std::unordered_map<MemberIndex, int64_t> stack_ids;
  ST_TRY(source.python_exceptions({}, [&](const PythonException& row) {
    const MemberIndex member = cluster.find(row.node_id, row.pid);
    if (member == kNoMember) {
      return;
    }
    const auto known = raised.last_.find(member);
    const bool in_main = row.pid == row.tid;
    if (known != raised.last_.end() && known->second.in_main && !in_main) {
      return;
    }
    raised.last_[member] = {.type = printable(row.type),
                            .time_ns = cluster.clock().to_common(row.node_id, row.timestamp_ns),
                            .in_main = in_main};
    stack_ids[member] = row.stack_id;
  }));
  if (raised.last_.empty()) {
    return raised;
  }
  std::unordered_map<int64_t, std::string> wanted;
  for (const auto& [member, stack_id] : stack_ids) {
    wanted[stack_id];
  }
  ST_ASSIGN(const std::vector<Stack> stacks, source.stacks());
  for (const Stack& stack : stacks) {
    if (const auto found = wanted.find(stack.stack_id); found != wanted.end()) {
      found->second = stack.frames;
    }
  }
  for (auto& [member, exception] : raised.last_) {
    locate(wanted[stack_ids[member]], exception);
  }
  return raised;
}

const RaisedException* RaisedExceptions::of(MemberIndex member, int64_t from_ns, int64_t to_ns) const {
  const auto found = last_.find(member);
  const bool then =
      found != last_.end() && found->second.time_ns >= from_ns - kRaisedBeforeNs && found->second.time_ns <= to_ns;
  return then ? &found->second : nullptr;
}

const RaisedException* RaisedExceptions::that_ended(const Cluster& cluster, MemberIndex member) const {
  const Member& process = cluster.member(member);
  if (!process.exit_ns || process.exit_signal) {
    return nullptr;
  }
  const RaisedException* raised = of(member, *process.exit_ns, *process.exit_ns);
  // Extensions print exceptions that end nothing; the interpreter's exit code after one that it did not catch is not 0.
  const bool ends =
      raised != nullptr && raised->in_main && (process.exit_code.value_or(0) != 0 || raised->type == "SystemExit");
  return ends ? raised : nullptr;
}

}  // namespace stalltrace::analysis
