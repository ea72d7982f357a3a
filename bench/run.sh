#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the benchmark of every budget; each prints its ratio. About twenty minutes on two cores. Needs root.
#
#   bench/run.sh [--build FOLDER] [--rounds N]
#
# Builds the preset `bench` (an optimised build in build-bench) unless a folder built with STALLTRACE_BENCH=ON is given.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
  echo "usage: bench/run.sh [--build FOLDER] [--rounds N]" >&2
  exit 2
}
build=
rounds=9
while (($#)); do
  (($# > 1)) || usage
  case $1 in
    --build) build=$2 ;;
    --rounds) rounds=$2 ;;
    *) usage ;;
  esac
  shift 2
done
if ((EUID != 0)); then
  echo "bench: needs root, for eBPF and a network namespace" >&2
  exit 1
fi
if [[ -z $build ]]; then
  scripts/build.sh bench
  build=build-bench
fi

export PYTHONDONTWRITEBYTECODE=1
section() { printf '\n== %s   [%s UTC, load %s]\n' "$1" "$(date -u +%H:%M)" "$(cut -d' ' -f1 /proc/loadavg)"; }
# In a network namespace of their own, where no other tracer looks and our agent sees no other job.
alone() { unshare --net bash -c 'ip link set lo up && exec "$@"' _ "$@"; }

echo "$(date -u +%F): $(nproc) cores, kernel $(uname -r)"
section "Cost of a call at full rate"
alone bench/capture/call_cost_bench.py "$build" --rounds "$rounds"
section "A job at a realistic rate, and its agent"
alone bench/capture/workload_bench.py "$build" --rounds "$rounds"
section "A PyTorch job, and the start of its ranks"
alone bench/capture/torch_bench.py "$build" --rounds "$rounds"
section "Recording and merging"
"$build/bench/recording/bench_recording"
section "Reading pages against reading with SQLite"
"$build/bench/recording/bench_readers"
section "Explaining 10 million collectives"
"$build/bench/analysis/bench_analysis"
section "Explaining recordings of 10 million events"
"$build/bench/analysis/bench_explain_recording" 10000000 "$rounds" || echo "a budget is missed"
section "Exporting a million rows"
"$build/bench/export/bench_export" || echo "a goal is missed"
section "A call into the profiler plugin"
"$build/bench/plugin/bench_plugin"
section "A job with the profiler plugin alone"
alone bench/plugin/job_cost_bench.py "$build" --rounds "$rounds"
