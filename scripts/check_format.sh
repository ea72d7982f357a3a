#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The layout is what clang-format says. `scripts/check_format.sh --fix` rewrites.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run -Werror)
[[ ${1:-} == --fix ]] && mode=(-i)
git ls-files -z --cached --others --exclude-standard -- '*.h' '*.c' '*.cpp' | xargs -0 -r clang-format "${mode[@]}"
