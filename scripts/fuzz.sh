#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes the reader of black boxes from its kept corpus: scripts/fuzz.sh [SECONDS]. Needs clang and libclang-rt. What it
# learns goes into the corpus, as few files as cover it; a finding is left beside the program and fails the run.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
corpus=tests/fuzz/corpus/ring
build=build-fuzz
mkdir -p "$build/new" "$corpus"
flags=(-std=c++2b -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -isystem tests/fuzz/clang -Isrc -I.
  -DFMT_HEADER_ONLY)
objects=()
for source in src/blackbox/{box_file,reader,decode,steps}.cpp src/import/rings.cpp src/model/{events,operation}.cpp \
  src/base/{clock,file,hash,result,text}.cpp tests/fuzz/ring_target.cpp; do
  object=$build/$(echo "$source" | tr / _).o
  clang++ "${flags[@]}" -c "$source" -o "$object"
  objects+=("$object")
done
clang++ -fsanitize=fuzzer,address,undefined "${objects[@]}" -o "$build/fuzz_ring"
clang++ "${flags[@]}" tests/fuzz/seeds.cpp -fsanitize=address,undefined -o "$build/seeds"
"$build/seeds" "$build/new"
"$build/fuzz_ring" -max_total_time="$seconds" -max_len=16384 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
  -artifact_prefix="$build/finding-" "$build/new" "$corpus"
mkdir -p "$build/kept" && rm -f "$build/kept"/*
"$build/fuzz_ring" -merge=1 "$build/kept" "$corpus" "$build/new"
find "$corpus" -type f -delete
cp "$build/kept"/* "$corpus/"
echo "no finding in $seconds s; $(ls "$corpus" | wc -l) files are kept"
