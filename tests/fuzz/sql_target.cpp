// SPDX-License-Identifier: Apache-2.0
// Fuzzes the SQL of `query`: any text is answered or refused, in time, and the recording stays as it was. The first
// byte says whether rows are bounded, as for other hosts' questions.
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "store/query.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/rows.h"
#include "tests/fuzz/small_recording.h"

using namespace stalltrace;
using fuzz::require;

namespace {

constexpr int64_t kLimitNs = 50 * kNsPerMs;
constexpr int64_t kMostNs = 10 * kNsPerSecond;  // one operation may exceed the limit (docs/security_recordings.md)
constexpr int kMostRowBytes = 1 << 20;

class Recording {
 public:
  Recording() {
    char name[] = "/dev/shm/stalltrace-fuzz-XXXXXX";
    require(::mkdtemp(name) != nullptr);
    folder_ = name;
    fuzz::write_small_recording(path());
    bytes_ = content();
  }
  ~Recording() { std::filesystem::remove_all(folder_); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  [[nodiscard]] std::string path() const { return folder_ + "/r.db"; }
  [[nodiscard]] bool is_as_it_was() const { return content() == bytes_ && files() == 1; }

 private:
  [[nodiscard]] std::string content() const { return read_file(path(), 16U << 20).value_or(""); }
  [[nodiscard]] size_t files() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
      const std::string end = entry.path().extension();
      count += end == ".db-shm" || end == ".db-wal" ? 0 : 1;
    }
    return count;
  }

  std::string folder_;
  std::string bytes_;
};

class Rows final : public RowSink {
 public:
  explicit Rows(int most_bytes) : most_bytes_(most_bytes) {}
  Status columns(const std::vector<std::string>& names) override {
    require(!names.empty());
    columns_ = names.size();
    return {};
  }
  Result<bool> row(std::span<const Value> values) override {
    require(values.size() == columns_);
    size_t bytes = 0;
    for (const Value& value : values) {
      const auto* text = std::get_if<std::string>(&value);
      const auto* blob = std::get_if<Blob>(&value);
      bytes += text ? text->size() : blob ? blob->bytes.size() : 0;
    }
    require(most_bytes_ == 0 || bytes <= static_cast<size_t>(most_bytes_));
    return ++rows_ < 1000;
  }

 private:
  int most_bytes_;
  size_t columns_ = 0;
  size_t rows_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Recording recording;
  fuzz::Input input(data, size);
  const int most = input.number(1) % 2 == 0 ? 0 : kMostRowBytes;
  Rows rows(most);
  const int64_t begun_ns = monotonic_now_ns();
  const auto done =
      store::query_recording(recording.path(), input.text(), {.time_limit_ns = kLimitNs, .most_row_bytes = most}, rows);
  require(done.has_value() || !done.error().what.empty());
  require(monotonic_now_ns() - begun_ns < kMostNs);
  require(recording.is_as_it_was());
  return 0;
}
