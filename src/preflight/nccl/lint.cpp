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
/// A name with fewer letters is similar to another one by chance.
constexpr size_t kLongName = 13;

/// PyTorch's own variables had NCCL's prefix before PyTorch 2.2.
constexpr std::array<std::string_view, 4> kPyTorch{"NCCL_ASYNC_ERROR_HANDLING", "NCCL_BLOCKING_WAIT",
                                                   "NCCL_DESYNC_DEBUG", "NCCL_ENABLE_TIMING"};
/// May be different on each host, or name a file of it.
constexpr std::array<std::string_view, 6> kOfTheHost{"NCCL_HOSTID",          "NCCL_TOPO_FILE",  "NCCL_TOPO_DUMP_FILE",
                                                     "NCCL_GRAPH_DUMP_FILE", "NCCL_DEBUG_FILE", "NCCL_RAS_ADDR"};
/// Of images, environment modules and builds: NCCL does not read them.
constexpr std::array<std::string_view, 13> kOfPackages{
    "NCCL_VERSION",      "NCCL_VER",       "NCCL_HOME", "NCCL_ROOT",    "NCCL_DIR",  "NCCL_PATH",   "NCCL_INCLUDE_DIR",
    "NCCL_INCLUDE_DIRS", "NCCL_LIBRARIES", "NCCL_LIB",  "NCCL_LIB_DIR", "NCCL_HOST", "NCCL_LIBRARY"};
/// Prefixes of what plugins by NVIDIA and cloud providers read.
constexpr std::array<std::string_view, 6> kOfPlugins{"NCCL_INSPECTOR_", "NCCL_PROFILE_", "NCCL_TUNER_",
                                                     "NCCL_FASTRAK_",   "NCCL_IBEXT_",   "NCCL_GPUVIZ_"};
/// Functions in NCCL_ALGO and NCCL_PROTO (ncclFuncStr).
constexpr std::string_view kFunctions = "Broadcast Reduce AllGather ReduceScatter AllReduce AllGatherV";

