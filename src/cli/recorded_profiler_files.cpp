// SPDX-License-Identifier: Apache-2.0
#include "cli/recorded_profiler_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include "blackbox/import.h"
#include "store/write/writer.h"

namespace stalltrace::cli {

Status record_profiler_files(std::span<const std::string> files, const std::string& out, const Privacy& privacy,
                             Console& console) {
  ST_ASSIGN(const auto writer, store::RecordingWriter::create(out, {.readers = privacy.readers()}));
  const auto summary = blackbox::import_profiler_files(
      files, *writer,
      [&](const Error& error) {
        console.note(fmt::format("left out: {}{}{}", error.what, error.remedy.empty() ? "" : "; ", error.remedy));
      },
      privacy.commands());
  const Status closed = writer->close();
  if (!summary || !closed) {
    ::unlink(out.c_str());
    return std::unexpected(summary ? closed.error() : summary.error());
  }
  console.note(fmt::format("{}: {} processes ({} alive), {} collectives, {} of them open", out, summary->processes,
                           summary->living, summary->collectives, summary->open));
  return {};
}

}  // namespace stalltrace::cli
