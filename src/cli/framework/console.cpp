// SPDX-License-Identifier: Apache-2.0
#include "cli/framework/console.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/text.h"

namespace stalltrace::cli {
namespace {

bool environment_allows_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return (no_color == nullptr || *no_color == '\0') && term != nullptr && std::string_view(term) != "dumb";
}

bool is_terminal(std::FILE* stream) {
  const int fd = fileno(stream);
  return fd >= 0 && isatty(fd) == 1;
}

}  // namespace

Console::Console(std::FILE* out, std::FILE* err)
    : out_(out),
      err_(err),
      colour_out_(is_terminal(out) && environment_allows_colour()),
      colour_err_(is_terminal(err) && environment_allows_colour()),
      terminal_out_(is_terminal(out)),
      terminal_err_(is_terminal(err)) {}

void Console::out(std::string_view text) {
  if (write_error_ == 0 && std::fwrite(text.data(), 1, text.size(), out_) != text.size()) {
    write_error_ = errno;
  }
}

void Console::note(std::string_view line) {
  live("");
  const std::string text = printable(line) + "\n";
  std::fwrite(text.data(), 1, text.size(), err_);
  std::fflush(err_);
}

void Console::page(std::string_view text) {
  live("");
  std::fwrite(text.data(), 1, text.size(), err_);
  std::fflush(err_);
}

void Console::live(std::string_view line) {
  if (line.empty() && !live_) {
    return;
  }
  const std::string text = "\r\033[K" + printable(line);  // to column 1, clear to the end
  std::fwrite(text.data(), 1, text.size(), err_);
  std::fflush(err_);
  live_ = !line.empty();
}

void Console::error(const Error& error) {
  std::string line = "stalltrace: " + error.what;
  if (!error.remedy.empty()) {
    line += "; " + error.remedy;
  }
  std::ranges::replace(line, '\n', ' ');
  note(line);
}

Status Console::finish() {
  if (write_error_ == 0 && std::fflush(out_) != 0) {
    write_error_ = errno;
  }
  if (write_error_ == 0 || write_error_ == EPIPE) {
    return {};
  }
  return fail_errno("cannot write the output", write_error_, "make room or write elsewhere");
}

}  // namespace stalltrace::cli
