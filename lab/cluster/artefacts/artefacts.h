// SPDX-License-Identifier: Apache-2.0
// The programs and libraries of the lab that travel inside the stalltrace binary (artefacts.S), and the folder of a
// virtual node that holds its own copy of them, like a real node's own file system.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "lab/cluster/host/node.h"

namespace stalltrace::lab {

struct Artefact {
  std::string_view path;  // within a node's folder: "lib/libnccl.so.2"
  std::string_view bytes;
};

/// Scripts and programs that workloads are started by, within a node's folder.
inline constexpr std::string_view kMpiTrain = "bin/mpi-train";
inline constexpr std::string_view kTorchTrain = "bin/torch-train.py";
inline constexpr std::string_view kNodeShell = "bin/node-shell";

std::span<const Artefact> artefacts();
/// mpi-train is there only where MPI was when this was built.
bool has_artefact(std::string_view path);

/// A node's folder with all artefacts and the profiler plugin in it, as long as this object lives (unless released).
class NodeFolder {
 public:
  static Result<NodeFolder> make(const VirtualNode& node);

  NodeFolder(NodeFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  NodeFolder& operator=(NodeFolder&&) = delete;
  ~NodeFolder();

  void release() { path_.clear(); }

 private:
  explicit NodeFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace stalltrace::lab
