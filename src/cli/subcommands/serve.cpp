// SPDX-License-Identifier: Apache-2.0
// `stalltrace serve`: recordings of this node over HTTP.
#include <algorithm>
#include <iterator>

#include "cli/fleet/serving.h"
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

class ServeSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "serve",
        .summary = "answer questions about this node's recordings over HTTP",
        .example = "stalltrace serve node0.db --listen 127.0.0.1:7700",
        .details =
            "For query, explain and nodes with --nodes, and for any HTTP client (docs/serve.md has the API).\n"
            "A recording may still be written: each answer is of its current state. Nothing is changed.\n"
            "At an address of loopback every user of this host may ask. At any other, requests need the token,\n"
            "and TLS is on: with your certificate, or with one that is made now, whose fingerprint is printed.\n"
            "With --allow-preflight the node also takes part in `preflight --nodes`, by a process of its own.\n"
            "With --allow-autopsy it looks at the jobs that run here for `autopsy --nodes`; as root at all of them.\n"
            "With --accept it also takes in what `push` and `trace --push` send.\n"
            "With --accept or --allow-autopsy FILE may be left out."};
  }
  std::vector<Flag> flags() override {
    std::vector<Flag> all = {
        optional(arguments("FILE", "recordings; none only with --accept or --allow-autopsy", &files_)),
        text_flag("--listen", "ADDR:PORT", "where to listen; port 0: any that is free", &listen_)};
    std::ranges::move(serving_.flags(), std::back_inserter(all));
    std::ranges::move(serving_.accept_flags(), std::back_inserter(all));
    return all;
  }
  Result<int> run(Console& console) override {
    if (files_.empty() && !serving_.works_without_files()) {
      return fail("FILE is missing", "give recordings to serve, or --accept DIR to take some in", ErrorKind::kUsage);
    }
    ST_TRY(serving_.prepare(listen_));
    ST_TRY(
        serving_.serve(files_, Served::kRecordings, -1, [&console](const std::string& line) { console.note(line); }));
    return kExitDone;
  }

 private:
  std::vector<std::string> files_;
  std::string listen_ = "127.0.0.1:7700";
  Serving serving_;
};

}  // namespace

std::unique_ptr<Subcommand> make_serve_subcommand() { return std::make_unique<ServeSubcommand>(); }

}  // namespace stalltrace::cli
