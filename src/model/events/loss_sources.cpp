// SPDX-License-Identifier: Apache-2.0
#include "model/events/loss_sources.h"

#include <algorithm>

namespace stalltrace {
namespace {

/// Complete names, to which a user's number may be added.
constexpr std::array<std::string_view, 7> kOfCalls{kLostRingCollectives, kLostCollectiveShare, kLostSequenceShare,
                                                   kLostProcessShare,    kLostScopeState,      kLostCommunicatorShare,
                                                   kLostToFullDisk};

bool is_of(std::string_view source, std::string_view name) {
  return source.starts_with(name) && (source.size() == name.size() || source[name.size()] == ':');
}

}  // namespace

std::string users_loss(std::string_view source, uint32_t user) {
  return std::string(source) + ":" +
         (user == kOtherUsers    ? "other"
          : user == kUnknownUser ? "unknown"
                                 : std::to_string(user));
}

bool may_lose_calls(std::string_view source) {
  return source.starts_with(kPrunedFrom) ||
         std::ranges::any_of(kOfCalls, [&](std::string_view name) { return is_of(source, name); });
}

bool may_lose_transfers(std::string_view source) {
  constexpr std::array kOthers{kLostPeerShare, kLostCallShare, kLostSequenceState};
  return may_lose_calls(source) || std::ranges::any_of(kOthers, [&](const char* name) { return is_of(source, name); });
}

bool loses_events(std::string_view source) {
  return !is_of(source, kLostMappingShare) && !is_of(source, kLostCompetitorShare);
}

bool may_lose_processes(std::string_view source) { return source.starts_with(kLibraryLeftOut); }

}  // namespace stalltrace
