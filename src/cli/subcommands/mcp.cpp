// SPDX-License-Identifier: Apache-2.0
// `stalltrace mcp`: recordings for an assistant, by the Model Context Protocol.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iterator>
#include <memory>

#include "base/clock.h"
#include "cli/fleet/node_flags.h"
#include "cli/fleet/node_recordings.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/subcommands/subcommands.h"
#include "serve/mcp/server.h"
#include "serve/mcp/stdio.h"
#include "serve/recordings.h"
#include "store/recording_state.h"

namespace stalltrace::cli {
namespace {

/// Nothing is open that would have to be finished: an answer that is being computed ends with us.
void end_now(int /*number*/) { ::_exit(kExitDone); }

class McpSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "mcp",
        .summary = "let an assistant ask recordings, by the Model Context Protocol on stdin and stdout",
        .example = "stalltrace mcp node0.db node1.db node2.db node3.db",
        .details =
            "An assistant starts it (docs/mcp.md): one JSON message a line, until standard input ends.\n"
            "A recording may still be written: each answer is of its current state. Nothing is changed.\n"
            "With --nodes the nodes' recordings are copied when a tool is called first, and when it asks for that:\n"
            "answers state how old the copies are and which nodes are missing."};
  }
  std::vector<Flag> flags() override {
    std::vector<Flag> all = {optional(arguments("FILE", "recordings of the same job, or one merged", &files_))};
    std::ranges::move(nodes_.flags(), std::back_inserter(all));
    return all;
  }
  Result<int> run(Console& console) override {
    if (files_.empty() && !nodes_.given()) {
      return fail("FILE is missing", "give recordings, or --nodes", ErrorKind::kUsage);
    }
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
      if (std::signal(number, end_now) == SIG_IGN) {  // as under nohup
        std::signal(number, SIG_IGN);
      }
    }
    std::unique_ptr<serve::Recordings> recordings;
    if (nodes_.given()) {
      ST_ASSIGN(NodeFlags::Target target, nodes_.prepare(console));
      // Of this each gathering has all: names are looked up but once.
      target.client.limit = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(nodes_.limit_ns()));
      ST_ASSIGN(recordings, NodeRecordings::start(std::move(target), nodes_.require_all(), files_));
    } else {
      recordings = serve::recordings_in_files(files_);
    }
    confine_to_reading(files_);
    for (const std::string& file : files_) {
      ST_TRY(store::check_recording(file));
    }
    if (::isatty(STDIN_FILENO) == 1) {
      console.note("waiting for messages of an MCP client; see docs/mcp.md. End with Ctrl-D.");
    }
    serve::mcp::Server server(*recordings);
    ST_TRY(serve::mcp::serve_stream(server, STDIN_FILENO, STDOUT_FILENO));
    return kExitDone;
  }

 private:
  std::vector<std::string> files_;
  NodeFlags nodes_{30 * kNsPerSecond};  // clients of MCP often wait for 60 s
};

}  // namespace

std::unique_ptr<Subcommand> make_mcp_subcommand() { return std::make_unique<McpSubcommand>(); }

}  // namespace stalltrace::cli
