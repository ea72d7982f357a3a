// SPDX-License-Identifier: Apache-2.0
#include "cli/run/run_trace.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/rights/secure_mode.h"
#include "base/text.h"
#include "capture/tracer.h"
#include "store/write/writer.h"

namespace stalltrace::cli {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRound{500};
constexpr milliseconds kFlush{5000};  // a disk that takes longer has an explanation without the latest events

/// What the tracer reports about once a second.
struct News {
  launch::Progress progress;
  bool has_profiler_rows = false;
  bool only_other_libraries = false;
};
static_assert(std::is_trivially_copyable_v<News>);

/// The tracer and what it writes to. Members go in reverse.
struct Trace {
  std::unique_ptr<store::RecordingWriter> writer;
  std::unique_ptr<launch::ProgressSink> sink;
  std::unique_ptr<capture::Tracer> tracer;
};

/// The NCCL that the job's own library path leads to: probed before the job maps it, so that no first call is missed.
std::vector<std::string> libraries_of_path() {
  std::vector<std::string> found;
  const char* path = trusted_variable("LD_LIBRARY_PATH");
  for (const std::string_view folder : split(path == nullptr ? "" : path, ':')) {
    std::string file = std::string(folder) + "/libnccl.so.2";
    if (std::error_code ignored; !folder.empty() && std::filesystem::exists(file, ignored)) {
      found.push_back(std::move(file));
    }
  }
  return found;
}

Result<Trace> create(const launch::RunFolder& folder, const RunTrace::Options& run, const Privacy& privacy,
                     Console& console) {
  Trace trace;
  ST_ASSIGN(trace.writer, store::RecordingWriter::create(folder.recording(), {.readers = privacy.readers()}));
  trace.sink = std::make_unique<launch::ProgressSink>(*trace.writer);
  capture::TracerOptions options;
  options.node_name = run.node;
  options.commands = privacy.commands();
  options.libraries = libraries_of_path();
  options.trusted_owners = run.trusted_owners;
  options.pids = {run.launcher};  // the command will be its child, in scope from its first instruction
  auto tracer = capture::Tracer::create(options, *trace.sink, [&](const std::string& text) { console.note(text); });
  if (!tracer) {
    if (trace.writer->close()) {
      ::unlink(folder.recording().c_str());
    }
    return std::unexpected(std::move(tracer.error()));
  }
  trace.tracer = std::move(*tracer);
  trace.tracer->give_up_privileges();
  return trace;
}

void send_news(launch::Channel& channel, const launch::ProgressSink& sink) {
  const News news{.progress = sink.progress(),
                  .has_profiler_rows = sink.has_profiler_rows(),
                  .only_other_libraries = sink.only_other_libraries()};
  channel.send(launch::MessageKind::kAlive, std::string_view(reinterpret_cast<const char*>(&news), sizeof news));
}

Status trace_until_stopped(Trace& trace, launch::WorkerSide& parent, Console& console) {
  const auto flush = [&] {
    const auto asked = parent.channel.receive();
    const bool for_a_report = asked && asked->kind == launch::MessageKind::kFlush;
    if (for_a_report) {
      trace.tracer->ask_for_stacks();
    }
    if (const Status flushed = trace.writer->flush(); !flushed) {
      console.error(flushed.error());  // a full disk is reported, and the job goes on
    }
    if (for_a_report) {
      parent.channel.send(launch::MessageKind::kFlushed);
    }
    return Status{};
  };
  return trace.tracer->run({parent.stop.get()}, flush,
                           [&](const capture::TracerStats&) { send_news(parent.channel, *trace.sink); });
}

/// The whole life of the tracer's process; 0: there is a recording.
int trace_run(const launch::RunFolder& folder, const RunTrace::Options& options, const Privacy& privacy,
              launch::WorkerSide& parent, Console& console) {
  Result<Trace> trace = create(folder, options, privacy, console);
  if (!trace) {
    const Error& error = trace.error();
    console.note(fmt::format("the kernel is not traced, the profiler plugin is all there is: {}{}{}", error.what,
                             error.remedy.empty() ? "" : "; ", error.remedy));
    return 1;
  }
  for (const std::string& missing : trace->tracer->missing_evidence()) {
    console.note("not recorded on this kernel: " + missing);
  }
  parent.channel.send(launch::MessageKind::kReady);
  const Status traced = trace_until_stopped(*trace, parent, console);
  send_news(parent.channel, *trace->sink);
  trace->tracer.reset();
  const Status closed = trace->writer->close();
  for (const Status& status : {traced, closed}) {
    if (!status) {
      console.error(status.error());
    }
  }
  return closed ? 0 : 1;
}

void wait_for(const launch::Worker& worker, const launch::Channel& channel, milliseconds limit) {
  std::array<pollfd, 2> waits{{{.fd = channel.descriptor(), .events = POLLIN, .revents = 0},
                               {.fd = worker.end_descriptor(), .events = POLLIN, .revents = 0}}};
  (void)::poll(waits.data(), waits.size(), static_cast<int>(limit.count()));
}

}  // namespace

