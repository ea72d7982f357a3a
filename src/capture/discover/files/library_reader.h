// SPDX-License-Identifier: Apache-2.0
// Reads files that root does not own, or on file systems that may not answer, in two child processes: one opens files,
// which may hang; one without any privilege parses them. Requests and answers never wait. To close a file may hang,
// too: of a file on such a file system this process has a descriptor that only names it (O_PATH). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/process/procfs.h"
#include "base/untrusted/helper_process.h"
#include "base/untrusted/mounts.h"
#include "base/untrusted/untrusted_file.h"
#include "capture/discover/elf_symbols.h"

namespace stalltrace::capture {

class LibraryReader {
 public:
  enum class FileSystems { kThisHost, kRemote };
  struct Request {
    pid_t pid = 0;
    uid_t user = 0;  // each user has a queue
    MappedFile mapping;
  };
  enum class Outcome {
    kRead,    // or not an ELF file: its symbols are empty then
    kGone,    // the process maps it no more, or no user may open it
    kMoved,   // it is to be looked for again: the process has mapped it elsewhere, or it lies on another file system
    kSilent,  // its file system did not answer when it was opened
    kSlow,    // reading it took too long
    kFailed,  // a child died, or none could be started
    kHeld,    // not tried: too many processes that its user's files made hang still do
  };
  struct Answer {
    Request request;
    Outcome outcome = Outcome::kGone;
    bool tried = true;                    // false: nothing was found out about this file
    std::optional<UntrustedFile> opened;  // with kRead
    FileSymbols symbols;
  };
  /// For people; empty where the file was read.
  static std::string_view describe(Outcome outcome);

  static constexpr int64_t kRemoteOpenNs = 3 * kNsPerSecond;
  static constexpr int64_t kRemoteParseNs = 10 * kNsPerSecond;
  /// File systems of one user on which processes hang in the kernel, which keeps those that are killed until it is
  /// answered. There is room for more of all users.
  static constexpr size_t kMostHangingOfUser = 4;
  /// Users whose processes hang on one file system: a server's that is gone hangs those of all.
  static constexpr size_t kMostHangingOfFileSystem = 8;

  /// The references must outlive the object. `open_ns`, `parse_ns`: how long a file on another file system is waited
  /// for.
  LibraryReader(const Procfs& procfs, Mounts& mounts, FileSystems file_systems, int64_t open_ns = kRemoteOpenNs,
                int64_t parse_ns = kRemoteParseNs);

  /// Starts the children now, so that the first file need not wait for them.
  void start();
  /// False if this user has too many files waiting.
  bool ask(Request request);
  /// Removes the requests that no helper has begun to answer; `which` says which of them.
  std::vector<Request> take_back(const std::function<bool(const Request&)>& which);
  /// The next answer; nullopt if none has arrived.
  std::optional<Answer> take();
  [[nodiscard]] bool is_idle() const { return !current_ && queues_.empty(); }
  /// Readable when take() may have an answer; -1 where the kernel gives no descriptor.
  [[nodiscard]] int descriptor() const { return wake_.get(); }

 private:
  struct Current {
    Request request;
    ChildsWork work;
    std::optional<UntrustedFile> opened;
    bool is_handed_over = false;  // by the opener to the parser
    std::optional<std::string> symbols;
    int64_t opener_deadline_ns = 0;  // CLOCK_MONOTONIC
    int64_t parser_deadline_ns = 0;
  };
  [[nodiscard]] bool begin_next(std::optional<Answer>& answer);
  std::optional<Answer> adopt_opened();
  std::optional<Answer> parse();
  std::optional<Answer> finish_parse();
  Answer finish(Outcome outcome, FileSymbols symbols = {});
  Answer give_up(Outcome why);
  bool ask_child(HelperProcess& child, const HelperMessage& message);
  bool ask_to_hand_over();
  std::optional<Outcome> hangs_already();

  const Procfs& procfs_;
  Mounts& mounts_;
  FileSystems file_systems_;
  int64_t open_ns_;
  int64_t parse_ns_;
  HelperProcess opener_;
  HelperProcess parser_;
  uid_t parsed_for_ = 0;  // a parser that one user's file may have subverted must not parse another user's
  std::map<uid_t, std::deque<Request>> queues_;
  uid_t last_user_ = 0;
  int64_t check_idle_at_ns_ = 0;
  std::optional<Current> current_;
  UniqueFd wake_;
};

}  // namespace stalltrace::capture
