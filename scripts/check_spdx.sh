#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every source, script and build file begins with its licence.
set -euo pipefail
cd "$(dirname "$0")/.."
bad=0
while read -r file; do
  if ! head -n 3 "$file" | grep -q 'SPDX-License-Identifier: '; then
    echo "$file: no SPDX-License-Identifier in the first three lines"
    bad=1
  fi
done < <(git ls-files --cached --others --exclude-standard -- \
  '*.h' '*.c' '*.cpp' '*.S' '*.py' '*.sh' '*.cmake' '*CMakeLists.txt' .ci/run)
exit "$bad"
