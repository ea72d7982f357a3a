#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes what reads profiler files from the kept corpora: scripts/fuzz.sh [SECONDS [TARGET]]. Targets: ring (reader and
# import) and agent (what a tracer does with a process's file); both without one, SECONDS each. Needs clang and
# libclang-rt. New inputs go into the target's corpus, as few files as cover it; a finding is left beside the program and
# fails the run.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
targets=${2:-ring agent}
build=build-fuzz
flags=(-std=c++2b -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -isystem tests/fuzz/clang -Isrc -I.
  -DFMT_HEADER_ONLY)
mkdir -p "$build/seeds"
clang++ "${flags[@]}" tests/fuzz/seeds.cpp -fsanitize=address,undefined -o "$build/make_seeds"
"$build/make_seeds" "$build/seeds"
for target in $targets; do
  corpus=tests/fuzz/corpus/$target
  mkdir -p "$corpus" "$build/$target"
  objects=()
  for source in $(find src/blackbox -name '*.cpp' ! -name '*_test.cpp') src/model/{events,operation,process_registry}.cpp \
    src/base/{clock,file,hash,result,text}.cpp src/base/process/procfs.cpp tests/fuzz/"$target"_target.cpp; do
    object=$build/$(echo "$source" | tr / _).o
    clang++ "${flags[@]}" -c "$source" -o "$object"
    objects+=("$object")
  done
  clang++ -fsanitize=fuzzer,address,undefined "${objects[@]}" -o "$build/fuzz_$target"
  "$build/fuzz_$target" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/finding-" "$build/$target" "$corpus" "$build/seeds"
  mkdir -p "$build/kept" && rm -f "$build/kept"/*
  "$build/fuzz_$target" -merge=1 "$build/kept" "$corpus" "$build/$target" "$build/seeds"
  find "$corpus" -type f -delete
  cp "$build/kept"/* "$corpus/"
  echo "$target: no finding in $seconds s; $(ls "$corpus" | wc -l) files are kept"
done
