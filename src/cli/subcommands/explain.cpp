// SPDX-License-Identifier: Apache-2.0
// `stalltrace explain`: what stalled, where and why.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/files/disposable_folder.h"
#include "base/text.h"
#include "cli/fleet/explain_nodes.h"
#include "cli/fleet/node_flags.h"
#include "cli/framework/confined_reading.h"
#include "cli/framework/exit_code.h"
#include "cli/framework/time_flag.h"
#include "cli/reporting.h"
#include "cli/subcommands/subcommands.h"
#include "fleet/gather.h"
#include "report/inspection.h"
#include "report/report_json.h"

namespace stalltrace::cli {
namespace {

/// File system and inode; none of what is not there.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? std::optional(std::pair(info.st_dev, info.st_ino)) : std::nullopt;
}

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

/// Recordings of the run that was right are none of the run that is judged. A shell replaces `--like good/*.db` by
/// several words, of which --like takes the first: the others would be judged.
Status leave_out_like(const Inputs& like, Inputs& inputs) {
  std::set<std::optional<std::pair<dev_t, ino_t>>> files;
  for (const std::string& path : like.all()) {
    files.insert(identity_of(path));
  }
  std::set<std::optional<std::pair<dev_t, ino_t>>> folders;
  for (const std::string& path : like.named) {
    folders.insert(identity_of(folder_of(path)));
  }
  files.erase(std::nullopt);
  folders.erase(std::nullopt);
  for (const std::string& path : inputs.named) {
    if (files.contains(identity_of(path)) || folders.contains(identity_of(folder_of(path)))) {
      return fail(fmt::format("{}: its folder has recordings that --like takes", path),
                  "give --like the folder of the run that was right, which holds no recording of the run to judge",
                  ErrorKind::kUsage);
    }
  }
  const auto left_out =
      std::erase_if(inputs.found, [&](const std::string& path) { return files.contains(identity_of(path)); });
  if (left_out > 0) {
    inputs.notes.push_back(
        fmt::format("{} of the run given by --like: not judged", count_of(static_cast<int64_t>(left_out), "file")));
  }
  return inputs.named.empty() && inputs.found.empty()
             ? Status(fail("all files to judge are those of the run given by --like",
                           "give the recordings of another run as FILE", ErrorKind::kUsage))
             : Status();
}

class ExplainSubcommand final : public Subcommand {
 public:
  [[nodiscard]] SubcommandInfo info() const override {
    return {.name = "explain",
            .summary = "name the rank, the link and the cause of each stall",
            .example = "stalltrace explain node0.db node1.db node2.db node3.db",
            .details =
                "Give the recordings of all nodes of the job: what no recording shows can't be blamed.\n"
                "NCCL's logs, PyTorch's Flight Recorder dumps, kernel logs, nccl-tests output, traces of "
                "torch.profiler, packet captures and profiler files are read as well (docs/import.md); a folder stands "
                "for all that is in it.\n"
                "The times that a report writes as +1.718s can be given to --from and --to."};
  }
  std::vector<Flag> flags() override {
    std::vector<Flag> all = {
        optional(arguments("FILE", "recordings, logs and dumps of one job, or folders of them", &files_)),
        switch_flag("--json", "the report as one JSON object (docs/findings.md)", &json_),
        switch_flag("--all", "print all findings in full, all losses and notes, however many", &all_),
        time_point_flag("--from", "judge only collectives from here on", &window_.from),
        time_point_flag("--to", "judge only collectives before this", &window_.to),
        text_flag("--instance", "ID", "why was, or was not, the instance of this call a stall? ID as query shows it",
                  &instance_),
        texts_flag(
            "--like", "FILE",
            "recordings of a run that was right, of several the folder: names what takes longer than it took there",
            &like_),
        switch_flag("--exit-code", "exit with 3 when there are findings, with 1 when the job's health is not known",
                    &exit_code_)};
    std::ranges::move(nodes_.flags(), std::back_inserter(all));
    return all;
  }
  Result<int> run(Console& console) override {
    if (files_.empty() && !nodes_.given()) {
      return fail("FILE is missing", "give recordings, or --nodes", ErrorKind::kUsage);
    }
    std::optional<Inputs> like;
    if (!like_.empty()) {
      ST_ASSIGN(like, list_inputs(like_));
    }
    std::optional<DisposableFolder> folder;  // of the recordings that nodes send
    if (nodes_.given() && !files_.empty()) {
      ST_ASSIGN(folder, gather(console, like));
    }
    ST_ASSIGN(const InspectedReport inspected,
              files_.empty() ? explain_nodes(console, nodes_, instance_, window_, like ? &*like : nullptr)
                             : explain_files(like));
    if (!instance_.empty()) {
      console.out(json_ ? report::inspection_to_json(inspected.inspection)
                        : report::inspection_to_text(inspected.inspection, {.colour = console.colour_out()}));
      return code_of(inspected.report);
    }
    const Report& report = inspected.report;
    if (json_) {
      console.out(report::report_to_json(report));
    } else {
      print_report(console, report, all_);
    }
    return code_of(report);
  }

 private:
  Result<InspectedReport> explain_files(const std::optional<Inputs>& like) const {
    ST_ASSIGN(Inputs inputs, list_inputs(files_));
    if (like) {
      ST_TRY(leave_out_like(*like, inputs));
    }
    confine_to_reading(with_like(inputs.all(), like));
    std::optional<ReadReference> right;
    if (like) {
      ST_ASSIGN(right, read_reference(*like));
    }
    return inspect_inputs(inputs, instance_, window_, right ? &*right : nullptr);
  }

  static std::vector<std::string> with_like(std::vector<std::string> files, const std::optional<Inputs>& like) {
    if (like) {
      std::ranges::move(like->all(), std::back_inserter(files));
    }
    return files;
  }

  /// Adds the recordings of the nodes to `files_`. Their folder is kept as long as what is returned.
  Result<std::optional<DisposableFolder>> gather(Console& console, const std::optional<Inputs>& like) {
    ST_ASSIGN(const NodeFlags::Target target, nodes_.prepare(console));
    ST_ASSIGN(DisposableFolder folder, DisposableFolder::make("stalltrace-nodes-"));
    confine_to_reading(with_like(files_, like), folder.path() + "/", Makes::kFile, Network::kConnects);
    fleet::Gathered gathered =
        fleet::gather_recordings(target.nodes, {.client = target.client, .folder = folder.path()});
    ST_TRY(nodes_.judge(console, gathered.failed, target.nodes.size()));
    std::ranges::move(gathered.files, std::back_inserter(files_));
    return std::optional(std::move(folder));
  }

  [[nodiscard]] int code_of(const Report& report) const {
    if (!exit_code_) {
      return kExitDone;
    }
    const std::optional<bool> health = report.health();
    return !health ? kExitFailed : *health ? kExitDone : kExitFindings;
  }

  std::vector<std::string> files_;
  std::vector<std::string> like_;
  TimeWindow window_;
  std::string instance_;
  bool json_ = false;
  bool all_ = false;
  bool exit_code_ = false;
  NodeFlags nodes_{60 * kNsPerSecond};
};

}  // namespace

std::unique_ptr<Subcommand> make_explain_subcommand() { return std::make_unique<ExplainSubcommand>(); }

}  // namespace stalltrace::cli
