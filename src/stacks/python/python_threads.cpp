// SPDX-License-Identifier: Apache-2.0
#include "stacks/python/python_threads.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <unordered_set>

#include "stacks/python/code_objects.h"
#include "stacks/python/layout.h"
#include "stacks/python/line_table.h"

namespace stalltrace::stacks {
namespace {

constexpr size_t kMostInterpreters = 64;
constexpr size_t kMostThreads = 4096;
constexpr size_t kMostDepth = 20'000;    // frames walked per thread
constexpr size_t kMostFrames = 200'000;  // per process
constexpr size_t kKeptInner = 200;
constexpr size_t kKeptOuter = 50;
constexpr int kReadings = 6;                  // most readings of data that must agree in two of them
constexpr uint32_t kLastOfFrameObjects = 10;  // the last minor version in which all frames are objects
constexpr uint8_t kOwnedByGenerator = 1;      // enum _frameowner of internal/pycore_frame.h
constexpr uint8_t kOwnedByCStack = 3;         // from 3.12: no Python code
constexpr size_t kLargestFrame = 4096;

struct RawFrame {
  uint64_t address = 0;
  uint64_t code = 0;
  int64_t offset = 0;
  int32_t line = 0;  // if the frame stores it; else 0

  bool operator==(const RawFrame& other) const { return address == other.address && code == other.code; }
};

struct Gil {
  uint64_t address = 0;
  uint64_t holder = 0;  // a thread state; 0: none
  bool readable = false;

  bool operator==(const Gil&) const = default;
};

struct RawThread {
  uint64_t state = 0;
  uint64_t interpreter = 0;

  bool operator==(const RawThread&) const = default;
};

/// One reading of a thread.
struct Reading {
  std::vector<RawFrame> frames;
  Gil gil;
  bool collecting = false;
  bool cut = false;  // more frames than were walked
};

class Reader {
 public:
  Reader(BoundedMemory& memory, const Layout& layout, const PythonProgram& program)
      : memory_(memory), layout_(layout), program_(program), codes_(memory, layout, program.code_type) {}

  Result<PythonThreads> read(std::span<const pid_t> tids, pid_t main) {
    ST_ASSIGN(const std::vector<RawThread> raw, agreed_threads());
    PythonThreads result;
    for (const RawThread& thread : raw) {
      result.threads.push_back(read_thread(thread));
      note_gil(result, gil_of(thread.interpreter));
    }
    number_threads(result, raw, tids, main);
    if (memory_.exhausted()) {
      result.problem = "not everything was read: the bound on time or bytes was reached";
    }
    return result;
  }

 private:
  bool pointer(uint64_t base, uint32_t offset, uint64_t& into) { return memory_.read(base + offset, into); }

  std::optional<std::vector<RawThread>> threads() {
    std::vector<RawThread> threads;
    std::unordered_set<uint64_t> seen;
    uint64_t interpreter = 0;
    if (!pointer(program_.runtime, layout_.interpreters_head, interpreter)) {
      return std::nullopt;
    }
    for (size_t i = 0; interpreter != 0 && i < kMostInterpreters; ++i) {
      int64_t id = -1;
      uint64_t state = 0;
      uint64_t before = 0;
      if (!seen.insert(interpreter).second || !memory_.read(interpreter + layout_.interpreter_id, id) || id < 0 ||
          !pointer(interpreter, layout_.interpreter_threads, state)) {
        return std::nullopt;
      }
      while (state != 0 && threads.size() < kMostThreads) {
        uint64_t prev = 0;
        uint64_t owner = 0;
        uint64_t next = 0;
        if (!seen.insert(state).second || !pointer(state, layout_.thread_prev, prev) ||
            !pointer(state, layout_.thread_interpreter, owner) || !pointer(state, layout_.thread_next, next) ||
            prev != before || owner != interpreter) {
          return std::nullopt;
        }
        threads.push_back({state, interpreter});
        before = state;
        state = next;
      }
      if (!pointer(interpreter, layout_.interpreter_next, interpreter)) {
        return std::nullopt;
      }
    }
    return threads;
  }

