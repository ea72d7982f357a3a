// SPDX-License-Identifier: Apache-2.0
// Every version of NCCL's profiler interface.
#pragma once

#include "plugin/abi/net_events.h"  // IWYU pragma: export
#include "plugin/abi/v1.h"          // IWYU pragma: export
#include "plugin/abi/v2.h"          // IWYU pragma: export
#include "plugin/abi/v3.h"          // IWYU pragma: export
#include "plugin/abi/v4.h"          // IWYU pragma: export
#include "plugin/abi/v5.h"          // IWYU pragma: export
#include "plugin/abi/v6.h"          // IWYU pragma: export
