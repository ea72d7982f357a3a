// SPDX-License-Identifier: Apache-2.0
// The lab's programs and libraries that are embedded in the stalltrace binary (artefacts.S), and a virtual node's
// folder with its own copy of them, in place of a real node's file system.
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

/// Scripts and programs that start workloads, within a node's folder.
inline constexpr std::string_view kMpiTrain = "bin/mpi-train";
inline constexpr std::string_view kTorchTrain = "bin/torch-train.py";
inline constexpr std::string_view kNodeShell = "bin/node-shell";

std::span<const Artefact> artefacts();
/// mpi-train exists only if MPI was installed at build time.
bool has_artefact(std::string_view path);

/// A node's folder with all artefacts and the profiler plugin, for this object's lifetime (unless released).
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
