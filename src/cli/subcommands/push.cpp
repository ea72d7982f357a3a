// SPDX-License-Identifier: Apache-2.0
// `stalltrace push`: copies recordings to where those of all nodes are collected, a folder or a server.
#include "cli/evidence/push.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "cli/fleet/client_flags.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

class PushSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "push",
            .summary = "copy recordings to a folder or a server that collects those of all nodes",
            .example = "stalltrace push stalltrace.db --to /shared/recordings",
            .details =
                "A copy is named by its node and the start of its agent, and appears complete or not at all. One that "
                "is there already is not copied again; nothing is replaced, and the recording stays where it is.\n"
                "A server takes them in where it runs with `serve --accept`: --to https://HOST:7700, with its token.\n"
                "`trace --push` does the same when a trace ends."};
  }
  std::vector<Flag> flags() override {
    std::vector<Flag> all{arguments("FILE", "recordings", &files_),
                          required(text_flag("--to", "TARGET", "the folder, which must be there, or the server", &to_)),
                          duration_flag("--timeout", "how long it may be tried, for each recording", &timeout_ns_),
                          client_.token_flag()};
    std::ranges::move(client_.certificate_flags(), std::back_inserter(all));
    all.push_back(privacy_.group_flag());
    all.push_back(privacy_.readers_flag());
    return all;
  }
  Result<int> run(Console& console) override {
    ST_ASSIGN(const PushTarget target, PushTarget::parse(to_));
    if (!target.server && client_.given()) {
      return fail("a token and certificates are for a server, and --to is a folder", "give --to https://HOST:PORT",
                  ErrorKind::kUsage);
    }
    fleet::ClientOptions client;
    if (target.server) {
      ST_ASSIGN(client, client_.load());
    }
    for (const std::string& file : files_) {
      ST_ASSIGN(const std::string line, push_in_child(
                                            file, target, [&] { return client; }, privacy_.readers(), timeout_ns_));
      console.note(line);
    }
    return kExitDone;
  }

 private:
  std::vector<std::string> files_;
  std::string to_;
  int64_t timeout_ns_ = kPushTimeoutNs;
  ClientFlags client_;
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_push_subcommand() { return std::make_unique<PushSubcommand>(); }

}  // namespace stalltrace::cli
