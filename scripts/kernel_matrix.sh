#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots each of several kernels in an emulated machine, runs stalltrace's checks there, and prints a table.
#
#   [MATRIX_ARCH=arm64] scripts/kernel_matrix.sh [--short | --without-tests] [--out DIR] [--kept FILE.json] [VERSION...]
#
# VERSION is 5.10, 6.1, 6.12 or newest, Debian's cloud kernels, and for arm64 newest-16k, with pages of 16 KiB; without one all of
# them. --without-tests leaves out the BPF tests, --short the run without a fault, too. --out keeps DIR/kernel-matrix.md and DIR/kernel-matrix.json (kernel-matrix-arm64 of that architecture);
# scripts/kernel_matrix/table.py makes the one of the other. --kept demands that `check` says what it says in FILE.json.
# Exit code 0: every step passed on every kernel.
#
# Needs what scripts/packages.txt lists, the build, and no root; for arm64 what scripts/packages_arm64.txt lists, and the build of
# `scripts/build.sh arm64`. Kernels are downloaded once, into build/kernels. What the guests left behind is in
# build/kernel-matrix/ARCH/results. scripts/kernel_matrix/boot.sh runs any one command under a kernel.
set -euo pipefail
. "$(dirname "$0")/kernel_matrix/settings.sh"
usage() {
  sed -n '3,14s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

# On two CPUs: steps that depend on the number of CPUs. With steady time: steps that depend on time.
steady_steps=(check programs calls lab healthy)
parallel_steps=(root_tests)
out=
kept=()
while (($# > 0)); do
  case $1 in
    --without-tests) parallel_steps=() ;;
    --short)
      steady_steps=(check programs calls lab)
      parallel_steps=()
      ;;
    --out) out=${2:?}; shift ;;
    --kept) kept=(--kept "${2:?}"); shift ;;
    -*) usage ;;
    *) break ;;
  esac
  shift
done
names=("$@")
((${#names[@]})) || names=("${all_kernels[@]}")
for name in "${names[@]}"; do
  suite_of "$name" >/dev/null || usage
done

for name in "${names[@]}"; do
  "$here/fetch_kernel.sh" "$name"
done

# run MACHINE KERNEL STEP...: runs on one of the two machines (settings.sh). A second of the steady one may take the
# host several.
run() {
  local machine=$1 name=$2 steps=("${@:3}") folder=$results/$2/$1 limit=90 options=() step
  for step in "${steps[@]}"; do
    limit=$((limit + $(sed -n 's/^# Limit: \([0-9]*\) s.*/\1/p' "$here/guest/steps/$step") + 10))
  done
  if [[ $machine == steady ]]; then
    options+=(--steady)
    limit=$((limit * 4))
  fi
  mkdir -p "$folder"
  # The result is read from the files left behind: a step without an exit code hung, or was not reached.
  "$here/boot.sh" "${options[@]}" --limit "$limit" --results "$folder" "$name" -- /km/run_steps "${steps[@]}" 2>&1 |
    tee "$folder/console" >&2 || true
}
results=$work/results
for name in "${names[@]}"; do
  echo "kernel $name" >&2
  rm -rf "${results:?}/$name"
  SECONDS=0
  run steady "$name" "${steady_steps[@]}"
  ((${#parallel_steps[@]} == 0)) || run parallel "$name" "${parallel_steps[@]}"
  echo "$SECONDS" >"$results/$name/seconds"
done

code=0
"$here/judge.py" "${kept[@]}" "$arch" "$results" "$kernels" \
  "$(IFS=,; echo "${steady_steps[*]}")" "$(IFS=,; echo "${parallel_steps[*]}")" "${names[@]}" \
  >"$work/kernel-matrix.json" || code=$?
"$here/table.py" "$work/kernel-matrix.json" | tee "$work/kernel-matrix.md"
if [[ -n $out ]]; then
  mkdir -p "$out"
  name=kernel-matrix
  [[ $arch == amd64 ]] || name+=-$arch
  for suffix in md json; do
    cp "$work/kernel-matrix.$suffix" "$out/$name.$suffix"
  done
fi
exit "$code"
