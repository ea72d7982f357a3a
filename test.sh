#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# All tests: installs what is needed, builds, runs. The last line alone is "N passed, N failed, N skipped".
# What needs root skips without it; with CI=true that is a failure.
set -uo pipefail
cd "$(dirname "$0")"

fail() {
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}
scripts/install_packages.sh || fail
echo "building"
scripts/build.sh || fail

results=$PWD/build/test-results
rm -rf "$results"
mkdir -p "$results"
export GTEST_OUTPUT="xml:$results/"

# run NAME ctest arguments...
reports=()
run() {
  local name=$1
  shift
  echo "running the $name tests"
  ctest --test-dir build --no-tests=ignore --output-on-failure --output-junit "$results/ctest-$name.xml.ctest" "$@" \
    >"$results/$name.log" 2>&1 || { grep -v '^ *Start' "$results/$name.log" | tail -n 150; }
  [[ -s $results/ctest-$name.xml.ctest ]] || {
    echo "the $name tests ended without a report"
    fail
  }
  reports+=("$results/ctest-$name.xml.ctest")
}
# A practice cluster that an interrupted test left standing would fail every later one.
[[ $EUID -ne 0 ]] || build/stalltrace lab down | sed 's/^/removed, left by an earlier run: /'
run unit -LE '^(root|e2e|kernels)$' -j 2 --timeout 300
run root -L '^root$' -j 1 --timeout 300
run e2e -L '^e2e$' -j 1 --timeout 1800
run kernels -L '^kernels$' -j 1 --timeout 900

scripts/totals.py "$results" "${reports[@]}"
