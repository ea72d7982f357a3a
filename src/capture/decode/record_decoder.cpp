// SPDX-License-Identifier: Apache-2.0
#include "capture/decode/record_decoder.h"

#include <cstring>
#include <utility>

#include "base/clock.h"
#include "capture/decode/collective/requests_done.h"
#include "capture/decode/wait_decoder.h"
#include "wire/host_drops.h"

namespace stalltrace::capture {
namespace {

constexpr int64_t kLastCompetitorsNs = 200 * kNsPerMs;  // at the end, to read what ran instead of traced threads

/// Copies a record out of the ring's bytes; false where they are too few.
template <typename Record>
bool take(std::span<const std::byte> bytes, Record& record) {
  if (bytes.size() < sizeof record) {
    return false;
  }
  std::memcpy(&record, bytes.data(), sizeof record);
  return true;
}

}  // namespace

RecordDecoder::RecordDecoder(const Node& node, const Procfs& procfs, EventSink& sink, Options options)
    : node_(node),
      sink_(sink),
      on_call_(std::move(options.on_call)),
      ids_(node.node_id),
      processes_(sink),
      pairing_(ids_, sink),
      collectives_(ids_, processes_, shares_, pairing_, node.clock_offset_ns),
      profiler_files_(node, procfs, options.profiler_files, processes_, pairing_, sink, std::move(options.report)),
      network_(
          ids_, processes_, shares_, sink, node.clock_offset_ns, options.ticks_per_second,
          [&procfs](int32_t pid, int32_t tid) { return procfs.thread_name(pid, tid); },
          [this](int32_t pid, uint64_t hash) { return communicator_info(pid, hash); }),
      stacks_(procfs, shares_, sink),
      exceptions_(node, shares_, sink),
      competitors_(node, procfs, processes_, shares_, sink) {}

/// A communicator whose unique id the probes did not see gets its hash from calls that were paired with the profiler
/// file's.
CommunicatorInfo RecordDecoder::communicator_info(int32_t pid, uint64_t nccl_comm_hash) const {
  CommunicatorInfo facts{.hash = collectives_.comm_of_nccl_hash(pid, nccl_comm_hash),
                         .nodes = profiler_files_.nodes_of(pid, nccl_comm_hash)};
  if (const Communicator* known = pairing_.find(pid, nccl_comm_hash)) {
    facts.hash = facts.hash != 0 ? facts.hash : known->comm_id_hash;
    facts.is_part = known->parent_hash != 0 || known->split_color;
  }
  return facts;
}

bool RecordDecoder::has_ended(pid_t pid) const {
  const Process* known = processes_.find(pid);
  return known && known->exit_ns;
}

void RecordDecoder::begin_process(Process process, Library library, CollectiveTracker::JobIdentity job) {
  const pid_t pid = process.pid;
  processes_.add(std::move(process));
  collectives_.set_library(pid, library);
  profiler_files_.add_process(pid, shares_.user_of(pid));
  collectives_.set_job(pid, job);
}

void RecordDecoder::end_process(const st_exit& record) {
  end(static_cast<pid_t>(record.header.tgid), record.header.time_ns, record.exit_code);
}

void RecordDecoder::end_process(pid_t pid, int64_t now_ns) { end(pid, static_cast<uint64_t>(now_ns), std::nullopt); }

void RecordDecoder::end(pid_t pid, uint64_t end_ns, std::optional<int32_t> exit_code) {
  collectives_.on_exit(pid);
  network_.on_exit(pid, end_ns);
  profiler_files_.end_process(pid);
  processes_.exited(pid, static_cast<int64_t>(end_ns) + node_.clock_offset_ns, exit_code);
  stacks_.on_exit(pid);
  exceptions_.on_exit(pid);
  shares_.end(pid);
}

std::vector<st_exit> RecordDecoder::take_exits() { return std::exchange(exits_, {}); }

/// Ignores a process whose end arrived first, by another ring: its state would never be dropped.
void RecordDecoder::note_stack(const st_call_stack& record) {
  if (!has_ended(static_cast<pid_t>(record.header.tgid))) {
    stacks_.note(record);
  }
}

void RecordDecoder::note_wait(const st_wait& record) {
  WaitSpan wait = decode_wait(record, node_.node_id, node_.clock_offset_ns);
  competitors_.note(wait);
  sink_.accept(std::move(wait));
}

void RecordDecoder::decode(std::span<const std::byte> bytes) {
  st_header header;
  if (!take(bytes, header) || header.version != ST_WIRE_VERSION || header.size > bytes.size()) {
    ++malformed_;
    return;
  }
  const auto with = [&]<typename Record>(Record record, const auto& handle) {
    if (header.size == sizeof record && take(bytes, record)) {
      handle(record);
    } else {
      ++malformed_;
    }
  };
  const bool of_life = header.type == ST_RECORD_EXIT || header.type == ST_RECORD_PROCESS;
  if (!of_life && !shares_.is_followed(static_cast<pid_t>(header.tgid))) {
    return;
  }
  switch (header.type) {
    case ST_RECORD_CALL_ENTRY:
      return with(st_call_entry{}, [&](const auto& record) {
        collectives_.on_entry(record, stacks_.id_of(static_cast<pid_t>(record.header.tgid), record.call_site));
      });
    case ST_RECORD_CALL_STACK:
      return with(st_call_stack{}, [&](const auto& record) { note_stack(record); });
    case ST_RECORD_PYTHON_EXCEPTION:
      malformed_ += header.size == sizeof(st_python_exception) && exceptions_.note(bytes) ? 0 : 1;
      return;
    case ST_RECORD_CALL_RETURN:
      return with(st_call_return{}, [&](const auto& record) { collectives_.on_return(record); });
    case ST_RECORD_COMM_INIT:
      return with(st_comm_init{}, [&](const auto& record) { collectives_.on_comm_init(record); });
    case ST_RECORD_NCCL_IDENTITY:
      return with(st_nccl_identity{}, [&](const auto& record) { collectives_.on_nccl_identity(record); });
    case ST_RECORD_SYNC:
      return with(st_sync{}, [&](const auto& record) { collectives_.on_sync(record); });
    case ST_RECORD_REQUESTS_DONE:
      return with(st_requests_done{}, [&](const auto& record) {
        for_each_request(record, [&](const st_sync& sync) { collectives_.on_sync(sync); });
      });
    case ST_RECORD_PROCESS:
      return with(st_process_seen{}, [&](const auto& r) { on_call_(static_cast<pid_t>(r.header.tgid), r.user); });
    case ST_RECORD_TCP_EVENT:
      return with(st_tcp_event{}, [&](const auto& record) { network_.on_event(record); });
    case ST_RECORD_TCP_SAMPLE:
      return with(st_tcp_sample{}, [&](const auto& record) { network_.on_sample(record); });
    case ST_RECORD_NET_SPAN:
      return with(st_net_span{}, [&](const auto& record) { network_.on_span(record); });
    case ST_RECORD_STEP_MARK:
      return with(st_step_mark{}, [&](const auto& record) { network_.on_step_mark(record); });
    case ST_RECORD_SOCKET:
      return with(st_socket_seen{}, [&](const auto& record) { network_.on_socket(record); });
    case ST_RECORD_WAIT:
      return with(st_wait{}, [&](const auto& record) { note_wait(record); });
    case ST_RECORD_EXIT:
      return with(st_exit{}, [&](const auto& record) { exits_.push_back(record); });
    case ST_RECORD_OOM_KILL:
      return with(st_oom_kill{}, [&](const auto& r) { processes_.oom_killed(static_cast<pid_t>(r.header.tgid)); });
    default:
      ++malformed_;
  }
}

void RecordDecoder::deliver_waiting(int64_t decoded_ns) {
  collectives_.deliver_open();
  profiler_files_.round(decoded_ns);
  network_.complete_attributed();
}

void RecordDecoder::finish(int64_t decoded_ns) {
  competitors_.finish(decoded_ns, monotonic_now_ns() + kLastCompetitorsNs);
  collectives_.deliver_open();
  profiler_files_.finish(decoded_ns);
  network_.complete_attributed();
}

void RecordDecoder::deliver_losses() {
  profiler_files_.deliver_losses();
  for (Loss& loss : shares_.losses(node_.node_id)) {
    sink_.accept(std::move(loss));
  }
  if (malformed_ > 0) {
    sink_.accept(Loss{node_.node_id, "ring:malformed", malformed_});
  }
}

}  // namespace stalltrace::capture
