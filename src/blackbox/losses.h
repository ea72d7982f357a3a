// SPDX-License-Identifier: Apache-2.0
// Counts what the profiler-file path lost, by source (docs/recording.md, table `loss`): events that the file's writer
// dropped, and those beyond a limit of the reader, the follower or the pairing. Every limit is counted here. One
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "blackbox/format/reader.h"
#include "model/events.h"
#include "model/events/loss_sources.h"

namespace stalltrace::blackbox {

inline constexpr const char* kLostOverwritten = "profiler:overwritten";
inline constexpr const char* kLostTorn = "profiler:torn";
inline constexpr const char* kLostUnread = "profiler:unread";
inline constexpr const char* kLostShortSteps = "profiler:short_steps";
inline constexpr const char* kLostFiles = "profiler:too_many_files";
inline constexpr const char* kLostPidsInUse = "profiler:pid_in_use";
inline constexpr const char* kLostFolders = "profiler:too_many_folders";
inline constexpr const char* kLostProcesses = "profiler:too_many_processes";
inline constexpr const char* kLostExits = "profiler:exit_unknown";
inline constexpr const char* kLostHeldCalls = "profiler:held_call";
inline constexpr const char* kLostApiCalls = "profiler:no_api_call";
inline constexpr const char* kLostOpenWaits = "profiler:open_wait";
inline constexpr const char* kLostDoubledSteps = "profiler:doubled_step";
inline constexpr const char* kLostUnpaired = "profiler:unpaired";
inline constexpr const char* kLostForgotten = "profiler:forgotten";
inline constexpr const char* kLostParts = "profiler:open_part";
inline constexpr const char* kLostCommunicators = "profiler:unknown_communicator";
inline constexpr const char* kLostForgottenCommunicators = "profiler:forgotten_communicator";
inline constexpr const char* kLostUnlinkedSteps = "profiler:unlinked_step";

/// Counts by source.
class LossCounts {
 public:
  void add(std::string_view source, uint64_t count = 1);
  void add(const LossCounts& other);
  /// Under that user's number.
  void add_of_user(const LossCounts& other, uint32_t user);
  /// Raises each count to that of `other`, and lowers none.
  void raise_to(const LossCounts& other);
  [[nodiscard]] uint64_t of(std::string_view source) const;
  /// One row for each source, in order of the sources.
  [[nodiscard]] std::vector<Loss> rows(NodeId node) const;

 private:
  std::map<std::string, uint64_t, std::less<>> counts_;
};

/// A file's losses so far: its writer's own counts, and the records that were overwritten or torn when they were read.
LossCounts file_losses(const ProfilerFileContents& contents);

}  // namespace stalltrace::blackbox
