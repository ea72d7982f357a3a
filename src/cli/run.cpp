// SPDX-License-Identifier: Apache-2.0
// `stalltrace run`: starts a job with all evidence switched on, and explains when it hangs and when it ends.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "capture/tracer.h"
#include "cli/box_progress.h"
#include "cli/child_command.h"
#include "cli/exit_code.h"
#include "cli/progress.h"
#include "cli/recorded_boxes.h"
#include "cli/reporting.h"
#include "cli/verbs.h"
#include "embedded/profiler_plugin.h"
#include "export/report_json.h"
#include "export/report_text.h"
#include "store/writer.h"

namespace stalltrace::cli {
namespace {

constexpr const char* kPluginVariable = "NCCL_PROFILER_PLUGIN";
constexpr int64_t kBoxRoundNs = 500 * kNsPerMs;  // black boxes are looked at this often

/// What a run leaves, by name.
struct RunFolder {
  std::string path;
  [[nodiscard]] std::string recording() const { return path + "/trace.db"; }
  /// Of the black boxes at the latest hang.
  [[nodiscard]] std::string hang_recording() const { return path + "/hang.db"; }
  [[nodiscard]] std::string rings() const { return path + "/rings"; }
  [[nodiscard]] std::string findings() const { return path + "/findings.json"; }
};

/// Makes the folder; refuses one that holds an earlier run.
Result<RunFolder> make_folder(const std::string& wanted) {
  std::error_code error;
  const RunFolder folder{std::filesystem::absolute(wanted, error).string()};
  if (std::filesystem::exists(folder.rings(), error) || std::filesystem::exists(folder.recording(), error)) {
    return fail(folder.path + " holds an earlier run", "give another --out, or remove that folder");
  }
  std::filesystem::create_directories(folder.rings(), error);
  if (error) {
    return fail_errno("create " + folder.rings(), error.value());
  }
  return folder;
}

/// The tracer of a privileged run and what it writes to. Members go in reverse.
struct Trace {
  std::unique_ptr<RecordingWriter> writer;
  std::unique_ptr<ProgressSink> sink;
  std::unique_ptr<capture::Tracer> tracer;
};

/// The NCCL that the job's own library path leads to: probed before the job maps it, so that no first call is missed.
std::vector<std::string> libraries_of_path() {
  std::vector<std::string> found;
  const char* path = std::getenv("LD_LIBRARY_PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    std::string file = std::string(folder) + "/libnccl.so.2";
    if (std::error_code ignored; !folder.empty() && std::filesystem::exists(file, ignored)) {
      found.push_back(std::move(file));
    }
  }
  return found;
}

Result<Trace> start_trace(const RunFolder& folder, const std::string& node, Console& console) {
  Trace trace;
  ST_ASSIGN(trace.writer, RecordingWriter::create(folder.recording()));
  trace.sink = std::make_unique<ProgressSink>(*trace.writer);
  capture::TracerOptions options;
  options.node_name = node;
  options.libraries = libraries_of_path();
  options.pids = {::getpid()};  // the command will be our child, in scope from its first instruction
  auto tracer = capture::Tracer::create(options, *trace.sink, [&](const std::string& text) { console.note(text); });
  if (!tracer) {
    if (trace.writer->close()) {
      ::unlink(folder.recording().c_str());
    }
    return std::unexpected(std::move(tracer.error()));
  }
  trace.tracer = std::move(*tracer);
  return trace;
}

class RunVerb final : public Verb {
 public:
  [[nodiscard]] VerbInfo info() const override {
    return {.name = "run",
            .summary = "start a job with all evidence switched on; explain when it hangs and when it ends",
            .example = "stalltrace run --out run7 -- torchrun --nproc-per-node 8 train.py",
            .details =
                "Has NCCL load the profiler plugin (a black box for each process, in DIR/rings) and log to DIR; where "
                "this user may trace, records the node as `trace -- COMMAND` does. When no collective completes for "
                "--hang-after while some are open, the explanation is printed at once, and the job goes on. At the "
                "end the run is explained, and the job's exit code returned. On several nodes start each node's "
                "launcher so, and explain the recordings together."};
  }

  std::vector<Flag> flags() override {
    return {text_flag("--out", "DIR", "folder for what the run leaves; holds no earlier run", &out_),
            duration_flag("--hang-after", "explain when nothing completed for this long", &hang_after_ns_),
            text_flag("--node", "NAME", "this node's name; else STALLTRACE_NODE, the host's name", &node_),
            switch_flag("--no-trace", "leave the kernel alone: the profiler plugin only", &no_trace_),
            required(command_argument("the job's command", &command_))};
  }

  Result<int> run(Console& console) override {
    ST_ASSIGN(folder_, make_folder(out_));
    ST_ASSIGN(const std::vector<std::string> environment, make_environment(console));
    const StopSignals signals;
    std::optional<Trace> trace = try_trace(console);
    ST_ASSIGN(Subprocess command, Subprocess::spawn({.argv = command_, .environment = environment}));
    const Status watched =
        trace ? watch_traced(console, *trace, command, signals) : watch_boxes(console, command, signals);
    Result<int> code = command_exit(command, signals);
    if (trace) {
      trace->tracer.reset();
      ST_TRY(trace->writer->close());
    }
    ST_TRY(watched);
    conclude(console, trace.has_value());
    return code;
  }

