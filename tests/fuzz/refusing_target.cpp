// SPDX-License-Identifier: Apache-2.0
// A target with one fault of each kind, to test the replay itself (tests/checks/fuzz_test.py).
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == 'a') {
    std::abort();
  }
  if (size > 0 && data[0] == 'e') {
    std::exit(3);
  }
  return 0;
}