  Result<std::vector<RawThread>> agreed_threads() {
    std::optional<std::vector<RawThread>> last;
    bool any = false;
    for (int i = 0; i < kReadings && !memory_.exhausted(); ++i) {
      memory_.forget();
      auto now = threads();
      if (now && last && *now == *last) {
        if (now->empty()) {
          return fail("its interpreter has no thread: it is starting or ending", "try again", ErrorKind::kCorrupt);
        }
        return std::move(*now);
      }
      any |= now.has_value();
      last = std::move(now);
      pause(i);
    }
    return fail(any ? fmt::format("its list of threads was different in each of {} readings", kReadings)
                    : fmt::format("its memory doesn't look like CPython {}'s", program_.version),
                any ? "try again" : "a debug or patched build has another layout; use py-spy dump",
                ErrorKind::kCorrupt);
  }

  /// The second reading follows the first immediately; after a failure or a difference, waits for a better moment.
  void pause(int readings) const {
    if (readings > 0) {
      memory_.pause();
    }
  }

  Gil gil_of(uint64_t interpreter) {
    Gil gil;
    if (layout_.runtime_gil != kAbsent) {
      gil.address = program_.runtime + layout_.runtime_gil;
    } else if (!pointer(interpreter, layout_.interpreter_gil, gil.address) || gil.address == 0) {
      return {};
    }
    int32_t locked = 0;
    uint64_t holder = 0;
    gil.readable = !layout_.free_threaded && memory_.read(gil.address + layout_.gil_locked, locked) &&
                   pointer(gil.address, layout_.gil_holder, holder);
    gil.holder = gil.readable && locked == 1 ? holder : 0;
    return gil;
  }

  void note_gil(PythonThreads& result, const Gil& gil) const {
    const PythonThreads::Range range{gil.address, gil.address + layout_.gil_size};
    const bool known =
        std::ranges::any_of(result.gils, [&](const PythonThreads::Range& other) { return other.begin == range.begin; });
    if (gil.readable && !known) {
      result.gils.push_back(range);
    }
  }

  std::optional<uint64_t> innermost(uint64_t state) {
    uint64_t frame = 0;
    if (layout_.thread_cframe == kAbsent) {
      return pointer(state, layout_.thread_frame, frame) ? std::optional(frame) : std::nullopt;
    }
    uint64_t cframe = 0;
    const bool read =
        pointer(state, layout_.thread_cframe, cframe) && cframe != 0 && pointer(cframe, layout_.cframe_frame, frame);
    return read ? std::optional(frame) : std::nullopt;
  }

  template <typename T>
  [[nodiscard]] T field(const std::array<std::byte, kLargestFrame>& bytes, uint32_t offset) const {
    T value{};
    if (offset <= bytes.size() - sizeof value) {
      std::memcpy(&value, bytes.data() + offset, sizeof value);
    }
    return value;
  }

  enum class Step : uint8_t { kFrame, kHidden, kTorn };

  /// Reads the frame at its address, and the address of its caller.
  Step read_frame(RawFrame& frame, uint64_t& previous) {
    std::array<std::byte, kLargestFrame> bytes{};
    if (layout_.frame_size > bytes.size() || frame.address % alignof(uint64_t) != 0 ||
        !memory_.read(frame.address, std::span(bytes).first(layout_.frame_size))) {
      return Step::kTorn;
    }
    previous = field<uint64_t>(bytes, layout_.frame_previous);
    frame.code = field<uint64_t>(bytes, layout_.frame_code);
    const bool object = layout_.minor <= kLastOfFrameObjects;
    const auto owner = object ? uint8_t{0} : field<uint8_t>(bytes, layout_.frame_owner);
    if (owner > kOwnedByCStack) {
      return Step::kTorn;
    }
    if (owner == kOwnedByCStack) {
      return Step::kHidden;
    }
    if (!codes_.is_code(frame.code)) {
      return Step::kTorn;
    }
    if (object) {
      const auto instruction = int64_t{field<int32_t>(bytes, layout_.frame_instruction)};
      const bool own_line = layout_.frame_trace == kAbsent || field<uint64_t>(bytes, layout_.frame_trace) != 0;
      frame.offset = layout_.frame_trace != kAbsent ? instruction : 2 * instruction;  // in code units from 3.10 on
      frame.line = own_line ? field<int32_t>(bytes, layout_.frame_line) : 0;
      return Step::kFrame;
    }
    const auto offset = codes_.offset_in(frame.code, field<uint64_t>(bytes, layout_.frame_instruction));
    if (!offset) {
      return Step::kTorn;
    }
    frame.offset = *offset;
    return owner != kOwnedByGenerator && codes_.before_first_traceable(frame.code, *offset) ? Step::kHidden
                                                                                            : Step::kFrame;
  }

