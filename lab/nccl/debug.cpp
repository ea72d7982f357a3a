// SPDX-License-Identifier: Apache-2.0
#include "debug.h"

#include <cuda_runtime.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>

namespace lab::nccl {
namespace {

struct Name {
  const char* text;
  unsigned value;
};

constexpr std::array kLevels{
    Name{"VERSION", static_cast<unsigned>(Level::kVersion)}, Name{"WARN", static_cast<unsigned>(Level::kWarn)},
    Name{"INFO", static_cast<unsigned>(Level::kInfo)}, Name{"TRACE", static_cast<unsigned>(Level::kTrace)}};
constexpr std::array kSubsystems{Name{"INIT", kInit},   Name{"COLL", kColl}, Name{"P2P", kP2p},
                                 Name{"SHM", kShm},     Name{"NET", kNet},   Name{"ENV", kEnv},
                                 Name{"PROXY", kProxy}, Name{"ALL", kAll},   Name{"BOOTSTRAP", kBootstrap}};

template <size_t count>
unsigned find_name(const std::array<Name, count>& names, std::string_view text) {
  for (const Name& name : names) {
    if (text.size() == std::strlen(name.text) && strncasecmp(text.data(), name.text, text.size()) == 0) {
      return name.value;
    }
  }
  return 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  const std::string_view text(name.data());
  return std::string(text.substr(0, text.find('.')));
}

unsigned subsystem_mask() {
  const char* text = std::getenv("NCCL_DEBUG_SUBSYS");
  if (text == nullptr) {
    return kInit | kBootstrap | kEnv;
  }
  std::string_view rest(text);
  const bool inverted = rest.starts_with('^');
  rest.remove_prefix(inverted ? 1 : 0);
  unsigned mask = 0;
  while (!rest.empty()) {
    const size_t end = rest.find(',');
    mask |= find_name(kSubsystems, rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  }
  return inverted ? ~mask : mask;
}

/// NCCL_DEBUG_FILE with %h and %p filled in; null when it is unset or cannot be opened.
FILE* open_file(const std::string& host) {
  const char* pattern = std::getenv("NCCL_DEBUG_FILE");
  if (pattern == nullptr) {
    return nullptr;
  }
  std::string path;
  for (const char* at = pattern; *at != '\0'; ++at) {
    if (*at == '%' && at[1] == 'h') {
      path += host;
      ++at;
    } else if (*at == '%' && at[1] == 'p') {
      path += std::to_string(getpid());
      ++at;
    } else {
      path += *at;
    }
  }
  return std::fopen(path.c_str(), "ae");
}

/// The settings from the environment, and the last warning. Never destroyed: threads may log while the process ends.
class Log {
 public:
  static Log& instance() {
    static auto* log = new Log;
    return *log;
  }

  [[nodiscard]] bool wants(Level level, unsigned subsystems) const {
    return level_ >= level && (level < Level::kInfo || (mask_ & subsystems) != 0);
  }

  void write(const std::string& line) {
    const std::lock_guard lock(mutex_);
    std::fwrite(line.data(), 1, line.size(), file_);
    std::fflush(file_);
  }

  /// "host:pid:tid [device]"
  [[nodiscard]] std::string prefix() const {
    int device = 0;
    cudaGetDevice(&device);
    return host_ + ":" + std::to_string(getpid()) + ":" + std::to_string(syscall(SYS_gettid)) + " [" +
           std::to_string(device) + "] ";
  }

  void remember(const std::string& message) {
    const std::lock_guard lock(mutex_);
    last_warning_ = message;
  }

  std::string last_warning() {
    const std::lock_guard lock(mutex_);
    return last_warning_;
  }

 private:
  Log() {
    if (const char* text = std::getenv("NCCL_DEBUG"); text != nullptr) {
      level_ = static_cast<Level>(find_name(kLevels, text));
    }
    if (FILE* opened = open_file(host_); opened != nullptr) {
      file_ = opened;
    }
  }

  std::string host_ = host_name();
  Level level_ = Level::kNone;
  unsigned mask_ = subsystem_mask();
  FILE* file_ = stdout;
  std::mutex mutex_;
  std::string last_warning_;
};

std::string format_text(const char* format, va_list arguments) {
  std::array<char, 1024> text{};
  std::vsnprintf(text.data(), text.size(), format, arguments);
  return text.data();
}

void write_warning(const char* file, int line, unsigned subsystems, const std::string& message) {
  Log& log = Log::instance();
  log.remember(message);
  if (log.wants(Level::kWarn, subsystems)) {
    const char* name = std::strrchr(file, '/');
    log.write("\n" + log.prefix() + (name == nullptr ? file : name + 1) + ":" + std::to_string(line) + " NCCL WARN " +
              message + "\n");
  }
}

void write_info(unsigned subsystems, const char* format, va_list arguments) {
  if (Log& log = Log::instance(); log.wants(Level::kInfo, subsystems)) {
    log.write(log.prefix() + "NCCL INFO " + format_text(format, arguments) + "\n");
  }
}

}  // namespace

void warn(const char* file, int line, unsigned subsystems, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_warning(file, line, subsystems, format_text(format, arguments));
  va_end(arguments);
}

void info(unsigned subsystems, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_info(subsystems, format, arguments);
  va_end(arguments);
}

void log_for_plugin(int level, unsigned long subsystems, const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  if (level == static_cast<int>(Level::kWarn)) {
    write_warning(file, line, static_cast<unsigned>(subsystems), format_text(format, arguments));
  } else if (level == static_cast<int>(Level::kInfo)) {
    write_info(static_cast<unsigned>(subsystems), format, arguments);
  }
  va_end(arguments);
}

void log_version(const char* format, ...) {
  Log& log = Log::instance();
  if (!log.wants(Level::kVersion, kAll)) {
    return;
  }
  va_list arguments;
  va_start(arguments, format);
  log.write(format_text(format, arguments) + "\n");
  va_end(arguments);
}

std::string last_warning() { return Log::instance().last_warning(); }

}  // namespace lab::nccl
