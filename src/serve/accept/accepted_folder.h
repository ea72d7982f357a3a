// SPDX-License-Identifier: Apache-2.0
// The folder of a server that takes in what agents hand over (serve --accept): recordings, and the findings of live
// analyses. A client with the token may send anything: all is bounded, a recording is checked like any that is read,
// and appears complete or not at all, and names of files are made here, none comes from a request.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/files/own_folder.h"
#include "base/result.h"
#include "serve/http_message.h"

namespace stalltrace::serve {

struct AcceptLimits {
  int64_t most_file_bytes = int64_t{4} << 30;      // of a recording, uncompressed
  int64_t most_bytes = int64_t{64} << 30;          // of all files in the folder; 0: no limit
  int64_t most_finding_bytes = int64_t{64} << 20;  // of one agent's findings
};

class AcceptedFolder {
 public:
  /// Makes the folder if it is missing. Errors: it is another user's, or others can write into it or replace it.
  static Result<std::unique_ptr<AcceptedFolder>> open(const std::string& path, const AcceptLimits& limits);
  AcceptedFolder(const AcceptedFolder&) = delete;
  AcceptedFolder& operator=(const AcceptedFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return folder_.path(); }

  /// Where the body of POST /v1/recordings goes: a recording, compressed with zstd, of the size in the header
  /// Stalltrace-Bytes. Any thread; the folder must outlive the body.
  Upload begin_recording(const HttpRequest& request);

  /// Appends the lines of POST /v1/findings to the file of their agent. Lines that are the last ones there already are
  /// not repeated: of a client that got no answer. Those for which its file has no room are refused with 413: trying
  /// again would never help. Any thread.
  HttpAnswer add_findings(std::string_view lines);

 private:
  class Body;
  AcceptedFolder(OwnFolder folder, const AcceptLimits& limits) : folder_(std::move(folder)), limits_(limits) {}
  /// Of what is there. Without files that are being received, which are reserved.
  struct Used {
    int64_t bytes = 0;
    int64_t files = 0;
  };
  [[nodiscard]] Used used() const;
  /// None: there is room.
  std::optional<HttpAnswer> reserve(int64_t bytes);
  void release(int64_t bytes);
  /// None: the lines are stored.
  std::optional<HttpAnswer> append(const std::string& name, const std::string& lines);

  OwnFolder folder_;
  AcceptLimits limits_;
  std::mutex mutex_;  // protects the members below, and findings' files
  int64_t reserved_bytes_ = 0;
};

}  // namespace stalltrace::serve
