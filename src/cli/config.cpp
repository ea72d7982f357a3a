// SPDX-License-Identifier: Apache-2.0
#include "cli/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "base/file.h"

namespace stalltrace::cli {
namespace {

std::unexpected<Error> bad(const std::string& path, uint32_t line, std::string_view what) {
  return fail(fmt::format("{} line {}: {}", path, line, what), "see docs/cli.md for what the file may hold",
              ErrorKind::kUsage);
}

/// A setting that is a list of texts.
struct TextList {
  std::string_view name;
  std::string_view items;  // what they are, for an error
  std::vector<std::string> Config::*member;
};

constexpr std::array<TextList, 3> kTextLists{{{"libraries", "paths", &Config::libraries},
                                              {"nodes", "nodes", &Config::nodes},
                                              {"trusted_owners", "users' numbers", &Config::trusted_owners}}};

const TextList* list_named(std::string_view name) {
  const auto* const found = std::ranges::find(kTextLists, name, &TextList::name);
  return found == kTextLists.end() ? nullptr : found;
}

}  // namespace

Result<Config> parse_config(std::string_view text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return bad(path, parsed.error().source().begin.line, parsed.error().description());
  }
  Config config;
  for (const auto& [key, value] : parsed.table()) {
    const uint32_t line = key.source().begin.line;
    if (key == "node") {
      const auto name = value.value<std::string>();
      if (!name || name->empty()) {
        return bad(path, line, "'node' is a name in quotes");
      }
      config.node = *name;
    } else if (const TextList* const list = list_named(key.str()); list != nullptr) {
      const toml::array* items = value.as_array();
      if (!items || !items->is_homogeneous<std::string>()) {
        return bad(path, line, fmt::format("'{}' is a list of {} in quotes", list->name, list->items));
      }
      for (const toml::node& item : *items) {
        (config.*list->member).push_back(*item.value<std::string>());
      }
    } else {
      return bad(path, line, fmt::format("'{}' is not a setting", key.str()));
    }
  }
  return config;
}

Result<Config> load_config(const std::string& path) {
  const std::string file = path.empty() ? kConfigPath : path;
  auto text = read_file(file, 1U << 20);
  if (!text) {
    if (path.empty() && text.error().kind == ErrorKind::kNotFound) {
      return Config{};
    }
    text.error().remedy = "give the configuration of this node, or leave --config out";
    return std::unexpected(std::move(text.error()));
  }
  return parse_config(*text, file);
}

}  // namespace stalltrace::cli
