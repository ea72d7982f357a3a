// SPDX-License-Identifier: Apache-2.0
// The BPF programs by the evidence that they give. Several sets of programs may give a kind of evidence; the first set
// that this kernel accepts is used. A new program is a new row.
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

/// One way to collect a kind of evidence.
struct ProgramSet {
  std::vector<const char*> programs;  // names in the BPF object; empty: the kernel itself provides it
  /// The reason why this kernel lacks it; empty where it does not.
  std::function<std::string(const KernelTypes&, const KernelFeatures&)> lacks;
  std::string_view how;  // description for users; for all sets but the first
};

struct EvidenceRow {
  EvidenceKind kind;
  std::vector<ProgramSet> sets;
};

std::span<const EvidenceRow> evidence_rows();

/// Programs that the kernel refused, with its messages.
using Refusals = std::map<std::string, std::string, std::less<>>;

enum class EvidenceState { kFull, kFallback, kMissing };

/// The choice for one kind of evidence on this kernel.
struct EvidenceChoice {
  EvidenceKind kind{};
  EvidenceState state = EvidenceState::kMissing;
  std::vector<const char*> programs;  // to load; empty when missing
  std::string detail;                 // how it is collected, or why it is missing
  bool refused = false;               // missing because the kernel refused a program that it should accept
};

/// For each row the first set without refused programs.
std::vector<EvidenceChoice> choose_programs(const KernelTypes& types, const KernelFeatures& features,
                                            const Refusals& refused);

/// True if the kprobe programs for transfers are used, with which state can't be kept at sockets.
bool uses_kernel_probes(std::span<const EvidenceChoice> choices);

}  // namespace stalltrace::capture
