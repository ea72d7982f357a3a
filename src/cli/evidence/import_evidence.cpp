// SPDX-License-Identifier: Apache-2.0
#include "cli/evidence/import_evidence.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "store/write/writer.h"

namespace stalltrace::cli {
namespace {

/// Stores rows as they come: a log can have more than fit in memory.
class StoringSink final : public EventSink {
 public:
  explicit StoringSink(store::RecordingWriter& writer) : writer_(writer) {}
  void accept(Event event) override {
    writer_.accept(std::move(event));
    if (stored_ && writer_.buffered() >= kRowsAtOnce) {
      stored_ = writer_.flush();
    }
  }
  [[nodiscard]] const Status& stored() const { return stored_; }

 private:
  static constexpr size_t kRowsAtOnce = 20'000;
  store::RecordingWriter& writer_;
  Status stored_;
};

Status import_answers(std::span<const import::RasAnswer> answers, EventSink& sink, const import::Note& note,
                      std::vector<std::string>& summary) {
  if (answers.empty()) {
    return {};
  }
  ST_ASSIGN(const import::Summary read, import::import_ras_answers(answers, sink, note));
  summary.push_back(fmt::format("NCCL's RAS at {}: {}", answers.front().address,
                                count_of(static_cast<int64_t>(read.rows), "report")));
  return {};
}

}  // namespace

Status record_evidence(const Inputs& inputs, const SortedInputs& sorted, std::span<const import::RasAnswer> answers,
                       const std::string& out, const Privacy& privacy, Console& console) {
  if (sorted.only_recordings() && answers.empty()) {
    return fail("no log, dump or profiler file in the folder", "'stalltrace import --help' lists the formats",
                ErrorKind::kNotFound);
  }
  ST_ASSIGN(const auto writer, store::RecordingWriter::create(out, {.readers = privacy.readers()}));
  StoringSink sink(*writer);
  std::vector<std::string> summary;
  std::vector<std::string> notes = inputs.notes;
  notes.insert(notes.end(), sorted.notes.begin(), sorted.notes.end());
  for (const std::string& path : sorted.unknown) {
    notes.push_back(fmt::format("left out: {}", no_evidence_in(path)));
  }
  const import::Note add_note = [&](const std::string& note) { notes.push_back(note); };
  const Status answered = import_answers(answers, sink, add_note, summary);
  const Status imported = answered ? import_inputs(sorted, sink, add_note, privacy.commands(), {}, summary) : answered;
  const Status closed = writer->close();
  if (imported && summary.empty()) {
    ::unlink(out.c_str());
    return fail("no log, dump or profiler file in the folder can be read",
                "'stalltrace import --help' lists the formats");
  }
  for (const Status* status : {&imported, &sink.stored(), &closed}) {
    if (!*status) {
      ::unlink(out.c_str());
      return *status;
    }
  }
  for (const std::string& note : notes) {
    console.note(note);
  }
  for (const std::string& line : summary) {
    console.note(fmt::format("{}: {}", out, line));
  }
  if (const size_t recordings = sorted.recordings.size() - sorted.unknown.size(); recordings > 0) {
    console.note(fmt::format("not read: {}, which explain takes beside this one",
                             count_of(static_cast<int64_t>(recordings), "recording")));
  }
  return {};
}

}  // namespace stalltrace::cli
