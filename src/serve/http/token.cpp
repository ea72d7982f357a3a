// SPDX-License-Identifier: Apache-2.0
#include "serve/http/token.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "base/file.h"
#include "base/text.h"

namespace stalltrace::serve {
namespace {

constexpr size_t kShortest = 16;
constexpr size_t kLongest = 1024;
constexpr const char* kMakeOne = "make one: (umask 077; openssl rand -hex 32 > token)";

Result<std::string> checked(std::string_view text, std::string_view where) {
  const std::string_view token = trim(text.substr(0, text.find('\n')));
  if (token.size() < kShortest || token.size() > kLongest) {
    return fail(fmt::format("{}: a token has {} to {} characters", where, kShortest, kLongest), kMakeOne);
  }
  if (!std::ranges::all_of(token, [](char c) { return c > ' ' && c < 0x7f; })) {
    return fail(fmt::format("{}: a token has letters, digits and signs, without spaces", where), kMakeOne);
  }
  return std::string(token);
}

}  // namespace

Result<std::string> load_token(const std::string& path) {
  if (path.empty()) {
    const char* variable = std::getenv("STALLTRACE_TOKEN");
    return variable == nullptr || *variable == '\0' ? Result<std::string>("") : checked(variable, "STALLTRACE_TOKEN");
  }
  ST_ASSIGN(const UniqueFd file, open_regular(path));
  struct stat status {};
  if (::fstat(file.get(), &status) != 0 || (status.st_mode & 077) != 0) {
    return fail(path + ": others may read this token", fmt::format("chmod 600 {}", path));
  }
  ST_ASSIGN(const std::string text, read_file(path, 64 << 10));
  return checked(text, path);
}

}  // namespace stalltrace::serve
