// SPDX-License-Identifier: Apache-2.0
#include "preflight/nccl/settings.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"

namespace stalltrace::preflight {

Settings Settings::read(const Environment& environment, const HostFiles& files) {
  Settings settings;
  settings.files_ = files;
  for (const auto& [name, value] : environment) {
    settings.add(name, value, "environment");
  }
  if (const std::string_view chosen = value_of(environment, "NCCL_CONF_FILE"); !chosen.empty()) {
    settings.add_file(files.of_process(std::string(chosen)), true);
  } else if (const std::string_view home = value_of(environment, "HOME"); !home.empty()) {
    settings.add_file(files.of_process(std::string(home) + "/.nccl.conf"), false);
  }
  settings.add_file(files.etc + "/nccl.conf", false);
  std::ranges::sort(settings.all_, {}, &Setting::name);
  return settings;
}

void Settings::add_file(const std::string& path, bool must_exist) {
  const Result<std::string> content = read_plain_file(path, 1U << 20);
  if (!content) {
    missing_file_ = must_exist ? path : missing_file_;
    return;
  }
  for (std::string_view line : split(*content, '\n')) {
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    const size_t equals = line.find('=');
    if (!line.starts_with('#') && equals != std::string_view::npos) {
      add(line.substr(0, equals), line.substr(equals + 1), path);
    }
  }
}

void Settings::add(std::string_view name, std::string_view value, std::string_view origin) {
  const bool wanted = trim(name).starts_with("NCCL_") || name.starts_with("TORCH_NCCL_");
  if (wanted && !is_set(name)) {
    all_.push_back({std::string(name), std::string(value), std::string(origin)});
  }
}

bool Settings::has_file(const std::string& path) const {
  return read_plain_file(files_.of_process(path), 16U << 20).has_value();
}

bool Settings::is_set(std::string_view name) const {
  return std::ranges::find(all_, name, &Setting::name) != all_.end();
}

std::string_view Settings::value(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &Setting::name);
  return found == all_.end() ? std::string_view() : std::string_view(found->value);
}

int64_t Settings::integer(std::string_view name, int64_t otherwise) const {
  const std::string text(value(name));
  return text.empty() ? otherwise : std::strtoll(text.c_str(), nullptr, 0);
}

}  // namespace stalltrace::preflight
