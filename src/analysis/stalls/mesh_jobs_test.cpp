// SPDX-License-Identifier: Apache-2.0
// Healthy jobs on GPUs with communicators of several dimensions give no finding, however they are recorded.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/testing/mesh_job.h"
#include "analysis/testing/small_job.h"

namespace stalltrace::analysis {
namespace {

struct Shape {
  const char* name;
  MeshJobOptions options;
  /// Too few calls to know which of several nameless communicators of one size belong together (docs/findings.md).
  bool few_calls = false;
};

const Shape kShapes[] = {
    {"tensor and data", {}},
    {"uneven samples", {.uneven = 0.15}},
    {"one node", {.tensor = 8, .data = 1}},
    {"64 ranks", {.tensor = 8, .data = 8}},
    {"data only", {.tensor = 1, .data = 16}},
    {"evaluation", {.steps = 30, .evaluate_every = 10}},
    {"on the CPU", {.compute_ms = 1, .launch_ms = 5, .noise_ms = 1}},
    {"accumulation", {.micro_batches = 8, .uneven = 0.1}},
    {"experts", {.experts = true}},
    {"evaluation on rank 0", {.steps = 60, .evaluate_every = 30, .evaluate_rank0 = true}},
    {"far ahead", {.compute_ms = 20, .launch_ms = 0.2}},
    {"few long steps", {.steps = 4, .micro_batches = 4, .compute_ms = 400, .launch_ms = 100, .uneven = 0.1}, true},
};

void expect_nothing(const Shape& shape, bool plugin, bool late) {
  for (uint32_t seed = 1; seed <= 3; ++seed) {
    MeshJobOptions options = shape.options;
    options.plugin = plugin;
    options.attached_late = late;
    options.seed = seed;
    MeshJob job(options);
    const Report report = small_job::report_of(job.source());
    EXPECT_EQ(report.health(), std::optional(true))
        << fmt::format("{}{}{}, seed {}\n", shape.name, plugin ? ", plugin" : "", late ? ", attached late" : "", seed)
        << small_job::reported(report) << report.unrecorded_ranks;
  }
}

TEST(MeshJobs, HealthGivesNothing) {
  for (const Shape& shape : kShapes) {
    for (const bool late : {false, true}) {
      expect_nothing(shape, false, late);
      if (!shape.few_calls || !late) {
        expect_nothing(shape, true, late);
      }
    }
  }
}

/// What the GPUs say of their kernels takes the queue out of a transfer, and nothing else.
TEST(MeshJobs, ASlowTransferIsFoundWhereCpusRunAhead) {
  MeshJob job({.compute_ms = 20, .launch_ms = 0.2, .plugin = true, .slow_call = 10, .slow_ms = 3000});
  const Finding finding = small_job::only(job.source());
  EXPECT_EQ(finding.cause, Cause::kUnknown) << finding.summary;
  EXPECT_FALSE(finding.culprit.has_value()) << finding.summary;
  EXPECT_NEAR(finding.stall_ms, 3000, 100);
}

/// No cause has this name yet; up to 10 s it is taken for uneven work.
TEST(MeshJobs, ADeviceThatIsFarBehindTheOthersIsNotHealthy) {
  MeshJob job({.compute_ms = 20, .launch_ms = 0.2, .plugin = true, .slow_device_step = 10, .slow_ms = 15'000});
  const Report report = small_job::report_of(job.source());
  EXPECT_EQ(report.health(), std::optional(false));
  ASSERT_FALSE(report.findings.empty());
  EXPECT_EQ(report.findings[0].cause, Cause::kUnknown) << report.findings[0].summary;
  EXPECT_NEAR(report.findings[0].stall_ms, 15'000, 500);
}

}  // namespace
}  // namespace stalltrace::analysis
