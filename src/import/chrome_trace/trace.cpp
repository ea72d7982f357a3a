// SPDX-License-Identifier: Apache-2.0
#include "import/chrome_trace/trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "import/chrome_trace/json_stream.h"

namespace stalltrace::import {
namespace {

using Token = JsonStream::Token;

constexpr size_t kLongestName = 64;
constexpr size_t kMostThreads = 4096;
constexpr int64_t kLatestUs = int64_t{4'000'000'000} * 1'000'000;  // the year 2096
constexpr int64_t kEpochUs =
    int64_t{1'000'000'000} * 1'000'000;  // times of day are later, times of a host's start earlier
constexpr std::string_view kStep = "ProfilerStep#";

/// Microseconds as printed, with or without a fraction, in ns.
std::optional<int64_t> read_us(std::string_view text) {
  int64_t whole = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, whole);
  if (read.ec != std::errc() || whole < 0 || whole > kLatestUs) {
    return std::nullopt;
  }
  int64_t ns = whole * kNsPerUs;
  const char* at = read.ptr;
  if (at != end && *at == '.') {
    ++at;
    for (int64_t digit_ns = kNsPerUs / 10; at != end && *at >= '0' && *at <= '9'; ++at, digit_ns /= 10) {
      ns += (*at - '0') * digit_ns;
    }
  }
  if (at == end) {
    return ns;
  }
  double real = 0;  // with an exponent
  const auto all = std::from_chars(text.data(), end, real);
  return all.ec == std::errc() && all.ptr == end && real >= 0 && real <= static_cast<double>(kLatestUs)
             ? std::optional(static_cast<int64_t>(real * kNsPerUs))
             : std::nullopt;
}

std::optional<int64_t> read_whole(std::string_view text, int64_t most) {
  int64_t value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  return read.ec == std::errc() && value >= 0 && value <= most ? std::optional(value) : std::nullopt;
}

struct KnownName {
  std::string_view letters;  // of a name, without what is no letter
  std::string_view name;
};
/// Longer names first: "allgather" is in "allgathercoalesced", and "reduce" in "allreduce".
constexpr std::array kKnownNames{KnownName{"allreduce", "all_reduce"},
                                 KnownName{"reducescatter", "reduce_scatter"},
                                 KnownName{"allgather", "all_gather"},
                                 KnownName{"alltoall", "all_to_all"},
                                 KnownName{"broadcast", "broadcast"},
                                 KnownName{"sendrecv", "send_recv"},
                                 KnownName{"barrier", "barrier"},
                                 KnownName{"scatter", "scatter"},
                                 KnownName{"gather", "gather"},
                                 KnownName{"reduce", "reduce"},
                                 KnownName{"send", "send"},
                                 KnownName{"recv", "recv"}};

std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (c >= 'a' && c <= 'z') {
      letters += c;
    } else if (c >= 'A' && c <= 'Z') {
      letters += static_cast<char>(c - 'A' + 'a');
    }
  }
  return letters;
}

bool is_nccl_kernel(std::string_view name) {
  return name.starts_with("nccl") || name.find("ncclKernel") != std::string_view::npos ||
         name.find("ncclDevKernel") != std::string_view::npos;
}

/// A collective on the CPU that ends when its data are there. "c10d::allreduce_" only queues it.
bool is_cpu_collective(std::string_view name) {
  return name.starts_with("gloo:") || name.starts_with("mpi:") || name.starts_with("ucc:");
}

struct Event {
  std::string name;
  std::string category;
  std::string collective;
  std::string datatype;
  std::string group;
  std::string group_description;
  std::optional<int64_t> elements;
  std::optional<int64_t> begin_ns;
  std::optional<int64_t> duration_ns;
  std::string thread;
  bool complete = false;  // "ph": "X"

  void clear() {
    name.clear();
    category.clear();
    collective.clear();
    datatype.clear();
    group.clear();
    group_description.clear();
    thread.clear();
    elements.reset();
    begin_ns.reset();
    duration_ns.reset();
    complete = false;
  }
};

class Reader {
 public:
  explicit Reader(ByteStream bytes) : json_(std::move(bytes)) {}

  Trace read() {
    const Token first = json_.next();
    if (first == Token::kBeginArray) {
      read_events();
    } else if (first == Token::kBeginObject) {
      read_top();
    }
    trace_.problem = json_.problem();
    finish();
    return std::move(trace_);
  }

 private:
  /// Calls `member(key)` for each member of the object that has begun; it has to read or skip the value.
  template <typename Member>
  void each_member(Member&& member) {
    std::string key;
    while (json_.next() == Token::kKey) {
      key = json_.text();
      member(key);
    }
  }

  /// The value of a member, if it is a text or a number.
  std::string_view scalar() {
    const Token token = json_.next();
    if (token == Token::kText || token == Token::kNumber) {
      return json_.text();
    }
    json_.skip_rest(token);
    return {};
  }

