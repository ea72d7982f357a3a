#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The plugin's tests under AddressSanitizer with UBSan, then under ThreadSanitizer. About five minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
for sanitizers in address,undefined thread; do
  build=build-plugin-${sanitizers%%,*}
  cmake -S plugin -B "$build" -G Ninja -DSTALLTRACE_TESTS=ON -DSTALLTRACE_SANITIZE="$sanitizers" >/dev/null
  ninja -C "$build" >/dev/null
  echo "$sanitizers"
  UBSAN_OPTIONS=halt_on_error=1 "$build/test_plugin" --gtest_brief=1
done
