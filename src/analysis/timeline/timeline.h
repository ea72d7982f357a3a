// SPDX-License-Identifier: Apache-2.0
// Pass 1: every collective of every rank, 16 bytes each, in call sequences. The sequences of one communicator form a
// group, and their calls with one number are an instance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analysis/intervals.h"
#include "analysis/rank_numbers.h"
#include "analysis/thresholds/stalls.h"
#include "analysis/timeline/cluster.h"
#include "base/clock.h"
#include "model/source.h"

namespace stalltrace::analysis {

inline constexpr uint32_t kOpenDuration = 0xffff'ffff;

/// A batch is calls of one process that one synchronisation completed (batches.h). Its end is the end of each of them.
enum class BatchPart : uint8_t {
  kNone,    // no batch: the call's end is its own
  kInside,  // a later call on its communicator is in the batch, too: when this one was done is not known
  kLast,    // the last one on its communicator
};

/// One call of one rank. Durations are kept in microseconds (up to 71 minutes).
struct Call {
  int64_t arrival_ns = 0;
  uint32_t duration_us = kOpenDuration;
  uint16_t signature = 0;
  Completion completion = Completion::kOpen;
  bool present : 1 = false;  // false: the row was lost or lies before tracing began
  BatchPart batch : 2 = BatchPart::kNone;
  bool launched : 1 = false;   // the call has returned: while it has no end, its rank is not inside of the call itself
  bool on_device : 1 = false;  // its kernel is known to have begun

  [[nodiscard]] int64_t end_ns() const {
    return duration_us == kOpenDuration ? kForever : arrival_ns + static_cast<int64_t>(duration_us) * kNsPerUs;
  }
  /// True if it has not ended, as far as observed. False for a call whose end nothing reports: that is no sign of a
  /// hang.
  [[nodiscard]] bool is_open() const { return duration_us == kOpenDuration && completion != Completion::kUnobserved; }
};
static_assert(sizeof(Call) == 16);

/// Operation and all arguments that ranks must agree on. Both ends of a transfer have one signature.
struct CallSignature {
  Operation op = Operation::kAllReduce;
  /// Where has_a_part_per_rank(): of one rank's part, since a row's number of ranks may be a guess. May be
  /// kUnknownBytes.
  int64_t bytes = 0;
  int32_t datatype = kNoArgument;  // the library's own number; only if it means the same in every process
  int32_t reduce_op = kNoArgument;
  int32_t root = kNoArgument;
  bool exact = false;  // the library requires equal counts on all ranks; others only for operations of one size
  uint16_t baseline_class = 0;  // first signature with this operation and size; one class is compared