  void read_top() {
    each_member([this](std::string_view key) {
      if (key == "traceEvents") {
        const Token token = json_.next();
        token == Token::kBeginArray ? read_events() : json_.skip_rest(token);
      } else if (key == "baseTimeNanoseconds") {
        base_ns_ = read_whole(scalar(), kLatestUs * kNsPerUs);
      } else if (key == "distributedInfo") {
        const Token token = json_.next();
        token == Token::kBeginObject ? read_distributed() : json_.skip_rest(token);
      } else {
        json_.skip();
      }
    });
  }

  void read_distributed() {
    constexpr int64_t kMostRanks = 1 << 24;
    each_member([&](std::string_view key) {
      if (key == "rank" || key == "world_size") {
        if (const auto value = read_whole(scalar(), kMostRanks)) {
          (key == "rank" ? trace_.rank : trace_.world_size) = static_cast<int32_t>(*value);
        }
      } else if (key == "backend") {
        trace_.backend = std::string(scalar().substr(0, kLongestName));
      } else {
        json_.skip();
      }
    });
  }

  void read_events() {
    while (true) {
      const Token token = json_.next();
      if (token == Token::kBeginObject) {
        read_event();
      } else if (token == Token::kEndArray || token == Token::kBroken || token == Token::kEnd) {
        return;
      } else {
        json_.skip_rest(token);
      }
    }
  }

  void read_event() {
    event_.clear();
    const int inside = json_.depth();
    each_member([this](std::string_view key) {
      if (key == "name") {
        event_.name = scalar();
      } else if (key == "cat") {
        event_.category = scalar();
      } else if (key == "ph") {
        event_.complete = scalar() == "X";
      } else if (key == "ts") {
        event_.begin_ns = read_us(scalar());
      } else if (key == "dur") {
        event_.duration_ns = read_us(scalar());
      } else if (key == "tid") {
        event_.thread = scalar();
      } else if (key == "args") {
        const Token token = json_.next();
        token == Token::kBeginObject ? read_arguments() : json_.skip_rest(token);
      } else {
        json_.skip();
      }
    });
    if (json_.depth() < inside) {  // it is whole
      take();
    }
  }

  void read_arguments() {
    each_member([this](std::string_view key) {
      if (key == "Collective name") {
        event_.collective = scalar();
      } else if (key == "dtype") {
        event_.datatype = scalar().substr(0, kLongestName);
      } else if (key == "In msg nelems") {
        event_.elements = read_whole(scalar(), int64_t{1} << 53);
      } else if (key == "Process Group Name") {
        event_.group = scalar().substr(0, kLongestName);
      } else if (key == "Process Group Description") {
        event_.group_description = scalar().substr(0, kLongestName);
      } else {
        json_.skip();
      }
    });
  }

  void take() {
    if (!event_.complete) {
      return;
    }
    const bool step = event_.name.starts_with(kStep);
    const bool kernel = event_.category == "kernel";
    const bool copy = event_.category == "gpu_memcpy" || event_.category == "gpu_memset";
    const bool collective = is_cpu_collective(event_.name);
    const bool op = event_.category.empty() ? event_.name.starts_with("aten::")
                                            : event_.category == "cpu_op" && event_.name.starts_with("aten::");
    if (!step && !kernel && !copy && !collective && !op) {
      return;
    }
    if (!event_.begin_ns || !event_.duration_ns || *event_.begin_ns > kLatestUs * kNsPerUs - *event_.duration_ns) {
      ++trace_.damaged;
      return;
    }
    const TimeRange time{*event_.begin_ns, *event_.begin_ns + *event_.duration_ns};
    if (step) {
      take_step(time);
      return;
    }
    if ((kernel || copy) && !trace_.on_device) {
      trace_.on_device = true;  // what the CPU did no longer matters
      forget_cpu();
    }
    if (trace_.on_device && !kernel && !copy) {
      return;
    }
    if (kept() >= Trace::kMostIntervals) {
      ++trace_.not_kept;
    } else if (copy) {
      trace_.copies.push_back(time);
    } else if (collective || (kernel && (!event_.collective.empty() || is_nccl_kernel(event_.name)))) {
      take_communication(time);
    } else if (kernel) {
      ++trace_.kernels;
      trace_.compute.push_back(time);
    } else {
      take_operator(time);
    }
  }

  [[nodiscard]] size_t kept() const {
    return trace_.compute.size() + trace_.copies.size() + trace_.communication.size();
  }

  void forget_cpu() {
    trace_.compute.clear();
    trace_.communication.clear();
    trace_.calls.clear();
    calls_.clear();
    threads_.clear();
    trace_.kernels = 0;
    trace_.not_kept = 0;
  }

