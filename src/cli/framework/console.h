// SPDX-License-Identifier: Apache-2.0
// Where a subcommand prints: data to the output, everything else to the error stream. Decides on colour and progress
// once. A reader that has gone away (`| head`) is no error: what follows is dropped silently.
// Not thread-safe; borrows the streams.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/result.h"

namespace stalltrace::cli {

class Console {
 public:
  /// Colour needs a terminal, no NO_COLOR in the environment (no-color.org) and a TERM other than "dumb".
  Console(std::FILE* out, std::FILE* err);

  /// Data, as given: who lays it out makes names printable (base/text.h).
  void out(std::string_view text);
  /// One line for people; the newline is added. Notes, live lines and errors hold names of anybody's files and
  /// processes: they are made printable here.
  void note(std::string_view line);
  /// Text for people that is laid out already, with its line ends, as given: who lays it out makes names printable.
  void page(std::string_view text);
  /// Replaces the last live line on the terminal; empty takes it away. Only where shows_progress().
  void live(std::string_view line);
  /// "stalltrace: WHAT; REMEDY" on one line.
  void error(const Error& error);

  /// Hands everything to the reader. Fails when it could not be written (a full disk), not when the reader left.
  Status finish();

  [[nodiscard]] bool colour_out() const { return colour_out_; }
  [[nodiscard]] bool colour_err() const { return colour_err_; }
  /// Progress and live lines are for a terminal on the error stream only.
  [[nodiscard]] bool shows_progress() const { return terminal_err_; }
  /// The output is a terminal.
  [[nodiscard]] bool shows_out() const { return terminal_out_; }
  /// True once the reader of the output has gone: nobody will see what is printed from now on.
  [[nodiscard]] bool reader_gone() const { return write_error_ != 0; }

 private:
  std::FILE* out_;
  std::FILE* err_;
  bool colour_out_;
  bool colour_err_;
  bool terminal_out_;
  bool terminal_err_;
  int write_error_ = 0;
  bool live_ = false;  // a live line is on the terminal
};

}  // namespace stalltrace::cli
