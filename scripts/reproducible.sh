#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/reproducible.sh [TARGET [FILE]]: builds TARGET (stalltrace by default) twice, from copies of the committed tree in two
# folders with names of different lengths, without ccache, and compares FILE (of the target's name by default) of both. Prints its
# SHA-256; exit code 1: they differ. Twice a whole build, for the program.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${1:-stalltrace}
file=${2:-$target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
for folder in "$work/a" "$work/another-folder-of-another-length"; do
  mkdir -p "$folder"
  git archive HEAD | tar -x -C "$folder"
  cmake -S "$folder" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTALLTRACE_TESTS=OFF \
    -DCMAKE_C_COMPILER_LAUNCHER= -DCMAKE_CXX_COMPILER_LAUNCHER= >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
  cmake --build "$folder/build" --target "$target" -j "${JOBS:-$(nproc)}" >"$work/log" 2>&1 || { grep -v '^\[' "$work/log" | tail -n 40 >&2; exit 1; }
done
mapfile -t sums < <(find "$work" -path "*/build/$file" -exec sha256sum {} +)
((${#sums[@]} == 2)) || { echo "reproducible: $file is in ${#sums[@]} of the 2 builds" >&2; exit 1; }
if [[ ${sums[0]%% *} != "${sums[1]%% *}" ]]; then
  echo "reproducible: the two builds of $file differ: ${sums[0]%% *}, ${sums[1]%% *}" >&2
  exit 1
fi
echo "$file: ${sums[0]%% *} in both builds"
