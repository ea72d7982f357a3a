// SPDX-License-Identifier: Apache-2.0
#include "base/elf/code_kind.h"

#include <gtest/gtest.h>

namespace stalltrace {
namespace {

TEST(CodeKindOf, FileNames) {
  EXPECT_EQ(code_kind("/lib/libnccl.so.2"), CodeKind::kLibrary);
  EXPECT_EQ(code_kind("/usr/lib/openmpi/mca_btl_tcp.so"), CodeKind::kLibrary);
  EXPECT_EQ(code_kind("/lib/x86_64-linux-gnu/libc.so.6"), CodeKind::kTransparent);
  EXPECT_EQ(code_kind("/usr/bin/train"), CodeKind::kProgram);
}

TEST(CodeKindOf, FilesThatAreNotThePrograms) {
  EXPECT_TRUE(is_library_file("/usr/lib/x86_64-linux-gnu/libm.so.6"));
  EXPECT_TRUE(is_library_file("/home/u/build/libnccl.so.2"));
  EXPECT_TRUE(is_library_file("/home/u/.venv/lib/python3.11/site-packages/fast/_fast.so"));
  EXPECT_TRUE(is_library_file("[vdso]"));
  EXPECT_TRUE(is_library_file("/opt/conda/lib/libopenblas.so.0"));
  EXPECT_TRUE(is_library_file("/home/u/build/libmodel.so")) << "its name is like that of others";
  EXPECT_TRUE(is_library_file("/usr/bin/python3.11"));
  EXPECT_TRUE(is_library_file("/opt/python/lib/python3.12/lib-dynload/_ctypes.cpython-312-x86_64-linux-gnu.so"));
  EXPECT_FALSE(is_library_file("/home/u/build/model.so"));
  EXPECT_FALSE(is_library_file("/home/u/library"));
  EXPECT_FALSE(is_library_file("/home/u/train"));
  EXPECT_FALSE(is_library_file("JIT code"));
  EXPECT_TRUE(is_system_code("/lib/x86_64-linux-gnu/libc.so.6"));
  EXPECT_TRUE(is_system_code("[vdso]"));
  EXPECT_FALSE(is_system_code("/usr/lib/libtorch_cpu.so"));
}

}  // namespace
}  // namespace stalltrace
