// SPDX-License-Identifier: Apache-2.0
// The answer to POST /v1/rows: rows of one recording in a small form, for an analysis on another host.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "serve/http_message.h"
#include "serve/recordings.h"
#include "serve/rows/rows_request.h"
#include "serve/rows/spool.h"

namespace stalltrace::serve {

struct RowsAnswerOptions {
  std::string folder;  // for answers that are too large for memory
  const std::atomic<bool>* gone = nullptr;
  std::shared_ptr<SpoolRoom> room = {};  // of all answers of a server; null: of this one alone
};

/// Reads all rows that are asked for; `snapshot` is not used after it returns. Where there is no room for them it is an
/// answer with status 503 and Retry-After, or 507.
Result<HttpAnswer> rows_answer(Snapshot& snapshot, const RowsRequest& request, const RowsAnswerOptions& options);

}  // namespace stalltrace::serve
