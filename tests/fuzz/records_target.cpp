// SPDX-License-Identifier: Apache-2.0
// Fuzzes what becomes of the kernel's records: any user of the host decides by the calls, ids and marks of his own
// processes what they hold. The input is a list of records; what only the kernel decides (type, size, times, numbers of
// processes) is as it makes it, except in records of a kind of their own. Nothing crashes, and no row is out of range.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "capture/decode/record_decoder.h"
#include "model/memory_source.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/record_input.h"
#include "tests/fuzz/rows.h"
#include "wire/host_drops.h"
#include "wire/marker.h"
#include "wire/python.h"

using namespace stalltrace;
using namespace stalltrace::capture;
using fuzz::Input;
using fuzz::RecordKind;
using fuzz::require;

namespace {

constexpr uint64_t kLongestNs = uint64_t{1} << 40U;  // 18 minutes
constexpr size_t kTimesKept = 16;

class Capture {
 public:
  void run(Input input) {
    while (!input.empty()) {
      step(input);
    }
    decoder_.deliver_waiting(static_cast<int64_t>(now_ns_));
    for (const st_exit& record : decoder_.take_exits()) {
      decoder_.end_process(record);
    }
    decoder_.finish(static_cast<int64_t>(now_ns_));
    decoder_.deliver_losses();
    check();
  }

 private:
  void step(Input& input) {
    const auto kind = static_cast<RecordKind>(input.number(1) % static_cast<uint8_t>(RecordKind::kCount));
    const uint64_t who = input.number(1);
    header_ = {.version = ST_WIRE_VERSION,
               .tgid = fuzz::kFirstProcess + static_cast<uint32_t>(who % fuzz::kProcesses),
               .tid = fuzz::kFirstProcess + static_cast<uint32_t>(who % fuzz::kProcesses + who / 16 % 4)};
    const uint64_t pause = input.number(2);
    now_ns_ += (pause & 0xfffU) << (pause >> 12U) << 4U;
    header_.time_ns = now_ns_;
    const std::span<const uint8_t> payload = input.sized_piece();
    switch (kind) {
      case RecordKind::kCallEntry:
        return with<st_call_entry>(ST_RECORD_CALL_ENTRY, payload, [this](st_call_entry& record) {
          record.group_started_ns = earlier(record.group_started_ns);
          record.last_net_ns = earlier(record.last_net_ns);
          record.sequence %= uint64_t{1} << 40U;  // the kernel counts
          remember();
        });
      case RecordKind::kCallReturn:
        return with<st_call_return>(ST_RECORD_CALL_RETURN, payload,
                                    [this](st_call_return& record) { record.entry_ns = earlier(record.entry_ns); });
      case RecordKind::kCommInit:
        return with<st_comm_init>(ST_RECORD_COMM_INIT, payload, [this](st_comm_init&) { remember(); });
      case RecordKind::kSync:
        return with<st_sync>(ST_RECORD_SYNC, payload, [this](st_sync& record) { waited(record); });
      case RecordKind::kRequestsDone:
        return with<st_requests_done>(ST_RECORD_REQUESTS_DONE, payload,
                                      [this](st_requests_done& record) { waited(record); });
      case RecordKind::kSocket:
        return with<st_socket_seen>(ST_RECORD_SOCKET, payload, [](st_socket_seen&) {});
      case RecordKind::kTcpEvent:
        return with<st_tcp_event>(ST_RECORD_TCP_EVENT, payload, [](st_tcp_event&) {});
      case RecordKind::kTcpSample:
        return with<st_tcp_sample>(ST_RECORD_TCP_SAMPLE, payload, [](st_tcp_sample&) {});
      case RecordKind::kNetSpan:
        return with<st_net_span>(ST_RECORD_NET_SPAN, payload,
                                 [this](st_net_span& record) { record.end_ns = now_ns_ + record.end_ns % kLongestNs; });
      case RecordKind::kStepMark:
        return with<st_step_mark>(ST_RECORD_STEP_MARK, payload, [](st_step_mark&) {});
      case RecordKind::kWait:
        return with<st_wait>(ST_RECORD_WAIT, payload, [this](st_wait& record) {
          record.end_ns = now_ns_ + 1 + record.end_ns % kLongestNs;
          record.waited_ns = std::min<uint64_t>(record.waited_ns, record.end_ns - now_ns_);
          record.by_waited_ns = std::min<uint64_t>(record.by_waited_ns, record.waited_ns);
        });
      case RecordKind::kCallStack:
        return with<st_call_stack>(ST_RECORD_CALL_STACK, payload, [](st_call_stack&) {});
      case RecordKind::kException:
        // Without frames: traceback_target.cpp has them, and here a child process would read each.
        return with<st_python_exception>(ST_RECORD_PYTHON_EXCEPTION, payload,
                                         [](st_python_exception& record) { record.depth = 0; });
      case RecordKind::kOutOfMemory:
        return with<st_oom_kill>(ST_RECORD_OOM_KILL, payload, [](st_oom_kill&) {});
      case RecordKind::kSeen:
        return with<st_process_seen>(ST_RECORD_PROCESS, payload, [](st_process_seen&) {});
      case RecordKind::kListing: {
        auto record = record_of<st_socket_listing>(ST_RECORD_SOCKET_LISTING, payload);
        return decoder_.decode(record);
      }
      case RecordKind::kBegin:
        return begin(payload);
      case RecordKind::kExit:
        return with<st_exit>(ST_RECORD_EXIT, payload, [](st_exit&) {});
      case RecordKind::kExitLost:
        return decoder_.end_process(static_cast<pid_t>(header_.tgid), static_cast<int64_t>(now_ns_));
      case RecordKind::kRound:
        for (const st_exit& record : decoder_.take_exits()) {
          decoder_.end_process(record);
        }
        (void)decoder_.standings();
        return decoder_.deliver_waiting(static_cast<int64_t>(now_ns_));
      case RecordKind::kBytes:
        return decoder_.decode(std::as_bytes(payload));
      case RecordKind::kCount:
        return;
    }
  }