  std::optional<Reading> read_once(const RawThread& thread) {
    Reading reading;
    reading.gil = gil_of(thread.interpreter);
    int32_t collecting = 0;
    reading.collecting =
        memory_.read(thread.interpreter + layout_.interpreter_collecting, collecting) && collecting == 1;
    auto address = innermost(thread.state);
    std::unordered_set<uint64_t> seen;
    while (address && *address != 0) {
      if (seen.size() >= kMostDepth) {
        reading.cut = true;
        break;
      }
      RawFrame frame{.address = *address};
      uint64_t previous = 0;
      const Step step = seen.insert(*address).second ? read_frame(frame, previous) : Step::kTorn;  // a cycle is invalid
      if (step == Step::kTorn) {
        return std::nullopt;
      }
      if (step == Step::kFrame) {
        reading.frames.push_back(frame);
      }
      address = previous;
    }
    return address ? std::optional(std::move(reading)) : std::nullopt;
  }

  PythonThread read_thread(const RawThread& raw) {
    PythonThread thread;
    std::optional<Reading> last;
    std::optional<Reading> best;
    for (int i = 0; i < kReadings && !memory_.exhausted(); ++i) {
      memory_.forget();
      auto now = read_once(raw);
      if (now && last) {
        // A frame that calls the same function again from another line counts as different; the innermost frame is
        // running.
        const auto alike = [&](const RawFrame& a, const RawFrame& b) {
          return a == b && (a.offset == b.offset || &a == &now->frames.front());
        };
        const auto same =
            std::mismatch(now->frames.rbegin(), now->frames.rend(), last->frames.rbegin(), last->frames.rend(), alike);
        thread.changing = static_cast<size_t>(now->frames.rend() - same.first);
        const bool agree = thread.changing == 0 && now->frames.size() == last->frames.size();
        thread.holds_gil =
            now->gil == last->gil && now->gil.readable ? std::optional(now->gil.holder == raw.state) : std::nullopt;
        thread.collecting = now->collecting && last->collecting && thread.holds_gil == true;
        best = now;
        if (agree) {
          break;
        }
      }
      last = std::move(now);
      pause(i);
    }
    if (!best) {
      thread.problem = memory_.exhausted() ? "the bound on time or bytes was reached before its frames were read"
                                           : fmt::format("no two of {} readings of its frames made sense", kReadings);
      return thread;
    }
    frames_ += best->frames.size();
    if (frames_ > kMostFrames) {
      thread.problem = "the process has more frames than are read";
      return thread;
    }
    name_frames(best->frames, thread);
    thread.problem =
        best->cut ? fmt::format("it is more than {} frames deep: the outer ones were not read", kMostDepth) : "";
    return thread;
  }

  void name_frames(const std::vector<RawFrame>& raw, PythonThread& thread) {
    if (raw.size() > kKeptInner + kKeptOuter) {
      thread.left_out_at = kKeptInner;
      thread.left_out = raw.size() - kKeptInner - kKeptOuter;
    }
    const auto is_shown = [&](size_t i) { return i < thread.left_out_at || i >= thread.left_out_at + thread.left_out; };
    std::vector<uint64_t> codes;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (is_shown(i)) {
        codes.push_back(raw[i].code);
      }
    }
    codes_.learn(codes);
    for (size_t i = 0; i < raw.size(); ++i) {
      if (!is_shown(i)) {
        continue;
      }
      const CodeObject* code = codes_.at(raw[i].code);
      if (code == nullptr) {
        thread.frames.push_back({"?", "?", std::nullopt});
        continue;
      }
      const bool own_line = raw[i].line > 0;
      thread.frames.push_back({code->function, code->file,
                               own_line ? std::optional(raw[i].line)
                                        : line_of(layout_.minor, code->line_table, code->first_line, raw[i].offset)});
    }
  }

