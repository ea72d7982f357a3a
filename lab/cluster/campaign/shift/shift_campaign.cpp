// SPDX-License-Identifier: Apache-2.0
#include "lab/cluster/campaign/shift/shift_campaign.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>

#include "base/file.h"
#include "base/text.h"
#include "lab/cluster/campaign/result.h"

namespace stalltrace::lab {
namespace {

/// The draws of the folder, by number. A line that was cut short is of a draw that is not done.
Result<std::map<int64_t, Draw>> read_draws(const std::string& out_dir) {
  ST_ASSIGN(const std::string text, read_file(out_dir + "/draws.jsonl"));
  std::map<int64_t, Draw> draws;
  for (const std::string_view line : split(text, '\n')) {
    if (auto draw = draw_from_json(line)) {
      draws.insert_or_assign(draw->number, std::move(*draw));
    }
  }
  return draws;
}

/// node0.db and so on, in the folder of a draw.
std::vector<std::string> recordings_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("node") && name.ends_with(".db")) {
      paths.push_back(entry->path().string());
    }
  }
  std::ranges::sort(paths);
  return paths;
}

Result<ShiftResult> shift_draw(const std::string& folder, const std::vector<std::string>& paths, int64_t shift_ns,
                               const OpenRecordings& open, const Judge& judge) {
  ST_ASSIGN(const std::string truth_text, read_file(folder + "/truth.json"));
  ST_ASSIGN(const TruthRead truth, read_truth(truth_text));
  ST_ASSIGN(const std::unique_ptr<EventSource> source, open(paths));
  return shift_recording(*source, truth.faults, shift_ns, judge);
}

}  // namespace

Result<ShiftedCampaign> shift_campaign(const ShiftOptions& options, const OpenRecordings& open, const Judge& judge) {
  ST_ASSIGN(const auto draws, read_draws(options.out_dir));
  ShiftedCampaign campaign;
  for (const auto& [number, draw] : draws) {
    if (!draw.setting.contains(options.only)) {
      continue;
    }
    const std::string folder = fmt::format("{}/draw{:04}", options.out_dir, number);
    const std::vector<std::string> paths = recordings_in(folder);
    if (paths.empty()) {
      ++campaign.without_recordings;
      continue;
    }
    auto shifted = shift_draw(folder, paths, options.shift_ns, open, judge);
    ShiftResult result = shifted ? std::move(*shifted) : ShiftResult{.problem = shifted.error().what};
    result.draw = number;
    result.setting = draw.setting;
    result.kind = draw.kind;
    if (options.done) {
      options.done(result);
    }
    campaign.results.push_back(std::move(result));
  }
  if (campaign.results.empty()) {
    return fail(fmt::format("no draw in {} has its recordings", options.out_dir),
                "a campaign keeps those of all draws with --keep", ErrorKind::kNotFound);
  }
  return campaign;
}

}  // namespace stalltrace::lab
