// SPDX-License-Identifier: Apache-2.0
#include "autopsy/native/native_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "autopsy/native/call_names.h"
#include "autopsy/native/stack_reader.h"
#include "autopsy/native/stack_scan.h"
#include "base/clock.h"
#include "base/text.h"
#include "stacks/memory/memory.h"
#include "stacks/native/blocked_stack.h"
#include "stacks/native/file_functions.h"

namespace stalltrace::autopsy {
namespace {

constexpr int64_t kNamesNs = 2 * kNsPerSecond;   // for the symbols of all files together
constexpr int64_t kStacksNs = 3 * kNsPerSecond;  // for the stacks of all blocked threads together

/// The code of one process, and its memory.
class Code {
 public:
  static Result<Code> open(const Procfs& procfs, pid_t pid) {
    ST_ASSIGN(auto memory, stacks::ProcessMemory::open(procfs, pid));
    ST_ASSIGN(auto files, procfs.code_mappings(pid));
    return Code(std::move(memory), std::move(files));
  }

  stacks::Memory& memory() { return memory_; }

  ScannedStack scan(const stacks::StackContent& content) {
    stacks::BoundedMemory bounded(memory_, {});
    return scan_stack(content, ranges_, [&](uint64_t address) {
      std::array<uint8_t, stacks::kCallBytes> before{};
      return bounded.read(address - before.size(), std::as_writable_bytes(std::span(before))) &&
             stacks::is_call(before);
    });
  }

  [[nodiscard]] const CodeRange& range(const CodeAddress& code) const { return ranges_[code.range]; }
  [[nodiscard]] const MappedFile& file(const CodeAddress& code) const { return files_[range(code).file]; }
  [[nodiscard]] uint64_t offset(const CodeAddress& code) const {
    return code.address - file(code).start + file(code).offset;
  }
  /// PyTorch's libraries may contain Gloo and a device's runtime.
  [[nodiscard]] bool has_calls(const CodeAddress& code) const {
    const std::string_view path = file(code).path;
    const std::string_view name = base_name(path);
    return range(code).kind == CodeKind::kLibrary || range(code).kind == CodeKind::kDevice ||
           name.starts_with("libtorch");
  }

 private:
  Code(stacks::ProcessMemory memory, std::vector<MappedFile> files)
      : memory_(std::move(memory)), files_(std::move(files)) {
    for (size_t i = 0; i < files_.size(); ++i) {
      ranges_.push_back({files_[i].start, files_[i].end, code_kind(files_[i].path), i});
    }
    std::ranges::sort(ranges_, {}, &CodeRange::start);
  }

  stacks::ProcessMemory memory_;
  std::vector<MappedFile> files_;
  std::vector<CodeRange> ranges_;
};

/// The outermost call, which the program made; `main`: for the first thread, code of a library without a known
/// function counts too.
std::optional<OpenCall> call_on(const Code& code, const ScannedStack& stack, const stacks::FileFunctions& names,
                                bool main) {
  for (auto address = stack.code.rbegin(); address != stack.code.rend(); ++address) {
    if (code.has_calls(*address)) {
      if (auto call = call_of_function(names.at(code.file(*address), code.offset(*address)))) {
        return call;
      }
    }
  }
  if (!main || (stack.innermost != CodeKind::kLibrary && stack.innermost != CodeKind::kDevice)) {
    return std::nullopt;
  }
  const auto inner = std::ranges::find_if(
      stack.code, [&](const CodeAddress& address) { return code.range(address).kind == stack.innermost; });
  const std::string_view path = code.file(*inner).path;
  return OpenCall{"code of " + printable(base_name(path)), std::nullopt, Witness::kNative};
}

struct ThreadStacks {
  std::vector<ScannedStack> stacks;  // several: samples of a running thread
  std::string problem;
};

ThreadStacks scan_thread(const Procfs& procfs, Code& code, const NativeThread& thread, int64_t sample_ns) {
  ThreadStacks scanned;
  if (!thread.running) {
    const auto content = stacks::blocked_stack(procfs, code.memory(), thread.pid, thread.tid);
    if (content) {
      scanned.stacks.push_back(code.scan(*content));
      return scanned;
    }
  }
  const auto samples = sample_running(thread.tid, sample_ns);
  if (!samples) {
    scanned.problem = samples.error().what;
    return scanned;
  }
  for (const stacks::StackContent& sample : *samples) {
    scanned.stacks.push_back(code.scan(sample));
  }
  if (scanned.stacks.empty()) {
    scanned.problem = "the running thread could not be sampled";
  }
  return scanned;
}

/// In most samples the thread is in this call; nullopt: in none.
std::optional<OpenCall> usual_call(const std::vector<std::optional<OpenCall>>& calls) {
  for (const auto& call : calls) {
    if (2 * std::ranges::count(calls, call) > static_cast<int64_t>(calls.size())) {
      return call;
    }
  }
  const auto any = std::ranges::find_if(calls, [](const auto& call) { return call.has_value(); });
  return any == calls.end() ? std::nullopt : *any;
}

}  // namespace

std::vector<NativeAnswer> native_calls(const Procfs& procfs, std::span<const NativeThread> threads, int64_t sample_ns) {
  std::map<pid_t, Result<Code>> codes;
  stacks::FileFunctions names(procfs, FunctionNameReader::ReadBy::kChild);
  const auto running = std::ranges::count_if(threads, &NativeThread::running);
  const int64_t each_ns = sample_ns / std::max<int64_t>(1, running);
  const int64_t begun_ns = monotonic_now_ns();
  std::vector<ThreadStacks> scanned;
  for (const NativeThread& thread : threads) {
    auto code = codes.find(thread.pid);
    if (code == codes.end()) {
      code = codes.emplace(thread.pid, Code::open(procfs, thread.pid)).first;
    }
    if (!code->second) {
      scanned.push_back({.stacks = {}, .problem = code->second.error().what});
      continue;
    }
    if (!thread.running && monotonic_now_ns() - begun_ns > kStacksNs) {
      scanned.push_back({.stacks = {}, .problem = "there was no time left to read its stack"});
      continue;
    }
    scanned.push_back(scan_thread(procfs, *code->second, thread, each_ns));
    for (const ScannedStack& stack : scanned.back().stacks) {
      for (const CodeAddress& address : stack.code) {
        if (code->second->has_calls(address)) {
          names.want(thread.pid, code->second->file(address), code->second->offset(address));
        }
      }
    }
  }
  names.look_up(kNamesNs);
  std::vector<NativeAnswer> answers;
  for (size_t i = 0; i < threads.size(); ++i) {
    NativeAnswer& answer = answers.emplace_back();
    answer.problem = scanned[i].problem;
    answer.known = !scanned[i].stacks.empty();
    std::vector<std::optional<OpenCall>> calls;
    for (const ScannedStack& stack : scanned[i].stacks) {
      calls.push_back(call_on(*codes.at(threads[i].pid), stack, names, threads[i].pid == threads[i].tid));
    }
    answer.call = usual_call(calls);
  }
  return answers;
}

}  // namespace stalltrace::autopsy
