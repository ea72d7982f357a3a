// SPDX-License-Identifier: Apache-2.0
// What `mcp --nodes` answers from: copies of the recordings that nodes serve, in a temporary folder.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/disposable_folder.h"
#include "base/handle.h"
#include "base/result.h"
#include "cli/fleet/node_flags.h"
#include "launch/supervision/worker.h"
#include "serve/json/json.h"
#include "serve/recordings.h"

namespace stalltrace::cli {

/// A child asks the nodes: it may connect, and it writes the copies. So this process, which reads what they sent, can
/// give up both. One thread at a time.
class NodeRecordings final : public serve::Recordings {
 public:
  /// Starts the child, which asks nothing yet. To be called before rights are given up and before the first thread is
  /// started. `files`: recordings of this host that are served beside the copies.
  static Result<std::unique_ptr<serve::Recordings>> start(NodeFlags::Target target, bool require_all,
                                                          std::vector<std::string> files);

  [[nodiscard]] bool are_copies() const override { return true; }
  Result<const Gathered*> gather(bool again) override;

  std::vector<Info> list() override { return recordings_->list(); }
  Result<std::shared_ptr<serve::Snapshot>> snapshot(std::string_view name) override {
    return recordings_->snapshot(name);
  }
  Result<std::shared_ptr<serve::Snapshot>> own_snapshot(std::string_view name) override {
    return recordings_->own_snapshot(name);
  }
  Status query(std::string_view name, std::string_view sql, const QueryEnd& end, RowSink& sink) override {
    return recordings_->query(name, sql, end, sink);
  }
  Result<UniqueFd> open_copy(std::string_view name, const std::string& folder) override {
    return recordings_->open_copy(name, folder);
  }

 private:
  NodeRecordings(DisposableFolder folder, launch::Worker child, UniqueFd socket, size_t nodes,
                 std::vector<std::string> files);
  Result<serve::Json> ask_child();

  // In this order: the child ends with its socket, the folder is removed once no process has it.
  DisposableFolder folder_;
  launch::Worker child_;
  UniqueFd socket_;
  size_t nodes_;
  std::vector<std::string> files_;
  std::unique_ptr<serve::Recordings> recordings_;
  std::optional<Gathered> gathered_;
};

}  // namespace stalltrace::cli
