// SPDX-License-Identifier: Apache-2.0
#include "preflight/nccl/lint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <optional>

#include "base/similar_name.h"
#include "base/text.h"
#include "preflight/nccl/variables.h"

namespace stalltrace::preflight {
namespace {

constexpr std::string_view kCheck = "nccl_setting";
constexpr int64_t kMostSockets = 64;  // of one connection: NCCL_SOCKET_NTHREADS x NCCL_NSOCKS_PERTHREAD
constexpr int64_t kAutomatic = -2;    // what NCCL's source code uses for "choose it"
constexpr int64_t kDefaultBuffer = 4 << 20;

/// PyTorch's own variables had NCCL's prefix before PyTorch 2.2.
constexpr std::array<std::string_view, 4> kPyTorch{"NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT",
                                                   "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING"};
/// May be different on each host, or name a file of it.
constexpr std::array<std::string_view, 6> kOfTheHost{"NCCL_HOSTID",          "NCCL_TOPO_FILE",  "NCCL_TOPO_DUMP_FILE",
                                                     "NCCL_GRAPH_DUMP_FILE", "NCCL_DEBUG_FILE", "NCCL_RAS_ADDR"};

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool is_one_of(std::string_view value, std::string_view words) {
  return std::ranges::any_of(split_fields(words), [&](std::string_view word) { return same_word(value, word); });
}

/// An integer as NCCL reads it, if the whole text is one.
std::optional<int64_t> whole_integer(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  const int64_t value = std::strtoll(text.c_str(), &end, 0);
  return errno != 0 || end == text.c_str() || *end != '\0' ? std::nullopt : std::optional(value);
}

class Lint {
 public:
  Lint(const Settings& settings, HostReport& report) : settings_(settings), report_(report) {}

  void run() {
    if (!settings_.missing_file().empty()) {
      add("NCCL_CONF_FILE", Outcome::kFailed,
          fmt::format("{} can't be read: none of its settings is used", settings_.missing_file()),
          "name a file that the job's user may read on each node");
    }
    const size_t before = report_.checks.size();
    for (const Setting& setting : settings_.all()) {
      check(setting);
    }
    check_combinations();
    if (report_.checks.size() == before) {
      add("", Outcome::kOk,
          settings_.all().empty() ? "NCCL runs with its defaults"
                                  : fmt::format("{} as NCCL documents them",
                                                count_of(static_cast<int64_t>(settings_.all().size()), "setting")));
    }
  }

 private:
  void add(std::string_view subject, Outcome outcome, std::string detail, std::string remedy = {}) {
    report_.add(std::string(kCheck), std::string(subject), outcome, std::move(detail), std::move(remedy));
  }

  void check(const Setting& setting) {
    const std::string_view name = setting.name;
    if (name.starts_with("TORCH_NCCL_")) {
      report_.facts[fmt::format("setting {}", name)] = setting.value;
      return;
    }
    if (std::ranges::find(kOfTheHost, name) == kOfTheHost.end()) {
      report_.facts[fmt::format("setting {}", name)] = setting.value;
    }
    const Variable* variable = find_variable(name);
    if (variable == nullptr) {
      check_unknown(setting);
      return;
    }
    if (!variable->obsolete.empty()) {
      add(name, Outcome::kWarning, fmt::format("={} may do nothing: {}", setting.value, variable->obsolete),
          "remove it");
      return;
    }
    if (check_value(setting, *variable) && variable->workaround) {
      add(name, Outcome::kWarning,
          fmt::format("={} is a workaround in NCCL's guide (section Debugging), set by {}", setting.value,
                      setting.origin),
          "remove it unless you know why it is there: it can cost speed, or hang");
    }
  }

  void check_unknown(const Setting& setting) {
    const std::string_view name = setting.name;
    if (trim(name) != name) {
      add(trim(name), Outcome::kFailed,
          fmt::format("NCCL does not see it: blanks surround its name in {}", setting.origin),
          "write NAME=value without blanks");
    } else if (std::ranges::find(kPyTorch, name) != kPyTorch.end()) {
      add(name, Outcome::kWarning, "is PyTorch's, which renamed it in 2.2", fmt::format("set TORCH_{}", name));
    } else if (!is_undocumented(name)) {
      const std::vector<std::string_view> known = all_variable_names();
      const auto meant = similar_name(name, known);
      // A plugin may have variables of its own.
      add(name, meant ? Outcome::kFailed : Outcome::kWarning, "NCCL has no such variable",
          meant ? fmt::format("did you mean {}?", *meant) : "remove it, unless a plugin of yours reads it");
    }
  }

