#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/static_analysis.sh [FILE...]: clang-tidy with the checks of .clang-tidy over the code that reads what strangers wrote: ELF files,
# untrusted files, profiler files, other processes' memory, logs and dumps, kernel records, the launcher; or over these FILEs. Installs
# clang-tidy where it is missing (root). JOBS run at once, one for each CPU by default. Exit code 1: something was found.
# Takes some 10 s of CPU time for a file, and is not part of ./test.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null || apt-get install -y --no-install-recommends clang-tidy >/dev/null
flags=(-std=c++2b -isystem tests/fuzz/clang -Isrc -Ibpf -I. -DFMT_HEADER_ONLY '-DSTALLTRACE_VERSION="checked"')
if (($# > 0)); then
  files=("$@")
else
  mapfile -t files < <(find src/base src/import src/blackbox src/stacks src/launch src/capture/decode src/capture/discover src/store/btree \
    -name '*.cpp' ! -name '*_test.cpp' ! -path '*/testing/*' | sort)
fi
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "${JOBS:-$(nproc)}" bash -c \
  'clang-tidy --quiet "${@: -1}" -- "${@:1:$#-1}" 2>/dev/null' check "${flags[@]}"
echo "${#files[@]} files: nothing found"
