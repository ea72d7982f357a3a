#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/build.sh [PRESET [TARGET...]]: builds everything, or the targets, into build/ (build-PRESET/ for another
# preset; arm64 is the cross-build, whose packages scripts/install_packages.sh arm64 installs). Prints output only on
# failure.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-default}
targets=("${@:2}")

log=$(mktemp)
trap 'rm -f "$log"' EXIT
step() {
  "$@" >"$log" 2>&1 || {
    grep -v '^\[' "$log" | tail -n 60 >&2
    echo "build: '$*' failed; see the lines above" >&2
    exit 1
  }
}
folder=build
[[ $preset == default ]] || folder=build-$preset
step cmake --preset "$preset"
step cmake --build "$folder" --target "${targets[@]:-all}"
