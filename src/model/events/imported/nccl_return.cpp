// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/nccl_return.h"

#include <array>

#include "base/text.h"

namespace stalltrace {
namespace {

constexpr std::array<std::string_view, 7> kErrorTexts{
    "success",          "unhandled CUDA error", "system error",        "internal error",
    "invalid argument", "invalid usage",        "remote process error"};

}  // namespace

std::optional<int32_t> nccl_return_in(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view file = text.substr(0, colon);
  if (colon == std::string_view::npos || file.contains(' ') ||
      !(file.ends_with(".cc") || file.ends_with(".cu") || file.ends_with(".h") || file.ends_with(".c"))) {
    return std::nullopt;
  }
  const size_t end = text.find_first_not_of("0123456789", colon + 1);
  constexpr std::string_view kArrow = " -> ";
  if (end == std::string_view::npos || end == colon + 1 || !text.substr(end).starts_with(kArrow)) {
    return std::nullopt;
  }
  const std::string_view number = text.substr(end + kArrow.size());
  const bool one_digit = !number.empty() && is_digit(number[0]) && (number.size() == 1 || number[1] == ' ');
  const int32_t error = one_digit ? number[0] - '0' : 0;
  return error > 0 && error < static_cast<int32_t>(kErrorTexts.size()) ? std::optional(error) : std::nullopt;
}

std::string_view nccl_error_text(int32_t error) {
  return error >= 0 && error < static_cast<int32_t>(kErrorTexts.size()) ? kErrorTexts[static_cast<size_t>(error)]
                                                                        : "an error that this version does not know";
}

}  // namespace stalltrace
