// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/flag.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"

namespace stalltrace::cli {
namespace {

constexpr const char* kDurationForm = "500ms, 20s or 2m";

/// A size as one would type it: "2g"; parse_size_bytes() is the inverse.
std::string typed_size(int64_t size_bytes) {
  constexpr std::string_view kUnits = "kmgt";
  size_t units = 0;
  while (size_bytes >= 1024 && size_bytes % 1024 == 0 && units < kUnits.size()) {
    size_bytes /= 1024;
    ++units;
  }
  return fmt::format("{}{}", size_bytes, units == 0 ? "" : kUnits.substr(units - 1, 1));
}

template <typename T>
auto store_duration(T* target_ns) {
  return [target_ns](std::string_view text) -> Status {
    ST_ASSIGN(const int64_t duration_ns, parse_duration_ns(text));
    if (duration_ns == 0) {
      return fail(fmt::format("'{}' is no time at all", text), fmt::format("write it like {}", kDurationForm),
                  ErrorKind::kUsage);
    }
    *target_ns = duration_ns;
    return {};
  };
}

auto store_text(std::string* target) {
  return [target](std::string_view text) -> Status {
    *target = text;
    return {};
  };
}

Status refuse_empty(std::string_view text, std::string_view value_name) {
  return text.empty() ? Status(fail("the value is empty", fmt::format("give {}, or leave the flag out", value_name),
                                    ErrorKind::kUsage))
                      : Status();
}

auto append_text(std::vector<std::string>* target) {
  return [target](std::string_view text) -> Status {
    target->emplace_back(text);
    return {};
  };
}

/// Numbers from `low` on, separated by commas, any number of times. `what`: "a process id".
Flag numbers_flag(std::string name, std::string value_name, std::string help, int32_t low, const char* what,
                  std::vector<int32_t>* target) {
  auto assign = [low, what, target](std::string_view text) -> Status {
    for (const std::string_view part : split(text, ',')) {
      ST_ASSIGN(const int64_t number, parse_integer(part));
      if (number < low || number > std::numeric_limits<int32_t>::max()) {
        return fail(fmt::format("'{}' is not {}", part, what),
                    fmt::format("give whole numbers from {} on, separated by commas", low), ErrorKind::kUsage);
      }
      target->push_back(static_cast<int32_t>(number));
    }
    return {};
  };
  return {.kind = Flag::Kind::kRepeated,
          .name = std::move(name),
          .value_name = std::move(value_name),
          .help = std::move(help),
          .value_form = {},
          .default_text = {},
          .assign = std::move(assign)};
}

}  // namespace

Flag switch_flag(std::string name, std::string help, bool* target) {
  return {.kind = Flag::Kind::kSwitch,
          .name = std::move(name),
          .value_name = {},
          .help = std::move(help),
          .value_form = {},
          .default_text = {},
          .assign = [target](std::string_view) -> Status {
            *target = true;
            return {};
          }};
}

Flag text_flag(std::string name, std::string value_name, std::string help, std::string* target) {
  auto assign = [value_name, target](std::string_view text) -> Status {
    ST_TRY(refuse_empty(text, value_name));
    *target = text;
    return {};
  };
  return {.kind = Flag::Kind::kValue,
          .name = std::move(name),
          .value_name = std::move(value_name),
          .help = std::move(help),
          .value_form = {},
          .default_text = *target,
          .assign = std::move(assign)};
}

Flag texts_flag(std::string name, std::string value_name, std::string help, std::vector<std::string>* target) {
  auto assign = [value_name, target](std::string_view text) -> Status {
    ST_TRY(refuse_empty(text, value_name));
    target->emplace_back(text);
    return {};
  };
  return {.kind = Flag::Kind::kRepeated,
          .name = std::move(name),
          .value_name = std::move(value_name),
          .help = std::move(help),
          .value_form = {},
          .default_text = {},
          .assign = std::move(assign)};
}

Flag choice_flag(std::string name, std::string help, std::vector<std::string> choices, std::string* target) {
  std::string value_name = fmt::format("{}", fmt::join(choices, "|"));
  auto assign = [choices = std::move(choices), target](std::string_view text) -> Status {
    if (std::ranges::find(choices, text) == choices.end()) {
      return fail(fmt::format("'{}' is not known", text), fmt::format("give {}", fmt::join(choices, ", ")),
                  ErrorKind::kUsage);
    }
    *target = text;
    return {};
  };
  return {.kind = Flag::Kind::kValue,
          .name = std::move(name),
          .value_name = std::move(value_name),
          .help = std::move(help),
          .value_form = {},
          .default_text = *target,
          .assign = std::move(assign)};
}

Flag integer_flag(std::string name, std::string value_name, std::string help, int64_t low, int64_t high,
                  int64_t* target) {
  auto assign = [low, high, target](std::string_view text) -> Status {
    ST_ASSIGN(const int64_t value, parse_integer(text));
    if (value < low || value > high) {
      return fail(fmt::format("{} is out of range", value), fmt::format("give {} to {}", low, high), ErrorKind::kUsage);
    }
    *target = value;
    return {};
  };
  return {.kind = Flag::Kind::kValue,
          .name = std::move(name),
          .value_name = std::move(value_name),
          .help = std::move(help),
          .value_form = {},
          .default_text = std::to_string(*target),
          .assign = std::move(assign)};
}

Flag pids_flag(std::string name, std::string help, std::vector<int32_t>* target) {
  return numbers_flag(std::move(name), "PID", std::move(help), 1, "a process id", target);
}

Flag ranks_flag(std::string name, std::string help, std::vector<int32_t>* target) {
  return numbers_flag(std::move(name), "RANK", std::move(help), 0, "a rank", target);
}

Flag duration_flag(std::string name, std::string help, int64_t* target_ns) {
  return {.kind = Flag::Kind::kValue,
          .name = std::move(name),
          .value_name = "TIME",
          .help = std::move(help),
          .value_form = kDurationForm,
          .default_text = format_duration(*target_ns),
          .assign = store_duration(target_ns)};
}

Flag duration_flag(std::string name, std::string help, std::optional<int64_t>* target_ns) {
  return {.kind = Flag::Kind::kValue,
          .name = std::move(name),
          .value_name = "TIME",
          .help = std::move(help),
          .value_form = kDurationForm,
          .default_text = {},
          .assign = store_duration(target_ns)};
}

Flag size_limit_flag(std::string name, std::string help, int64_t* target_bytes) {
  auto assign = [target_bytes](std::string_view text) -> Status {
    *target_bytes = 0;
    if (text != "none") {
      ST_ASSIGN(*target_bytes, parse_size_bytes(text));
    }
    return {};
  };
  return {.kind = Flag::Kind::kValue,
          .name = std::move(name),
          .value_name = "SIZE",
          .help = std::move(help),
          .value_form = "500m or 2g, or none for no limit",
          .default_text = *target_bytes == 0 ? "none" : typed_size(*target_bytes),
          .assign = std::move(assign)};
}

Flag argument(std::string name, std::string help, std::string* target) {
  return {.kind = Flag::Kind::kArgument,
          .name = std::move(name),
          .value_name = {},
          .help = std::move(help),
          .value_form = {},
          .default_text = {},
          .assign = store_text(target)};
}

Flag arguments(std::string name, std::string help, std::vector<std::string>* target) {
  return {.kind = Flag::Kind::kArguments,
          .name = std::move(name),
          .value_name = {},
          .help = std::move(help),
          .value_form = {},
          .default_text = {},
          .assign = append_text(target)};
}

Flag command_argument(std::string help, std::vector<std::string>* target) {
  return {.kind = Flag::Kind::kCommand,
          .name = "COMMAND",
          .value_name = {},
          .help = std::move(help),
          .value_form = {},
          .default_text = {},
          .assign = append_text(target)};
}

Flag required(Flag flag) {
  flag.required = true;
  return flag;
}

Flag optional(Flag flag) {
  flag.optional = true;
  return flag;
}

Flag hidden(Flag flag) {
  flag.hidden = true;
  return flag;
}

Flag privileged(Flag flag) {
  flag.privileged = true;
  return flag;
}

}  // namespace stalltrace::cli
