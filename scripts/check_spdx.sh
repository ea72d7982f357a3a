#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every source, script and build file begins with its licence.
set -euo pipefail
cd "$(dirname "$0")/.."
# The checkout may belong to a user other than the one who runs this (root in CI).
mapfile -t files < <(git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -- \
  '*.h' '*.c' '*.cpp' '*.S' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' .ci/run)
((${#files[@]})) || {
  echo "git lists no sources here" >&2
  exit 1
}
awk '
  FNR <= 3 && /SPDX-License-Identifier: / { has[FILENAME] }
  FNR >= 3 { nextfile }
  END {
    for (i = 1; i < ARGC; ++i) {
      if (!(ARGV[i] in has)) {
        print ARGV[i] ": no SPDX-License-Identifier in the first three lines"
        bad = 1
      }
    }
    exit bad
  }' "${files[@]}"
