// SPDX-License-Identifier: Apache-2.0
// `stalltrace run`: starts a job with all evidence enabled, and explains its hangs and its end.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/text.h"
#include "capture/discover/identity.h"
#include "capture/tracer.h"
#include "cli/command_start.h"
#include "cli/privacy.h"
#include "cli/run_evidence.h"
#include "cli/trusted_owners.h"
#include "cli/verbs/verbs.h"
#include "launch/hang_watch.h"
#include "launch/job.h"
#include "launch/profiler_progress.h"
#include "store/write/writer.h"

namespace stalltrace::cli {
namespace {

constexpr int64_t kFileRoundNs = 500 * kNsPerMs;  // interval at which profiler files are read

/// The tracer of a privileged run and its output. Members are destroyed in reverse order.
struct Trace {
  std::unique_ptr<store::RecordingWriter> writer;
  std::unique_ptr<launch::ProgressSink> sink;
  std::unique_ptr<capture::Tracer> tracer;
};

/// The NCCL on the job's library path: probed before the job maps it, so that its first call is not missed.
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

Result<Trace> start_trace(const launch::RunFolder& folder, const std::string& node, const Privacy& privacy,
                          const TrustedOwners& trusted, Console& console) {
  Trace trace;
  ST_ASSIGN(trace.writer, store::RecordingWriter::create(folder.recording(), {.readers = privacy.readers()}));
  trace.sink = std::make_unique<launch::ProgressSink>(*trace.writer);
  capture::TracerOptions options;
  options.node_name = node;
  options.commands = privacy.commands();
  options.libraries = libraries_of_path();
  options.trusted_owners = trusted;
  options.pids = {::getpid()};  // the command will be our child and is in scope from its first instruction
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

/// If the requested folder can't be used, the job still starts.
Result<launch::RunFolder> claim_some_folder(const std::string& wanted, Readers readers, Console& console) {
  Result<launch::RunFolder> folder = launch::claim_run_folder(wanted, readers);
  if (folder) {
    return folder;
  }
  console.error(folder.error());
  return launch::temporary_run_folder(wanted, readers);
}

class RunVerb final : public Subcommand {
 public:
  [[nodiscard]] VerbInfo info() const override {
    return {.name = "run",
            .summary = "start a job with all evidence switched on; explain when it hangs and when it ends",
            .example = "stalltrace run --out run7 -- torchrun --nproc-per-node 8 train.py",
            .details =
                "- NCCL loads the profiler plugin, which keeps a profiler file for each process (DIR/profiler at the\n"
                "  end), and logs to DIR.\n"
                "- Where this user may trace, the node is recorded as by `trace -- COMMAND`.\n"
                "- When no collective completes for --hang-after while some are open, the explanation is printed at\n"
                "  once, and the job goes on.\n"
                "- At the end the run is explained, and the job's exit code returned.\n"
                "Signals and standard output are the job's. On several nodes start each node's launcher this way, and\n"
                "explain the recordings together."};
  }

  std::vector<Flag> flags() override {
    return {text_flag("--out", "DIR", "folder for what the run leaves; else stalltrace-run-NODE, numbered when taken",
                      &out_),
            duration_flag("--hang-after", "explain when nothing completed for this long", &hang_after_ns_),
            text_flag("--node", "NAME", "this node's name; else STALLTRACE_NODE, the host's name", &node_),
            trust_owner_flag(&trusted_owners_),
            switch_flag("--no-trace", "leave the kernel alone: the profiler plugin only", &no_trace_),
            privacy_.group_flag(),
            privacy_.readers_flag(),
            privacy_.commands_flag(),
            required(command_argument("the job's command", &command_))};
  }

  Result<int> run(Console& console) override {
    launch::Job job;  // first: it records the state at our start
    if (const auto refused = refuse_command(command_, console)) {
      return *refused;
    }
    ST_ASSIGN(const TrustedOwners trusted, parse_trusted_owners(trusted_owners_));
    auto folder = claim_some_folder(out_.empty() ? launch::default_run_folder(capture::node_name(node_)) : out_,
                                    privacy_.readers(), console);
    if (!folder) {
      console.error(folder.error());
      console.note("the job runs without any evidence");
      if (Status started = job.start(command_, {}); !started) {
        return code_of_failed_start(std::move(started.error()), console);
      }
      return job.wait();
    }
    RunEvidence evidence(std::move(*folder), node_, privacy_, console);
    std::optional<Trace> trace = try_trace(console, evidence.folder(), trusted);
    if (Status started = job.start(command_, evidence.environment()); !started) {
      trace.reset();
      evidence.discard();
      return code_of_failed_start(std::move(started.error()), console);
    }
    const Status watched = trace ? watch_traced(console, *trace, job, evidence) : watch_profiler_files(job, evidence);
    Result<int> code = job.wait();
    const bool has_profiler_rows = trace && trace->sink->has_profiler_rows();
    const bool recorded = trace && close_trace(console, *trace);
    evidence.settle();
    job.release();  // from here on a signal costs at most the explanation
    if (!watched) {
      console.error(watched.error());
    }
    evidence.conclude(recorded, has_profiler_rows, code.value_or(1));
    return code;
  }

 private:
  /// Without the privilege the job runs untraced.
  std::optional<Trace> try_trace(Console& console, const launch::RunFolder& folder,
                                 const TrustedOwners& trusted) const {
    if (no_trace_) {
      return std::nullopt;
    }
    Result<Trace> trace = start_trace(folder, node_, privacy_, trusted, console);
    if (!trace) {
      const Error& error = trace.error();
      console.note(fmt::format("the kernel is not traced, the profiler plugin is all there is: {}{}{}", error.what,
                               error.remedy.empty() ? "" : "; ", error.remedy));
      return std::nullopt;
    }
    for (const std::string& missing : trace->tracer->missing_evidence()) {
      console.note("not recorded on this kernel: " + missing);
    }
    return std::move(*trace);
  }

  static bool close_trace(Console& console, Trace& trace) {
    trace.tracer.reset();
    const Status closed = trace.writer->close();
    if (!closed) {
      console.error(closed.error());
    }
    return closed.has_value();
  }

  /// True if the job stands still and this must be explained. Prints a note when a job continues that had stood still.
  static bool stands_still(launch::HangWatch& hang, const launch::Progress& progress, RunEvidence& evidence) {
    const launch::HangWatch::News news = hang.look(progress, utc_now_ns());
    if (news == launch::HangWatch::News::kGoesOn) {
      evidence.note_progress(hang.still_ns());
    }
    return news == launch::HangWatch::News::kStandsStill;
  }

  Status watch_traced(Console& console, Trace& trace, const launch::Job& job, RunEvidence& evidence) const {
    launch::HangWatch hang(hang_after_ns_);
    const auto flush = [&] {
      const Status flushed = trace.writer->flush();
      if (!flushed) {
        console.error(flushed.error());  // a full disk is reported, and the job continues
      }
      if (job.asked_to_end()) {
        evidence.save_soon();
      }
      return Status{};
    };
    return trace.tracer->run({job.descriptor()}, flush, [&](const capture::TracerStats&) {
      evidence.look();
      const launch::Progress progress = trace.sink->progress();
      if (stands_still(hang, progress, evidence)) {
        trace.tracer->ask_for_stacks();
        flush();
        evidence.explain_hang(progress, hang.still_ns(), evidence.folder().recording());
      }
    });
  }

  /// Without a tracer the profiler files show the job's progress.
  Status watch_profiler_files(const launch::Job& job, RunEvidence& evidence) const {
    pollfd wait{.fd = job.descriptor(), .events = POLLIN, .revents = 0};
    launch::ProfilerProgress files(evidence.profiler_files().folder(), [&](const blackbox::ProfilerFileReader& file) {
      return evidence.profiler_files().is_of_this_run(file);
    });
    launch::HangWatch hang(hang_after_ns_);
    while (true) {
      const int ready = ::poll(&wait, 1, kFileRoundNs / kNsPerMs);
      if (ready < 0 && errno != EINTR) {
        return fail_errno("wait for the command", errno);
      }
      if (ready > 0) {
        return {};
      }
      evidence.look();
      if (job.asked_to_end()) {
        evidence.save_soon();
      }
      const launch::Progress progress = files.read();
      if (stands_still(hang, progress, evidence)) {
        evidence.explain_hang(progress, hang.still_ns(), std::nullopt);
      }
    }
  }

  std::string out_;
  std::string node_;
  int64_t hang_after_ns_ = 3 * kNsPerSecond;
  bool no_trace_ = false;
  std::vector<std::string> trusted_owners_;
  Privacy privacy_;
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Subcommand> make_run_verb() { return std::make_unique<RunVerb>(); }

}  // namespace stalltrace::cli
