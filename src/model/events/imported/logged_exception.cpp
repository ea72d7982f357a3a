// SPDX-License-Identifier: Apache-2.0
#include "model/events/imported/logged_exception.h"

#include <algorithm>
#include <array>

namespace stalltrace {

bool is_failed_communication(std::string_view exception) {
  constexpr std::array<std::string_view, 8> kTypes{
      "DistBackendError", "DistNetworkError",  "DistStoreError",         "ChildFailedError",
      "SignalException",  "KeyboardInterrupt", "ProcessExitedException", "ProcessRaisedException"};
  constexpr std::array<std::string_view, 4> kMessages{"NCCL communicator was aborted on rank",
                                                      "Watchdog caught collective operation timeout", "NCCL error",
                                                      "NCCL Error"};
  // A rank's own files, pipes and downloads fail with these words as well.
  constexpr std::array<std::string_view, 4> kSocketMessages{"Connection closed by peer", "Connection reset by peer",
                                                            "Socket Timeout", "Broken pipe"};
  constexpr std::array<std::string_view, 4> kOfRanks{"gloo/", "c10d", "TCPStore", "ProcessGroup"};
  const auto has_one_of = [&](const auto& phrases) {
    return std::ranges::any_of(phrases,
                               [&](std::string_view one) { return exception.find(one) != std::string_view::npos; });
  };
  const std::string_view type = exception.substr(0, exception.find(':'));
  const std::string_view name = type.substr(type.rfind('.') == std::string_view::npos ? 0 : type.rfind('.') + 1);
  return std::ranges::find(kTypes, name) != kTypes.end() || has_one_of(kMessages) ||
         (has_one_of(kSocketMessages) && has_one_of(kOfRanks));
}

}  // namespace stalltrace