  static constexpr int32_t kNoArgument = -1;
  static constexpr int64_t kUnknownBytes = -1;
  bool operator==(const CallSignature&) const = default;
  /// True unless both sizes are known and differ.
  [[nodiscard]] bool sized_as(const CallSignature& other) const {
    return bytes == other.bytes || bytes == kUnknownBytes || other.bytes == kUnknownBytes;
  }
};

/// False if ranks that make these calls under one sequence number never finish, or finish with wrong data. An unknown
/// argument agrees with any.
bool agree(const CallSignature& a, const CallSignature& b);

/// A call that makes or ends a communicator: the fields that verdicts need.
struct CommunicatorCall {
  MemberIndex member = kNoMember;
  Library library = Library::kNccl;
  Operation op = Operation::kCommInitRank;
  int64_t arrival_ns = 0;
  int64_t end_ns = kForever;  // kForever: it never returned
  CommHash hash = 0;
  std::optional<int32_t> rank;
  std::optional<int32_t> nranks;
  std::optional<int32_t> return_code;
  int64_t called_ns = 0;  // on the clock of its node
};

/// The calls of one process on one communicator (for Send/Recv: for one pair of ranks), by sequence number.
struct CallSequence {
  MemberIndex member = kNoMember;
  uint32_t group = 0;
  CommHash hash = 0;
  CommHash nccl_hash = 0;  // NCCL's own of the same communicator, also where `hash` is not known; 0: not known either
  uint64_t comm_ptr = 0;
  std::optional<int32_t> comm_rank;
  std::optional<int32_t> nranks;
  int32_t tid = 0;  // the thread of the last call
  bool point_to_point = false;
  bool receives = false;   // point-to-point: the receiving end
  bool continued = false;  // after a gap of sequence numbers the rank's calls continue in another sequence
  bool destroyed = false;  // its communicator was destroyed in order
  bool aborted = false;    // its communicator was aborted or failed: open calls lasted until then
  bool batched = false;    // some of its calls are in batches
  /// No end of its calls is seen, and the rank is inside of the newest call itself: it did not return, as the one
  /// before it did, and its thread made no later call.
  bool held_in_newest = false;
  Library library = Library::kNccl;
  int64_t shift_ns = 0;       // of its node's clock
  int64_t first_seq = 0;      // number of calls[0]
  int64_t number_offset = 0;  // number = seq + number_offset
  int64_t captured_end = 0;   // after its last call that was captured into a CUDA graph, as a seq; 0: none
  int64_t first_arrival_ns = kForever;
  int64_t last_arrival_ns = std::numeric_limits<int64_t>::min();
  int64_t first_open_ns = kForever;  // arrival of the first open call
  int64_t last_ended_seq = -1;       // newest call whose end is known
  int64_t exit_ns = kForever;        // of its process
  int64_t abort_ns = kForever;       // when its communicator was aborted, or a call on it failed
  int64_t node_end_ns = kForever;    // when its node's agent ended: the rank was not observed later
  std::vector<Call> calls;
  /// From each call to the start of its kernel on the device, in microseconds; kOpenDuration where it is not known by
  /// the device's own clock: the host may have seen it late. Empty if it is not known of any.
  std::vector<uint32_t> queued_us;

  /// When the device began the call; none if that is not known.
  [[nodiscard]] std::optional<int64_t> kernel_start_ns(int64_t number) const {
    const int64_t index = number - first_number();
    if (index < 0 || index >= static_cast<int64_t>(queued_us.size()) ||
        queued_us[static_cast<size_t>(index)] == kOpenDuration) {
      return std::nullopt;
    }
    return calls[static_cast<size_t>(index)].arrival_ns + int64_t{queued_us[static_cast<size_t>(index)]} * kNsPerUs;
  }
  [[nodiscard]] const Call* call_at(int64_t number) const {
    const int64_t index = number - number_offset - first_seq;
    if (index < 0 || index >= static_cast<int64_t>(calls.size()) || !calls[static_cast<size_t>(index)].present) {
      return nullptr;
    }
    return &calls[static_cast<size_t>(index)];
  }
  /// True if calls continued although none is known to have ended: ends are not observable here, so an open call means
  /// nothing.
  [[nodiscard]] bool ends_unseen() const {
    return last_ended_seq < 0 && !calls.empty() && last_arrival_ns - first_open_ns >= kHangNs;
  }
  /// True if its newest call has not returned, while the one before it did.
  [[nodiscard]] bool stays_in_newest() const {
    return calls.size() > 1 && calls.back().is_open() && !calls.back().launched && calls[calls.size() - 2].launched;
  }
  /// True if calls were made and nothing reports when any of them ended.
  [[nodiscard]] bool ends_unobserved() const {
    return last_ended_seq < 0 && !calls.empty() && first_open_ns == kForever;
  }
  /// The last time at which the rank was observed inside an open call.
  [[nodiscard]] int64_t observed_to_ns() const { return std::min({exit_ns, abort_ns, node_end_ns}); }
  /// Puts its times, which are on the clock of its host, on the common one.
  void move(const ClockMove& move);
  [[nodiscard]] int64_t first_number() const { return first_seq + number_offset; }
  [[nodiscard]] int64_t end_number() const { return first_number() + static_cast<int64_t>(calls.size()); }
  /// The number of the call that the rank has not made yet: it may have captured some after its last one that ran.
  [[nodiscard]] int64_t next_number() const {
    return captured_end == 0 ? end_number() : std::max(end_number(), captured_end + number_offset);
  }
};

struct Group {
  CommHash hash = 0;       // 0: made before tracing began, matched by order and time
  CommHash nccl_hash = 0;  // of such a one NCCL's own, if all its ranks' calls are in this group; else 0
  AttemptIndex attempt = kNoAttempt;
  bool point_to_point = false;
  std::optional<int32_t> nranks;
  int64_t last_ended_number = std::numeric_limits<int64_t>::min();  // newest number that any of its ranks completed
  std::vector<uint32_t> sequences;
  std::vector<int64_t> captured;  // numbers of calls that a rank has captured into a CUDA graph, ascending
  /// Ranks that no recording shows: of its communicator, or of its job if the size of its communicator is not known.
  /// Ranks that were started and called nothing yet are recorded.
  MissingRanks unrecorded{{}, 0};
  /// The calls of all its ranks are known, so that those who wait can wait for no other rank.
  bool all_took_part = false;

