// SPDX-License-Identifier: Apache-2.0
// stacks_seeds FOLDER IMAGE...: the recorded images (src/stacks/testdata) as the stacks target reads them, each also as
// memory that changes.
#include <fstream>
#include <string>

#include "base/file.h"
#include "stacks/testing/image.h"

using namespace stalltrace::stacks;

int main(int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    std::string bytes = image_bytes(image_of_text(stalltrace::read_file(argv[i]).value_or("")));
    std::ofstream(std::string(argv[1]) + "/still" + std::to_string(i)) << bytes;
    bytes[1] = 7;  // every seventh page
    std::ofstream(std::string(argv[1]) + "/changing" + std::to_string(i)) << bytes;
  }
}
