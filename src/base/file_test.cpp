// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/io/write_all.h"

namespace stalltrace {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() : folder_(testing::TempDir() + "file." + std::to_string(::getpid())) { fs::create_directory(folder_); }
  ~Files() override { fs::remove_all(folder_); }

  [[nodiscard]] std::string write(std::string_view content) const {
    std::string path = folder_ + "/a";
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }

  std::string folder_;
};

TEST_F(Files, AreReadUpToALimit) {
  const std::string content = std::string(50'000, 'x') + "end";
  const std::string path = write(content);
  EXPECT_EQ(read_file(path), content);
  EXPECT_EQ(read_file(path, 3), "xxx");
  EXPECT_EQ(read_file(path, content.size()), content);
  EXPECT_EQ(read_file(path, content.size() + 1), content);
  EXPECT_EQ(read_file(write("")), "");
  EXPECT_LT(read_file(path, content.size() + 1)->capacity(), 2 * content.size());
}

TEST_F(Files, OfUnknownSizeAreReadAsWell) {
  EXPECT_TRUE(read_file("/proc/self/status")->starts_with("Name:"));
  const std::string path = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const std::string content(100'000, 'y');
  const std::jthread writer([&] {
    const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_TRUE(write_all(fd.get(), content));
  });
  EXPECT_EQ(read_file(path), content);
}

TEST_F(Files, AWholeOneIsRefusedBeforeItIsRead) {
  const std::string path = write("12345678");
  EXPECT_EQ(read_whole(path, 8), "12345678");
  EXPECT_EQ(read_whole(path, 100), "12345678");
  const auto refused = read_whole(path, 7);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, path + ": larger than 7 B");
  EXPECT_EQ(refused.error().kind, ErrorKind::kCorrupt);
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 33), 0);  // a hole: reading it would take the memory
  EXPECT_FALSE(read_whole(path, size_t{1} << 32));
  EXPECT_FALSE(read_whole(folder_, 8));
  EXPECT_FALSE(read_whole(folder_ + "/none", 8));
}

}  // namespace
}  // namespace stalltrace
