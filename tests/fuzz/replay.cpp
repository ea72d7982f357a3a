// SPDX-License-Identifier: Apache-2.0
// replay FOLDER: runs the fuzzer's target over every file of a corpus, without the fuzzer. Says how many there were.
#include <cstdio>
#include <filesystem>

#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(argc > 1 ? argv[1] : ".")) {
    const auto bytes = stalltrace::read_file(entry.path().string());
    if (!bytes) {
      std::fprintf(stderr, "%s\n", bytes.error().what.c_str());
      return 1;
    }
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size());
    ++files;
  }
  std::printf("%d files\n", files);
  return files > 0 ? 0 : 1;
}
