// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "flags.h"

namespace lab::workload {

const char* const kUsage =
    "usage: nccl-train [options]\n"
    "\n"
    "A training-like loop over NCCL. Each rank is one process; RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and\n"
    "MASTER_PORT name it, as torchrun sets them.\n"
    "\n"
    "  --steps N              steps to run (100)\n"
    "  --elements N           elements of each gradient bucket (262144)\n"
    "  --buckets N            gradient buckets, one AllReduce each (4)\n"
    "  --compute-ms MS        CPU time of a step's forward and backward pass (2)\n"
    "  --step-ms MS           start steps no more often than this; 0 is flat out (0)\n"
    "  --dtype TYPE           float32, float16, bfloat16, float64 (float32)\n"
    "  --mix K                every K-th step also runs the other collectives, Send/Recv and a split; 0 never (0)\n"
    "  --stages K             every K-th step also runs a pipeline over the ranks by Send/Recv; 0 never (0)\n"
    "  --exchange K           after every K-th step neighbours exchange 48 MB by Send/Recv; 0 never (0)\n"
    "  --verify               check every result against the serial one\n"
    "  --log FILE             one JSON line for each step, or each call\n"
    "  --calls N              instead of training: N small AllReduces (of --elements, 256 when not given)\n"
    "  --calls-per-second R   ... at this rate; --calls is ten seconds of it when not given\n"
    "  --flat-out             ... as fast as they go; --calls is 10000 when not given\n"
    "  --sync-every K         ... with a stream synchronisation after every K-th (1)\n"
    "  --device-clock         ... --log also has each call's time between two CUDA events around it\n"
    "  --device-ms MS         of each step the device computes alone (0)\n"
    "  --uneven               gradient buckets of many sizes, up to --elements\n"
    "  --warm-up-steps N      the first steps compute up to --warm-up-ms (300) longer, each rank its own time (0)\n"
    "  --checkpoint-every K   after every K-th step all ranks write --checkpoint-mbytes (8) to disk; 0 never (0)\n"
    "  --evaluate-every K     after every K-th step rank 0 computes for --evaluate-ms (1000); 0 never (0)\n"
    "  --save-ms MS           rank 0 computes that long after the last step (0)\n"
    "  --watchdog-seconds S   abort this long after a communicator reports an error (10)\n"
    "\n"
    "LAB_SLOW_FILE names a file that may hold extra compute milliseconds for this rank; it is read every step.\n"
    "LAB_BUGS begins the names of files that switch on mistakes: skip, mismatch, disk, ... (bugs.h).\n"
    "\n"
    "example: RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 nccl-train --steps 20 --verify\n";

namespace {

constexpr size_t kCallElements = 256;
constexpr long kFlatOutCalls = 10000;
constexpr double kPacedSeconds = 10;

struct TypeName {
  std::string_view name;
  ncclDataType_t type;
};
constexpr std::array kTypes{TypeName{"float32", ncclFloat32}, TypeName{"float16", ncclFloat16},
                            TypeName{"bfloat16", ncclBfloat16}, TypeName{"float64", ncclFloat64}};

bool parse_type(std::string_view text, ncclDataType_t* type) {
  for (const TypeName& known : kTypes) {
    if (known.name == text) {
      *type = known.type;
      return true;
    }
  }
  return false;
}

bool environment_number(const char* name, int* value) {
  const char* text = std::getenv(name);
  return text == nullptr || parse_number(text, value);
}

}  // namespace

std::expected<Options, std::string> parse_options(int argc, char** argv) {
  Options options;
  size_t elements = 0;
  const std::array flags{
      Flag{"--steps", number(&options.steps)},
      Flag{"--elements", number(&elements)},
      Flag{"--buckets", number(&options.buckets)},
      Flag{"--compute-ms", number(&options.compute_ms)},
      Flag{"--step-ms", number(&options.step_ms)},
      Flag{"--dtype", [&](std::string_view text) { return parse_type(text, &options.dtype); }},
      Flag{"--mix", number(&options.mix)},
      Flag{"--stages", number(&options.stages)},
      Flag{"--exchange", number(&options.exchange)},
      Flag{"--verify", [&](std::string_view) { return options.verify = true; }, false},
      Flag{"--log", [&](std::string_view text) { return !(options.log = text).empty(); }},
      Flag{"--calls", number(&options.calls)},
      Flag{"--calls-per-second", number(&options.calls_per_second)},
      Flag{"--flat-out", [&](std::string_view) { return options.flat_out = true; }, false},
      Flag{"--sync-every",
           [&](std::string_view text) { return parse_number(text, &options.sync_every) && options.sync_every > 0; }},
      Flag{"--device-clock", [&](std::string_view) { return options.device_clock = true; }, false},
      Flag{"--device-ms", number(&options.device_ms)},
      Flag{"--uneven", [&](std::string_view) { return options.uneven = true; }, false},
      Flag{"--warm-up-steps", number(&options.warm_up_steps)},
      Flag{"--warm-up-ms", number(&options.warm_up_ms)},
      Flag{"--checkpoint-every", number(&options.checkpoint_every)},
      Flag{"--checkpoint-mbytes", number(&options.checkpoint_mbytes)},
      Flag{"--evaluate-every", number(&options.evaluate_every)},
      Flag{"--evaluate-ms", number(&options.evaluate_ms)},
      Flag{"--save-ms", number(&options.save_ms)},
      Flag{"--watchdog-seconds", number(&options.watchdog_seconds)},
  };
  if (auto parsed = parse_flags(argc, argv, flags); !parsed) {
    return std::unexpected(std::move(parsed.error()));
  }
  if (options.flat_out && options.calls_per_second > 0) {
    return std::unexpected("--flat-out and --calls-per-second exclude each other");
  }
  if (options.device_clock && options.sync_every > 1) {
    return std::unexpected("--device-clock times every call, --sync-every does not wait for each");
  }
  if (elements > 0) {
    options.elements = elements;
  } else if (options.call_mode()) {
    options.elements = kCallElements;
  }
  if (options.call_mode() && options.calls == 0) {
    const bool paced = options.calls_per_second > 0;
    options.calls = paced ? static_cast<long>(std::ceil(kPacedSeconds * options.calls_per_second)) : kFlatOutCalls;
  }
  return options;
}

std::expected<RankEnvironment, std::string> read_rank_environment() {
  RankEnvironment environment;
  if (!environment_number("RANK", &environment.rank) || !environment_number("WORLD_SIZE", &environment.world_size) ||
      !environment_number("LOCAL_RANK", &environment.local_rank) ||
      !environment_number("MASTER_PORT", &environment.master_port)) {
    return std::unexpected("RANK, WORLD_SIZE, LOCAL_RANK and MASTER_PORT must be numbers");
  }
  if (environment.rank >= environment.world_size) {
    return std::unexpected("RANK must be below WORLD_SIZE");
  }
  if (const char* address = std::getenv("MASTER_ADDR"); address != nullptr) {
    environment.master_address = address;
  }
  return environment;
}

}  // namespace lab::workload
