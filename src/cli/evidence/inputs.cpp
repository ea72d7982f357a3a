// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/inputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <variant>

#include "base/text.h"
#include "blackbox/import.h"
#include "model/events.h"
#include "store/read/reader.h"

namespace stalltrace::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostFiles = 20'000;
constexpr int kDeepest = 8;

/// Links are not followed: a folder of evidence may hold any.
Status list_folder(const fs::path& folder, Inputs& out) {
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_symlink(ignored)) {
      entry.disable_recursion_pending();
      continue;
    }
    if (entry->is_directory(ignored) && entry.depth() >= kDeepest) {
      entry.disable_recursion_pending();
    }
    const std::string name = entry->path().string();
    const bool of_sqlite = name.ends_with("-wal") || name.ends_with("-shm") || name.ends_with("-journal");
    if (!entry->is_regular_file(ignored) || of_sqlite) {
      continue;
    }
    if (out.found.size() == kMostFiles) {
      out.notes.push_back(
          fmt::format("{}: holds more than {} files, the rest was not looked at", folder.string(), kMostFiles));
      return {};
    }
    out.found.push_back(name);
  }
  return error ? Status(fail(fmt::format("{}: {}", folder.string(), error.message()))) : Status();
}

/// Keeps of all rows the boot ids of the nodes.
class Boots final : public EventSink {
 public:
  void accept(Event event) override {
    if (const auto* node = std::get_if<Node>(&event)) {
      ids_.insert(node->boot_id);
    }
  }
  [[nodiscard]] const std::set<std::string>& ids() const { return ids_; }

 private:
  std::set<std::string> ids_;
};

}  // namespace

std::vector<std::string> Inputs::all() const {
  std::vector<std::string> files = named;
  files.insert(files.end(), found.begin(), found.end());
  return files;
}

Result<Inputs> list_inputs(std::span<const std::string> paths) {
  Inputs inputs;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      ST_TRY(list_folder(path, inputs));
    } else {
      inputs.named.push_back(path);
    }
  }
  std::ranges::sort(inputs.found);
  if (inputs.named.empty() && inputs.found.empty()) {
    return fail(fmt::format("no file in {}", fmt::format("{}", paths.empty() ? "" : paths.front())),
                "give recordings, logs or dumps, or a folder that has them", ErrorKind::kNotFound);
  }
  return inputs;
}

SortedInputs sort_inputs(const Inputs& inputs) {
  SortedInputs sorted;
  sorted.named.insert(inputs.named.begin(), inputs.named.end());
  const auto take_recording = [&](const std::string& path, bool named) {
    if (named) {
      sorted.recordings.push_back(path);
      return;
    }
    auto opened = store::open_recording(path);
    if (opened) {
      sorted.recordings.push_back(path);
      return;
    }
    ++sorted.unreadable;
    sorted.notes.push_back(fmt::format("left out: {}", opened.error().what));
    if (!sorted.unreadable_recording) {
      sorted.unreadable_recording = std::move(opened.error());
    }
  };
  std::optional<Error> found_unread;
  const auto take_unread = [&](Error error, bool named) {
    auto& kept = named ? sorted.refused : found_unread;
    if (!named) {
      sorted.notes.push_back(fmt::format("left out: {} ({})", error.what, error.remedy));
    }
    if (!kept) {
      kept = std::move(error);
    }
  };
  const auto sort = [&](const std::string& path, bool named) {
    const auto formats = import::detect(path);
    for (const import::Format format : formats.value_or(std::vector{import::Format::kUnknown})) {
      switch (format) {
        case import::Format::kRecording:
          take_recording(path, named);
          break;
        case import::Format::kProfilerFile:
          sorted.profiler_files.push_back(path);
          break;
        case import::Format::kOtherPickle:
          if (named) {
            sorted.evidence[import::Format::kFlightRecorder].push_back(
                path);  // whose reader says what is wrong with it
          } else {
            ++sorted.skipped;
          }
          break;
        case import::Format::kAutopsy:
        case import::Format::kDcgmi:
          take_unread(*import::not_read(format, path), named);
          break;
        case import::Format::kUnknown:
          if (named) {
            sorted.recordings.push_back(path);  // whose reader says what is wrong with it
            if (formats) {
              sorted.unknown.push_back(path);
            }
          } else {
            ++sorted.skipped;
          }
          break;
        default:
          sorted.evidence[format].push_back(path);
          break;
      }
    }
  };
  for (const std::string& path : inputs.named) {
    sort(path, true);
  }
  for (const std::string& path : inputs.found) {
    sort(path, false);
  }
  if (!sorted.unreadable_recording) {
    sorted.unreadable_recording = std::move(found_unread);
  }
  return sorted;
}

