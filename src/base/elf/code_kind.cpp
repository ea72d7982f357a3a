// SPDX-License-Identifier: Apache-2.0
#include "base/elf/code_kind.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/text.h"

namespace stalltrace {
namespace {

struct FilePrefix {
  std::string_view prefix;
  CodeKind kind;
};

constexpr FilePrefix kFiles[] = {
    {"libc.so", CodeKind::kTransparent},    {"libc-", CodeKind::kTransparent},
    {"libpthread", CodeKind::kTransparent}, {"libm.so", CodeKind::kTransparent},
    {"libstdc++", CodeKind::kTransparent},  {"libgcc_s", CodeKind::kTransparent},
    {"ld-linux", CodeKind::kTransparent},   {"libtorch", CodeKind::kTransparent},
    {"libc10", CodeKind::kTransparent},     {"libshm", CodeKind::kTransparent},
    {"libnccl", CodeKind::kLibrary},        {"librccl", CodeKind::kLibrary},
    {"libgloo", CodeKind::kLibrary},        {"libmpi", CodeKind::kLibrary},
    {"libopen-", CodeKind::kLibrary},       {"mca_", CodeKind::kLibrary},
    {"libmca_", CodeKind::kLibrary},        {"libevent", CodeKind::kLibrary},
    {"libpmix", CodeKind::kLibrary},        {"libucp", CodeKind::kLibrary},
    {"libuct", CodeKind::kLibrary},         {"libucs", CodeKind::kLibrary},
    {"libucc", CodeKind::kLibrary},         {"libfabric", CodeKind::kLibrary},
    {"libpsm", CodeKind::kLibrary},         {"libibverbs", CodeKind::kLibrary},
    {"libmlx5", CodeKind::kLibrary},        {"libcudart", CodeKind::kDevice},
    {"libcuda.so", CodeKind::kDevice},      {"libamdhip", CodeKind::kDevice},
    {"libhsa-runtime", CodeKind::kDevice},
};

}  // namespace

CodeKind code_kind(std::string_view path) {
  const std::string_view name = base_name(path);
  const auto found =
      std::ranges::find_if(kFiles, [&](const FilePrefix& file) { return name.starts_with(file.prefix); });
  return found == std::end(kFiles) ? CodeKind::kProgram : found->kind;
}

bool is_system_code(std::string_view path) {
  constexpr std::array<std::string_view, 8> kPrefixes{"libc.so",   "libc-",    "libpthread", "libm.so",
                                                      "libstdc++", "libgcc_s", "ld-linux",   "[vdso]"};
  const std::string_view name = base_name(path);
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool is_library_file(std::string_view path) {
  constexpr std::array<std::string_view, 5> kFolders{"/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/"};
  constexpr std::array<std::string_view, 3> kPackages{"/site-packages/", "/dist-packages/", "/lib-dynload/"};
  const std::string_view name = base_name(path);
  return code_kind(path) != CodeKind::kProgram || is_system_code(path) || name.starts_with("python") ||
         (name.starts_with("lib") && name.contains(".so")) ||
         std::ranges::any_of(kFolders, [&](std::string_view folder) { return path.starts_with(folder); }) ||
         std::ranges::any_of(kPackages, [&](std::string_view folder) { return path.contains(folder); });
}

}  // namespace stalltrace
