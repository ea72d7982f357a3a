// SPDX-License-Identifier: Apache-2.0
#include "analysis/stalls/stall.h"

namespace stalltrace::analysis {

const Hang* Stall::hang() const {
  if (const auto* transfer = std::get_if<SlowTransfer>(&kind)) {
    return transfer->hang ? &*transfer->hang : nullptr;
  }
  if (const auto* missing = std::get_if<MissingRank>(&kind)) {
    return &missing->hang;
  }
  const auto* mismatch = std::get_if<Mismatch>(&kind);
  return mismatch != nullptr && mismatch->wrong_data == 0 ? &mismatch->hang : nullptr;
}

const HangRoot& Stall::root() const {
  static const HangRoot kEnded;
  if (const auto* mismatch = std::get_if<Mismatch>(&kind)) {
    return mismatch->hang.root;
  }
  return hung() ? hang()->root : kEnded;
}

const SignatureVote* Stall::vote() const {
  const auto* mismatch = std::get_if<Mismatch>(&kind);
  return mismatch == nullptr ? nullptr : &mismatch->vote;
}

int64_t Stall::wrong_data() const {
  const auto* mismatch = std::get_if<Mismatch>(&kind);
  return mismatch == nullptr ? 0 : mismatch->wrong_data;
}

bool Stall::majority_absent() const {
  const auto* missing = std::get_if<MissingRank>(&kind);
  return missing != nullptr && missing->majority_absent;
}

bool Stall::no_rank_waited() const {
  const auto* missing = std::get_if<MissingRank>(&kind);
  return missing != nullptr && missing->no_rank_waited;
}

bool Stall::on_device() const {
  const auto* late = std::get_if<LateArrival>(&kind);
  return late != nullptr && late->on_device;
}

int32_t Stall::calling_tid() const {
  if (const auto* late = std::get_if<LateArrival>(&kind)) {
    return late->calling_tid;
  }
  const auto* missing = std::get_if<MissingRank>(&kind);
  return missing == nullptr ? 0 : missing->calling_tid;
}

}  // namespace stalltrace::analysis
