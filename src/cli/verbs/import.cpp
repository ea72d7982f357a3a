// SPDX-License-Identifier: Apache-2.0
// `stalltrace import`: a recording made of profiler files alone.
#include "cli/framework/exit_code.h"
#include "cli/recorded_profiler_files.h"
#include "cli/verbs/verbs.h"

namespace stalltrace::cli {
namespace {

class ImportVerb final : public Subcommand {
 public:
  [[nodiscard]] VerbInfo info() const override {
    return {.name = "import",
            .summary = "make a recording of the profiler plugin's profiler files",
            .example = "stalltrace import /dev/shm/stalltrace-*.profiler --out job.db",
            .details =
                "For jobs that loaded the NCCL profiler plugin, with or without an agent, while they run, while they "
                "hang or after they died. Give the files of all processes of the job, then `stalltrace explain` the "
                "recording. Needs no privilege."};
  }
  std::vector<Flag> flags() override {
    return {arguments("FILE", "profiler files (docs/profiler_file.md)", &files_),
            text_flag("--out", "FILE", "the recording to make; must not exist yet", &out_)};
  }
  Result<int> run(Console& console) override {
    ST_TRY(record_profiler_files(files_, out_, console));
    return kExitDone;
  }

 private:
  std::vector<std::string> files_;
  std::string out_ = "stalltrace.db";
};

}  // namespace

std::unique_ptr<Subcommand> make_import_verb() { return std::make_unique<ImportVerb>(); }

}  // namespace stalltrace::cli
