// SPDX-License-Identifier: Apache-2.0
#include "import/flight_recorder/dump.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <unordered_map>

#include "base/hash.h"
#include "base/text.h"
#include "import/flight_recorder/pickle.h"
#include "import/json.h"
#include "import/nccl_log/log_text.h"

namespace stalltrace::import {
namespace {

constexpr size_t kMostEntries = 100'000;
constexpr size_t kMostFrameBytes = size_t{64} << 20;  // of all stacks
constexpr size_t kMostFrames = 64;                    // of a stack
constexpr size_t kMostFrameTexts = size_t{1} << 18;   // of all stacks
constexpr size_t kMostTensors = 64;
constexpr size_t kMostDimensions = 16;
constexpr size_t kLongestName = 512;
constexpr int64_t kMostNumber = int64_t{1} << 40;
constexpr int64_t kLatestNs = 4'000'000'000'000'000'000;  // October 2096

/// Longer names first: "reduce_scatter" contains "reduce".
constexpr std::array<std::pair<std::string_view, Operation>, 15> kOperations{{
    {"all_reduce", Operation::kAllReduce},
    {"allreduce", Operation::kAllReduce},
    {"reduce_scatter", Operation::kReduceScatter},
    {"all_gather", Operation::kAllGather},
    {"allgather", Operation::kAllGather},
    {"all_to_all", Operation::kAllToAll},
    {"alltoall", Operation::kAllToAll},
    {"broadcast", Operation::kBroadcast},
    {"barrier", Operation::kBarrier},
    {"gather", Operation::kGather},
    {"scatter", Operation::kScatter},
    {"reduce", Operation::kReduce},
    {"send", Operation::kSend},
    {"recv", Operation::kRecv},
    {"Barrier", Operation::kBarrier},
}};

/// PyTorch's names of element types, as NCCL's numbers.
constexpr std::array<std::pair<std::string_view, int32_t>, 9> kDatatypes{{
    {"Char", 0},
    {"Byte", 1},
    {"Bool", 1},
    {"Int", 2},
    {"Long", 4},
    {"Half", 6},
    {"Float", 7},
    {"Double", 8},
    {"BFloat16", 9},
}};

/// What a frame says. The texts are the tree's.
struct FrameText {
  std::string_view function;
  std::string_view file;
  int32_t line = 0;  // 0: not known

  bool operator==(const FrameText&) const = default;
};

struct FrameHash {
  size_t operator()(const FrameText& frame) const {
    const uint64_t texts = splitmix64_text(frame.file, splitmix64_text(frame.function));
    return splitmix64_fold(texts, static_cast<uint64_t>(frame.line));
  }
};

class Reader {
 public:
  Reader(const ValueTree& tree, ValueIndex top) : tree_(tree), top_(top) {}

  Result<Dump> read() {
    if (tree_.kind(top_) != ValueTree::Kind::kDict) {
      return fail("it is no dump of PyTorch's Flight Recorder", {}, ErrorKind::kCorrupt);
    }
    const ValueIndex entries = tree_.find(top_, "entries");
    if (entries == kNoValue && tree_.find(top_, "version") == kNoValue && tree_.find(top_, "pg_config") == kNoValue) {
      return fail("it has neither entries nor a version: no dump of PyTorch's Flight Recorder", {},
                  ErrorKind::kCorrupt);
    }
    Dump dump;
    dump.version = text_in(top_, "version");
    read_groups(dump);
    // The newest first, since they decide: a memo can make a small file stand for any number of entries.
    const std::vector<ValueIndex>& all = tree_.items(entries);
    for (size_t i = all.size(); i-- > 0;) {
      if (tree_.kind(all[i]) != ValueTree::Kind::kDict) {
        continue;
      }
      if (dump.entries.size() < kMostEntries) {
        dump.entries.push_back(read_entry(all[i], dump));
      } else {
        ++dump.entries_left;
      }
    }
    std::ranges::reverse(dump.entries);
    return dump;
  }

 private:
  std::string text_in(ValueIndex dict, std::string_view key) const {
    return std::string(tree_.text(tree_.find(dict, key)).substr(0, kLongestName));
  }
  std::optional<int64_t> time_in(ValueIndex dict, std::string_view key) const {
    const std::optional<int64_t> time_ns = tree_.integer(tree_.find(dict, key));
    return time_ns && *time_ns > 0 && *time_ns < kLatestNs ? time_ns : std::nullopt;
  }