  /// Of a tree of operators the outermost counts: those inside follow it.
  void take_operator(TimeRange time) {
    ++trace_.kernels;
    const bool room = threads_.size() < kMostThreads;
    const auto thread = threads_.find(event_.thread);
    if (thread != threads_.end() && thread->second.from_ns <= time.from_ns && time.to_ns <= thread->second.to_ns) {
      return;
    }
    if (thread != threads_.end()) {
      thread->second = time;
    } else if (room) {
      threads_.emplace(event_.thread.substr(0, kLongestName), time);
    }
    trace_.compute.push_back(time);
  }

  void take_communication(TimeRange time) {
    TraceCall call{.op = collective_name(event_.collective.empty() ? event_.name : event_.collective),
                   .process_group = event_.group_description.empty() || event_.group_description == "undefined"
                                        ? event_.group
                                        : event_.group_description,
                   .datatype = event_.datatype,
                   .elements = event_.elements};
    auto known = calls_.find(call);
    if (known == calls_.end()) {
      if (calls_.size() == Trace::kMostCalls) {
        call = TraceCall{.op = "other"};
        known = calls_.find(call);
      }
      if (known == calls_.end()) {
        known = calls_.emplace(call, static_cast<uint32_t>(trace_.calls.size())).first;
        trace_.calls.push_back(std::move(call));
      }
    }
    ++trace_.kernels;
    trace_.communication.push_back({time, known->second});
  }

  /// Kineto repeats a step for each stream of the device.
  void take_step(TimeRange time) {
    const auto number = read_whole(std::string_view(event_.name).substr(kStep.size()), int64_t{1} << 53);
    if (!number) {
      return;
    }
    auto& steps = event_.category == "gpu_user_annotation" ? device_steps_ : cpu_steps_;
    if (const auto known = steps.find(*number); known != steps.end()) {
      known->second.from_ns = std::min(known->second.from_ns, time.from_ns);
      known->second.to_ns = std::max(known->second.to_ns, time.to_ns);
    } else if (steps.size() < Trace::kMostSteps) {
      steps.emplace(*number, time);
    }
  }

  void finish() {
    for (const auto& [step, time] : trace_.on_device && !device_steps_.empty() ? device_steps_ : cpu_steps_) {
      trace_.steps.push_back({step, time});
    }
    const auto begin = [](const auto& one) { return one.time.from_ns; };
    std::ranges::stable_sort(trace_.steps, {}, begin);
    for (size_t i = 0; i + 1 < trace_.steps.size(); ++i) {
      // On several streams steps reach into each other: the next one's beginning ends a step.
      TimeRange& time = trace_.steps[i].time;
      time.to_ns = std::min(time.to_ns, trace_.steps[i + 1].time.from_ns);
    }
    std::ranges::sort(trace_.compute, {}, &TimeRange::from_ns);
    std::ranges::sort(trace_.copies, {}, &TimeRange::from_ns);
    std::ranges::stable_sort(trace_.communication, {}, begin);
    int64_t first_ns = -1;
    for (const auto* all : {&trace_.compute, &trace_.copies}) {
      if (!all->empty()) {
        first_ns = std::max(first_ns, all->front().from_ns);
      }
    }
    if (!trace_.communication.empty()) {
      first_ns = std::max(first_ns, trace_.communication.front().time.from_ns);
    }
    // Before baseTimeNanoseconds times were those of the day themselves.
    if (base_ns_ && *base_ns_ + first_ns <= kLatestUs * kNsPerUs) {
      trace_.zero_ns = *base_ns_;
    } else if (first_ns > kEpochUs * kNsPerUs) {
      trace_.zero_ns = 0;
    }
  }

  JsonStream json_;
  Trace trace_;
  Event event_;
  std::optional<int64_t> base_ns_;
  std::map<TraceCall, uint32_t> calls_;
  std::map<std::string, TimeRange, std::less<>> threads_;  // the last outermost operator of each
  std::map<int64_t, TimeRange> cpu_steps_;
  std::map<int64_t, TimeRange> device_steps_;
};

}  // namespace

Trace read_trace(ByteStream bytes) { return Reader(std::move(bytes)).read(); }

std::string collective_name(std::string_view text) {
  const size_t arguments = text.find('(');
  const std::string letters = letters_of(text.substr(0, arguments));
  for (const KnownName& known : kKnownNames) {
    if (letters.find(known.letters) != std::string::npos) {
      return std::string(known.name);
    }
  }
  return std::string(text.substr(0, std::min(arguments, kLongestName)));
}

bool is_chrome_trace(std::string_view head) {
  const auto has = [&](std::string_view key) { return head.find(key) != std::string_view::npos; };
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) {
    return false;
  }
  if (head[first] == '[') {
    const size_t second = head.find_first_not_of(" \t\r\n", first + 1);
    return second != std::string_view::npos && head[second] == '{' && has("\"ph\"") && has("\"ts\"") && has("\"name\"");
  }
  return head[first] == '{' && (has("\"traceEvents\"") || (has("\"schemaVersion\"") && (has("\"deviceProperties\"") ||
                                                                                        has("\"distributedInfo\""))));
}

}  // namespace stalltrace::import
