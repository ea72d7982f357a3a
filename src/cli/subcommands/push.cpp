// SPDX-License-Identifier: Apache-2.0
// `stalltrace push`: copies recordings into a folder that collects those of all nodes.
#include "cli/evidence/push.h"

#include <fmt/format.h>

#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

class PushSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "push",
            .summary = "copy recordings into a folder that collects those of all nodes",
            .example = "stalltrace push stalltrace.db --to /shared/recordings",
            .details =
                "A copy is named by its node and the start of its agent, and appears complete or not at all. One that "
                "is there already is not copied again; nothing is replaced, and the recording stays where it is.\n"
                "`trace --push` does the same when a trace ends."};
  }
  std::vector<Flag> flags() override {
    return {arguments("FILE", "recordings", &files_),
            required(text_flag("--to", "DIR", "the folder; must be there", &folder_)),
            duration_flag("--timeout", "how long it may be tried, for each recording", &timeout_ns_),
            privacy_.group_flag(), privacy_.readers_flag()};
  }
  Result<int> run(Console& console) override {
    for (const std::string& file : files_) {
      ST_ASSIGN(const std::string line, push_in_child(file, folder_, privacy_.readers(), timeout_ns_));
      console.note(line);
    }
    return kExitDone;
  }

 private:
  std::vector<std::string> files_;
  std::string folder_;
  int64_t timeout_ns_ = kPushTimeoutNs;
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_push_subcommand() { return std::make_unique<PushSubcommand>(); }

}  // namespace stalltrace::cli