  /// Assigns the kernel's thread numbers: from 3.11 on the interpreter stores them; before, the C library has them in
  /// the struct that a pthread_t points to. A thread that starts has its creator's number at first: of equal ones only
  /// the oldest counts, and the interpreter lists the newest first.
  void number_threads(PythonThreads& result, const std::vector<RawThread>& raw, std::span<const pid_t> tids,
                      pid_t main) {
    const std::set<pid_t> live(tids.begin(), tids.end());
    memory_.forget();
    std::set<pid_t> taken;
    std::vector<Unnumbered> left;
    std::set<uint64_t> pthreads;
    for (size_t i = raw.size(); i-- > 0;) {
      uint64_t tid = 0;
      uint64_t pthread = 0;
      pointer(raw[i].state, layout_.thread_pthread, pthread);
      const bool oldest = pthread != 0 && pthreads.insert(pthread).second;
      if (oldest && layout_.thread_tid != kAbsent && memory_.read(raw[i].state + layout_.thread_tid, tid) &&
          tid <= static_cast<uint64_t>(INT32_MAX) && live.contains(static_cast<pid_t>(tid)) &&
          taken.insert(static_cast<pid_t>(tid)).second) {
        result.threads[i].tid = static_cast<pid_t>(tid);
      } else if (oldest) {
        left.push_back({i, pthread});
      }
    }
    if (!left.empty()) {
      number_by_pthreads(result, left, live, main);
    }
  }

  struct Unnumbered {
    size_t index = 0;
    uint64_t pthread = 0;
  };

  /// The C library's offset of a thread's number is private: it is the one offset at which every struct has the number
  /// of a different thread of the process.
  void number_by_pthreads(PythonThreads& result, const std::vector<Unnumbered>& threads, const std::set<pid_t>& live,
                          pid_t main) {
    constexpr size_t kPthreadBytes = 1536;  // of the struct, whose first part holds the number
    uint64_t main_pthread = 0;
    if (layout_.main_thread != kAbsent) {
      pointer(program_.runtime, layout_.main_thread, main_pthread);
    }
    std::vector<std::array<std::byte, kPthreadBytes>> structs(threads.size());
    bool readable = true;
    for (size_t i = 0; i < threads.size(); ++i) {
      readable &= memory_.read(threads[i].pthread, structs[i]);
    }
    std::set<std::vector<pid_t>> possible;
    for (size_t offset = 0; readable && offset + sizeof(pid_t) <= kPthreadBytes; offset += sizeof(pid_t)) {
      std::vector<pid_t> numbers;
      std::set<pid_t> different;
      for (size_t i = 0; i < structs.size(); ++i) {
        pid_t number = 0;
        std::memcpy(&number, structs[i].data() + offset, sizeof number);
        const bool is_main = threads[i].pthread == main_pthread;
        if (!live.contains(number) || (is_main && number != main) || !different.insert(number).second) {
          break;
        }
        numbers.push_back(number);
      }
      if (numbers.size() == structs.size()) {
        possible.insert(std::move(numbers));
      }
    }
    for (size_t i = 0; i < threads.size(); ++i) {
      result.threads[threads[i].index].tid = possible.size() == 1                 ? (*possible.begin())[i]
                                             : threads[i].pthread == main_pthread ? main
                                                                                  : 0;
    }
  }

  BoundedMemory& memory_;
  const Layout& layout_;
  const PythonProgram& program_;
  CodeObjects codes_;
  size_t frames_ = 0;
};

}  // namespace

Result<PythonThreads> read_python_threads(Memory& memory, const PythonProgram& program, std::span<const pid_t> tids,
                                          pid_t main, BoundedMemory::Bounds bounds) {
  BoundedMemory bounded(memory, bounds);
  ST_ASSIGN(const Layout layout, layout_in(bounded, program.runtime, program.minor));
  return Reader(bounded, layout, program).read(tids, main);
}

}  // namespace stalltrace::stacks
