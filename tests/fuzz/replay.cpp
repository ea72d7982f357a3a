// SPDX-License-Identifier: Apache-2.0
// replay PACK: runs the fuzzer's target on every entry of a packed corpus (scripts/fuzz/corpus.py), without the fuzzer.
// Each entry has its own process: one that crashes or hangs is reported by its number, and the others still run.
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Entry = std::vector<uint8_t>;

constexpr unsigned kEntryLimitSeconds = 60;
constexpr uint32_t kMaxEntryBytes = 1U << 20;

struct CloseGz {
  void operator()(gzFile file) const { ::gzclose(file); }
};
using Pack = std::unique_ptr<gzFile_s, CloseGz>;

bool read_exactly(gzFile pack, void* into, uint32_t size) {
  return ::gzread(pack, into, size) == static_cast<int>(size);
}

/// All entries; nullopt if the file is missing, truncated or garbled.
std::optional<std::vector<Entry>> read_pack(const char* path) {
  const Pack pack(::gzopen(path, "rb"));
  if (!pack || ::gzdirect(pack.get()) != 0) {
    return std::nullopt;
  }
  std::vector<Entry> entries;
  std::array<uint8_t, 4> bytes;
  int got = 0;
  while ((got = ::gzread(pack.get(), bytes.data(), bytes.size())) == static_cast<int>(bytes.size())) {
    const uint32_t size = bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[3]} << 24;
    if (size > kMaxEntryBytes) {
      return std::nullopt;
    }
    Entry& entry = entries.emplace_back(size);
    if (!read_exactly(pack.get(), entry.data(), size)) {
      return std::nullopt;
    }
  }
  int error = Z_OK;
  (void)::gzerror(pack.get(), &error);
  if (got != 0 || error != Z_OK) {
    return std::nullopt;
  }
  return entries;
}

/// Whether the target returned.
bool passes(const Entry& entry, size_t number) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(kEntryLimitSeconds);
    LLVMFuzzerTestOneInput(entry.data(), entry.size());
    std::exit(0);  // runs the target's destructors
  }
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child) {
    std::perror("replay");
    return false;
  }
  if (WIFSIGNALED(status)) {
    std::fprintf(stderr, "entry %zu (%zu bytes): signal %d (%s)\n", number, entry.size(), WTERMSIG(status),
                 ::strsignal(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "entry %zu (%zu bytes): exit code %d\n", number, entry.size(), WEXITSTATUS(status));
  }
  return status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: replay PACK\n", stderr);
    return 2;
  }
  const auto entries = read_pack(argv[1]);
  if (!entries) {
    std::fprintf(stderr, "replay: %s is missing, cut off or no pack\n", argv[1]);
    return 1;
  }
  size_t failed = 0;
  for (size_t number = 0; number < entries->size(); ++number) {
    failed += passes((*entries)[number], number) ? 0 : 1;
  }
  if (failed > 0) {
    std::fprintf(stderr, "to see them: scripts/fuzz/corpus.py unpack %s FOLDER; the files are named by number\n",
                 argv[1]);
  }
  std::printf("%zu entries, %zu failed\n", entries->size(), failed);
  return failed > 0 || entries->empty() ? 1 : 0;
}
