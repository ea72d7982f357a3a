// SPDX-License-Identifier: Apache-2.0
// Text for a terminal: fields with wrapped lines, optional colour, and names without control sequences.
#pragma once

#include <string>
#include <string_view>

#include "model/finding.h"

namespace stalltrace::report {

inline constexpr std::string_view kBold = "\x1b[1m";
inline constexpr std::string_view kGreen = "\x1b[32m";
std::string_view severity_colour(Severity severity);

/// "rank 2 on node2, pid 4711; link rank 1 (10.77.0.2:40112) -> rank 2 (10.77.0.3:50001)", "not known". `attempts`:
/// there are several job attempts; the text then names one.
std::string where_text(const Finding& finding, bool attempts);
/// "2.02 s of waiting in 55 collectives"
std::string waiting_text(const Finding& finding);

class Page {
 public:
  explicit Page(bool colour) : colour_(colour) {}

  [[nodiscard]] std::string paint(std::string_view text, std::string_view colour) const;
  void line(std::string_view text = {});
  /// "  label     text", with wrapped lines aligned to the text. The text is made printable (base/text.h), since it
  /// contains names.
  void field(std::string_view label, std::string_view text);
  std::string take() { return std::move(text_); }

 private:
  bool colour_;
  std::string text_;
};

}  // namespace stalltrace::report
