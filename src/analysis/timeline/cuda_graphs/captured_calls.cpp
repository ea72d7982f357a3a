// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/cuda_graphs/captured_calls.h"

#include <algorithm>

namespace stalltrace::analysis {
namespace {

void leave_out_of(CallSequence& sequence, const std::vector<int64_t>& captured) {
  bool changed = false;
  for (const int64_t number : captured) {
    const int64_t index = number - sequence.first_number();
    if (index < 0 || index >= static_cast<int64_t>(sequence.calls.size())) {
      continue;
    }
    Call& call = sequence.calls[static_cast<size_t>(index)];
    if (call.present && call.launched && call.is_open()) {
      call.completion = Completion::kUnobserved;
      changed = true;
    }
  }
  if (!changed) {
    return;
  }
  sequence.first_open_ns = kForever;
  for (const Call& call : sequence.calls) {
    if (call.present && call.is_open()) {
      sequence.first_open_ns = std::min(sequence.first_open_ns, call.arrival_ns);
    }
  }
}

}  // namespace

CapturedCalls::Key CapturedCalls::key_of(const SequenceKey& key) {
  return {key.node, key.pid, key.hash == 0 ? key.comm_ptr : 0, key.hash, key.peer, key.receives};
}

void CapturedCalls::note(const Collective& row) {
  if (row.seq && *row.seq >= 0 && *row.seq <= kMaxSeq) {
    const bool pair = is_point_to_point(row.op);
    numbers_[key_of({row.node_id, row.pid, row.comm_ptr, row.comm_id_hash, pair ? row.peer.value_or(kNoPeer) : kNoPeer,
                     pair && row.op == Operation::kRecv})]
        .push_back(*row.seq);
  }
}

void CapturedCalls::leave_out(const SequenceTable& table, std::vector<CallSequence>& sequences,
                              std::vector<Group>& groups) const {
  if (numbers_.empty()) {
    return;
  }
  for (Group& group : groups) {
    for (const uint32_t index : group.sequences) {
      CallSequence& sequence = sequences[index];
      const auto found = numbers_.find(key_of(table.key(index)));
      if (found == numbers_.end()) {
        continue;
      }
      for (const int64_t seq : found->second) {
        sequence.captured_end = std::max(sequence.captured_end, seq + 1);
        group.captured.push_back(seq + sequence.number_offset);
      }
    }
    std::ranges::sort(group.captured);
    group.captured.erase(std::unique(group.captured.begin(), group.captured.end()), group.captured.end());
    for (const uint32_t index : group.captured.empty() ? std::vector<uint32_t>{} : group.sequences) {
      leave_out_of(sequences[index], group.captured);
    }
  }
}

}  // namespace stalltrace::analysis
