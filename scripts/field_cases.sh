#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/field_cases.sh [--times N] [--only PATTERN] [--json OUT]: plays the jobs of tests/field/table.py, healthy and broken, and
# compares what stalltrace reports with what is right. The last line counts them; the exit code is 0 only if all are. Needs root and
# the program in build/ (STALLTRACE_BUILD: elsewhere); --help lists all flags. Some 20 minutes for one time.
set -euo pipefail
cd "$(dirname "$0")/.."
[[ $EUID -eq 0 ]] || {
  echo "field_cases: needs root" >&2
  exit 2
}
exec python3 tests/field/field_cases.py "$@"
