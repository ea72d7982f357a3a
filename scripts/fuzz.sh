#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fuzz.sh [SECONDS [TARGET]]: fuzzes the code that reads what others write or decide, starting from the kept corpora. Targets:
# profiler_file (reader and import), agent (what a tracer does with a process's file), records (what becomes of the kernel's
# records), traceback (exceptions' frames), stacks (other processes' memory), native (their unwind tables, perf maps and names of
# functions), libraries (the files that they map), proc (/proc),
# recording (explain, query, export, merge and the MCP tools on edited recordings), sql (the SQL of query), config (the configuration
# file), words (durations, lists of nodes, faults of the lab), log dump benchmark kernel_log py_spy chrome_trace capture ras inspector
# nvidia_smi dcgm_health (tests/fuzz/imports: NCCL's logs, Flight Recorder dumps, nccl-tests output, kernel logs, py-spy dumps, traces
# of torch.profiler, packet captures, reports of NCCL's RAS, lines of its Inspector, nvidia-smi -q, dcgmi health -c), mcp (lines of an
# MCP client), http (what servers and clients of recordings read of each other), fleet (rows and descriptions of other nodes), peers
# (what nodes of a preflight read of each other), autopsy (results of other hosts); without one all, SECONDS each. 0 seconds: compiles
# only. Needs clang and libclang-rt. Afterwards the target's corpus (tests/fuzz/corpus/TARGET.pack) holds few inputs that
# cover all code reached so far. An input that fails is left in build-fuzz/finding-* and fails the run. JOBS compilers run at once,
# one for each CPU by default.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
all="profiler_file agent records traceback stacks native libraries proc recording sql config words log dump benchmark kernel_log
  py_spy chrome_trace capture ras inspector nvidia_smi dcgm_health mcp http fleet peers autopsy"
targets=${2:-$all}
build=build-fuzz
flags=(-std=c++2b -O1 -gline-tables-only -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -isystem tests/fuzz/clang
  -Isrc -Ibpf -I. -DSTALLTRACE_VERSION='"fuzzed"')
rooms=(src/base src/model src/import src/blackbox src/stacks src/store src/analysis src/serve src/report src/export src/fleet
  src/preflight src/autopsy src/capture/decode src/capture/python src/capture/discover src/capture/host
  lab/simulation lab/cluster/faults lab/cluster/host lab/cluster/injection)
# What needs Asio, OpenSSL, libbpf or the lab's programs.
without=('src/serve/http/asio.cpp' 'src/serve/http/channel.cpp' 'src/serve/http/server.cpp' 'src/serve/http/tls.cpp' 'src/fleet/client.cpp'
  'src/fleet/gather.cpp' 'src/fleet/query.cpp' 'src/fleet/rows/fleet_source.cpp' 'src/capture/decode/open_waits.cpp'
  'src/autopsy/host/*' 'src/capture/discover/job_discovery.cpp' 'src/capture/discover/mapping_watch.cpp'
  'lab/cluster/injection/manual.cpp')

mkdir -p "$build"
for target in $all; do mkdir -p "$build/seeds-$target"; done
# Through ccache where it is installed: the next run compiles nothing anew.
cache=$(command -v ccache || true)
export CCACHE_SLOPPINESS=pch_defines,time_macros
headers=$build/headers.h
printf '#include <%s>\n' algorithm array atomic cstdint fmt/format.h functional map memory optional set span string string_view utility variant vector >"$headers.new"
cmp -s "$headers.new" "$headers" || cp "$headers.new" "$headers"
clang++ "${flags[@]}" -Xclang -fno-pch-timestamp -x c++-header "$headers" -o "$headers.pch"
compile() { $cache clang++ "${flags[@]}" -include-pch "$headers.pch" -c "$1" -o "$2"; }
declare -A source_of makes_seeds
for target in $targets; do
  source_of[$target]=tests/fuzz/${target}_target.cpp
  [[ -e ${source_of[$target]} ]] || source_of[$target]=tests/fuzz/imports/${target}_target.cpp
  case $target in
    profiler_file | agent) makes_seeds[seeds]=1 ;;
    stacks) makes_seeds[stacks_seeds]=1 ;;
    records) makes_seeds[record_seeds]=1 ;;
  esac
done
sources=("${source_of[@]}")
for maker in "${!makes_seeds[@]}"; do sources+=("tests/fuzz/seeds/$maker.cpp"); done
units=$(scripts/fuzz/units.py "$build/units" "${rooms[@]}" --without "${without[@]}" --of "${sources[@]}")
objects=("$build/pages.o")
clang -c -Idocs src/serve/mcp/pages.S -o "$build/pages.o"
if [[ " $targets " == *" config "* ]]; then
  compile src/cli/config.cpp "$build/config.o"
  objects+=("$build/config.o")
fi
running=0
for unit in $units; do
  object=$build/$(basename "$unit" .cpp).o
  objects+=("$object")
  ((running++ < ${JOBS:-$(nproc)})) || wait -n # fails with the compiler, and ends the script
  compile "$unit" "$object" &
done
while ((running-- > 0)); do wait -n || [[ $? -eq 127 ]]; done
# Of an archive a program takes what it needs.
code=$build/code.a
rm -f "$code"
ar rcs "$code" "${objects[@]}"
libraries=(-l:libsqlite3.a -l:libz.a -l:libzstd.a -lresolv -ldl -lm)
link() { clang++ "${flags[@]}" "$1" "$code" "-fsanitize=$2,address,undefined" "${libraries[@]}" -o "$3"; }

python3 tests/fuzz/seeds/evidence_seeds.py "$build"
python3 tests/fuzz/seeds/libraries_seeds.py "$build/seeds-libraries"
python3 tests/fuzz/seeds/mcp_seeds.py "$build/seeds-mcp"
python3 tests/fuzz/seeds/http_seeds.py "$build/seeds-http"
python3 tests/fuzz/seeds/text_seeds.py "$build"
python3 tests/fuzz/seeds/native_seeds.py "$build/seeds-native"
python3 tests/fuzz/seeds/answer_seeds.py "$build"
make_seeds() {
  [[ -n ${makes_seeds[$1]:-} ]] || return 0
  mkdir -p "$2"
  link "tests/fuzz/seeds/$1.cpp" address "$build/make_$1"
  "$build/make_$1" "${@:2}"
}
make_seeds seeds "$build/seeds"
make_seeds stacks_seeds "$build/seeds-stacks" src/stacks/testdata/*.image
make_seeds record_seeds "$build/seeds-records"
for target in $targets; do
  link "${source_of[$target]}" fuzzer "$build/fuzz_$target"
  ((seconds > 0)) || continue
  seeds=$build/seeds-$target
  longest=16384
  case $target in
    profiler_file | agent) seeds=$build/seeds ;;
    stacks) longest=65536 ;;
    recording) longest=256 ;;
    sql | config | words | proc) longest=4096 ;;
  esac
  pack=tests/fuzz/corpus/$target.pack
  kept=$build/kept-$target
  merged=$build/merged-$target
  rm -rf "$kept" "$merged"
  mkdir -p "$build/$target" "$kept" "$merged"
  [[ ! -e $pack ]] || scripts/fuzz/corpus.py unpack "$pack" "$kept"
  "$build/fuzz_$target" -max_total_time="$seconds" -max_len="$longest" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/finding-" "$build/$target" "$kept" "$seeds"
  "$build/fuzz_$target" -set_cover_merge=1 -max_len="$longest" "$merged" "$kept" "$build/$target" "$seeds"
  echo "$target: no failure in $seconds s; kept $(scripts/fuzz/corpus.py pack "$merged" "$pack")"
done
