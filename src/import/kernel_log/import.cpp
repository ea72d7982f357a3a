// SPDX-License-Identifier: Apache-2.0
// Kernel logs as events: a host that a log names is a node, else the file; it has no calls.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "import/evidence.h"
#include "import/file_node.h"
#include "import/host_nodes.h"
#include "import/kernel_log/message.h"
#include "import/lines.h"
#include "import/read_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostOfAKind = 1000;      // of a file, by kind, number and device: corrected errors come by millions
constexpr size_t kMostMessages = 100'000;  // of a file
constexpr size_t kLongestText = 1024;
constexpr int64_t kUntimedLineNs = kNsPerUs;  // between lines that have no time

class Import {
 public:
  Import(EventSink& sink, const Note& note) : sink_(sink), note_(note) {}

  Status read(const std::string& path) {
    ST_ASSIGN(LineReader lines, LineReader::open(path));
    written_ns_ = modified_ns(path);
    messages_.clear();
    kept_.clear();
    last_host_.clear();
    last_uptime_ns_.reset();
    first_line_ = {};
    const int64_t number =
        take_lines(lines, path, note_, [&](const Line& line, std::string_view text) { take(path, line, text); });
    nodes_.of(path, last_host_);  // a log without a message is evidence as well
    deliver(path, number);
    ++summary_.files;
    return {};
  }

  void refuse(const std::string& path) { ++nodes_.of(path, "").losses["kernel:unreadable_file"]; }

  void finish() {
    for (auto& [name, state] : nodes_.all()) {
      Node& node = state.row;
      node.missing_evidence = fmt::format("{} {}", kLacksDurations, kLacksCalls);
      if (state.untimed) {
        node.missing_evidence += fmt::format(" {}", kLacksTimes);
      }
      if (state.without_zone) {
        node.missing_evidence += fmt::format(" {}", kLacksTimeZone);
      }
      ++summary_.nodes;
    }
    nodes_.deliver(sink_);
  }
  [[nodiscard]] const Summary& summary() const { return summary_; }

 private:
  struct Times {
    bool untimed = false;
    bool without_zone = false;
  };
  /// "NVRM: The NVIDIA GPU 0000:3b:00.0", which two more lines go on with.
  struct FirstLine {
    int64_t number = 0;
    std::string text;
    std::string gpu;
  };
  struct Pending {
    KernelMessage row;
    std::string host;
    std::optional<int64_t> uptime_ns;
    bool timed = false;
    bool has_zone = false;
  };

  void take(const std::string& path, const Line& line, std::string_view text) {
    std::optional<KernelText> message = read_kernel_message(text);
    if (!message) {
      if (const std::string_view gpu = gpu_in_first_line(text.substr(0, kLongestText)); !gpu.empty()) {
        first_line_ = {line.number, std::string(text.substr(0, kLongestText)), std::string(gpu)};
      }
      if (text.find('[') < 8 || (last_host_.empty() && text.find(" kernel:") != std::string_view::npos)) {
        see(read_kernel_prefix(text.substr(0, kLongestText)));
      }
      return;
    }
    const bool continues = message->code == kFallenXid && message->device.empty() && !first_line_.gpu.empty() &&
                           line.number - first_line_.number <= kFallenLines;
    if (continues) {
      message->device = first_line_.gpu;
      message->prefix = std::string_view(first_line_.text).substr(0, first_line_.text.find("NVRM: "));
    }
    const KernelPrefix prefix = read_kernel_prefix(message->prefix);
    see(prefix);
    size_t& kept = kept_[{message->kind, message->code.value_or(-1), std::string(message->device)}];
    if (++kept > kMostOfAKind || messages_.size() >= kMostMessages) {
      ++nodes_.of(path, std::string(prefix.host)).losses["kernel:messages_not_kept"];
      return;
    }
    Pending& pending = messages_.emplace_back();
    pending.host = std::string(prefix.host);
    pending.uptime_ns = prefix.uptime_ns;
    if (const auto time = read_kernel_time(message->prefix, written_ns_)) {
      pending.row.timestamp_ns = std::max<int64_t>(time->time_ns, 0);
      pending.timed = true;
      pending.has_zone = time->has_zone;
    }
    pending.row.kind = message->kind;
    pending.row.code = message->code;
    pending.row.device = std::string(message->device);
    pending.row.pid = message->pid;
    pending.row.process = std::string(message->process);
    pending.row.line = line.number;
    pending.row.file = path;
    pending.row.text = std::string(message->text.substr(0, kLongestText));
  }

  void see(const KernelPrefix& prefix) {
    if (!prefix.host.empty()) {
      last_host_ = std::string(prefix.host);
    }
    if (prefix.uptime_ns) {
      last_uptime_ns_ = prefix.uptime_ns;
    }
  }

  void deliver(const std::string& path, int64_t lines) {
    for (Pending& pending : messages_) {
      HostNodes<Times>::State& node = nodes_.of(path, pending.host);
      if (!pending.timed) {
        // Its last line is not newer than the file.
        const int64_t before_ns = pending.uptime_ns && last_uptime_ns_
                                      ? std::max<int64_t>(*last_uptime_ns_ - *pending.uptime_ns, 0)
                                      : (lines - pending.row.line) * kUntimedLineNs;
        pending.row.timestamp_ns = std::max<int64_t>(written_ns_ - before_ns, 0);
        node.untimed = true;
      }
      node.without_zone = node.without_zone || (pending.timed && !pending.has_zone);
      pending.row.node_id = node.row.node_id;
      node.row.started_ns = std::min(node.row.started_ns, pending.row.timestamp_ns);
      node.row.ended_ns = std::max(node.row.ended_ns.value_or(0), pending.row.timestamp_ns);
      ++summary_.rows;
      sink_.accept(std::move(pending.row));
    }
  }

  EventSink& sink_;
  const Note& note_;
  Summary summary_;
  HostNodes<Times> nodes_{"kernel_log"};
  // Of the file that is being read:
  int64_t written_ns_ = 0;
  FirstLine first_line_;
  std::vector<Pending> messages_;
  std::map<std::tuple<KernelMessageKind, int32_t, std::string>, size_t> kept_;
  std::string last_host_;
  std::optional<int64_t> last_uptime_ns_;
};

}  // namespace

Result<Summary> import_kernel_logs(std::span<const std::string> paths, EventSink& sink, const Note& note,
                                   const Options& /*options*/) {
  Import import(sink, note);
  ST_TRY(read_files(import, paths, note, "no kernel log"));
  import.finish();
  return import.summary();
}

}  // namespace stalltrace::import
