// SPDX-License-Identifier: Apache-2.0
// `stalltrace import`: makes a recording of evidence that others made, and of profiler files.
#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "base/clock.h"
#include "base/file.h"
#include "base/files/sqlite_magic.h"
#include "base/process/command.h"
#include "cli/evidence/ask_ras.h"
#include "cli/evidence/import_evidence.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/privacy.h"
#include "cli/recorded_profiler_files.h"
#include "cli/subcommands/subcommands.h"

namespace stalltrace::cli {
namespace {

class ImportSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {
        .name = "import",
        .summary = "make a recording of what others logged, and of profiler files",
        .example = "stalltrace import /dev/shm/stalltrace-*.profiler --out job.db",
        .details =
            "Profiler files: for jobs that loaded the NCCL profiler plugin, while they run, while they hang or after "
            "they died. NCCL_DEBUG logs, PyTorch's Flight Recorder dumps, kernel logs, nccl-tests output, traces of "
            "torch.profiler, packet captures, reports of NCCL's RAS, lines of its Inspector, nvidia-smi -q: for jobs "
            "that nothing of ours watched "
            "(docs/import.md describes what they show). Give those of all processes of the job, or "
            "a folder with "
            "everything, then `stalltrace explain` the recording. Needs no privilege."};
  }
  std::vector<Flag> flags() override {
    return {optional(arguments("EVIDENCE", "logs, dumps, profiler files, or folders of them", &files_)),
            text_flag("--ras", "HOST:PORT",
                      "ask NCCL's RAS of a running job, twice; its port is localhost:28028 unless NCCL_RAS_ADDR is set",
                      &ras_),
            duration_flag("--ras-pause", "time between the two questions to RAS", &ras_pause_ns_),
            text_flag("--out", "FILE", "the recording to make; must not exist yet", &out_),
            privacy_.group_flag(),
            privacy_.readers_flag(),
            privacy_.commands_flag()};
  }
  Result<int> run(Console& console) override {
    if (files_.empty() && ras_.empty()) {
      return fail("nothing to import", "name logs, dumps, profiler files or folders of them, or --ras localhost:28028",
                  ErrorKind::kUsage);
    }
    ST_TRY(check_files());
    Inputs inputs;
    if (!files_.empty()) {
      ST_ASSIGN(inputs, list_inputs(files_));
    }
    std::vector<import::RasAnswer> answers;
    if (!ras_.empty()) {
      if (::access(out_.c_str(), F_OK) == 0) {
        return fail(out_ + ": exists already", "choose another file with --out");
      }
      ST_ASSIGN(answers, ask_ras(ras_, ras_pause_ns_, console));
    }
    confine_to_reading(inputs.all(), out_);
    const SortedInputs sorted = sort_inputs(inputs);
    if (sorted.refused) {
      return std::unexpected(*sorted.refused);
    }
    if (!sorted.evidence.empty() || !inputs.found.empty() || !answers.empty()) {
      ST_TRY(record_evidence(inputs, sorted, answers, out_, privacy_, console));
      return kExitDone;
    }
    if (!sorted.unknown.empty() && sorted.profiler_files.empty()) {
      return fail(no_evidence_in(sorted.unknown.front()),
                  "'stalltrace import --help' lists the formats; a job prints one with NCCL_DEBUG=INFO and "
                  "NCCL_DEBUG_SUBSYS=INIT,COLL (docs/import.md has what each shows, and how it is made)");
    }
    if (Status recorded = record_profiler_files(files_, out_, privacy_, console); !recorded) {
      if (recorded.error().remedy.empty()) {
        recorded.error().remedy = "give profiler files: after `stalltrace run` they are in DIR/profiler";
      }
      return std::unexpected(std::move(recorded.error()));
    }
    return kExitDone;
  }

 private:
  /// Refuses files that can't be profiler files. A single unreadable file among others is left out later.
  [[nodiscard]] Status check_files() const {
    for (const std::string& path : files_) {
      const auto begin = read_file(path, kSqliteMagic.size());
      if (begin && *begin == kSqliteMagic) {
        return fail(path + ": this is a recording already",
                    fmt::format("read it: stalltrace explain {}", format_command({path})), ErrorKind::kUsage);
      }
      if (!begin && begin.error().kind == ErrorKind::kNotFound && path.find('*') != std::string::npos) {
        return fail(fmt::format("no file matches {}", path),
                    "the job wrote no profiler file here: was NCCL_PROFILER_PLUGIN set, is STALLTRACE_DIR another "
                    "folder? after `stalltrace run` they are in DIR/profiler",
                    ErrorKind::kNotFound);
      }
    }
    return {};
  }

  std::vector<std::string> files_;
  std::string ras_;
  int64_t ras_pause_ns_ = 30 * kNsPerSecond;
  std::string out_ = "stalltrace.db";
  Privacy privacy_;
};

}  // namespace

std::unique_ptr<Subcommand> make_import_subcommand() { return std::make_unique<ImportSubcommand>(); }

}  // namespace stalltrace::cli
