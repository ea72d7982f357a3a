#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fuzz.sh [SECONDS [TARGET]]: fuzzes the code that reads profiler files, other processes, recordings, logs and requests,
# starting from the kept corpora. Targets: ring (reader and import), agent (what a tracer does with a process's file), stacks (other
# processes' memory), libraries (the files that they map), recording (explain, query, export, merge and the MCP tools on edited recordings), log
# dump, benchmark, kernel_log, py_spy, chrome_trace, capture, ras, inspector and nvidia_smi (import of NCCL's logs, Flight Recorder dumps, nccl-tests output,
# kernel logs, py-spy dumps, traces of torch.profiler, packet captures, reports of NCCL's RAS, lines of its Inspector, nvidia-smi -q),
# mcp (lines of an MCP client) and http (what servers and clients of recordings read of each other); without one all, SECONDS each.
# Needs clang and libclang-rt. Afterwards the target's corpus (tests/fuzz/corpus/TARGET.pack) holds few inputs that
# cover all code reached so far. An input that fails is left in build-fuzz/finding-* and fails the run. JOBS compilers run at once,
# one for each CPU by default.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
targets=${2:-ring agent stacks libraries recording log dump benchmark kernel_log py_spy chrome_trace capture ras inspector nvidia_smi mcp http}
build=build-fuzz
flags=(-std=c++2b -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -isystem tests/fuzz/clang -Isrc -Ibpf -I.
  -DFMT_HEADER_ONLY -DSTALLTRACE_VERSION='"fuzzed"')

mkdir -p "$build/seeds" "$build"/seeds-{stacks,libraries,log,dump,benchmark,kernel_log,py_spy,chrome_trace,capture,ras,inspector,nvidia_smi,mcp,http}
python3 tests/fuzz/seeds/evidence_seeds.py "$build"
python3 tests/fuzz/seeds/libraries_seeds.py "$build/seeds-libraries"
python3 tests/fuzz/seeds/mcp_seeds.py "$build/seeds-mcp"
python3 tests/fuzz/seeds/http_seeds.py "$build/seeds-http"
clang++ "${flags[@]}" tests/fuzz/seeds/seeds.cpp -fsanitize=address,undefined -o "$build/make_seeds"
"$build/make_seeds" "$build/seeds"
libraries=(-l:libsqlite3.a -l:libz.a -l:libzstd.a -lresolv -ldl -lm)
# The code and dependencies of all targets: whole folders, so that a file may move inside them.
objects=("$build/pages.o")
clang -c -Idocs src/serve/mcp/pages.S -o "$build/pages.o"
symbol_readers=(src/capture/discover/{call_table,elf_symbols,files/library_symbols}.cpp)
of_fleet=(src/fleet/{node_list,resolve,received_file,outliers}.cpp)
mapfile -t sources < <(printf '%s\n' "${symbol_readers[@]}" "${of_fleet[@]}"; find src/base src/model src/import src/blackbox src/stacks src/store src/analysis src/serve src/report src/export -name '*.cpp' ! -name '*_test.cpp' ! -name fmt_library.cpp ! -path '*/testing/*' \
  ! -path 'src/serve/http/asio.cpp' ! -path 'src/serve/http/channel.cpp' ! -path 'src/serve/http/server.cpp' ! -path 'src/serve/http/tls.cpp')
# Through ccache where it is installed: the next target compiles nothing anew.
cache=$(command -v ccache || true)
object_of() { echo "$build/${1//\//_}.o"; }
compile() { $cache clang++ "${flags[@]}" -c "$1" -o "$(object_of "$1")"; }
running=0
for source in "${sources[@]}"; do
  objects+=("$(object_of "$source")")
  ((running++ < ${JOBS:-$(nproc)})) || wait -n # fails with the compiler, and ends the script
  compile "$source" &
done
while ((running-- > 0)); do wait -n || [[ $? -eq 127 ]]; done
clang++ "${flags[@]}" tests/fuzz/seeds/stacks_seeds.cpp "${objects[@]}" -fsanitize=address,undefined "${libraries[@]}" -o "$build/make_stacks_seeds"
"$build/make_stacks_seeds" "$build/seeds-stacks" src/stacks/testdata/*.image
for target in $targets; do
  seeds=$build/seeds
  longest=16384
  [[ $target != mcp && $target != http ]] || seeds=$build/seeds-$target
  [[ $target != libraries ]] || seeds=$build/seeds-libraries
  [[ $target != stacks ]] || { seeds=$build/seeds-stacks; longest=65536; }
  [[ ! $target =~ ^(log|dump|benchmark|kernel_log|py_spy|chrome_trace|capture|ras|inspector|nvidia_smi)$ ]] || seeds=$build/seeds-$target
  [[ $target != recording ]] || { seeds=$build/seeds-recording; longest=256; mkdir -p "$seeds"; }
  pack=tests/fuzz/corpus/$target.pack
  kept=$build/kept-$target
  merged=$build/merged-$target
  rm -rf "$kept" "$merged"
  mkdir -p "$build/$target" "$kept" "$merged"
  [[ ! -e $pack ]] || scripts/fuzz_corpus.py unpack "$pack" "$kept"
  clang++ "${flags[@]}" "tests/fuzz/${target}_target.cpp" "${objects[@]}" -fsanitize=fuzzer,address,undefined "${libraries[@]}" -o "$build/fuzz_$target"
  "$build/fuzz_$target" -max_total_time="$seconds" -max_len="$longest" -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/finding-" "$build/$target" "$kept" "$seeds"
  "$build/fuzz_$target" -set_cover_merge=1 -max_len="$longest" "$merged" "$kept" "$build/$target" "$seeds"
  echo "$target: no failure in $seconds s; kept $(scripts/fuzz_corpus.py pack "$merged" "$pack")"
done