  /// "[0, 1, 2]", or a list of numbers.
  std::vector<int32_t> ranks_in(ValueIndex value) const {
    std::vector<int32_t> ranks;
    constexpr size_t kMostRanks = 65'536;
    for (const ValueIndex item : tree_.items(value)) {
      const std::optional<int64_t> rank = tree_.integer(item);
      if (rank && *rank >= 0 && *rank < (1 << 24) && ranks.size() < kMostRanks) {
        ranks.push_back(static_cast<int32_t>(*rank));
      }
    }
    const std::string_view text = tree_.text(value);
    for (size_t at = text.find_first_of("0123456789"); at != std::string_view::npos && ranks.size() < kMostRanks;
         at = text.find_first_of("0123456789", at)) {
      int32_t rank = 0;
      const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), rank);
      if (parsed.ec != std::errc()) {
        break;
      }
      ranks.push_back(rank);
      at = static_cast<size_t>(parsed.ptr - text.data());
    }
    return ranks;
  }

  void read_groups(Dump& dump) const {
    constexpr size_t kMostGroups = 4096;
    constexpr size_t kMostMembers = size_t{4} << 20;  // of all groups
    size_t members = 0;
    for (const auto& [key, group] : tree_.entries(tree_.find(top_, "pg_config"))) {
      std::string name = text_in(group, "name");
      name = name.empty() ? std::string(tree_.text(key).substr(0, kLongestName)) : name;
      if (dump.groups.size() < kMostGroups && members < kMostMembers) {
        std::vector<int32_t>& ranks = dump.groups[name];
        ranks = ranks_in(tree_.find(group, "ranks"));
        members += ranks.size();
      }
    }
  }

  static DumpEntry::State state_of(std::string_view text) {
    return text == "scheduled"   ? DumpEntry::State::kScheduled
           : text == "started"   ? DumpEntry::State::kStarted
           : text == "completed" ? DumpEntry::State::kCompleted
                                 : DumpEntry::State::kUnknown;
  }

  DumpEntry read_entry(ValueIndex value, Dump& dump) {
    DumpEntry entry;
    const std::vector<ValueIndex>& group = tree_.items(tree_.find(value, "process_group"));
    if (!group.empty()) {
      entry.group = tree_.text(group[0]).substr(0, kLongestName);
      entry.group_description = group.size() > 1 ? tree_.text(group[1]).substr(0, kLongestName) : "";
    } else if (const auto id = tree_.integer(tree_.find(value, "pg_id"))) {
      entry.group = std::to_string(*id);
      entry.group_known = *id == 0;  // all processes make the group of all ranks first
    } else {
      entry.group_known = false;
    }
    const std::string_view name = tree_.text(tree_.find(value, "profiling_name"));
    const auto* const op = std::ranges::find_if(kOperations, [&](const auto& one) { return name.contains(one.first); });
    entry.op = op == kOperations.end() ? std::nullopt : std::optional(op->second);
    entry.library = name.starts_with("gloo:")  ? Library::kGloo
                    : name.starts_with("mpi:") ? Library::kMpi
                                               : Library::kNccl;
    const bool is_p2p = tree_.integer(tree_.find(value, "is_p2p")).value_or(0) != 0;
    entry.point_to_point = is_p2p || (entry.op && is_point_to_point(*entry.op));
    ValueIndex number = tree_.find(value, "collective_seq_id");
    number = number == kNoValue ? tree_.find(value, "seq_id") : number;  // before 2.4
    const std::optional<int64_t> seq = tree_.integer(number);
    if (!entry.point_to_point && seq && *seq >= 0 && *seq < kMostNumber) {
      entry.number = seq;
    }
    entry.state = state_of(tree_.text(tree_.find(value, "state")));
    entry.retired = tree_.integer(tree_.find(value, "retired")).value_or(0) != 0;
    entry.created_ns = time_in(value, "time_created_ns").value_or(0);
    entry.started_ns = time_in(value, "time_discovered_started_ns");
    entry.completed_ns = time_in(value, "time_discovered_completed_ns");
    read_tensors(value, name, entry);
    dump.stacks_left += read_frames(value, dump, entry) ? 0 : 1;
    return entry;
  }

