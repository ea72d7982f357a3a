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
  -DFMT_HEADER_ONLY -DSTALLTRACE_VERSION='"fuzzed"')

mkdir -p "$build/seeds"
clang++ "${flags[@]}" tests/fuzz/seeds.cpp -fsanitize=address,undefined -o "$build/make_seeds"
"$build/make_seeds" "$build/seeds"
# What both targets run, and all that it needs: whole folders, so that a file may move inside them.
objects=()
mapfile -t sources < <(find src/base src/model src/blackbox -name '*.cpp' ! -name '*_test.cpp' ! -name fmt_library.cpp ! -path '*/testing/*')
for source in "${sources[@]}"; do
  object=$build/$(echo "$source" | tr / _).o
  clang++ "${flags[@]}" -c "$source" -o "$object"
  objects+=("$object")
done
for target in $targets; do
  pack=tests/fuzz/corpus/$target.pack
  kept=$build/kept-$target
  merged=$build/merged-$target
  rm -rf "$kept" "$merged"
  mkdir -p "$build/$target" "$kept" "$merged"
  [[ ! -e $pack ]] || scripts/fuzz_corpus.py unpack "$pack" "$kept"
  clang++ "${flags[@]}" "tests/fuzz/${target}_target.cpp" "${objects[@]}" -fsanitize=fuzzer,address,undefined -o "$build/fuzz_$target"
  "$build/fuzz_$target" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$build/finding-" "$build/$target" "$kept" "$build/seeds"
  "$build/fuzz_$target" -set_cover_merge=1 -max_len=16384 "$merged" "$kept" "$build/$target" "$build/seeds"
  echo "$target: no failure in $seconds s; kept $(scripts/fuzz_corpus.py pack "$merged" "$pack")"
done
