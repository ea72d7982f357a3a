// SPDX-License-Identifier: Apache-2.0
#include "blackbox/pairing/communicator_identity.h"

#include <algorithm>
#include <utility>

namespace stalltrace::blackbox {
namespace {

constexpr size_t kMostCommunicators = 1024;      // of one file; the plugin keeps 512 at a time
constexpr int64_t kReorderedNs = 20 * kNsPerUs;  // records of two threads may arrive in another order than the events

/// Fills in rank and size where the probes do not know them: for example, a split does not show them the size. Where
/// they were read from NCCL's memory, the file has the same, and the calls' numbers as well: it is the source then.
template <typename Row>
void add_rank(Row& row, const Communicator& profiled) {
  if (!row.rank || row.rank_source == RankSource::kEnvironment ||
      (row.rank_source == RankSource::kMemory && profiled.rank)) {
    row.rank = profiled.rank;
    row.nranks = profiled.nranks;
    row.rank_source = profiled.rank_source;
  }
  row.nranks = row.nranks ? row.nranks : profiled.nranks;
}

}  // namespace

uint64_t numbering_of(const Collective& row) {
  return is_point_to_point(row.op)
             ? uint64_t{1} << 63 | static_cast<uint64_t>(row.op) << 32 | static_cast<uint32_t>(row.peer.value_or(-1))
             : 0;
}

const Communicator* CommunicatorIdentity::profiled(uint64_t serial) const {
  const auto found = profiled_.find(serial);
  return found == profiled_.end() ? nullptr : &found->second;
}

/// The file is read later than the probes report, so the probes may see a new communicator at an address before the
/// last calls of the former one are read.
bool CommunicatorIdentity::is_former(const Collective& probed) const {
  const auto newest = probed_.find(probed.comm_ptr);
  return newest != probed_.end() && newest->second.accepted &&
         probed.called_ns < newest->second.row.created_ns - kReorderedNs;
}

const CommunicatorIdentity::Probed* CommunicatorIdentity::probed_of(const Collective& probed) const {
  const auto& communicators = is_former(probed) ? former_ : probed_;
  const auto known = communicators.find(probed.comm_ptr);
  return known == communicators.end() ? nullptr : &known->second;
}

std::optional<int64_t> CommunicatorIdentity::Probed::first(uint64_t numbering) const {
  const auto found = first_number.find(numbering);
  return found == first_number.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> CommunicatorIdentity::first_number(uint64_t pointer, uint64_t numbering) const {
  const auto known = probed_.find(pointer);
  return known == probed_.end() ? std::nullopt : known->second.first(numbering);
}

Communicator CommunicatorIdentity::completed(Communicator row, const Probed& known) const {
  if (const Communicator* file_row = profiled(known.serial)) {
    add_rank(row, *file_row);
    row.nccl_comm_hash = row.nccl_comm_hash != 0 ? row.nccl_comm_hash : file_row->nccl_comm_hash;
    row.comm_id_hash = row.comm_id_hash != 0 ? row.comm_id_hash : file_row->nccl_comm_hash;
  }
  return row;
}

CommunicatorIdentity::Position CommunicatorIdentity::position_of(uint64_t pointer, const Probed& known) {
  return {!known.row.destroyed_ns, known.order, pointer};
}

/// The file's serial number does not lead to this pointer any more.
void CommunicatorIdentity::disconnect(uint64_t pointer, const Probed& known) {
  if (const auto serial = pointers_.find(known.serial); serial != pointers_.end() && serial->second == pointer) {
    pointers_.erase(serial);
  }
}

void CommunicatorIdentity::forget_surplus() {
  while (probed_.size() > kMostProbedCommunicators) {
    const uint64_t pointer = std::get<2>(*in_order_.begin());
    const auto oldest = probed_.find(pointer);
    const auto destroyed_ns = oldest->second.row.destroyed_ns;
    forgotten_ += !destroyed_ns || newest_ns_ - *destroyed_ns < kReadLateNs ? 1 : 0;
    disconnect(pointer, oldest->second);
    unconnected_.erase(pointer);
    former_.erase(pointer);
    probed_.erase(oldest);
    in_order_.erase(in_order_.begin());
  }
}

Communicator CommunicatorIdentity::accept_probed(Communicator row) {
  newest_ns_ = std::max({newest_ns_, row.created_ns, row.destroyed_ns.value_or(0)});
  Probed& known = probed_[row.comm_ptr];
  in_order_.erase(position_of(row.comm_ptr, known));
  if (known.accepted && known.row.created_ns != row.created_ns) {  // a new communicator at the same address
    disconnect(row.comm_ptr, known);
    former_.insert_or_assign(row.comm_ptr, std::exchange(known, {}));
  }
  known.accepted = true;
  known.row = row;
  known.order = known.order == 0 ? ++last_order_ : known.order;
  in_order_.insert(position_of(row.comm_ptr, known));
  if (known.serial == 0) {
    unconnected_.insert(row.comm_ptr);
  }
  Communicator whole = completed(std::move(row), known);
  forget_surplus();
  return whole;
}

bool CommunicatorIdentity::accept_profiled(const Communicator& row) {
  if (profiled_.size() >= kMostCommunicators && !profiled_.contains(row.comm_ptr)) {
    return false;
  }
  profiled_.insert_or_assign(row.comm_ptr, row);
  return true;
}

std::optional<Communicator> CommunicatorIdentity::connect(const Collective& probed, const Collective& profiled) {
  const bool former = is_former(probed);
  if (former && !former_.contains(probed.comm_ptr)) {
    return std::nullopt;
  }
  const auto [entry, is_new] = (former ? former_ : probed_).try_emplace(probed.comm_ptr);
  Probed& known = entry->second;
  if (is_new) {
    known.order = ++last_order_;
    in_order_.insert(position_of(probed.comm_ptr, known));
    unconnected_.insert(probed.comm_ptr);
    forget_surplus();  // not this one, which is the newest
  }
  if (probed.comm_id_hash == 0 && probed.seq && profiled.seq) {
    known.first_number.try_emplace(numbering_of(probed), *profiled.seq - *probed.seq);
  }
  if (known.serial != 0 || profiled.comm_ptr == 0) {
    return std::nullopt;
  }
  known.serial = profiled.comm_ptr;
  if (!former) {
    unconnected_.erase(probed.comm_ptr);
    pointers_.try_emplace(profiled.comm_ptr, probed.comm_ptr);
  }
  return known.accepted ? std::optional(completed(known.row, known)) : std::nullopt;
}

void CommunicatorIdentity::note_captured(uint64_t pointer) {
  if (const auto known = probed_.find(pointer); known != probed_.end()) {
    known->second.captures = true;
  }
}

bool CommunicatorIdentity::captures(uint64_t pointer) const {
  const auto known = probed_.find(pointer);
  return known != probed_.end() && known->second.captures;
}

bool CommunicatorIdentity::may_be_same(const Collective& probed, const Collective& profiled) const {
  const Probed* known = probed_of(probed);
  if (known == nullptr) {
    return true;
  }
  if (known->serial != 0) {
    return known->serial == profiled.comm_ptr;
  }
  const uint64_t hash = known->row.nccl_comm_hash;
  return hash == 0 || profiled.comm_id_hash == 0 || hash == profiled.comm_id_hash;
}

std::optional<int64_t> CommunicatorIdentity::file_number(const Collective& probed) const {
  const Probed* known = probed_of(probed);
  if (!probed.seq || known == nullptr || known->captures) {
    return std::nullopt;
  }
  if (const auto first = known->first(numbering_of(probed))) {
    return *probed.seq + *first;
  }
  return probed.comm_id_hash != 0 ? probed.seq : std::nullopt;
}

void CommunicatorIdentity::complete(Collective& probed) const {
  const Probed* known = probed_of(probed);
  const Communicator* file_row = known == nullptr ? nullptr : profiled(known->serial);
  if (file_row == nullptr) {
    return;
  }
  if (probed.comm_id_hash == 0) {
    probed.comm_id_hash = file_row->nccl_comm_hash;
    const auto first = known->first(numbering_of(probed));
    if (probed.seq && first) {
      *probed.seq += *first;
    }
  }
  add_rank(probed, *file_row);
}

bool CommunicatorIdentity::rename(Collective& profiled) const {
  if (profiled.comm_ptr == 0) {
    return false;
  }
  std::optional<uint64_t> pointer;
  if (const auto connected = pointers_.find(profiled.comm_ptr); connected != pointers_.end()) {
    pointer = connected->second;
  } else {
    const auto same_hash = std::ranges::find_if(unconnected_, [&](uint64_t candidate) {
      const uint64_t hash = probed_.at(candidate).row.nccl_comm_hash;
      return hash != 0 && hash == profiled.comm_id_hash;
    });
    pointer = same_hash == unconnected_.end() ? std::nullopt : std::optional(*same_hash);
  }
  if (!pointer) {
    return false;
  }
  const Communicator& known = probed_.at(*pointer).row;
  profiled.comm_ptr = *pointer;
  profiled.comm_id_hash = known.comm_id_hash != 0 ? known.comm_id_hash : profiled.comm_id_hash;
  return true;
}

const Communicator* CommunicatorIdentity::find(uint64_t nccl_comm_hash) const {
  for (const auto& [pointer, known] : probed_) {
    const Communicator* file_row = profiled(known.serial);
    if (nccl_comm_hash != 0 && (known.row.nccl_comm_hash == nccl_comm_hash ||
                                (file_row != nullptr && file_row->nccl_comm_hash == nccl_comm_hash))) {
      return &known.row;
    }
  }
  return nullptr;
}

}  // namespace stalltrace::blackbox
