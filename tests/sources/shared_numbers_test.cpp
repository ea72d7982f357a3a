// SPDX-License-Identifier: Apache-2.0
// Numbers that two sides keep for themselves because neither may include the other: the kernel's programs, the profiler
// plugin and the analysis. The compiler compares them here.
#include <gtest/gtest.h>

#include "analysis/thresholds/steps.h"
#include "model/events/loss_sources.h"
#include "model/operation.h"
#include "plugin/wire/blackbox.h"
#include "wire/collective.h"
#include "wire/user_share.h"

namespace stalltrace {
namespace {

static_assert(analysis::kStepsUnderWay == ST_BOX_STEPS_UNDER_WAY);
static_assert(analysis::kLongStepNs == ST_BOX_LONG_WAIT_NS);
static_assert(kOtherUsers == ST_OTHER_USERS);
static_assert(call_failed(Library::kNccl, ST_NCCL_IN_PROGRESS) == false);

TEST(SharedNumbers, AnotherReturnCodeIsAFailure) {
  EXPECT_TRUE(call_failed(Library::kNccl, ST_NCCL_IN_PROGRESS + 1));
  EXPECT_TRUE(call_failed(Library::kMpi, ST_NCCL_IN_PROGRESS));
}

}  // namespace
}  // namespace stalltrace
