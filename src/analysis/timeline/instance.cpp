// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/instance.h"

#include <algorithm>
#include <future>
#include <system_error>

#include "analysis/thresholds/stalls.h"

namespace stalltrace::analysis {
namespace {

/// An open call means a hang only if no rank ended a later call on that communicator, the rank did not leave it, and
/// its end is observable: as those of earlier calls were, or by its return.
bool inside(const Group& group, const CallSequence& sequence, int64_t number) {
  const bool observable = !sequence.ends_unseen() || (number == sequence.end_number() - 1 && sequence.held_in_newest);
  return !sequence.destroyed && observable && group.last_ended_number < number;
}

/// True if its absence was observed for long enough: its node's agent would have seen its arrival or its process's end.
bool observed_absent(const CallSequence& sequence, int64_t since_ns) {
  return sequence.exit_ns != kForever || sequence.node_end_ns == kForever || sequence.node_end_ns - since_ns >= kHangNs;
}

/// For an instance in which most ranks' calls are in batches. If it is the last of some ranks' batches, their
/// synchronisation is its end. The other ranks' synchronisation waited for later calls as well, so it is left out.
void find_batch_part(Instance& instance) {
  const bool last = std::ranges::find(instance.seen, BatchPart::kLast, &Arrival::batch) != instance.seen.end();
  instance.batch = last ? BatchPart::kLast : BatchPart::kInside;
  if (!last || instance.completion_ns == kForever) {
    return;
  }
  instance.completion_ns = std::numeric_limits<int64_t>::min();
  for (const Arrival& seen : instance.seen) {
    if (seen.batch != BatchPart::kInside) {
      instance.completion_ns = std::max(instance.completion_ns, seen.end_ns);
    }
  }
}

/// When the call could begin. If true ends are known, a call that was queued behind its predecessor on the communicator
/// began at the predecessor's end: the time in the queue belongs to the predecessor.
int64_t begin_ns(const CallSequence& sequence, int64_t number, const Call& call) {
  if (call.completion != Completion::kProfiler) {
    return call.arrival_ns;
  }
  const Call* previous = sequence.call_at(number - 1);
  if (previous == nullptr || previous->completion != Completion::kProfiler) {
    return call.arrival_ns;
  }
  return std::clamp(previous->end_ns(), call.arrival_ns, std::max(call.arrival_ns, call.end_ns()));
}

/// Where all devices report the starts of their kernels, these are the arrivals.
void arrive_by_device(const Timeline& timeline, Instance& instance) {
  for (Arrival& seen : instance.seen) {
    const CallSequence& sequence = timeline.sequences()[seen.sequence];
    const int64_t kernel_ns = *sequence.kernel_start_ns(instance.number);
    seen.arrival_ns = std::clamp(kernel_ns, seen.called_ns, std::max(seen.called_ns, seen.end_ns));
  }
}

}  // namespace

std::vector<NumberRange> numbers_of_instances(const Timeline& timeline, const Group& group) {
  std::vector<NumberRange> ranges;
  for (const uint32_t sequence : group.sequences) {
    ranges.push_back({timeline.sequences()[sequence].first_number(), timeline.sequences()[sequence].end_number()});
  }
  std::sort(ranges.begin(), ranges.end(), [](const NumberRange& a, const NumberRange& b) { return a.begin < b.begin; });
  std::vector<NumberRange> joined;
  for (const NumberRange& range : ranges) {
    if (joined.empty() || range.begin > joined.back().end) {
      joined.push_back(range);
    } else {
      joined.back().end = std::max(joined.back().end, range.end);
    }
  }
  return joined;
}

bool read_instance(const Timeline& timeline, uint32_t group, int64_t number, Instance& out) {
  out.group = group;
  out.number = number;
  out.seen.clear();
  out.absent.clear();
  out.signatures_differ = false;
  out.hung = false;
  out.hung_to_ns = std::numeric_limits<int64_t>::min();
  out.completion_ns = std::numeric_limits<int64_t>::min();
  out.batch = BatchPart::kNone;
  bool open = false;
  bool in_call = false;  // a rank's call has not returned
  size_t batched = 0;
  size_t kernels = 0;
  const Group& of = timeline.groups()[group];
  for (const uint32_t index : of.sequences) {
    const CallSequence& sequence = timeline.sequences()[index];
    const Call* call = sequence.call_at(number);
    if (call == nullptr) {
      if (number >= sequence.next_number() && !sequence.continued) {
        out.absent.push_back(index);
      }
      continue;
    }
    out.signatures_differ = out.signatures_differ || (!out.seen.empty() && call->signature != out.signature);
    out.signature = call->signature;
    const int64_t end_ns = call->end_ns();
    out.seen.push_back(
        {begin_ns(sequence, number, *call), call->arrival_ns, end_ns, index, call->is_open(), call->batch});
    if (end_ns == kForever) {
      open = true;
      in_call = in_call || (call->is_open() && !call->launched);
      if (call->is_open() && inside(of, sequence, number)) {
        out.hung = true;
        out.hung_to_ns = std::max(out.hung_to_ns, sequence.observed_to_ns());
      }
    } else {
      out.completion_ns = std::max(out.completion_ns, end_ns);
    }
    kernels += !sequence.queued_us.empty() && sequence.kernel_start_ns(number) ? 1 : 0;
    batched += call->batch == BatchPart::kNone ? 0 : 1;
  }
  if (out.seen.empty() || (!in_call && std::ranges::binary_search(of.captured, number))) {
    return false;
  }
  out.by_device = !open && kernels == out.seen.size() && kernels > 1;
  if (out.by_device) {
    arrive_by_device(timeline, out);
  }
  const auto earlier = [](const Arrival& a, const Arrival& b) { return a.arrival_ns < b.arrival_ns; };
  if (out.seen.size() > 2) {
    std::sort(out.seen.begin(), out.seen.end(), earlier);
  } else if (out.seen.size() == 2 && earlier(out.seen[1], out.seen[0])) {
    std::swap(out.seen[0], out.seen[1]);
  }
  if (open) {
    out.completion_ns = kForever;
  }
  if (2 * batched > out.seen.size()) {
    find_batch_part(out);
  }
  if (!out.hung) {
    out.absent.clear();
  }
  const size_t n = out.seen.size();
  out.last_arrival_ns = out.seen.back().arrival_ns;
  out.waits_from_ns = n == 1 ? out.last_arrival_ns : out.seen[(n - 2) / 2].arrival_ns;
  out.completion_ns = std::max(out.completion_ns, out.last_arrival_ns);
  std::erase_if(out.absent, [&](uint32_t sequence) {
    return !observed_absent(timeline.sequences()[sequence], out.last_arrival_ns);
  });
  return true;
}

InstancesRead read_together(const Timeline& timeline, uint32_t group, int64_t number, std::span<Instance> out) {
  InstancesRead read{};
  const auto read_half = [&](size_t half) {
    for (size_t i = half; i < out.size(); i += 2) {
      read[i] = read_instance(timeline, group, number + static_cast<int64_t>(i), out[i]);
    }
  };
  std::future<void> other;
  try {
    other = std::async(std::launch::async, read_half, 1);
  } catch (const std::system_error&) {  // a limit of the user, or of a container: this thread reads all
    read_half(1);
  }
  read_half(0);
  if (other.valid()) {
    other.get();
  }
  return read;
}

}  // namespace stalltrace::analysis