  /// Elements of the inputs. Ranks may differ where an operation allows it: then it is left out.
  void read_tensors(ValueIndex value, std::string_view name, DumpEntry& entry) const {
    const bool base = name.contains("_base") || name.contains("_tensor");
    const bool equal = entry.op && (*entry.op == Operation::kAllReduce || *entry.op == Operation::kBroadcast ||
                                    *entry.op == Operation::kReduce ||
                                    ((*entry.op == Operation::kAllGather || *entry.op == Operation::kReduceScatter) &&
                                     base && !name.contains("coalesced")));
    const std::vector<ValueIndex>& tensors = tree_.items(tree_.find(value, "input_sizes"));
    if (!equal || tensors.empty() || tensors.size() > kMostTensors) {
      return;
    }
    int64_t count = 0;
    for (const ValueIndex tensor : tensors) {
      int64_t elements = 1;
      const std::vector<ValueIndex>& sizes = tree_.items(tensor);
      for (size_t i = 0; i < std::min(sizes.size(), kMostDimensions); ++i) {
        const int64_t size = tree_.integer(sizes[i]).value_or(-1);
        if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
          return;
        }
      }
      if (__builtin_add_overflow(count, elements, &count)) {
        return;
      }
    }
    entry.count = count;
    const std::vector<ValueIndex>& types = tree_.items(tree_.find(value, "input_dtypes"));
    const std::string_view type = types.empty() ? std::string_view() : tree_.text(types.front());
    const auto* const known = std::ranges::find(kDatatypes, type, &std::pair<std::string_view, int32_t>::first);
    if (known != kDatatypes.end()) {
      entry.datatype = known->second;
    }
  }

  /// Calls of one line of the program have the same frames: a pickle refers to them, JSON repeats them. False: too many
  /// texts were read before.
  bool read_frames(ValueIndex value, Dump& dump, DumpEntry& entry) {
    const std::vector<ValueIndex>& frames = tree_.items(tree_.find(value, "frames"));
    if (frames.empty()) {
      return true;
    }
    std::vector<uint32_t> stack;
    for (size_t i = 0; i < std::min(frames.size(), kMostFrames); ++i) {
      const std::optional<uint32_t> frame = number_of_frame(frames[i]);
      if (!frame) {
        return false;
      }
      stack.push_back(*frame);
    }
    if (const auto known = stacks_.find(stack); known != stacks_.end()) {
      entry.stack = known->second;
      return true;
    }
    if (frame_bytes_ >= kMostFrameBytes) {
      return false;
    }
    entry.stack = static_cast<uint32_t>(dump.stacks.size());
    std::vector<PythonFrame>& made = dump.stacks.emplace_back();
    for (const uint32_t number : stack) {
      const FrameText& text = frames_[number];
      PythonFrame& frame = made.emplace_back();
      frame.function = text.function;
      frame.file = text.file;
      frame.line = text.line > 0 ? std::optional(text.line) : std::nullopt;
      frame_bytes_ += sizeof frame + frame.function.size() + frame.file.size();
    }
    stacks_.emplace(std::move(stack), *entry.stack);
    return true;
  }

  /// The index in `frames_`; none: it has too many.
  std::optional<uint32_t> number_of_frame(ValueIndex value) {
    if (value >= frame_of_value_.size()) {
      frame_of_value_.resize(size_t{value} + 1, kNoFrame);
    }
    uint32_t& number = frame_of_value_[value];
    if (number == kNoFrame) {
      const std::optional<int64_t> line = tree_.integer(tree_.find(value, "line"));
      const FrameText text{.function = tree_.text(tree_.find(value, "name")).substr(0, kLongestName),
                           .file = tree_.text(tree_.find(value, "filename")).substr(0, kLongestName),
                           .line = line && *line > 0 && *line < (1 << 30) ? static_cast<int32_t>(*line) : 0};
      const auto known = numbers_.find(text);
      if (known == numbers_.end() && frames_.size() >= kMostFrameTexts) {
        return std::nullopt;
      }
      number = known == numbers_.end() ? static_cast<uint32_t>(frames_.size()) : known->second;
      if (known == numbers_.end()) {
        numbers_.emplace(text, number);
        frames_.push_back(text);
      }
    }
    return number;
  }

  static constexpr uint32_t kNoFrame = ~uint32_t{0};
  const ValueTree& tree_;
  ValueIndex top_;
  std::vector<uint32_t> frame_of_value_;  // by ValueIndex; kNoFrame: not looked up
  std::vector<FrameText> frames_;
  std::unordered_map<FrameText, uint32_t, FrameHash> numbers_;  // in `frames_`
  std::map<std::vector<uint32_t>, uint32_t> stacks_;            // numbers of frames -> index in Dump::stacks
  size_t frame_bytes_ = 0;
};

}  // namespace

Result<Dump> read_dump(std::string_view bytes) {
  ValueTree tree;
  const bool pickle = !bytes.empty() && bytes[0] == '\x80';
  ST_ASSIGN(const ValueIndex top, pickle ? read_pickle(bytes, tree) : read_json(bytes, tree));
  return Reader(tree, top).read();
}

std::optional<int32_t> rank_of_dump(std::string_view path) {
  const std::string_view name = base_name(path);
  if (const std::optional<int32_t> rank = rank_in_path(name)) {
    return rank;
  }
  const std::string_view stem = name.substr(0, name.find('.'));
  const size_t last = stem.find_last_not_of("0123456789");
  const std::string_view digits = last == std::string_view::npos ? stem : stem.substr(last + 1);
  const size_t name_end =
      last != std::string_view::npos && std::string_view("_-").contains(stem[last]) ? last : last + 1;
  if (stem.substr(0, name_end).ends_with("rank")) {
    return std::nullopt;  // of the host or of a group
  }
  int32_t rank = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  return parsed.ec == std::errc() && !digits.empty() ? std::optional(rank) : std::nullopt;
}

}  // namespace stalltrace::import
