#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the layout with clang-format. `scripts/check_format.sh --fix` rewrites.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && mode=(-i)
# The checkout may belong to a user other than the one who runs this (root in CI).
mapfile -t files < <(git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -- '*.h' '*.c' '*.cpp')
((${#files[@]})) || {
  echo "git lists no sources here" >&2
  exit 1
}
clang-format "${mode[@]}" "${files[@]}"
