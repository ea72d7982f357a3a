// SPDX-License-Identifier: Apache-2.0
#include "cli/config.h"

#include <fmt/format.h>

#define TOML_EXCEPTIONS 0
// Not all that toml++ 3.3 asserts of its input is so: at "[=" a debug build would abort, and clang's code would be
// undefined. Without the assertion it says what is wrong with such a line.
#include <toml++/impl/preprocessor.h>
#undef TOML_ASSERT_ASSUME
#define TOML_ASSERT_ASSUME(expr) static_assert(true)
#include <toml++/toml.h>

#include "base/file.h"

namespace stalltrace::cli {
namespace {

std::unexpected<Error> bad(const std::string& path, uint32_t line, std::string_view what) {
  return fail(fmt::format("{} line {}: {}", path, line, what), "see docs/cli.md for what the file may hold",
              ErrorKind::kUsage);
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
    } else if (key == "libraries" || key == "trusted_owners") {
      const toml::array* list = value.as_array();
      if (!list || !list->is_homogeneous<std::string>()) {
        return bad(path, line,
                   key == "libraries" ? "'libraries' is a list of paths in quotes"
                                      : "'trusted_owners' is a list of users' numbers in quotes");
      }
      for (const toml::node& item : *list) {
        (key == "libraries" ? config.libraries : config.trusted_owners).push_back(*item.value<std::string>());
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
