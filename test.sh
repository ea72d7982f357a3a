#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The tests: installs what is needed, builds, runs. The last line alone is "N passed, N failed, N skipped".
# A test that needs root skips without it; with CI=true that is a failure.
set -uo pipefail
cd "$(dirname "$0")"

usage="usage: ./test.sh [unit|checks|cli|kernels|jobs|root|e2e [NAME]]"
help() {
  cat <<EOF
$usage

Without words all tests run, in this order. A word runs a subset:
  unit     C++ programs; no root, about a minute
  checks   layering, layout, licences, documents against the program
  cli      the command line: flags, refusals, signals, exit codes
  kernels  other kernels under emulation
  jobs     real jobs that may run beside other tests: hangs, files, launchers; most need root
  root     BPF programs and the lab against the real kernel; needs root
  e2e      real jobs with real faults, end to end; needs root

NAME is a part of the names of the tests to run. For unit and root it may also be a whole program, such as test_store; for unit
only that program is built then.
  ./test.sh unit test_store
  ./test.sh unit PacketLoss
  ./test.sh e2e test_a_late_rank
EOF
}
if [[ ${1:-} == --help ]]; then
  help
  exit 0
fi
subset=${1:-all}
name=${2:-}
if (($# > 2)) || [[ $# -eq 2 && -z $name ]] || [[ ! $subset =~ ^(all|unit|checks|cli|root|e2e|jobs|kernels)$ ]] || [[ ${1:-} == all ]]; then
  echo "$usage" >&2
  exit 2
fi

fail() {
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}
program=
[[ $subset != unit && $subset != root ]] || [[ ! $name =~ ^(test|replay)_ ]] || program=$name
targets=()
[[ $subset != unit || -z $program ]] || targets=("$program")

scripts/install_packages.sh || fail
echo "building"
began=$SECONDS
scripts/build.sh default "${targets[@]}" || fail
echo "  $((SECONDS - began)) s"

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
  local began=$SECONDS
  ctest --test-dir build --no-tests=ignore --output-on-failure --output-junit "$results/ctest-$name.xml.ctest" "$@" \
    >"$results/$name.log" 2>&1 || { grep -v '^ *Start' "$results/$name.log" | tail -n 150; }
  echo "  $((SECONDS - began)) s"
  [[ -s $results/ctest-$name.xml.ctest ]] || {
    echo "the $name tests ended without a report"
    fail
  }
  reports+=("$results/ctest-$name.xml.ctest")
}
# A practice cluster that an interrupted test left standing would fail every later one.
case $subset in
  all | root | e2e | jobs) [[ $EUID -ne 0 ]] || build/stalltrace lab down | sed 's/^/removed, left by an earlier run: /' ;;
esac

chosen=()
if [[ -n $program ]]; then
  chosen=(-R "^$program\$")
elif [[ -n $name ]]; then
  export GTEST_FILTER="*$name*" # tests/run_suite.py reads it too
  chosen=(-E '^replay_')        # programs without named tests
fi
case $subset in
  all)
    # Emulated kernels have a clock of their own, and the jobs of "jobs" hang, fail or write files: what runs beside them does not
    # matter to them. It does to those of e2e, whose stalls are measured.
    run unit -LE '^(root|e2e|checks|replay)$' -j 3 --timeout 900 # the command line's tests wait more than they compute
    run root -L '^(root|checks|replay)$' -j 2 --timeout 300 # those of root, which mostly wait, one after the other
    run e2e -L '^e2e$' -j 1 --timeout 1800
    ;;
  unit) run unit -L '^unit$' -j 2 --timeout 300 "${chosen[@]}" ;;
  checks | cli | root) run "$subset" -L "^$subset\$" -j 1 --timeout 300 "${chosen[@]}" ;;
  e2e) run e2e -L '^e2e$' -j 1 --timeout 1800 "${chosen[@]}" ;;
  jobs) run jobs -L '^jobs$' -j 1 --timeout 900 "${chosen[@]}" ;;
  kernels) run kernels -L '^kernels$' -j 1 --timeout 900 "${chosen[@]}" ;;
esac

scripts/totals.py "$results" "${reports[@]}"