std::optional<RunTrace> RunTrace::start(const launch::RunFolder& folder, const Options& options, const Privacy& privacy,
                                        Console& console) {
  auto worker = launch::Worker::start(
      "st-tracer", [&](launch::WorkerSide& parent) { return trace_run(folder, options, privacy, parent, console); });
  if (!worker) {
    console.error(worker.error());
    return std::nullopt;
  }
  RunTrace trace(std::move(*worker), options, console);
  launch::RunningTime time;
  for (milliseconds waited{0}; trace.take_news() && !trace.ready_; waited += time.passed()) {
    if (waited >= options.patience.start) {
      trace.lose(fmt::format("is not ready after {}, and was killed",
                             format_duration(options.patience.start.count() * kNsPerMs)));
      break;
    }
    wait_for(*trace.worker_, trace.worker_->channel(), kRound);
  }
  return trace.ready_ ? std::optional(std::move(trace)) : std::nullopt;
}

std::optional<launch::Progress> RunTrace::look() {
  if (take_news() && silence_.lasts()) {
    console_->error(
        {.what = fmt::format("the tracer has not moved for {}", format_duration(silence_.limit().count() * kNsPerMs)),
         .remedy = "a disk or a file server may not answer; the job goes on"});
  }
  return std::exchange(progress_, std::nullopt);
}

bool RunTrace::take_news() {
  if (!worker_) {
    return false;
  }
  const auto ended = worker_->wait_for(milliseconds(0));  // before the last messages are taken
  while (const auto message = worker_->channel().receive()) {
    if (silence_.ends()) {
      console_->error({.what = "the tracer gets on again"});
    }
    ready_ = ready_ || message->kind == launch::MessageKind::kReady;
    flushed_ = flushed_ || message->kind == launch::MessageKind::kFlushed;
    if (News news; message->kind == launch::MessageKind::kAlive && message->bytes.size() == sizeof news) {
      message->bytes.copy(reinterpret_cast<char*>(&news), sizeof news);
      progress_ = news.progress;
      has_profiler_rows_ = news.has_profiler_rows;
      only_other_libraries_ = news.only_other_libraries;
    }
  }
  if (!ended) {
    return true;
  }
  if (const auto how = launch::unexpected_end(*ended)) {
    lose(*how);
  } else {
    recorded_ = ready_ && ended->success();
    whole_ = recorded_ && finishing_;
    worker_.reset();
  }
  return false;
}

void RunTrace::lose(const std::string& how) {
  worker_.reset();
  recorded_ = ready_;
  console_->error({.what = "the tracer " + how,
                   .remedy = !ready_      ? "the profiler plugin is all there is"
                             : finishing_ ? "what was recorded until then is in trace.db"
                                          : "trace.db ends there, and the job goes on"});
}

void RunTrace::flush() {
  flushed_ = false;
  if (!worker_ || !worker_->channel().send(launch::MessageKind::kFlush)) {
    return;
  }
  launch::RunningTime time;
  for (milliseconds waited{0}; waited < kFlush && take_news() && !flushed_; waited += time.passed()) {
    wait_for(*worker_, worker_->channel(), kRound);
  }
}

void RunTrace::finish(launch::JobNews& job) {
  if (!worker_) {
    return;
  }
  finishing_ = true;
  worker_->ask_to_finish();
  launch::RunningTime time;
  for (milliseconds waited{0}; take_news(); waited += time.passed()) {
    if (waited >= patience_.store) {
      lose(fmt::format("has not ended after {}, and was killed", format_duration(patience_.store.count() * kNsPerMs)));
      return;
    }
    wait_for(*worker_, worker_->channel(), std::min(kRound, patience_.store - waited));
    job.look();
  }
}

}  // namespace stalltrace::cli
