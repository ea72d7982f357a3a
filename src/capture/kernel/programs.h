// SPDX-License-Identifier: Apache-2.0
// The BPF programs by the evidence that they give. Evidence can come from one of several sets of programs; the first
// set that this kernel takes is used. A new program is a row here.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capture/kernel/kernel_features.h"
#include "model/evidence_kind.h"

namespace stalltrace::capture {

/// One way to get a kind of evidence.
struct ProgramSet {
  std::vector<const char*> programs;  // names in the BPF object; none: the kernel does it by itself
  /// Why this kernel can't have it; empty where it can.
  std::function<std::string(const KernelTypes&, const KernelFeatures&)> lacks;
  std::string_view how;  // to people; only of sets behind the first
};

struct EvidenceRow {
  EvidenceKind kind;
  std::vector<ProgramSet> sets;
};

std::span<const EvidenceRow> evidence_rows();

/// Programs that the kernel refused, and what it said.
using Refusals = std::map<std::string, std::string, std::less<>>;

enum class EvidenceState { kFull, kFallback, kMissing };

/// What became of one kind of evidence on this kernel.
struct EvidenceChoice {
  EvidenceKind kind{};
  EvidenceState state = EvidenceState::kMissing;
  std::vector<const char*> programs;  // to load; none when missing
  std::string detail;                 // how it is got, or why it is missing
  bool refused = false;               // missing because the kernel refused a program that it should take
};

/// For every row the first set whose programs were not refused.
std::vector<EvidenceChoice> choose_programs(const KernelTypes& types, const KernelFeatures& features,
                                            const Refusals& refused);

/// The names of the kprobe programs for transfers: with them state can't be kept at sockets.
bool uses_kernel_probes(std::span<const EvidenceChoice> choices);

}  // namespace stalltrace::capture
