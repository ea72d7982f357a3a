// SPDX-License-Identifier: Apache-2.0
#include "cli/fleet/push_flags.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace stalltrace::cli {

std::vector<Flag> PushFlags::flags(std::string help) {
  std::vector<Flag> all{text_flag("--push", "TARGET", std::move(help), &text_)};
  std::ranges::move(client_.certificate_flags(), std::back_inserter(all));
  return all;
}

Status PushFlags::prepare(const std::string& token_file) {
  token_file_ = token_file;
  if (given()) {
    ST_ASSIGN(target_, PushTarget::parse(text_));
  }
  if (!target_.server) {
    return client_.given() ? Status(fail("a token and certificates are for a server, and none is given",
                                         "give --push https://HOST:PORT", ErrorKind::kUsage))
                           : Status();
  }
  Status usable = check_client(client(), *target_.server);
  return usable ? std::move(usable) : Status(with_context("--push", std::move(usable.error())));
}

LoadClient PushFlags::client() const {
  return [this] { return token_file_.empty() ? client_.load() : client_.load(token_file_); };
}

void PushFlags::push(const std::string& recording, Readers readers, Console& console) const {
  if (!given()) {
    return;
  }
  const Result<std::string> line = push_in_child(recording, target_, client(), readers, kPushTimeoutNs);
  if (line) {
    console.note(*line);
  } else {
    console.error(line.error());
  }
}

}  // namespace stalltrace::cli