bool same_word(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool is_one_of(std::string_view value, std::string_view words, bool exact_case = false) {
  return std::ranges::any_of(
      split_fields(words), [&](std::string_view word) { return exact_case ? value == word : same_word(value, word); });
}

bool has_prefix_of(std::string_view name, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_log(const Variable& variable) { return variable.name.starts_with("NCCL_DEBUG"); }

/// These force or forbid a way of the data. Other variables of the guide's section "Debugging" are tuned by vendors,
/// too.
bool chooses_a_way(std::string_view name) {
  return name.ends_with("_DISABLE") || name.ends_with("_LEVEL") || name == "NCCL_ALGO" || name == "NCCL_PROTO";
}

/// The whole text as an integer, as strtoll reads it.
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
    const size_t before = report_.checks.size();
    check_files();
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
    if (!tuned_.empty()) {
      add("", Outcome::kOk, fmt::format("NCCL's guide has these for debugging: {}", fmt::join(tuned_, ", ")));
    }
  }

 private:
  void add(std::string_view subject, Outcome outcome, std::string detail, std::string remedy = {}) {
    report_.add(std::string(kCheck), std::string(subject), outcome, std::move(detail), std::move(remedy));
  }

  void check_files() {
    if (!settings_.missing_file().empty()) {
      add("NCCL_CONF_FILE", Outcome::kFailed,
          fmt::format("{} can't be read: none of its settings is used", settings_.missing_file()),
          "name a file that the job's user may read on each node");
    }
    const std::string topology(settings_.value("NCCL_TOPO_FILE"));
    if (!topology.empty() && !settings_.has_file(topology)) {
      add("NCCL_TOPO_FILE", Outcome::kWarning, fmt::format("={} can't be read: NCCL goes on without it", topology),
          "mount it into the container, or remove the setting");
    }
  }

  void check(const Setting& setting) {
    const std::string_view name = setting.name;
    if (std::ranges::find(kOfPackages, name) != kOfPackages.end()) {
      return;
    }
    if (std::ranges::find(kOfTheHost, name) == kOfTheHost.end()) {
      report_.facts[fmt::format("setting {}", name)] = setting.value;
    }
    if (name.starts_with("TORCH_NCCL_")) {
      return;
    }
    const Variable* variable = find_variable(name);
    if (variable == nullptr) {
      check_unknown(setting);
    } else if (!variable->obsolete.empty()) {
      add(name, Outcome::kWarning, fmt::format("={} may do nothing: {}", setting.value, variable->obsolete),
          "remove it");
    } else if (check_value(setting, *variable) && variable->workaround && setting.value != "0") {
      note_workaround(setting);
    }
  }

  void note_workaround(const Setting& setting) {
    if (chooses_a_way(setting.name)) {
      add(setting.name, Outcome::kWarning,
          fmt::format("={} is a workaround in NCCL's guide (section Debugging), set by {}", setting.value,
                      setting.origin),
          "remove it unless you know why it is there: it can cost speed, or hang");
    } else {
      tuned_.push_back(fmt::format("{}={}", setting.name, setting.value));
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
    } else if (!is_undocumented(name) && !has_prefix_of(name, kOfPlugins)) {
      const std::vector<std::string_view> known = all_variable_names();
      const auto meant = name.size() >= kLongName ? similar_name(name, known) : std::nullopt;
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
    const bool quoted = value.starts_with('"') || value.starts_with('\'');
    if (quoted || trim(value) != value) {
      const bool harmless = !quoted && (variable.kind == ValueKind::kInteger || is_log(variable));
      add(variable.name, harmless ? Outcome::kWarning : Outcome::kFailed,
          fmt::format("its value has {} around it: [{}]", quoted ? "quotes" : "blanks", value),
          harmless ? "remove them" : "remove them: NCCL takes them as part of the value");
      return false;
    }
    switch (variable.kind) {
      case ValueKind::kInteger:
        return check_integer(variable, value);
      case ValueKind::kLevel:
        return is_one_of(value, variable.words, variable.exact_case) || check_integer(variable, value);
      case ValueKind::kWord:
        return is_one_of(value, variable.words, variable.exact_case) || wrong(variable, value);
      case ValueKind::kWords:
        return check_words(variable, value);
      case ValueKind::kInterfaces:
      case ValueKind::kDevices:
        return check_list(variable, value);
      case ValueKind::kText:
        return true;
    }
    return true;
  }

  bool check_integer(const Variable& variable, const std::string& value) {
    const std::optional<int64_t> number = whole_integer(value);
    if (!number) {
      const bool too_large = errno == ERANGE;
      add(variable.name, Outcome::kFailed,
          fmt::format("={} is no integer: NCCL takes {}", value,
                      too_large ? "its default" : std::to_string(settings_.integer(variable.name, 0))),
          takes(variable));
      return false;
    }
    return *number == kAutomatic || (*number >= variable.low && *number <= variable.high) || wrong(variable, value);
  }

  /// Since NCCL 2.24 also "function:list;function:list", with a function before each list but the first.
  bool check_words(const Variable& variable, const std::string& value) {
    const bool by_function = !is_log(variable);
    bool first = true;
    for (std::string_view list : split(value, ';')) {
      const size_t colon = by_function ? list.find(':') : std::string_view::npos;
      if (colon == std::string_view::npos ? !first : !is_one_of(list.substr(0, colon), kFunctions)) {
        add(variable.name, Outcome::kFailed, fmt::format("={}: [{}] does not begin with a function", value, list),
            fmt::format("write FUNCTION:LIST with one of {}", fmt::join(split_fields(kFunctions), ", ")));
        return false;
      }
      first = false;
      list = colon == std::string_view::npos ? list : list.substr(colon + 1);
      list.remove_prefix(list.starts_with('^') ? 1 : 0);
      for (const std::string_view word : split(list, ',')) {
        if (!word.empty() && !is_one_of(is_log(variable) ? trim(word) : word, variable.words)) {
          return wrong(variable, std::string(word));
        }
      }
    }
    return true;
  }

  /// "^" and "=" stand once, before the whole list; blanks are part of a name.
  bool check_list(const Variable& variable, const std::string& value) {
    std::string_view names = value;
    names.remove_prefix(names.starts_with('^') ? 1 : 0);
    names.remove_prefix(names.starts_with('=') ? 1 : 0);
    if (names.find_first_not_of(',') == std::string_view::npos) {
      const bool devices = variable.kind == ValueKind::kDevices;
      add(variable.name, Outcome::kWarning,
          fmt::format("={}: it names nothing: NCCL {}", value,
                      !devices && value.size() == 1 ? "takes it as not set"
                      : value.starts_with('^')      ? "excludes all"
                                                    : "selects all"),
          "write the names, or remove the setting");
      return false;
    }
    if (names.find_first_of(" \t^=") == std::string_view::npos) {
      return true;
    }
    add(variable.name, Outcome::kFailed,
        fmt::format("={}: inside the list, NCCL takes blanks, ^ and = as parts of names", value),
        "write ^ or = once, before the first name, and no blanks: ^=eth0,eth1");
    return false;
  }

  bool wrong(const Variable& variable, const std::string& value) {
    add(variable.name, is_log(variable) ? Outcome::kWarning : Outcome::kFailed,
        fmt::format("={} is not a value of it", value), takes(variable));
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
      add("NCCL_NSOCKS_PERTHREAD", Outcome::kWarning,
          fmt::format("times NCCL_SOCKET_NTHREADS is {}: NCCL takes at most {} sockets for a connection", sockets,
                      kMostSockets),
          "lower one of the two");
    }
    for (const auto& [low, high] :
         {std::pair{"NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}, std::pair{"NCCL_MIN_CTAS", "NCCL_MAX_CTAS"}}) {
      if (settings_.is_set(low) && settings_.is_set(high) && settings_.integer(low, 0) > settings_.integer(high, 0)) {
        add(low, Outcome::kFailed, fmt::format("is above {}", high), "set the smaller one as the minimum");
      }
    }
    if (whole_integer(std::string(settings_.value("NCCL_IB_TIMEOUT"))) == 0) {
      add("NCCL_IB_TIMEOUT", Outcome::kWarning, "=0 waits forever for a peer that is gone",
          "use 20, the default, or up to 31");
    }
    const int64_t buffer = settings_.integer("NCCL_BUFFSIZE", kDefaultBuffer);
    if (buffer > 0 && !std::has_single_bit(static_cast<uint64_t>(buffer))) {
      add("NCCL_BUFFSIZE", Outcome::kWarning, fmt::format("={} is no power of 2", buffer), "use one, such as 4194304");
    }
    if (settings_.integer("NCCL_IB_AR_THRESHOLD", 0) > buffer) {
      add("NCCL_IB_AR_THRESHOLD", Outcome::kWarning, "is above NCCL_BUFFSIZE: adaptive routing is never used",
          "lower it");
    }
    check_log();
  }

  void check_log() {
    const std::string_view log = settings_.value("NCCL_DEBUG_FILE");
    if (!log.empty() && !log.starts_with("/dev/") && log.find("%p") == std::string_view::npos) {
      const bool of_a_host = log.find("%h") != std::string_view::npos;
      add("NCCL_DEBUG_FILE", Outcome::kWarning,
          fmt::format("={}: all ranks of a node write over one another's file", log),
          fmt::format("use {}{}.%p", log, of_a_host ? "" : ".%h"));
    }
    if (same_word(settings_.value("NCCL_DEBUG"), "TRACE")) {
      add("NCCL_DEBUG", Outcome::kWarning, "=TRACE prints a line for each call", "use INFO or WARN in production");
    }
  }

  const Settings& settings_;
  HostReport& report_;
  std::vector<std::string> tuned_;
};

}  // namespace

void check_settings(const Settings& settings, HostReport& report) { Lint(settings, report).run(); }

}  // namespace stalltrace::preflight
