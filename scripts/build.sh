#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything into build/ (or the preset given). Quiet unless it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-default}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
step() {
  "$@" >"$log" 2>&1 || {
    tail -n 60 "$log" >&2
    echo "build: '$*' failed; see the lines above" >&2
    exit 1
  }
}
folder=build
[[ $preset == default ]] || folder=build-$preset
step cmake --preset "$preset"
step cmake --build "$folder"