  /// Its size is not known, or not the peer of its Sends and Recvs: which ranks it has to have is known of its job.
  [[nodiscard]] bool judged_by_job() const { return point_to_point || name() == 0 || !nranks; }
  /// What distinguishes the communicator from others; 0: nothing.
  [[nodiscard]] CommHash name() const { return hash != 0 ? hash : nccl_hash; }
};

/// CallSignature::bytes of a row.
int64_t signature_bytes(const Collective& row);

class Timeline {
 public:
  static Result<Timeline> load(EventSource& source, Cluster& cluster);

  [[nodiscard]] const std::vector<CallSequence>& sequences() const { return sequences_; }
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  /// Those of one rank, ascending.
  [[nodiscard]] const std::vector<uint32_t>& sequences_of(MemberIndex member) const;
  /// True if the rank has calls on the communicator, or made it. In constant time.
  [[nodiscard]] bool calls_on(MemberIndex member, CommHash communicator) const;
  [[nodiscard]] const CallSignature& signature(uint16_t index) const { return signatures_[index]; }
  /// Of what graphs launch on a communicator: its own names.
  [[nodiscard]] bool is_graph_of(CommHash graph, CommHash communicator) const;
  /// What all ranks of the group pass or get in one call of it, as `payload_bytes`; none if that is not known.
  [[nodiscard]] std::optional<int64_t> payload(uint32_t group, uint16_t signature) const;
  [[nodiscard]] const std::vector<CommunicatorCall>& communicator_calls() const { return communicator_calls_; }
  /// Number of rows that move data.
  [[nodiscard]] int64_t rows() const { return rows_; }
  /// From the first arrival to the end of the recording, if known.
  [[nodiscard]] Interval span() const { return span_; }
  void extend(int64_t time_ns) { span_.to_ns = std::max(span_.to_ns, time_ns); }
  [[nodiscard]] int64_t unknown_rows() const { return unknown_rows_; }
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }

 private:
  friend class TimelineBuilder;
  void bound_observation(const Cluster& cluster);
  [[nodiscard]] bool is_with_itself(const Group& group) const;
  void index_members();
  std::vector<CallSequence> sequences_;
  std::vector<std::vector<uint32_t>> by_member_;
  std::vector<std::unordered_set<CommHash>> called_on_;  // by member
  std::set<std::pair<CommHash, CommHash>> graphs_;       // name, and that of the communicator
  std::vector<Group> groups_;
  std::vector<CallSignature> signatures_;
  std::vector<CommunicatorCall> communicator_calls_;
  std::vector<std::string> notes_;
  Interval span_{kForever, std::numeric_limits<int64_t>::min()};
  int64_t rows_ = 0;
  int64_t unknown_rows_ = 0;
};

/// A communicator's first instances open connections and touch memory. One that was made before tracing began has
/// already done so.
inline bool is_warming_up(const Group& group, int64_t number) { return group.hash != 0 && number < kWarmUpInstances; }
/// In somewhat more instances ranks still compile and fill caches, each for its own time.
inline bool is_settling(const Group& group, int64_t number) { return group.hash != 0 && number < kSettlingInstances; }

}  // namespace stalltrace::analysis
