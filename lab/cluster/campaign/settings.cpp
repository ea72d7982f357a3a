// SPDX-License-Identifier: Apache-2.0
// The settings of a campaign, one row each, and the jobs on which they are tried.
#include "lab/cluster/campaign/settings.h"

#include <algorithm>
#include <array>

#include "lab/cluster/campaign/draw.h"

namespace stalltrace::lab {
namespace {

/// Links with a rate: half of it is the quiet dose of slow_link.
constexpr std::string_view kLinks = "--link-mbit 400";

/// Small messages fit into the sockets' buffers, so that no rank waits for the missing half.
constexpr std::string_view kLargeMessages = "--elements 262144";

/// Many messages of a few packets: a lost packet is often the last of one, and costs a timeout.
constexpr std::string_view kManyMessages = "--buckets 8";

/// The workload that supports phases and slow copies.
constexpr std::string_view kNccl = "nccl";

/// 30 s or more of steps: with a factor of 11, torch took 30 s and nccl 41 s (two ranks a node, 2026-11-27).
constexpr int kLong = 12;

/// Two nodes; ranks of one node exchange data beside the network, and share its interface.
constexpr std::string_view kTwoRanksANode = "--ranks-per-node 2";
constexpr std::string_view kSharesNodes = "nccl torch";

using enum DrawKind;

constexpr std::array kSettings = {
    // Long enough that whatever happens on a node now and then happens, and so often that 300 draws have 60 of them.
    DrawSetting{.name = "healthy", .kind = kHealthy, .longer = kLong, .weight = 10},
    DrawSetting{.name = "healthy, two ranks a node",
                .kind = kHealthy,
                .run_args = kTwoRanksANode,
                .longer = kLong,
                .weight = 2,
                .on = kSharesNodes},

    DrawSetting{.name = "uneven messages", .kind = kNotFault, .workload_args = "--uneven", .on = kNccl},
    DrawSetting{
        .name = "checkpoint on all ranks", .kind = kNotFault, .workload_args = "--checkpoint-every 40", .on = kNccl},
    DrawSetting{.name = "warm-up", .kind = kNotFault, .workload_args = "--warm-up-steps 5", .on = kNccl},
    DrawSetting{.name = "evaluation on rank 0", .kind = kNotFault, .workload_args = "--evaluate-every 60", .on = kNccl},
    DrawSetting{.name = "rank 0 saves at the end", .kind = kNotFault, .workload_args = "--save-ms 1500", .on = kNccl},
    DrawSetting{.name = "retransmits without cost", .kind = kNotFault, .faults = "reordering:rank={a},start={start}"},

    DrawSetting{.name = "packet_loss 2 % into a node",
                .kind = kLoud,
                .faults = "packet_loss:rank={a},percent=2,direction=ingress,start={start},duration={duration}",
                .workload_args = kManyMessages},
    DrawSetting{.name = "packet_loss 2 % out of a node",
                .kind = kLoud,
                .faults = "packet_loss:rank={a},percent=2,direction=egress,start={start},duration={duration}",
                .workload_args = kManyMessages},
    DrawSetting{.name = "packet_loss 2 % on a link",
                .kind = kLoud,
                .faults = "packet_loss:rank={a},percent=2,direction=link,start={start},duration={duration}",
                .workload_args = kManyMessages},
    DrawSetting{.name = "packet_loss 2 % at a node with two ranks",
                .kind = kLoud,
                .faults = "packet_loss:node={node},percent=2,start={start},duration={duration}",
                .workload_args = kManyMessages,
                .run_args = kTwoRanksANode,
                .on = kSharesNodes},
    DrawSetting{.name = "slow_link 40 Mbit/s",
                .kind = kLoud,
                .faults = "slow_link:rank={a},mbit=40,start={start},duration={duration}"},
    DrawSetting{.name = "host_drop by a full queue",
                .kind = kLoud,
                .faults = "host_drop:rank={a},start={start},duration={duration}"},
    DrawSetting{.name = "partition of a node",
                .kind = kLoud,
                .faults = "partition:rank={a},direction=both,start={start},duration={duration}"},
    DrawSetting{.name = "partition of a link",
                .kind = kLoud,
                .faults = "partition:rank={a},direction=link,start={start},duration={duration}"},
    DrawSetting{.name = "mtu_blackhole into a node",
                .kind = kLoud,
                .faults = "mtu_blackhole:rank={a},start={start},duration={duration}"},
    DrawSetting{.name = "mtu_blackhole into a node from the start",
                .kind = kLoud,
                .faults = "mtu_blackhole:rank={a},start=launch",
                .hangs = true},
    DrawSetting{.name = "connection_reset on a link",
                .kind = kLoud,
                .faults = "connection_reset:rank={a},peer={before},start={start}",
                .hangs = true},
    DrawSetting{.name = "slow_receiver 8 MB/s",
                .kind = kLoud,
                .faults = "slow_receiver:rank={a},mbytes=8,start={start},duration={duration}",
                .on = kNccl},
    DrawSetting{.name = "late_rank 80 ms",
                .kind = kLoud,
                .faults = "late_rank:rank={a},ms=80,start={start},duration={duration}"},
    DrawSetting{.name = "late_rank 80 ms, two ranks a node",
                .kind = kLoud,
                .faults = "late_rank:rank={a},ms=80,start={start},duration={duration}",
                .run_args = kTwoRanksANode,
                .on = kSharesNodes},
    // Only the plugin reports when a device begins.
    DrawSetting{.name = "slow_device 80 ms, plugin",
                .kind = kLoud,
                .faults = "slow_device:rank={a},ms=80,start={start},duration={duration}",
                .run_args = "--plugin",
                .on = kNccl},
    DrawSetting{.name = "cpu_contention 100 %",
                .kind = kLoud,
                .faults = "cpu_contention:rank={a},start={start},duration={duration}"},
    DrawSetting{.name = "disk_io 32 MB a step",
                .kind = kLoud,
                .faults = "disk_io:rank={a},mbytes=32,start={start},duration={duration}"},
    DrawSetting{
        .name = "process_stopped 1 s", .kind = kLoud, .faults = "process_stopped:rank={a},ms=1000,start={start}"},
    DrawSetting{
        .name = "dead_rank SIGKILL", .kind = kLoud, .faults = "dead_rank:rank={a},start={start}", .hangs = true},
    DrawSetting{.name = "missing_collective, no input",
                .kind = kLoud,
                .faults = "missing_collective:rank={a},doing=input,start={start}",
                .hangs = true},
    DrawSetting{.name = "missing_collective, computing",
                .kind = kLoud,
                .faults = "missing_collective:rank={a},doing=compute,start={start}",
                .hangs = true},
    DrawSetting{.name = "mismatched_collective, count",
                .kind = kLoud,
                .faults = "mismatched_collective:rank={a},what=count,start={start}",
                .workload_args = kLargeMessages,
                .hangs = true},
    DrawSetting{.name = "mismatched_collective, datatype",
                .kind = kLoud,
                .faults = "mismatched_collective:rank={a},what=datatype,start={start}",
                .workload_args = kLargeMessages,
                .hangs = true},
    DrawSetting{.name = "init_failure, refused",
                .kind = kLoud,
                .faults = "init_failure:rank={other},port=rendezvous",
                .hangs = true,
                .on = "nccl torch"},

    DrawSetting{.name = "packet_loss 0.2 % into a node",
                .kind = kQuiet,
                .faults = "packet_loss:rank={a},percent=0.2,direction=ingress,start={start},duration={duration}",
                .workload_args = kManyMessages},
    DrawSetting{.name = "packet_loss 0.2 % on a link",
                .kind = kQuiet,
                .faults = "packet_loss:rank={a},percent=0.2,direction=link,start={start},duration={duration}",
                .workload_args = kManyMessages},
    DrawSetting{.name = "late_rank 15 ms",
                .kind = kQuiet,
                .faults = "late_rank:rank={a},ms=15,start={start},duration={duration}",
                .weight = 2},
    DrawSetting{.name = "cpu_contention 30 %",
                .kind = kQuiet,
                .faults = "cpu_contention:rank={a},percent=30,start={start},duration={duration}",
                .weight = 2},
    DrawSetting{.name = "slow_link at half the rate",
                .kind = kQuiet,
                .faults = "slow_link:rank={a},mbit=200,start={start},duration={duration}",
                .run_args = kLinks,
                .slower = 2,
                .weight = 2},

    DrawSetting{.name = "late_rank and packet_loss elsewhere",
                .kind = kCombined,
                .faults = "late_rank:rank={a},ms=80,start={start},duration={duration} "
                          "packet_loss:rank={b},percent=2,direction=link,start={start},duration={duration}",
                .workload_args = kManyMessages},
    DrawSetting{.name = "late_rank behind a lossy link",
                .kind = kCombined,
                .faults = "late_rank:rank={a},ms=80,start={start},duration={duration} "
                          "packet_loss:rank={a},percent=2,direction=link,start={start},duration={duration}",
                .workload_args = kManyMessages},
    DrawSetting{.name = "late_rank and process_stopped elsewhere",
                .kind = kCombined,
                .faults = "late_rank:rank={a},ms=80,start={start},duration={duration} "
                          "process_stopped:rank={b},ms=600,start=2500ms"},
    DrawSetting{.name = "late_rank that comes and goes",
                .kind = kCombined,
                .faults = "late_rank:rank={a},ms=80,start={start},for=500ms,every=1500ms"},
    DrawSetting{.name = "packet_loss that comes and goes",
                .kind = kCombined,
                .faults = "packet_loss:rank={a},percent=4,direction=ingress,start={start},for=700ms,every=1500ms",
                .workload_args = kManyMessages},
    DrawSetting{.name = "late_rank from the warm-up on",
                .kind = kCombined,
                .faults = "late_rank:rank={a},ms=80,start=0s,duration={duration}",
                .workload_args = "--warm-up-steps 5",
                .on = kNccl},
    DrawSetting{.name = "process_stopped during warm-up",
                .kind = kCombined,
                .faults = "process_stopped:rank={a},ms=1000,start=100ms",
                .workload_args = "--warm-up-steps 5",
                .on = kNccl},

    DrawSetting{.name = "slow_input of all ranks",
                .kind = kUncatalogued,
                .faults = "slow_input:ms=80,start={start},duration={duration}"},
};

struct JobRow {
  std::string_view workload;
  MatrixJob job;
};
/// The CPUs are idle for half of a step, as on a node whose GPU computes, so that other load on the machine matters
/// less.
constexpr std::array kJobs = {
    JobRow{"nccl", {150, "--timeout 6s", "--elements 65536 --compute-ms 2 --device-ms 15 --watchdog-seconds 2"}},
    JobRow{"mpi", {280, "--timeout 7s", "--elements 65536 --compute-ms 2"}},
    JobRow{"torch", {110, "--timeout 13s", "--elements 65536 --compute-ms 2"}},
};

}  // namespace

std::span<const DrawSetting> draw_settings() { return kSettings; }

MatrixJob matrix_job(std::string_view workload) {
  const auto row = std::ranges::find(kJobs, workload, &JobRow::workload);
  return row == kJobs.end() ? MatrixJob{100, "--timeout 10s", ""} : row->job;
}

}  // namespace stalltrace::lab
