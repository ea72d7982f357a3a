// SPDX-License-Identifier: Apache-2.0
// `stalltrace merge`: makes one recording from those of many nodes.
#include "store/merge.h"

#include <fmt/format.h>

#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

class MergeSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "merge",
            .summary = "make one recording of many nodes'",
            .example = "stalltrace merge node0.db node1.db --out job.db",
            .details = "The inputs are only read. A node run given twice is kept once."};
  }
  std::vector<Flag> flags() override {
    return {arguments("FILE", "recordings", &files_),
            required(text_flag("--out", "FILE", "the recording to make; must not exist yet", &out_)),
            privacy_.group_flag(), privacy_.readers_flag()};
  }
  Result<int> run(Console& console) override {
    confine_to_reading(files_, out_);
    store::MergeOptions options{.readers = privacy_.readers()};
    if (console.shows_progress()) {
      options.progress = [&console](size_t done, size_t total) {
        console.live(fmt::format("merged {} of {} recordings", done, total));
      };
    }
    ST_ASSIGN(const store::MergeSummary summary, store::merge_recordings(files_, out_, options));
    console.note(fmt::format("{}: {} nodes, {} rows", out_, summary.nodes, summary.rows));
    return kExitDone;
  }

 private:
  std::vector<std::string> files_;
  std::string out_;
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_merge_subcommand() { return std::make_unique<MergeSubcommand>(); }

}  // namespace stalltrace::cli
