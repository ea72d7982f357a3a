// SPDX-License-Identifier: Apache-2.0
#include "blackbox/pairing/paired_calls.h"

#include <algorithm>
#include <utility>

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostOpenParts = 4096;  // of one call

/// Adds what the file reports of the call's kernel, or of a part's. Returns whether that is new.
bool add_kernel(FileEnd& file, const Collective& profiled) {
  const auto before = std::pair(file.kernel_start_ns, file.kernel_end_ns);
  if (profiled.kernel_start_ns) {
    file.kernel_start_ns =
        std::min(file.kernel_start_ns.value_or(*profiled.kernel_start_ns), *profiled.kernel_start_ns);
  }
  if (profiled.kernel_end_ns) {
    file.kernel_end_ns = std::max(file.kernel_end_ns.value_or(0), *profiled.kernel_end_ns);
  }
  return before != std::pair(file.kernel_start_ns, file.kernel_end_ns);
}

bool add_whole(PairedCall& call, const Collective& profiled) {
  const auto end_ns = profiled.end_ns();
  call.open = profiled.completion == Completion::kOpen;
  const bool has_new_kernel = add_kernel(call.file, profiled);
  const bool has_new_end = end_ns && call.file.end_ns != end_ns;
  call.file.end_ns = end_ns ? end_ns : call.file.end_ns;
  return has_new_kernel || has_new_end;
}

/// The call ends when its last part has ended.
bool add_part(PairedCall& call, const ProfilerCall& part) {
  const auto before = std::pair(call.ended(), call.file.end_ns);
  const bool has_new_kernel = add_kernel(call.file, part.row);
  if (const auto end_ns = part.row.end_ns()) {
    call.open_parts.erase(part.id);
    call.file.kernels_known = call.file.kernels_known && part.row.kernel_end_ns;
    call.file.end_ns = std::max(call.file.end_ns.value_or(0), *end_ns);
  } else if (part.row.completion == Completion::kOpen && call.open_parts.size() < kMostOpenParts) {
    call.open_parts.insert(part.id);
  }
  return has_new_kernel || before != std::pair(call.ended(), call.file.end_ns);
}

}  // namespace

PairedCall* PairedCalls::find(EventId event) {
  const auto found = calls_.find(event);
  return found == calls_.end() ? nullptr : &found->second;
}

PairedCall& PairedCalls::add(Collective row) {
  newest_ns_ = std::max(newest_ns_, row.called_ns);
  make_room();
  if (is_made_of_transfers(row.op)) {
    parents_.add(row);
  }
  const EventId event = row.event_id;
  return calls_.insert_or_assign(event, PairedCall{.row = std::move(row)}).first->second;
}

void PairedCalls::make_room() {
  while (calls_.size() >= kFewestRows && !closed_.empty()) {
    const EventId oldest = *closed_.begin();
    if (calls_.size() < kMostRows && newest_ns_ - calls_.at(oldest).row.called_ns <= kRowsKeptNs) {
      return;
    }
    drop(oldest);
  }
  if (calls_.size() >= kMostRows) {  // all of them are open
    drop(calls_.begin()->first);
  }
}

void PairedCalls::drop(EventId event) {
  const auto found = calls_.find(event);
  const PairedCall& call = found->second;
  if (call.ended() && call.row.completion == Completion::kOpen) {
    kept_ends_.insert_or_assign(event, call.file);
    if (kept_ends_.size() > kMostKeptEnds) {
      newest_forgotten_ = std::max(newest_forgotten_, kept_ends_.begin()->first);
      kept_ends_.erase(kept_ends_.begin());
    }
  }
  parents_.remove(call.row);
  closed_.erase(event);
  calls_.erase(found);
}

void PairedCalls::set_row(PairedCall& call, Collective row) {
  parents_.remove(call.row);
  if (is_made_of_transfers(row.op)) {
    parents_.add(row);
  }
  call.row = std::move(row);
}

bool PairedCalls::report(PairedCall& call, const ProfilerCall& reported) {
  const bool is_part = is_point_to_point(reported.row.op) && is_made_of_transfers(call.row.op);
  const bool changed = is_part ? add_part(call, reported) : add_whole(call, reported.row);
  if (call.open || !call.open_parts.empty()) {
    closed_.erase(call.row.event_id);
  } else {
    closed_.insert(call.row.event_id);
  }
  return changed;
}

PairedCall* PairedCalls::parent(const Collective& profiled) {
  PairedCall* parent = nullptr;
  for (const Operation op : {Operation::kAllToAll, Operation::kGather, Operation::kScatter}) {
    parents_.for_each_at(op, profiled.timestamp_ns, [&](EventId event) {
      PairedCall& call = calls_.at(event);
      if (launched_by(call.row, profiled) && (parent == nullptr || event < parent->row.event_id)) {
        parent = &call;
      }
      return false;
    });
  }
  return parent;
}

std::optional<FileEnd> PairedCalls::kept_end(const Collective& row) {
  const auto found = kept_ends_.find(row.event_id);
  if (found == kept_ends_.end()) {
    return std::nullopt;
  }
  const FileEnd end = found->second;
  if (row.completion != Completion::kOpen) {
    kept_ends_.erase(found);
  }
  return end;
}

}  // namespace stalltrace::blackbox