std::string no_evidence_in(const std::string& path) {
  std::vector<std::string_view> tried;
  for (const import::Reader& reader : import::readers()) {
    tried.push_back(import::name_of(reader.format));
  }
  tried.push_back(import::name_of(import::Format::kProfilerFile));
  return fmt::format("{}: nothing in it is of a format that import reads; tried: {}", path, fmt::join(tried, ", "));
}

Status leave_out_recorded(EventSource& recordings, SortedInputs& inputs, std::vector<std::string>& notes) {
  if (inputs.profiler_files.empty()) {
    return {};
  }
  ST_ASSIGN(const std::vector<Node> nodes, recordings.nodes());
  std::set<std::string> boots;
  for (const Node& node : nodes) {
    boots.insert(node.boot_id);
  }
  Boots files;
  if (!blackbox::import_profiler_files(inputs.profiler_files, files, [](const Error&) {})) {
    return {};  // the import itself says why
  }
  if (std::ranges::any_of(files.ids(), [&](const std::string& boot_id) { return boots.contains(boot_id); })) {
    notes.push_back(fmt::format("{} of hosts that recordings show: not read again",
                                count_of(std::ssize(inputs.profiler_files), "profiler file")));
    inputs.profiler_files.clear();
  }
  return {};
}

Status import_inputs(const SortedInputs& inputs, EventSink& sink, const import::Note& note, CommandLines commands,
                     const import::Options& options, std::vector<std::string>& read) {
  const auto note_import = [&](const import::Reader& reader, const import::Summary& summary) {
    const std::string files = count_of(static_cast<int64_t>(summary.files), import::name_of(reader.format));
    if (!reader.row.empty()) {
      read.push_back(fmt::format("{}: {}", files, count_of(static_cast<int64_t>(summary.rows), reader.row)));
      return;
    }
    if (summary.processes == 0) {  // lines of PyTorch or torchrun alone
      read.push_back(files + " without calls");
      return;
    }
    read.push_back(
        fmt::format("{} of {} process{}: {}{}", files, summary.processes, summary.processes == 1 ? "" : "es",
                    count_of(static_cast<int64_t>(summary.calls), "call"),
                    summary.calls_left == 0 ? "" : fmt::format(" ({} older ones were not kept)", summary.calls_left)));
  };
  std::optional<Error> refused;
  const auto refuse = [&](const std::vector<std::string>& files, Error error) -> Status {
    if (std::ranges::any_of(files, [&](const std::string& path) { return inputs.named.contains(path); })) {
      return std::unexpected(std::move(error));
    }
    refused = refused ? std::move(refused) : std::optional(std::move(error));
    return {};
  };
  if (!inputs.profiler_files.empty()) {
    const auto left_out = [&](const Error& error) { note(fmt::format("left out: {}", error.what)); };
    auto summary = blackbox::import_profiler_files(inputs.profiler_files, sink, left_out, commands);
    if (summary) {
      read.push_back(fmt::format("{}: {} collectives, {} of them open",
                                 count_of(static_cast<int64_t>(summary->processes), "profiler file"),
                                 summary->collectives, summary->open));
    } else {
      left_out(summary.error());
      ST_TRY(refuse(inputs.profiler_files, std::move(summary.error())));
    }
  }
  for (const import::Reader& reader : import::readers()) {
    const auto files = inputs.evidence.find(reader.format);
    if (files == inputs.evidence.end()) {
      continue;
    }
    auto summary = reader.read(files->second, sink, note, options);
    if (summary) {
      note_import(reader, *summary);
    } else {
      ST_TRY(refuse(files->second, std::move(summary.error())));
    }
  }
  return read.empty() && refused && inputs.recordings.empty() ? Status(std::unexpected(std::move(*refused))) : Status();
}

}  // namespace stalltrace::cli
