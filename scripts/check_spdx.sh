#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that every source, script and build file begins with its licence.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
# The checkout may belong to a user other than the one who runs this (root in CI).
mapfile -t files < <(git -c safe.directory="$PWD" ls-files --cached --others --exclude-standard -- \
  '*.h' '*.c' '*.cpp' '*.S' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' .ci/run)
((${#files[@]})) || {
  echo "git lists no sources here" >&2
  exit 1
}
for file in "${files[@]}"; do
  if ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: '; then
    echo "$file: no SPDX-License-Identifier in the first three lines"
    bad=1
  fi
done
exit "$bad"
