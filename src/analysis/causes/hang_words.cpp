// SPDX-License-Identifier: Apache-2.0
// What the causes of hangs say alike: which call, who waits in it, and for whom.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "analysis/causes/cause.h"
#include "base/text.h"

namespace stalltrace::analysis {
namespace {

constexpr size_t kNamesTold = 8;

std::string where_text(const Scene& scene, uint32_t group, int64_t column) {
  const CommHash hash = scene.timeline.groups()[group].hash;
  return hash == 0 ? "on a communicator made before tracing"
                   : fmt::format("number {} on communicator {}", column, format_hash(hash));
}

}  // namespace

std::string capitalised(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

std::string shape_text(const Shape& shape) {
  std::string text = fmt::format("{} of {}", display_name(shape.op), format_size(shape.bytes));
  if (shape.datatype != Shape::kNoArgument) {
    text += fmt::format(" {}", nccl_datatype_name(shape.datatype));
  }
  if (shape.reduce_op != Shape::kNoArgument) {
    text += fmt::format(" {}", nccl_reduce_op_name(shape.reduce_op));
  }
  return shape.root == Shape::kNoArgument ? text : fmt::format("{} root {}", text, shape.root);
}

std::string names_of(const Scene& scene, const std::vector<MemberIndex>& members) {
  std::vector<std::string> names;
  for (size_t i = 0; i < members.size() && i < kNamesTold; ++i) {
    names.push_back(members.size() == 1 ? scene.cluster.describe(members[i]) : short_name(scene.cluster, members[i]));
  }
  return fmt::format("{}{}", fmt::join(names, ", "), members.size() > kNamesTold ? ", ..." : "");
}

std::string call_text(const Scene& scene, const Stall& stall) {
  if (stall.one_sided) {  // what the others entered is not known
    return fmt::format("a collective {}", where_text(scene, stall.group, stall.column));
  }
  return fmt::format("{} {}", display_name(scene.timeline.shape(stall.shape).op),
                     where_text(scene, stall.group, stall.column));
}

bool all_ranks_recorded(const Scene& scene, uint32_t group_index) {
  const Group& group = scene.timeline.groups()[group_index];
  const Lane& lane = scene.timeline.lanes()[group.lanes.front()];
  const int32_t nranks = group.nranks.value_or(scene.cluster.member(lane.member).world_size.value_or(0));
  return static_cast<int64_t>(group.lanes.size()) >= nranks;
}

std::string step_text(const Scene& scene, const HangStep& step) {
  const Lane& lane = scene.timeline.lanes()[step.lane];
  const Group& group = scene.timeline.groups()[lane.group];
  std::string call(display_name(scene.timeline.shape(lane.at_column(step.column)->shape).op));
  std::vector<MemberIndex> missing;
  for (const uint32_t index : group.lanes) {
    const Lane& other = scene.timeline.lanes()[index];
    if (other.at_column(step.column) == nullptr) {
      missing.push_back(other.member);
    }
  }
  if (lane.point_to_point) {
    call = lane.receives ? "Recv" : "Send";
  }
  return fmt::format("{} is inside {} {}{}", scene.cluster.describe(step.member), call,
                     where_text(scene, lane.group, step.column),
                     missing.empty() ? std::string() : ", waiting for " + names_of(scene, missing));
}

Evidence waiting_evidence(const Scene& scene, const Stall& stall) {
  std::vector<MemberIndex> inside;
  std::vector<MemberIndex> absent;
  for (const uint32_t index : scene.timeline.groups()[stall.group].lanes) {
    const Lane& lane = scene.timeline.lanes()[index];
    if (lane.at_column(stall.column) != nullptr) {
      inside.push_back(lane.member);
    } else if (!lane.continued) {
      absent.push_back(lane.member);
    }
  }
  const auto by_rank = [&](MemberIndex a, MemberIndex b) {
    return scene.cluster.member(a).rank.value_or(-1) < scene.cluster.member(b).rank.value_or(-1);
  };
  std::sort(inside.begin(), inside.end(), by_rank);
  std::sort(absent.begin(), absent.end(), by_rank);
  if (inside.empty()) {
    return {"collective", 0, fmt::format("not in {}: {}", call_text(scene, stall), names_of(scene, absent)), {}};
  }
  return {"collective",
          static_cast<int64_t>(inside.size()),
          fmt::format("in {}: {}{}", call_text(scene, stall), names_of(scene, inside),
                      absent.empty() ? std::string() : "; not in it: " + names_of(scene, absent)),
          {}};
}

}  // namespace stalltrace::analysis
