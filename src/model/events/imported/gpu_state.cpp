// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/gpu_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "model/enum_text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 13> kConditions{
    "hw_slowdown",       "hw_thermal",   "hw_power_brake", "sw_thermal",     "power_cap",
    "uncorrectable_ecc", "remap_failed", "remap_pending",  "reset_required", "nvlink_failed",
    "pcie_failed",       "other_failed", "other_warning"};
constexpr size_t kMostPids = 16;

template <typename Number>
bool read_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 0;
}

bool read_field(std::string_view key, std::string_view value, GpuState& out) {
  if (key == "gpu") {
    out.device = value;
    return true;
  }
  return key == "sm"            ? read_number(value, out.sm_mhz.emplace())
         : key == "max"         ? read_number(value, out.max_sm_mhz.emplace())
         : key == "temperature" ? read_number(value, out.temperature.emplace())
         : key == "ecc"         ? read_number(value, out.uncorrectable)
         : key == "pid"         ? out.pids.size() < kMostPids && read_number(value, out.pids.emplace_back())
                                : false;
}

}  // namespace

std::string_view to_text(GpuCondition condition) { return kConditions[static_cast<size_t>(condition)]; }

std::string gpu_state_text(const GpuState& state) {
  std::string text = "gpu " + state.device;
  text += state.sm_mhz ? fmt::format(" sm {}", *state.sm_mhz) : "";
  text += state.max_sm_mhz ? fmt::format(" max {}", *state.max_sm_mhz) : "";
  text += state.temperature ? fmt::format(" temperature {}", *state.temperature) : "";
  text += state.uncorrectable > 0 ? fmt::format(" ecc {}", state.uncorrectable) : "";
  for (size_t i = 0; i < std::min(state.pids.size(), kMostPids); ++i) {
    text += fmt::format(" pid {}", state.pids[i]);
  }
  text += " has";
  for (const GpuCondition condition : state.conditions) {
    text += fmt::format(" {}", to_text(condition));
  }
  return text;
}

std::optional<GpuState> gpu_state_from_text(std::string_view text) {
  const std::vector<std::string_view> fields = split_fields(text);
  GpuState out;
  size_t at = 0;
  for (; at < fields.size() && fields[at] != "has"; at += 2) {
    if (at + 1 >= fields.size() || !read_field(fields[at], fields[at + 1], out)) {
      return std::nullopt;
    }
  }
  if (at >= fields.size() || out.device.empty()) {
    return std::nullopt;
  }
  for (++at; at < fields.size(); ++at) {
    const auto condition = value_with_text<GpuCondition>(kConditions, fields[at]);
    if (!condition || out.conditions.size() == kConditions.size()) {
      return std::nullopt;
    }
    out.conditions.push_back(*condition);
  }
  return out;
}

}  // namespace stalltrace
