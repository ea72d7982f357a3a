// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/campaign.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>

#include "base/clock.h"
#include "base/file.h"
#include "base/files/own_folder.h"
#include "base/handle.h"
#include "base/process/command.h"
#include "base/process/subprocess.h"
#include "base/text.h"
#include "lab/cluster/campaign/cost.h"

namespace stalltrace::lab {
namespace {

namespace fs = std::filesystem;

/// Limit for a run, well above the run's own time limit: beyond it the run itself hangs.
constexpr int64_t kLimitNs = 120 * kNsPerSecond;
/// Time to end normally after a signal: agents write their last rows, the network is removed.
constexpr std::chrono::seconds kGrace{30};
constexpr std::chrono::seconds kCleanUp{60};

class Campaign {
 public:
  explicit Campaign(const CampaignOptions& options) : options_(options) {}

  Result<std::vector<DrawResult>> perform() {
    ST_ASSIGN(const OwnFolder folder, OwnFolder::claim(options_.out_dir, Readers::kOwner));
    options_.out_dir = folder.path();
    ST_TRY(read_earlier());
    log_ = UniqueFd(::open(log_path().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!log_) {
      return fail_errno("write " + log_path(), errno);
    }
    for (int64_t number = 0; number < options_.runs; ++number) {
      ST_ASSIGN(Draw next, draw(options_.seed, number, options_.workloads, options_.only));
      if (const auto earlier = results_.find(number); earlier != results_.end()) {
        ST_TRY(check_same(earlier->second, next));
        continue;
      }
      ST_TRY(interrupt_.check());
      ST_ASSIGN(DrawResult result, run_draw(std::move(next)));
      ST_TRY(keep(std::move(result)));
    }
    std::vector<DrawResult> all;
    for (auto& [number, result] : results_) {
      if (number < options_.runs) {
        all.push_back(std::move(result));
      }
    }
    return all;
  }

 private:
  [[nodiscard]] std::string log_path() const { return options_.out_dir + "/draws.jsonl"; }
  [[nodiscard]] std::string folder_of(const Draw& draw) const {
    return fmt::format("{}/draw{:04}", options_.out_dir, draw.number);
  }

  /// Reads finished draws; a line cut short by an interruption is run again.
  Status read_earlier() {
    if (!fs::exists(log_path())) {
      return {};
    }
    ST_ASSIGN(const std::string text, read_file(log_path()));
    std::string whole;
    for (const std::string_view line : split(text, '\n')) {
      auto result = draw_result_from_json(line);
      if (result) {
        whole += std::string(line) + "\n";
        results_.insert_or_assign(result->draw.number, std::move(*result));
      } else if (result.error().kind == ErrorKind::kUnsupported) {
        return fail(options_.out_dir + " holds draws that another version scored by other rules", "give another --out");
      }
    }
    return write_file(log_path(), whole);
  }

  Status check_same(const DrawResult& done, const Draw& now) const {
    const Draw& earlier = done.draw;
    if (done.program != options_.program_id) {
      return fail(fmt::format("{} holds draws of another program ({})", options_.out_dir,
                              done.program.empty() ? "not named" : done.program),
                  "give another --out, or the program that it was begun with");
    }
    if (earlier.arguments != now.arguments || earlier.setting != now.setting) {
      return fail(fmt::format("{} holds another campaign (draw {} differs)", options_.out_dir, now.number),
                  "give another --out, or the --seed, --workload and --only that it was begun with");
    }
    return {};
  }

  Status keep(DrawResult result) {
    const std::string line = to_json_line(result) + "\n";
    if (::write(log_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      return fail_errno("write " + log_path(), errno);
    }
    if (options_.done) {
      options_.done(result);
    }
    results_.insert_or_assign(result.draw.number, std::move(result));
    return {};
  }

  /// Any failure of the run is its result; only an interruption is an error. Who is to blame for a failure is seen
  /// without the tracer.
  Result<DrawResult> run_draw(Draw next) {
    DrawResult result;
    result.draw = std::move(next);
    result.program = options_.program_id;
    const std::string folder = folder_of(result.draw);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    const int64_t start_ns = monotonic_now_ns();
    Status status = run_lab(result.draw, folder, Agents::kTrace);
    if (!status && status.error().kind == ErrorKind::kInterrupted) {
      return std::unexpected(std::move(status.error()));
    }
    if (status) {
      status = judge(folder, result);
    }
    if (!status) {
      result.problem = status.error().what;
      ST_ASSIGN(const std::optional<TruthRead> alone, outcome_untraced(result.draw, folder + "-untraced"));
      result.score = alone ? score(*alone, {}, {}, options_.gate_of) : DrawScore{};  // its faults are not named
      result.score.verdict = alone ? DrawVerdict::kWrong : DrawVerdict::kJobFailed;
    } else if (result.score.verdict == DrawVerdict::kRight && !options_.keep) {
      remove_recordings(folder);
    }
    result.seconds = static_cast<double>(monotonic_now_ns() - start_ns) / static_cast<double>(kNsPerSecond);
    return result;
  }

  /// What the same draw does without agents; nullopt: not what it should.
  Result<std::optional<TruthRead>> outcome_untraced(const Draw& next, const std::string& folder) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    Status status = run_lab(next, folder, Agents::kNone);
    if (!status && status.error().kind == ErrorKind::kInterrupted) {
      return std::unexpected(std::move(status.error()));
    }
    if (!status) {
      return std::nullopt;
    }
    auto outcome = read_outcome(folder, next.kind);
    return outcome ? std::optional(std::move(*outcome)) : std::nullopt;
  }

  enum class Agents : uint8_t { kNone, kTrace };
  Status run_lab(const Draw& next, const std::string& folder, Agents agents) {
    SpawnOptions spawn;
    spawn.argv = {options_.program, "lab", "run", "--out", folder};
    if (agents == Agents::kNone) {
      spawn.argv.emplace_back("--no-trace");
    } else if (options_.live) {
      spawn.argv.emplace_back("--live");
    }
    spawn.argv.insert(spawn.argv.end(), next.arguments.begin(), next.arguments.end());
    spawn.stdin_path = "/dev/null";
    spawn.stdout_path = spawn.stderr_path = folder + ".log";
    spawn.own_process_group = true;       // Ctrl-C reaches it once, through this process
    spawn.parent_death_signal = SIGTERM;  // it then removes its network
    ST_ASSIGN(Subprocess process, Subprocess::spawn(spawn));
    const Status waited = wait_for_end(process);
    if (!waited) {
      return clean_up(process, waited);
    }
    if (!process.status()->success()) {
      return fail(fmt::format("lab run ended with {}: {}", format_exit(*process.status()), last_line(folder + ".log")));
    }
    return {};
  }

  Status wait_for_end(Subprocess& process) {
    const int64_t deadline_ns = monotonic_now_ns() + kLimitNs;
    for (;;) {
      ST_TRY(interrupt_.check());
      ST_ASSIGN(const auto status, process.try_wait());
      if (status) {
        return {};
      }
      if (monotonic_now_ns() > deadline_ns) {
        return fail(fmt::format("lab run did not end within {}", format_duration(kLimitNs)));
      }
      std::array<pollfd, 2> fds = {{{interrupt_.fd(), POLLIN, 0}, {process.end_descriptor(), POLLIN, 0}}};
      ::poll(fds.data(), fds.size(), 1000);
    }
  }

  /// Removes the remains of a run that was killed.
  Status clean_up(Subprocess& process, const Status& why) const {
    ST_ASSIGN(const ExitStatus ended, process.terminate(SIGINT, kGrace));
    if (ended.signal == SIGKILL) {
      SpawnOptions down;
      down.argv = {options_.program, "lab", "down"};
      (void)run_and_capture(down, kCleanUp);
    }
    return why;
  }

  static std::string last_line(const std::string& path) {
    const std::string text = read_file(path).value_or("");
    std::string last;
    for (const std::string_view line : split(text, '\n')) {
      last = trim(line).empty() ? last : std::string(trim(line));
    }
    return last;
  }

  /// An error if the job did not do what the draw asks for: all faults take effect, and a job without any completes.
  static Result<TruthRead> read_outcome(const std::string& folder, DrawKind kind) {
    ST_ASSIGN(const std::string truth_text, read_file(folder + "/truth.json"));
    ST_ASSIGN(TruthRead truth, read_truth(truth_text));
    if (injects(kind) && (truth.faults.empty() || truth.faults.size() < truth.planned)) {
      return fail("the run ended before its fault");
    }
    if (!injects(kind) && !truth.completed) {
      return fail("the job did not complete: " + last_line(folder + ".log"));
    }
    return truth;
  }

  Status judge(const std::string& folder, DrawResult& result) const {
    ST_ASSIGN(const TruthRead truth, read_outcome(folder, result.draw.kind));
    ST_ASSIGN(const std::string findings_text, read_file(folder + "/findings.json"));
    ST_ASSIGN(const std::vector<ReportedFault> reported, read_findings(findings_text, truth.ranks_per_node));
    std::optional<TrueCost> cost;
    if (truth.faults.size() == 1) {
      const std::vector<StepTime> steps = read_steps(read_file(folder + "/rank0.steps.jsonl").value_or(""));
      const auto ms = true_cost_ms(steps, truth.faults[0].intervals, truth.completed, truth.ended_ns);
      cost = ms ? std::optional(TrueCost{.ms = *ms, .single_ms = *ms}) : std::nullopt;
    }
    result.score = score(truth, reported, cost, options_.gate_of);
    if (options_.live) {
      ST_ASSIGN(const std::string live_text, read_file(folder + "/live.json"));
      ST_ASSIGN(const std::vector<ReportedFault> live, read_findings(live_text, truth.ranks_per_node));
      add_live(truth.faults, live, result.score);
    }
    return {};
  }

  static void remove_recordings(const std::string& folder) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (entry->path().filename().string().contains(".db")) {
        std::error_code ignored;
        fs::remove(entry->path(), ignored);
      }
    }
  }

  CampaignOptions options_;
  InterruptGuard interrupt_;
  UniqueFd log_;
  std::map<int64_t, DrawResult> results_;
};

}  // namespace

Result<std::vector<DrawResult>> run_campaign(const CampaignOptions& options) { return Campaign(options).perform(); }

}  // namespace stalltrace::lab