 private:
  /// What the job gets besides its own environment. A profiler or a log the user has chosen stays.
  Result<std::vector<std::string>> make_environment(Console& console) const {
    std::vector<std::string> environment;
    if (const char* chosen = std::getenv(kPluginVariable); chosen != nullptr) {
      console.note(fmt::format("{} is {} already: it stays, and no black box is written", kPluginVariable, chosen));
    } else {
      ST_ASSIGN(const std::string plugin, write_profiler_plugin(folder_.path));
      environment.push_back(fmt::format("{}={}", kPluginVariable, plugin));
      environment.push_back("STALLTRACE_DIR=" + folder_.rings());
    }
    if (std::getenv("NCCL_DEBUG") == nullptr) {
      environment.emplace_back("NCCL_DEBUG=INFO");
      environment.push_back(fmt::format("NCCL_DEBUG_FILE={}/nccl.%h.%p.log", folder_.path));
    }
    return environment;
  }

  /// Without the privilege the job runs all the same.
  std::optional<Trace> try_trace(Console& console) const {
    if (no_trace_) {
      return std::nullopt;
    }
    Result<Trace> trace = start_trace(folder_, node_, console);
    if (!trace) {
      const Error& error = trace.error();
      console.note(fmt::format("the kernel is not traced, the profiler plugin is all there is: {}{}{}", error.what,
                               error.remedy.empty() ? "" : "; ", error.remedy));
      return std::nullopt;
    }
    for (const std::string& missing : trace->tracer->missing()) {
      console.note("not on this kernel: " + missing);
    }
    return std::move(*trace);
  }

  Status watch_traced(Console& console, Trace& trace, const Subprocess& command, const StopSignals& signals) {
    HangWatch hang(hang_after_ns_);
    const auto flush = [&] {
      const Status flushed = trace.writer->flush();
      if (!flushed) {
        console.error(flushed.error());  // a full disk is told, and the job goes on
      }
      return Status{};
    };
    return trace.tracer->run({signals.descriptor(), command.pidfd()}, flush, [&](const capture::TracerStats&) {
      const Progress progress = trace.sink->progress();
      if (hang.stands_still(progress, utc_now_ns())) {
        flush();
        explain_hang(console, progress, folder_.recording());
      }
    });
  }

  /// Without a tracer the black boxes show whether the job gets on.
  Status watch_boxes(Console& console, const Subprocess& command, const StopSignals& signals) {
    pollfd waits[] = {{.fd = command.pidfd(), .events = POLLIN, .revents = 0},
                      {.fd = signals.descriptor(), .events = POLLIN, .revents = 0}};
    BoxProgress boxes(folder_.rings());
    HangWatch hang(hang_after_ns_);
    while (true) {
      const int ready = ::poll(waits, std::size(waits), kBoxRoundNs / kNsPerMs);
      if (ready < 0 && errno != EINTR) {
        return fail_errno("wait for the command", errno);
      }
      if (ready > 0) {
        return {};
      }
      const Progress progress = boxes.read();
      if (hang.stands_still(progress, utc_now_ns())) {
        std::error_code ignored;
        std::filesystem::remove(folder_.hang_recording(), ignored);
        if (import_boxes(console, folder_.hang_recording())) {
          explain_hang(console, progress, folder_.hang_recording());
        }
      }
    }
  }

  /// The job goes on meanwhile; whatever fails here is only said.
  void explain_hang(Console& console, const Progress& progress, const std::string& recording) const {
    console.note(fmt::format("no collective has completed for {} while {} are open; what is known so far:",
                             format_duration(hang_after_ns_), progress.open));
    const std::string recordings[] = {recording};
    if (const Result<Report> report = explain_recordings(recordings); report) {
      say(console, *report);
    } else {
      console.error(report.error());
    }
  }

  /// Where nothing is traced, the recording is made of the black boxes. False where there are none to read.
  bool import_boxes(Console& console, const std::string& out) const {
    std::vector<std::string> boxes;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.rings(), error)) {
      if (entry.path().extension() == ".ring") {
        boxes.push_back(entry.path().string());
      }
    }
    if (boxes.empty()) {
      return false;
    }
    const Status imported = record_boxes(boxes, out, console);
    if (!imported) {
      console.error(imported.error());
    }
    return imported.has_value();
  }

  void conclude(Console& console, bool traced) const {
    if (!traced) {
      console.note(fmt::format("the black boxes of this run are in {}", folder_.rings()));
      if (!import_boxes(console, folder_.recording())) {
        return;
      }
    }
    const std::string recordings[] = {folder_.recording()};
    const Result<Report> report = explain_recordings(recordings);
    if (!report) {
      console.error(report.error());
      return;
    }
    say(console, *report);
    if (const Status written = write_file(folder_.findings(), report_to_json(*report)); !written) {
      console.error(written.error());
    }
    console.note(fmt::format("the evidence is in {}", folder_.path));
  }

  /// Standard output is the job's.
  static void say(Console& console, const Report& report) {
    std::string text = report_to_text(report, {.colour = console.colour_err()});
    while (text.ends_with('\n')) {
      text.pop_back();
    }
    console.note(text);
  }

  std::string out_ = "stalltrace-run";
  std::string node_;
  int64_t hang_after_ns_ = 3 * kNsPerSecond;
  bool no_trace_ = false;
  std::vector<std::string> command_;
  RunFolder folder_;
};

}  // namespace

std::unique_ptr<Verb> make_run_verb() { return std::make_unique<RunVerb>(); }

}  // namespace stalltrace::cli
