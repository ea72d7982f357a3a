// SPDX-License-Identifier: Apache-2.0
#include "export/encode/chrome_encoder.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "export/encode/shown_text.h"

namespace stalltrace::trace_export {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 18;

/// A JSON string.
void put_text(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : shown_text(text)) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      default:
        out += c;
    }
  }
  out += '"';
}

class ChromeEncoder final : public TraceEncoder {
 public:
  explicit ChromeEncoder(ByteSink sink) : sink_(std::move(sink)), tracks_(1) {}

  void begin(int64_t zero_ns) override {
    zero_ns_ = zero_ns;
    out_ += fmt::format(R"({{"displayTimeUnit":"ns","otherData":{{"zero_utc_ns":"{}","zero_utc":"{}"}},)", zero_ns,
                        format_utc(zero_ns));
    out_ += "\"traceEvents\":[";
  }

  void track(const Track& track) override {
    TrackInfo info{.pid = track.pid, .path = track.name};
    const bool is_process = track.kind == TrackKind::kProcess;
    if (!is_process) {
      const TrackInfo& parent = tracks_.at(track.parent);
      info.pid = parent.pid;
      info.path = parent.path.empty() ? track.name : parent.path + ": " + track.name;
      info.unit = track.unit;
    }
    if (is_process || track.kind == TrackKind::kEvents) {
      start(is_process ? "M\",\"name\":\"process_name" : "M\",\"name\":\"thread_name");
      fmt::format_to(std::back_inserter(out_), ",\"pid\":{},\"tid\":{},\"args\":{{\"name\":", info.pid, track.id);
      put_text(out_, info.path);
      out_ += "}}";
      start(is_process ? "M\",\"name\":\"process_sort_index" : "M\",\"name\":\"thread_sort_index");
      fmt::format_to(std::back_inserter(out_), ",\"pid\":{},\"tid\":{},\"args\":{{\"sort_index\":{}}}}}", info.pid,
                     track.id, is_process ? track.order : static_cast<int32_t>(track.id));
    }
    if (is_process) {
      info.path.clear();
    }
    tracks_.resize(std::max<size_t>(tracks_.size(), size_t{track.id} + 1));
    tracks_[track.id] = std::move(info);
    put_block();
  }

  void slice(const Slice& slice) override {
    start(slice.end_ns ? "X" : "B");
    put_name(slice.category, slice.name, slice.track);
    put_time("ts", slice.begin_ns - zero_ns_);
    if (slice.end_ns) {
      put_time("dur", *slice.end_ns - slice.begin_ns);
    }
    put_annotations(slice.annotations);
    for (const FlowId flow : slice.flows_out) {
      put_flow("s", flow, slice);
    }
    for (const FlowId flow : slice.flows_in) {
      put_flow("f\",\"bp\":\"e", flow, slice);
    }
    put_block();
  }

  void instant(const Instant& instant) override {
    start("i\",\"s\":\"t");
    put_name(instant.category, instant.name, instant.track);
    put_time("ts", instant.time_ns - zero_ns_);
    put_annotations(instant.annotations);
    put_block();
  }

  void counter(TrackId track, int64_t time_ns, double value) override {
    put_counter(track, time_ns, std::isfinite(value) ? fmt::format("{}", value) : "null");
  }
  void counter(TrackId track, int64_t time_ns, int64_t value) override {
    put_counter(track, time_ns, fmt::format("{}", value));
  }

  Status finish() override {
    out_ += "\n]}\n";
    flush();
    return status_;
  }
  [[nodiscard]] const Status& status() const override { return status_; }

 private:
  struct TrackInfo {
    int32_t pid = 0;
    std::string path;  // below its process
    std::string unit;
  };

  /// `phase` may bring further fields with it.
  void start(const char* phase) {
    out_ += first_ ? "\n{\"ph\":\"" : ",\n{\"ph\":\"";
    out_ += phase;
    out_ += '"';
    first_ = false;
  }
  void put_name(const char* category, std::string_view name, TrackId track) {
    out_ += ",\"name\":";
    put_text(out_, name);
    fmt::format_to(std::back_inserter(out_), ",\"cat\":\"{}\",\"pid\":{},\"tid\":{}", category, tracks_.at(track).pid,
                   track);
  }
  /// Microseconds with three decimals: a double would lose the nanoseconds.
  void put_time(const char* key, int64_t ns) {
    const uint64_t size = ns < 0 ? ~static_cast<uint64_t>(ns) + 1 : static_cast<uint64_t>(ns);
    fmt::format_to(std::back_inserter(out_), ",\"{}\":{}{}.{:03}", key, ns < 0 ? "-" : "", size / kNsPerUs,
                   size % kNsPerUs);
  }
  void put_annotations(Annotations annotations) {
    if (!annotations.empty()) {
      out_ += ",\"args\":{";
      for (size_t i = 0; i < annotations.size(); ++i) {
        fmt::format_to(std::back_inserter(out_), "{}\"{}\":", i > 0 ? "," : "", annotations[i].name);
        std::visit([this](const auto& value) { put_value(value); }, annotations[i].value);
      }
      out_ += '}';
    }
    out_ += '}';
  }
  void put_value(int64_t value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void put_value(uint64_t value) { fmt::format_to(std::back_inserter(out_), "{}", value); }
  void put_value(double value) {
    std::isfinite(value) ? (void)fmt::format_to(std::back_inserter(out_), "{}", value) : (void)(out_ += "null");
  }
  void put_value(bool value) { out_ += value ? "true" : "false"; }
  void put_value(const Hex& hex) { fmt::format_to(std::back_inserter(out_), "\"0x{:x}\"", hex.value); }
  void put_value(const UniqueText& unique) { put_text(out_, unique.text); }
  void put_value(std::string_view text) { put_text(out_, text); }

  void put_flow(const char* phase, FlowId flow, const Slice& slice) {
    start(phase);
    fmt::format_to(std::back_inserter(out_), ",\"id\":{}", flow);
    put_name("flow", "waits for", slice.track);
    put_time("ts", slice.begin_ns - zero_ns_);
    out_ += '}';
  }
  void put_counter(TrackId track, int64_t time_ns, std::string_view value) {
    const TrackInfo& info = tracks_.at(track);
    start("C");
    put_name("counter", info.path, track);
    put_time("ts", time_ns - zero_ns_);
    out_ += ",\"args\":{";
    put_text(out_, info.unit.empty() ? "value" : info.unit);
    fmt::format_to(std::back_inserter(out_), ":{}}}}}", value);
    put_block();
  }

  void put_block() {
    if (out_.size() >= kBlockBytes) {
      flush();
    }
  }
  void flush() {
    if (status_) {
      status_ = sink_(out_);
    }
    out_.clear();
  }

  ByteSink sink_;
  Status status_;
  int64_t zero_ns_ = 0;
  bool first_ = true;
  std::string out_;
  std::vector<TrackInfo> tracks_;
};

}  // namespace

std::unique_ptr<TraceEncoder> make_chrome_encoder(ByteSink sink) {
  return std::make_unique<ChromeEncoder>(std::move(sink));
}

}  // namespace stalltrace::trace_export
