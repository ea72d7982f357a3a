#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fuzz.sh [SECONDS [TARGET]]: fuzzes the code that reads profiler files, starting from the kept corpora.
# Targets: ring (reader and import) and agent (what a tracer does with a process's file); without one both, SECONDS each.
# Needs clang and libclang-rt. Afterwards the target's corpus (tests/fuzz/corpus/TARGET.pack) holds few inputs that
# cover all code reached so far. An input that fails is left in build-fuzz/finding-* and fails the run.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
targets=${2:-ring agent}
build=build-fuzz
flags=(-std=c++2b -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -isystem tests/fuzz/clang -Isrc -I.
  -DFMT_HEADER_ONLY)
declare -A sources=(
  [ring]="src/blackbox/import.cpp"
  [agent]="src/blackbox/follow/finder.cpp src/blackbox/pairing/call_pairing.cpp src/blackbox/follow/follower.cpp src/model/process_registry.cpp
    src/base/process/procfs.cpp")

mkdir -p "$build/seeds"
clang++ "${flags[@]}" tests/fuzz/seeds.cpp -fsanitize=address,undefined -o "$build/make_seeds"
"$build/make_seeds" "$build/seeds"
for target in $targets; do
  pack=tests/fuzz/corpus/$target.pack
  kept=$build/kept-$target
  merged=$build/merged-$target
  rm -rf "$kept" "$merged"
  mkdir -p "$build/$target" "$kept" "$merged"
  [[ ! -e $pack ]] || scripts/fuzz_corpus.py unpack "$pack" "$kept"
  objects=()
  for source in $(find src/blackbox -maxdepth 1 -name '*.cpp' ! -name '*_test.cpp') src/model/{events,operation}.cpp \
    src/base/{clock,file,hash,result,text}.cpp ${sources[$target]} tests/fuzz/"$target"_target.cpp; do
    object=$build/$(echo "$source" | tr / _).o
    clang++ "${flags[@]}" -c "$source" -o "$object"
    objects+=("$object")
  done
  clang++ -fsanitize=fuzzer,address,undefined "${objects[@]}" -o "$build/fuzz_$target"
  "$build/fuzz_$target" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/finding-" "$build/$target" "$kept" "$build/seeds"
  "$build/fuzz_$target" -set_cover_merge=1 -max_len=16384 "$merged" "$kept" "$build/$target" "$build/seeds"
  echo "$target: no failure in $seconds s; kept $(scripts/fuzz_corpus.py pack "$merged" "$pack")"
done
