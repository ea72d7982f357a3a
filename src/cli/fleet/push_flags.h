// SPDX-License-Identifier: Apache-2.0
// --push of the subcommands that record: where to hand a recording over when it is finished.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/evidence/push.h"
#include "cli/fleet/client_flags.h"
#include "cli/framework/console.h"
#include "cli/framework/flag.h"

namespace stalltrace::cli {

class PushFlags {
 public:
  /// --push, --tls-fingerprint and --tls-ca. The subcommand adds --token-file, which it may have for a server of its
  /// own, too.
  [[nodiscard]] std::vector<Flag> flags(std::string help);
  [[nodiscard]] Flag token_flag() { return client_.token_flag(); }

  /// Reports at once, not after hours, what is wrong with the flags. `token_file`: of a --token-file that is not
  /// token_flag(). Forks: for a time when no other thread holds a lock.
  [[nodiscard]] Status prepare(const std::string& token_file = {});

  [[nodiscard]] bool given() const { return !text_.empty(); }
  [[nodiscard]] const std::string& shown() const { return text_; }
  [[nodiscard]] const PushTarget& target() const { return target_; }
  /// This object must outlive it.
  [[nodiscard]] LoadClient client() const;
  /// Prints how it went: an error costs nothing but the copy. Nothing without --push.
  void push(const std::string& recording, Readers readers, Console& console) const;

 private:
  std::string text_;
  std::string token_file_;
  PushTarget target_;
  ClientFlags client_;
};

}  // namespace stalltrace::cli