  template <typename Record>
  Record record_of(uint16_t type, std::span<const uint8_t> payload) const {
    Record record{};
    const size_t bytes = std::min(payload.size(), sizeof record - sizeof header_);
    if (bytes > 0) {
      std::memcpy(reinterpret_cast<char*>(&record) + sizeof header_, payload.data(), bytes);
    }
    record.header = header_;
    record.header.type = type;
    record.header.size = sizeof record;
    return record;
  }
  template <typename Record, typename Mend>
  void with(uint16_t type, std::span<const uint8_t> payload, const Mend& mend) {
    Record record = record_of<Record>(type, payload);
    mend(record);
    decoder_.decode(std::as_bytes(std::span(&record, 1)));
  }
  template <typename Record>
  void waited(Record& record) {
    record.entry_ns = earlier(record.entry_ns);
    record.last_net_ns = earlier(record.last_net_ns);
  }

  /// Small numbers are the thread's last calls; others a time that the clock has shown.
  uint64_t earlier(uint64_t time_ns) {
    const std::vector<uint64_t>& times = entered_[header_.tid % entered_.size()];
    if (time_ns < kTimesKept) {
      return time_ns < times.size() ? times[times.size() - 1 - time_ns] : 0;
    }
    return std::min(time_ns, now_ns_);
  }
  void remember() {
    auto& times = entered_[header_.tid % entered_.size()];
    if (times.size() == kTimesKept) {
      times.erase(times.begin());
    }
    times.push_back(now_ns_);
  }

  void begin(std::span<const uint8_t> payload) {
    Input input(payload.data(), payload.size());
    const auto pid = static_cast<pid_t>(header_.tgid);
    const auto user = static_cast<uint32_t>(input.number(1));
    if (!decoder_.admit(pid, user, static_cast<int64_t>(now_ns_))) {
      return;
    }
    Process process{.node_id = node_.node_id, .pid = pid};
    process.start_ns = static_cast<int64_t>(now_ns_) + node_.clock_offset_ns;
    if (const uint64_t rank = input.number(1); rank < 128) {
      process.rank = static_cast<int32_t>(rank);
    }
    const auto library = static_cast<Library>(input.number(1) % 4);
    decoder_.begin_process(std::move(process), library, {.key = input.number(1)});
  }

  void check() {
    fuzz::check_rows(rows_, false);
    const auto losses = rows_.losses();
    require(losses.has_value() && rows_.stacks().has_value() && rows_.communicators().has_value());
    for (const Loss& row : *losses) {
      require(!row.source.empty() && row.count > 0);
    }
    (void)rows_.net_spans({}, [](const NetSpan& row) { require(row.timestamp_ns > 0 && row.duration_ns >= 0); });
  }

  Node node_{.node_id = 5, .clock_offset_ns = 1'769'827'620'000'000'000};
  Procfs procfs_{"/nowhere"};
  MemorySource rows_;
  RecordDecoder decoder_{node_,
                         procfs_,
                         rows_,
                         {.ticks_per_second = 250,
                          .profiler_files = {.only_living = true},
                          .on_call = [](pid_t, uint32_t) {},
                          .report = [](const std::string&) {}}};
  st_header header_{};
  uint64_t now_ns_ = 1'000'000'000;
  std::array<std::vector<uint64_t>, 8> entered_;  // by thread: the times of its last calls
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Capture capture;
  capture.run(Input(data, size));
  return 0;
}
