// SPDX-License-Identifier: Apache-2.0
// `stalltrace trace`: records this node into one file.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "base/clock.h"
#include "base/file.h"
#include "base/rights/capabilities.h"
#include "base/text.h"
#include "capture/tracer.h"
#include "cli/command_start.h"
#include "cli/config.h"
#include "cli/evidence/finding_push.h"
#include "cli/fleet/push_flags.h"
#include "cli/fleet/serving.h"
#include "cli/framework/dispatch.h"
#include "cli/framework/exit_code.h"
#include "cli/live_watch.h"
#include "cli/privacy.h"
#include "cli/stop_signals.h"
#include "cli/subcommands/subcommands.h"
#include "cli/trusted_owners.h"
#include "launch/job.h"
#include "launch/supervision/supervisor.h"
#include "launch/supervision/worker.h"
#include "report/live_text.h"
#include "report/report_json.h"
#include "store/hand_over.h"
#include "store/write/writer.h"

namespace stalltrace::cli {
namespace {

constexpr int64_t kDefaultMaxSize = int64_t{2} << 30;  // a forgotten trace must not fill a disk

std::string progress_line(const capture::TracerStats& stats) {
  std::string line = fmt::format("{} processes, {} calls, {} retransmits, {} lost", stats.processes, stats.calls,
                                 stats.retransmits, stats.lost);
  if (stats.left_ns) {
    line += ", " + format_duration(*stats.left_ns) + " left";
  } else {
    line += ", " + format_duration(stats.elapsed_ns);
  }
  return line;
}

std::string rest_without_tracer(launch::Supervisor::Loss when, const std::vector<std::string>& /*environment*/) {
  using enum launch::Supervisor::Loss;
  return when == kBeforeTheStart        ? "nothing is recorded"
         : when == kWhileTheCommandRuns ? "nothing more is recorded, and the job goes on"
                                        : "what was recorded until then is in the file, and the job's exit code stays";
}

class TraceSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "trace",
        .summary = "record the collectives, connections and waits of this node's jobs",
        .example = "sudo stalltrace trace --duration 2m --out node7.db",
        .details =
            "Jobs that run already and jobs that start later are found by the collective library that they map; "
            "nothing is restarted. By default the jobs of all users are recorded: --pid or -- COMMAND limit it.\n"
            "Ctrl-C ends the trace: everything seen is in the file. With -- COMMAND the command is started, it and "
            "its descendants are traced, and its exit code is returned.\n"
            "Needs root, or CAP_BPF and CAP_PERFMON on some kernels: `stalltrace check` reports what this host lacks.\n"
            "Writes 1 to 1.5 kB per collective and rank: 200 to 330 MB an hour and rank at 60 collectives a second, "
            "until --max-size is reached."};
  }

  std::vector<Flag> flags() override {
    std::vector<Flag> all = {
        duration_flag("--duration", "stop after this long; without it, Ctrl-C stops", &options_.duration_ns),
        text_flag("--out", "FILE", "the recording; an existing file is never overwritten", &out_),
        pids_flag("--pid", "trace only this process and its descendants", &options_.pids),
        privileged(texts_flag("--library", "FILE",
                              "probe this library before a job maps it, besides those in the usual folders",
                              &options_.libraries)),
        trust_owner_flag(&trusted_owners_),
        text_flag("--node", "NAME", "this node's name; else the configuration's, STALLTRACE_NODE, the host's name",
                  &options_.node_name),
        size_limit_flag("--max-size", "keep the file below this: normal data go first, the oldest first, stalls last",
                        &max_size_),
        privileged(text_flag("--config", "FILE",
                             "this node's configuration; else /etc/stalltrace/stalltrace.toml if there is one",
                             &config_)),
        switch_flag("--live", "print each stall's cause while the job runs, and its end", &live_),
        switch_flag("--own-netns", "trace only processes in this program's own network namespace", &options_.own_netns),
        privileged(text_flag("--sysfs-root", "DIR", "read InfiniBand and RoCE port counters below this instead of /sys",
                             &options_.sysfs_root)),
        text_flag("--serve", "ADDR:PORT",
                  "answer questions about the recording over HTTP while it is written (docs/serve.md)", &serve_),
        privacy_.group_flag(),
        privacy_.readers_flag(),
        privacy_.commands_flag(),
        waits_.flag(),
        hidden(integer_flag("--ready-fd", "FD", "write a byte here once calls are seen", 0, 1 << 20, &ready_fd_)),
        command_argument("start this, trace it, and return its exit code", &command_)};
    std::ranges::move(serving_.flags(), std::back_inserter(all));
    std::ranges::move(
        push_.flags("copy the recording to this folder or server when the trace ends (`stalltrace push`), "
                    "and with --live findings when they are made"),
        std::back_inserter(all));
    return all;
  }

  Result<int> run(Console& console) override {
    if (serve_.empty() && !serving_.allows().empty()) {
      return fail(fmt::format("{} is for the server of --serve", serving_.allows()), "give --serve ADDR:PORT too",
                  ErrorKind::kUsage);
    }
    ST_TRY(push_.prepare(serving_.token_file()));
    if (!command_.empty()) {
      return run_command(console);
    }
    // Must precede the creation of any file or thread: a signal must not interrupt it.
    const StopSignals signals;
    return record(console, signals.descriptor(), nullptr);
  }

 private:
  /// The command is this process's, the trace a child's.
  Result<int> run_command(Console& console) {
    launch::Job job(static_cast<int>(ready_fd_));  // first: it records the state at our start
    if (const auto refused = refuse_command(command_, console)) {
      return *refused;
    }
    options_.pids.push_back(::getpid());  // our children are in scope from their first instruction
    launch::Supervisor supervisor(job, "the tracer", rest_without_tracer, waits_.patience(), reporting_to(console));
    const auto refused = supervisor.prepare("st-tracer", [&](launch::WorkerSide& side) {
      launch::JobNews news(side);
      const Result<int> code = record(console, side.stop.get(), &news);
      const int result = code ? *code : report_error(code.error(), console);
      if (const Status written = console.finish(); !written) {
        console.error(written.error());
      }
      return result;
    });
    if (ready_fd_ >= 0) {
      ::close(static_cast<int>(ready_fd_));  // the tracer's
    }
    if (refused) {
      return *refused;
    }
    if (Status started = supervisor.start(command_); !started) {
      return code_of_failed_start(std::move(started.error()), console);
    }
    return supervisor.wait();
  }

  /// Until `stop_descriptor` is readable. `job`: the command that is to be traced; null: there is none.
  Result<int> record(Console& console, int stop_descriptor, launch::JobNews* job) {
    ST_TRY(apply_config(console));
    std::optional<launch::Worker> server;
    if (!serve_.empty()) {
      ST_ASSIGN(launch::Worker started, start_server(console));
      server.emplace(std::move(started));
    }
    std::optional<FindingPush> findings;
    if (live_ && push_.given()) {
      ST_ASSIGN(FindingPush started, FindingPush::start(push_.target(), push_.client(), privacy_.readers()));
      findings.emplace(std::move(started));
    }
    ST_ASSIGN(const auto writer,
              store::RecordingWriter::create(out_, {.max_size_bytes = max_size_, .readers = privacy_.readers()}));
    options_.commands = privacy_.commands();
    std::optional<LiveWatch> live;
    if (live_) {
      live.emplace(*writer);
    }
    EventSink& sink = live ? static_cast<EventSink&>(*live) : *writer;
    auto created = capture::Tracer::create(options_, sink, [&](const std::string& text) { console.note(text); });
    if (!created) {
      discard(*writer);
      return std::unexpected(std::move(created.error()));
    }
    capture::Tracer& tracer = **created;
    const LiveReport reporting{console, tracer, *writer, findings ? &*findings : nullptr};
    tracer.give_up_privileges();
    if (live) {
      live->start();
    }
    for (const std::string& missing : tracer.missing_evidence()) {
      console.note("not recorded on this kernel: " + missing);
    }
    if (job != nullptr) {
      job->ready({});
      if (!job->wait_for_start()) {
        discard(*writer);
        return kExitDone;
      }
    }
    announce(console, tracer);
    const Status traced = tracer.run(
        {stop_descriptor},
        [&] {
          if (live) {
            live->advance(monotonic_now_ns() + tracer.node().clock_offset_ns);
            if (report_live(reporting, *live)) {
              tracer.ask_for_stacks();
            }
          }
          if (job != nullptr) {
            job->look();
          }
          return keep_going(console, writer->flush());
        },
        [&](const capture::TracerStats& stats) { show_progress(console, stats); });
    end_progress(console);
    if (live) {
      live->finish(monotonic_now_ns() + tracer.node().clock_offset_ns);
      end_live(reporting, *live);
    }
    if (server) {
      server->kill();  // what it has open would keep the recording from being finished
    }
    const Status closed = writer->close();
    if (job != nullptr && closed && push_.given()) {
      job->stored();  // what is left may take longer than that may
    }
    if (findings) {
      end_findings(console, *findings);
    }
    if (closed && traced) {
      summarize(console, tracer.stats(), writer->stats());
    }
    if (job != nullptr && !closed && !traced) {
      console.error(closed.error());
      return std::unexpected(traced.error());
    }
    ST_TRY(closed);
    ST_TRY(traced);
    push_.push(out_, privacy_.readers(), console);
    return kExitDone;
  }

  /// In the server. SQLite's locks on the recording are in a file that it has to be able to write, and that is there
  /// once the recording is. False: the trace ends before.
  [[nodiscard]] bool wait_for_recording(int stop) const {
    constexpr int kRoundMs = 20;
    pollfd stopped{.fd = stop, .events = POLLIN, .revents = 0};
    while (::access((out_ + "-shm").c_str(), F_OK) != 0) {
      if (::poll(&stopped, 1, kRoundMs) > 0) {
        return false;
      }
    }
    return true;
  }

  /// A child without rights, which serves the recording as any reader sees it: nothing here waits for it.
  Result<launch::Worker> start_server(Console& console) {
    if (Status prepared = serving_.prepare(serve_); !prepared) {
      return with_context("--serve", std::move(prepared.error()));
    }
    auto worker = launch::Worker::start("st-server", [&](launch::WorkerSide& side) {
      if (ready_fd_ >= 0) {
        ::close(static_cast<int>(ready_fd_));
      }
      if (!keep_capabilities(0)) {
        console.note("--serve: the server could not give up its capabilities, and does not start");
        return kExitFailed;
      }
      if (!wait_for_recording(side.stop.get())) {
        return kExitDone;
      }
      const Status served = serving_.serve({out_}, Served::kComing, side.stop.get(),
                                           [&console](const std::string& line) { console.note(line); });
      return served ? kExitDone : report_error(served.error(), console);
    });
    if (!worker) {
      return with_context("--serve", std::move(worker.error()));
    }
    serving_.leave_to_child();
    return worker;
  }

  /// Nothing was recorded: removes the empty recording.
  void discard(store::RecordingWriter& writer) const {
    if (writer.close()) {
      ::unlink(out_.c_str());
    }
  }

  /// A library on the command line must exist. One in the configuration need not: all nodes share that file.
  Status apply_config(Console& console) {
    for (const std::string& library : options_.libraries) {
      ST_TRY(check_library(library));
    }
    ST_ASSIGN(const Config config, load_config(config_));
    std::ranges::copy(config.trusted_owners, std::back_inserter(trusted_owners_));
    ST_ASSIGN(options_.trusted_owners, parse_trusted_owners(trusted_owners_));
    if (options_.node_name.empty()) {
      options_.node_name = config.node;
    }
    for (const std::string& library : config.libraries) {
      if (const Status usable = check_library(library)) {
        options_.libraries.push_back(library);
      } else {
        console.note(fmt::format("{} of the configuration is not probed: {}", library, usable.error().what));
      }
    }
    return {};
  }

  static Status check_library(const std::string& path) {
    constexpr std::string_view kElf =
        "\x7f"
        "ELF";
    const char* const remedy = "give the libnccl.so.2 that the job loads (grep nccl /proc/PID/maps)";
    auto fd = open_regular(path);
    if (!fd) {
      fd.error().remedy = remedy;
      return std::unexpected(std::move(fd.error()));
    }
    std::string begin(kElf.size(), '\0');
    return ::pread(fd->get(), begin.data(), begin.size(), 0) == static_cast<ssize_t>(begin.size()) && begin == kElf
               ? Status()
               : Status(fail(path + ": not a library", remedy, ErrorKind::kCorrupt));
  }

  /// A full disk is reported, and tracing continues: rows that could not be stored are counted.
  static Status keep_going(Console& console, Status flushed) {
    if (!flushed) {
      console.error(flushed.error());
    }
    return {};
  }

  /// Where live findings go.
  struct LiveReport {
    Console& console;
    const capture::Tracer& tracer;
    store::RecordingWriter& writer;
    FindingPush* push;  // null: to no folder or server
  };

  /// Prints findings when they begin and end and hands them over, and stores them whenever they change. True if a new
  /// one was printed.
  bool report_live(const LiveReport& to, LiveWatch& live) {
    const std::vector<analysis::LiveChange> changes = live.take();
    bool came = false;
    for (const analysis::LiveChange& change : changes) {
      came = came || (change.news != analysis::LiveNews::kGrew && change.news != analysis::LiveNews::kEnded);
      if (const auto headline = headline_of(change.news)) {
        end_progress(to.console);
        to.console.out(report::live_finding_to_text(*headline, change.time_ns, change.number, change.finding,
                                                    change.explained_by, {.colour = to.console.colour_out()}));
        hand_over(to, *headline, change);
      }
      to.writer.accept_finding(change.number, change.finding);
    }
    if (!changes.empty() && !to.console.reader_gone()) {
      (void)to.console.finish();  // flushed at once for a reader at the terminal; a failure is reported at the end
    }
    if (const auto problem = to.push != nullptr ? to.push->problem() : std::nullopt) {
      end_progress(to.console);
      to.console.error(*problem);
    }
    return came;
  }

  static void hand_over(const LiveReport& to, report::LiveHeadline headline, const analysis::LiveChange& change) {
    if (to.push == nullptr) {
      return;
    }
    const Node& node = to.tracer.node();
    to.push->send(store::recording_name(node.name, node.started_ns),
                  report::live_finding_to_json({.node = node.name, .started_ns = node.started_ns}, headline,
                                               change.time_ns, change.number, change.finding, change.explained_by));
  }

  void end_live(const LiveReport& to, LiveWatch& live) {
    report_live(to, live);
    if (const Status looked = live.status(); !looked) {
      to.console.error(looked.error());
    }
    if (live.skipped() > 0) {
      to.console.note(fmt::format("{} events came too fast for --live; the recording has them", live.skipped()));
    }
  }

  void end_findings(Console& console, FindingPush& findings) const {
    if (const uint64_t left = findings.finish(); left > 0) {
      console.note(fmt::format("{} of findings not handed over to {}; the recording has the findings",
                               count_of(static_cast<int64_t>(left), "change"), push_.shown()));
    }
  }

  static std::optional<report::LiveHeadline> headline_of(analysis::LiveNews news) {
    switch (news) {
      case analysis::LiveNews::kBegan:
        return report::LiveHeadline::kBegan;
      case analysis::LiveNews::kWorsened:
        return report::LiveHeadline::kWorsened;
      case analysis::LiveNews::kCameBack:
        return report::LiveHeadline::kCameBack;
      case analysis::LiveNews::kEnded:
        return report::LiveHeadline::kEnded;
      case analysis::LiveNews::kGrew:
        break;
    }
    return std::nullopt;
  }

  void announce(Console& console, const capture::Tracer& tracer) const {
    const capture::TracerStats stats = tracer.stats();
    console.note(fmt::format("tracing node {} into {}: {}", tracer.node().name, out_,
                             stats.processes == 0 ? "no job yet, one that starts is picked up"
                                                  : fmt::format("{} processes", stats.processes)));
    if (ready_fd_ >= 0) {
      const char byte = '\n';
      const ssize_t written = ::write(static_cast<int>(ready_fd_), &byte, 1);
      ::close(static_cast<int>(ready_fd_));
      if (written != 1) {
        console.note("nothing reads --ready-fd");
      }
    }
  }

  void show_progress(Console& console, const capture::TracerStats& stats) {
    if (console.shows_progress()) {
      console.live(progress_line(stats));
    }
  }
  void end_progress(Console& console) {
    if (console.shows_progress()) {
      console.live("");
    }
  }

  void summarize(Console& console, const capture::TracerStats& traced, const store::WriterStats& written) const {
    console.note(fmt::format("{}: {} calls of {} processes, {} rows, {}{}", out_, traced.calls, traced.processes,
                             written.rows, format_size(static_cast<int64_t>(written.bytes)),
                             traced.lost + written.lost > 0
                                 ? fmt::format("; {} events lost (table loss)", traced.lost + written.lost)
                                 : ""));
  }

  capture::TracerOptions options_;
  std::string out_ = "stalltrace.db";
  std::string config_;
  std::vector<std::string> trusted_owners_;
  int64_t max_size_ = kDefaultMaxSize;
  int64_t ready_fd_ = -1;
  bool live_ = false;
  Privacy privacy_;
  Waits waits_;
  std::string serve_;
  PushFlags push_;
  Serving serving_;
  std::vector<std::string> command_;
};

}  // namespace

std::unique_ptr<Subcommand> make_trace_subcommand() { return std::make_unique<TraceSubcommand>(); }

}  // namespace stalltrace::cli
