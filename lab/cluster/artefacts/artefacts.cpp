// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/artefacts/artefacts.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "plugin/embedded/profiler_plugin.h"

extern "C" {
#define ST_ARTEFACT(name)                 \
  extern const char st_artefact_##name[]; \
  extern const char st_artefact_##name##_end[];
ST_ARTEFACT(nccl)
ST_ARTEFACT(cudart)
ST_ARTEFACT(nccl_train)
ST_ARTEFACT(stress_cpu)
ST_ARTEFACT(torch_train)
ST_ARTEFACT(node_shell)
#ifdef ST_LAB_MPI
ST_ARTEFACT(mpi_train)
#endif
#undef ST_ARTEFACT
}

namespace stalltrace::lab {
namespace {

std::string_view between(const char* begin, const char* end) { return {begin, static_cast<size_t>(end - begin)}; }

std::unexpected<Error> failed(const std::string& path, const std::error_code& error) {
  return fail_errno("create " + path, error.value());
}

}  // namespace

std::span<const Artefact> artefacts() {
  static const std::array kArtefacts = {
      Artefact{"lib/libnccl.so.2", between(st_artefact_nccl, st_artefact_nccl_end)},
      Artefact{"lib/libcudart.so.12", between(st_artefact_cudart, st_artefact_cudart_end)},
      Artefact{"bin/nccl-train", between(st_artefact_nccl_train, st_artefact_nccl_train_end)},
      Artefact{"bin/stress-cpu", between(st_artefact_stress_cpu, st_artefact_stress_cpu_end)},
      Artefact{kTorchTrain, between(st_artefact_torch_train, st_artefact_torch_train_end)},
      Artefact{kNodeShell, between(st_artefact_node_shell, st_artefact_node_shell_end)},
#ifdef ST_LAB_MPI
      Artefact{kMpiTrain, between(st_artefact_mpi_train, st_artefact_mpi_train_end)},
#endif
  };
  return kArtefacts;
}

bool has_artefact(std::string_view path) {
  return std::ranges::find(artefacts(), path, &Artefact::path) != artefacts().end();
}

Result<NodeFolder> NodeFolder::make(const VirtualNode& node) {
  namespace fs = std::filesystem;
  std::error_code error;
  NodeFolder folder(node.folder);
  for (const Artefact& artefact : artefacts()) {
    const fs::path path = fs::path(node.folder) / artefact.path;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      return failed(path.parent_path().string(), error);
    }
    ST_TRY(write_file(path.string(), artefact.bytes, 0755));
  }
  ST_TRY(write_profiler_plugin(node.folder + "/lib"));
  return folder;
}

NodeFolder::~NodeFolder() {
  if (!path_.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
}

}  // namespace stalltrace::lab
