// SPDX-License-Identifier: Apache-2.0
#include "capture/python/stack_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/io/pipe.h"
#include "base/io/write_all.h"
#include "base/process/descriptors.h"
#include "base/python_frames.h"
#include "base/text.h"
#include "base/untrusted/helper_child.h"
#include "base/untrusted/sandbox.h"

namespace stalltrace::capture {
namespace {

// Printable text contains neither of these.
constexpr char kFieldEnd = '\x1f';
constexpr char kRecordEnd = '\x1e';
constexpr int kPipeBytes = 1 << 20;
constexpr int64_t kStuckNs = kNsPerSecond;
constexpr int kNice = 5;  // ranks have priority; but a deadline applies

/// Main function of the helper. Another thread of ours may have held any lock but malloc's at the fork: a helper that
/// blocks on one is given up like any other.
[[noreturn]] void help(int pipe, pid_t parent, std::span<const ThreadToRead> threads, const StackReader::Read& read) {
  if (!die_with_parent(parent)) {
    ::_exit(1);
  }
  // Closes inherited descriptors, which would outlive us in the helper: probes, and the output whose end another
  // process waits for.
  close_all_but(pipe);
  const sched_param none{};
  (void)::sched_setscheduler(0, SCHED_BATCH, &none);
  (void)::setpriority(PRIO_PROCESS, 0, kNice);
  if (!unmap_shared_memory() || !enter_sandbox_of_process_readers()) {
    ::_exit(1);
  }
  const auto answer = [pipe](std::string_view text) {
    if (!write_all(pipe, text)) {
      ::_exit(1);
    }
  };
  for (const ThreadToRead& thread : threads) {
    read(thread, [&](const ReadStack& stack) { answer(to_wire(stack)); });
    answer({&kRecordEnd, 1});
  }
  ::_exit(0);
}

}  // namespace

std::string to_wire(const ReadStack& stack) {
  std::string text;
  const auto add = [&](std::string_view field) {
    text += field;
    text += kFieldEnd;
  };
  for (const int64_t number : {int64_t{stack.rank_pid}, int64_t{stack.pid}, int64_t{stack.tid}, stack.begun_ns,
                               stack.took_ns, int64_t{stack.collecting}}) {
    add(std::to_string(number));
  }
  for (const std::string* field : {&stack.state, &stack.activity, &stack.frames, &stack.problem}) {
    add(*field);
  }
  text.back() = kRecordEnd;
  return text;
}

std::vector<ReadStack> from_wire(std::string_view text) {
  constexpr size_t kNumbers = 6;
  constexpr size_t kFields = 10;
  std::vector<ReadStack> stacks;
  for (const std::string_view record : split(text, kRecordEnd)) {
    const std::vector<std::string_view> fields = split(record, kFieldEnd);
    if (fields.size() != kFields) {
      continue;
    }
    std::array<int64_t, kNumbers> numbers{};
    bool whole = true;
    for (size_t i = 0; i < kNumbers; ++i) {
      const Result<int64_t> number = parse_integer(fields[i]);
      whole = whole && number;
      numbers[i] = number.value_or(0);
    }
    if (whole) {
      stacks.push_back({.rank_pid = static_cast<pid_t>(numbers[0]),
                        .pid = static_cast<pid_t>(numbers[1]),
                        .tid = static_cast<pid_t>(numbers[2]),
                        .begun_ns = numbers[3],
                        .took_ns = numbers[4],
                        .state = std::string(fields[6]),
                        .activity = std::string(fields[7]),
                        .collecting = numbers[5] != 0,
                        .frames = std::string(fields[8]),
                        .problem = std::string(fields[9])});
    }
  }
  return stacks;
}

void StackReader::begin(std::vector<ThreadToRead> threads, int64_t now_ns) {
  if (busy() || threads.empty() || too_many_stuck()) {
    return;
  }
  threads_ = std::move(threads);
  begun_ns_ = now_ns;
  start(now_ns);
}

void StackReader::start(int64_t now_ns) {
  Result<Pipe> pipe = make_pipe();
  if (!pipe) {
    threads_.clear();
    return;
  }
  (void)::fcntl(pipe->write_end.get(), F_SETPIPE_SZ, kPipeBytes);
  (void)::fcntl(pipe->read_end.get(), F_SETFL, O_NONBLOCK);
  const pid_t self = ::getpid();
  const pid_t helper = ::fork();
  if (helper == 0) {
    help(pipe->write_end.get(), self, threads_, read_);
  }
  if (helper < 0) {
    threads_.clear();
    return;
  }
  helper_ = helper;
  pipe_ = std::move(pipe->read_end);
  received_ns_ = now_ns;
  text_.clear();
  bytes_ = 0;
  gave_ = false;
}

void StackReader::end_helper() {
  if (helper_ > 0) {
    killed_.kill(helper_);
  }
  helper_ = 0;
  pipe_.reset();
}

bool StackReader::too_many_stuck() { return killed_.alive_after(kStuckNs) >= limits_.most_stuck; }

/// Takes the complete records from the text; false if the helper has finished or failed.
bool StackReader::parse(bool ended, std::vector<ReadStack>& stacks) {
  for (size_t end = text_.find(kRecordEnd); end != std::string::npos; end = text_.find(kRecordEnd)) {
    const std::vector<ReadStack> read = from_wire(std::string_view(text_).substr(0, end + 1));
    stacks.insert(stacks.end(), read.begin(), read.end());
    if (end > 0) {
      gave_ = true;
    } else if (!threads_.empty()) {
      if (!gave_) {
        others_.push_back(threads_.front().pid);
      }
      threads_.erase(threads_.begin());
      gave_ = false;
    }
    text_.erase(0, end + 1);
  }
  return !ended && !threads_.empty();
}

std::vector<ReadStack> StackReader::take(int64_t now_ns) {
  std::vector<ReadStack> stacks;
  killed_.reap();
  if (!busy()) {
    return stacks;
  }
  bool ended = false;
  std::array<char, 65'536> buffer;
  while (!ended) {
    const ssize_t got = ::read(pipe_.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0 && errno == EAGAIN) {
      break;
    }
    ended = got <= 0;
    text_.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
    bytes_ += static_cast<size_t>(std::max<ssize_t>(got, 0));
    received_ns_ = now_ns;
    if (bytes_ > limits_.most_bytes) {
      ended = true;
    }
  }
  const bool in_time = now_ns - begun_ns_ < limits_.all_ns;
  if (parse(ended, stacks)) {
    if (in_time && now_ns - received_ns_ < limits_.process_ns) {
      return stacks;
    }
  } else if (threads_.empty()) {
    end_helper();
    return stacks;
  }
  // It hung or died at the first process that is left, or goes on for too long.
  end_helper();
  const pid_t stuck = threads_.front().pid;
  if (!gave_) {
    stacks.push_back({.rank_pid = stuck,
                      .pid = stuck,
                      .begun_ns = received_ns_,
                      .took_ns = now_ns - received_ns_,
                      .problem = ended ? "the reading failed"
                                       : fmt::format("it could not be read within {}",
                                                     format_duration(in_time ? limits_.process_ns : limits_.all_ns))});
  }
  threads_.erase(threads_.begin());
  if (!threads_.empty() && in_time && !too_many_stuck()) {
    start(now_ns);
  } else {
    threads_.clear();
  }
  return stacks;
}

}  // namespace stalltrace::capture
