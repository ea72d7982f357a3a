// SPDX-License-Identifier: Apache-2.0
// Numbers that two sides keep for themselves because neither may include the other: the kernel's programs, the profiler
// plugin, the program of `preflight --collectives`, the analysis, and the model of jobs. The compiler compares them
// here.
#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include "analysis/thresholds/steps.h"
#include "blackbox/follow/follower.h"
#include "capture/python/late_watch.h"
#include "lab/simulation/recording/agent_numbers.h"
#include "model/events/loss_sources.h"
#include "model/operation.h"
#include "plugin/collectives/libraries.h"
#include "plugin/wire/blackbox.h"
#include "wire/collective.h"
#include "wire/user_share.h"

namespace stalltrace {
namespace {

static_assert(analysis::kStepsUnderWay == ST_BOX_STEPS_UNDER_WAY);
static_assert(analysis::kLongStepNs == ST_BOX_LONG_WAIT_NS);
static_assert(kOtherUsers == ST_OTHER_USERS);
static_assert(ST_NCCL_IN_PROGRESS == ncclInProgress);
static_assert(call_failed(Library::kNccl, ST_NCCL_IN_PROGRESS) == false);

static_assert(collectives::kSuccess == ncclSuccess && collectives::kSuccess == cudaSuccess);
static_assert(collectives::kInProgress == ncclInProgress);
static_assert(collectives::kFloat32 == ncclFloat32);
static_assert(collectives::kSum == ncclSum);
static_assert(collectives::kNotReady == cudaErrorNotReady);
static_assert(collectives::kToDevice == cudaMemcpyHostToDevice);
static_assert(collectives::kToHost == cudaMemcpyDeviceToHost);
static_assert(collectives::kNonBlocking == cudaStreamNonBlocking);
static_assert(sizeof(collectives::UniqueId) == NCCL_UNIQUE_ID_BYTES);

namespace agent = simulation::agent;
static_assert(agent::kLateNs == capture::LateWatch::kLateNs);
static_assert(agent::kStillNs == capture::LateWatch::kStillNs);
static_assert(agent::kAgain == capture::LateWatch::kAgain);
static_assert(agent::kMostAtOnce == capture::LateWatch::kMostAtOnce);
static_assert(agent::kEveryNs == capture::LateWatch::kEveryNs);
static_assert(agent::kKept == capture::LateWatch::kKept);
static_assert(agent::kMostOutside == capture::LateWatch::kMostOutside);
static_assert(agent::kMostInside == capture::LateWatch::kMostInside);
static_assert(agent::kReadOpenNs == blackbox::ProfilerFollower::kReadOpenNs);
static_assert(agent::kOpenWaitNs == blackbox::ProfilerFollower::kOpenWaitNs);
static_assert(agent::kStepsAtOnce == blackbox::ProfilerFollower::kStepsAtOnce);
static_assert(agent::kLongStepNs == ST_BOX_LONG_WAIT_NS);
static_assert(agent::kStepsUnderWay == ST_BOX_STEPS_UNDER_WAY);

TEST(SharedNumbers, AnotherReturnCodeIsAFailure) {
  EXPECT_TRUE(call_failed(Library::kNccl, ST_NCCL_IN_PROGRESS + 1));
  EXPECT_TRUE(call_failed(Library::kMpi, ST_NCCL_IN_PROGRESS));
}

}  // namespace
}  // namespace stalltrace
