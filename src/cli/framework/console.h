// SPDX-License-Identifier: Apache-2.0
// The output of a subcommand: data goes to standard output, everything else to standard error. Decides once about
// colour and progress. If the reader has closed the pipe (`| head`), that is no error: further output is silently
// dropped. Not thread-safe; borrows the streams.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/result.h"

namespace stalltrace::cli {

class Console {
 public:
  /// Colour requires a terminal, no NO_COLOR in the environment (no-color.org) and a TERM other than "dumb".
  Console(std::FILE* out, std::FILE* err);

  /// Data, unchanged: the code that formats it makes names printable (base/text.h).
  void out(std::string_view text);
  /// One line for people; the newline is added. Notes, live lines and errors contain names of untrusted files and
  /// processes, which are made printable here.
  void note(std::string_view line);
  /// Formatted text for people, with its line ends, unchanged: the code that formats it makes names printable.
  void page(std::string_view text);
  /// Replaces the last live line on the terminal; an empty line removes it. Only if shows_progress().
  void live(std::string_view line);
  /// "stalltrace: WHAT; REMEDY" on one line.
  void error(const Error& error);

  /// Flushes the output. Fails if it could not be written (a full disk), but not if the reader has closed the pipe.
  Status finish();

  [[nodiscard]] bool colour_out() const { return colour_out_; }
  [[nodiscard]] bool colour_err() const { return colour_err_; }
  /// True if standard error is a terminal, which progress and live lines require.
  [[nodiscard]] bool shows_progress() const { return terminal_err_; }
  /// True if standard output is a terminal.
  [[nodiscard]] bool shows_out() const { return terminal_out_; }
  /// True once the reader of the output has closed it: further output is not read.
  [[nodiscard]] bool reader_gone() const { return write_error_ != 0; }

 private:
  std::FILE* out_;
  std::FILE* err_;
  bool colour_out_;
  bool colour_err_;
  bool terminal_out_;
  bool terminal_err_;
  int write_error_ = 0;
  bool live_ = false;  // the terminal shows a live line
};

}  // namespace stalltrace::cli