  /// False if something was found.
  bool check_value(const Setting& setting, const Variable& variable) {
    const std::string& value = setting.value;
    if (value.empty()) {
      return false;  // NCCL takes it as not set
    }
    if (trim(value) != value || value.starts_with('"') || value.starts_with('\'')) {
      add(variable.name, Outcome::kFailed, fmt::format("its value has blanks or quotes around it: [{}]", value),
          "remove them: NCCL takes them as part of the value");
      return false;
    }
    switch (variable.kind) {
      case ValueKind::kInteger:
        return check_integer(variable, value);
      case ValueKind::kLevel:
        return is_one_of(value, variable.words) || check_integer(variable, value);
      case ValueKind::kWord:
        return is_one_of(value, variable.words) || wrong(variable, value);
      case ValueKind::kWords:
        return check_words(variable, value);
      case ValueKind::kInterfaces:
      case ValueKind::kDevices:
      case ValueKind::kText:
        return true;
    }
    return true;
  }

  bool check_integer(const Variable& variable, const std::string& value) {
    const std::optional<int64_t> number = whole_integer(value);
    if (!number) {
      add(variable.name, Outcome::kFailed,
          fmt::format("={} is read as {}: it takes an integer", value, settings_.integer(variable.name, 0)),
          takes(variable));
      return false;
    }
    return *number == kAutomatic || (*number >= variable.low && *number <= variable.high) || wrong(variable, value);
  }

  /// Since NCCL 2.24 also "function:list;function:list".
  bool check_words(const Variable& variable, const std::string& value) {
    for (std::string_view list : split(value, ';')) {
      const size_t colon = list.find(':');
      list = colon == std::string_view::npos ? list : list.substr(colon + 1);
      list.remove_prefix(list.starts_with('^') ? 1 : 0);
      for (const std::string_view word : split(list, ',')) {
        if (!is_one_of(word, variable.words)) {
          return wrong(variable, std::string(word));
        }
      }
    }
    return true;
  }

  bool wrong(const Variable& variable, const std::string& value) {
    add(variable.name, Outcome::kFailed, fmt::format("={} is not a value of it", value), takes(variable));
    return false;
  }

  static std::string takes(const Variable& variable) {
    if (!variable.words.empty()) {
      return fmt::format("use {}", fmt::join(split_fields(variable.words), ", "));
    }
    return variable.high > INT32_MAX ? fmt::format("use an integer of at least {}", variable.low)
                                     : fmt::format("use an integer from {} to {}", variable.low, variable.high);
  }

  void check_combinations() {
    const int64_t sockets =
        settings_.integer("NCCL_SOCKET_NTHREADS", 1) * settings_.integer("NCCL_NSOCKS_PERTHREAD", 1);
    if (sockets > kMostSockets) {
      add("NCCL_NSOCKS_PERTHREAD", Outcome::kFailed,
          fmt::format("times NCCL_SOCKET_NTHREADS is {}: NCCL allows {} sockets in a connection", sockets,
                      kMostSockets),
          "lower one of the two");
    }
    for (const auto& [low, high] :
         {std::pair{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}, std::pair{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}}) {
      if (settings_.is_set(low) && settings_.is_set(high) && settings_.integer(low, 0) > settings_.integer(high, 0)) {
        add(low, Outcome::kFailed, fmt::format("is above {}", high), "set the smaller one as the minimum");
      }
    }
    const int64_t buffer = settings_.integer("NCCL_BUFFSIZE", kDefaultBuffer);
    if (buffer > 0 && !std::has_single_bit(static_cast<uint64_t>(buffer))) {
      add("NCCL_BUFFSIZE", Outcome::kWarning, fmt::format("={} is no power of 2", buffer), "use one, such as 4194304");
    }
    if (settings_.integer("NCCL_IB_AR_THRESHOLD", 0) > buffer) {
      add("NCCL_IB_AR_THRESHOLD", Outcome::kWarning, "is above NCCL_BUFFSIZE: adaptive routing is never used",
          "lower it");
    }
    const std::string_view log = settings_.value("NCCL_DEBUG_FILE");
    if (!log.empty() && !log.starts_with("/dev/") && log.find("%p") == std::string_view::npos) {
      add("NCCL_DEBUG_FILE", Outcome::kWarning,
          fmt::format("={}: all ranks of a node write over one another's file", log), fmt::format("use {}.%h.%p", log));
    }
    if (same_word(settings_.value("NCCL_DEBUG"), "TRACE")) {
      add("NCCL_DEBUG", Outcome::kWarning, "=TRACE prints a line for each call", "use INFO or WARN in production");
    }
  }

  const Settings& settings_;
  HostReport& report_;
};

}  // namespace

void check_settings(const Settings& settings, HostReport& report) { Lint(settings, report).run(); }

}  // namespace stalltrace::preflight
