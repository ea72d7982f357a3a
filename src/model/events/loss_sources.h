// SPDX-License-Identifier: Apache-2.0
// Names of losses that more than one room knows (docs/recording.md, table `loss`): those that one user caused, and
// those by which calls are missing.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace stalltrace {

/// Of processes that were not looked at before they ended.
inline constexpr uint32_t kUnknownUser = 0xfffffffe;
/// As the kernel side's ST_OTHER_USERS: those that no table has room for.
inline constexpr uint32_t kOtherUsers = 0xffffffff;

/// "SOURCE:1000", "SOURCE:unknown", "SOURCE:other".
std::string users_loss(std::string_view source, uint32_t user);

inline constexpr const char* kLostRingCollectives = "ring:collective";
inline constexpr const char* kLostCollectiveShare = "share:collective";
inline constexpr const char* kLostSequenceShare = "share:sequence";
inline constexpr const char* kLostProcessShare = "share:process";
inline constexpr const char* kLostCommunicatorShare = "share:communicator";
inline constexpr const char* kLostCallShare = "share:call";
inline constexpr const char* kLostPeerShare = "share:peer";
inline constexpr const char* kLostSequenceState = "state:sequence";
/// Processes: descendants of those that were to be traced.
inline constexpr const char* kLostScopeState = "state:scope";
/// Reports of mappings: the process is examined as a whole instead.
inline constexpr const char* kLostMappingShare = "share:mapping";
/// Rows of competitors: findings have their names alone.
inline constexpr const char* kLostCompetitorShare = "share:competitor";
inline constexpr const char* kLostToFullDisk = "store:disk_full";
/// Before the name of a table.
inline constexpr const char* kPrunedFrom = "pruned:";
/// Before the reason for which a library was left out.
inline constexpr const char* kLibraryLeftOut = "library:";

/// True if calls, or the processes that make them, may be missing from a recording with a loss of this source, any
/// user's included.
bool may_lose_calls(std::string_view source);
/// True if records of Sends or Recvs may be missing, of which each has a number by those before it.
bool may_lose_transfers(std::string_view source);
/// False if nothing is missing from the evidence: such a loss does not count as lost events.
bool loses_events(std::string_view source);
/// True if processes may be missing because none of their libraries was probed.
bool may_lose_processes(std::string_view source);

}  // namespace stalltrace
