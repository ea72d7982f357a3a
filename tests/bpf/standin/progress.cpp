// SPDX-License-Identifier: Apache-2.0
// A stand-in for NCCL's progress thread and its socket transport, with the profiler plugin loaded: several connections
// in turn, each step posted, handed on and then tested until its bytes have moved, and the plugin reported as NCCL
// reports it (sendProxyProgress, recvProxyProgress and ncclNetSocketTest of NCCL 2.28). With helpers, the thread itself
// sends a header a step, and a thread of each connection the data over two further sockets. Collectives and Send/Recv
// may be under way at once, over connections of their own as in NCCL, or over the same ones.
//
//   progress LIBRARY PLUGIN HASH; then commands on standard input: "init RANKS RANK",
//   "run CHANNELS HELPERS TRANSFERS", TRANSFERS being 0 none, 1 over connections of their own, 2 over those of the
//   collectives
#include <arpa/inet.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "plugin/abi/profiler.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // C: a function named as its struct
#include "standin/nccl.h"
#pragma GCC diagnostic pop

namespace {

using stalltrace::nccl::v5::Descriptor;
using stalltrace::nccl::v5::Profiler;
using stalltrace::nccl::v5::StateArguments;
namespace nccl = stalltrace::nccl;

constexpr int kPeers = 2;
constexpr int kSteps = 12;
constexpr size_t kStepBytes = 96 * 1024;
constexpr size_t kHeaderBytes = 4;
constexpr size_t kPassBytes = 40 * 1024;  // small, so that a step takes several tests
constexpr int kDataSockets = 2;

const Profiler* profiler;
void* context;
int own_rank;

struct Pair {
  int near = -1;
  int far = -1;
};

/// Connections with one listener, like NCCL's sockets of one connection.
std::vector<Pair> connect_pairs(int count) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  bind(listener, reinterpret_cast<sockaddr*>(&address), length);
  listen(listener, count);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  std::vector<Pair> pairs(static_cast<size_t>(count));
  for (Pair& pair : pairs) {
    pair.near = socket(AF_INET, SOCK_STREAM, 0);
    connect(pair.near, reinterpret_cast<sockaddr*>(&address), length);
    pair.far = accept(listener, nullptr, nullptr);
  }
  close(listener);
  return pairs;
}

int local_port(int fd) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

void name_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

char* buffer() {
  static char bytes[kStepBytes];
  return bytes;
}

void move_all(int fd, size_t bytes, bool send) {
  while (bytes > 0) {
    const ssize_t moved =
        send ? ::send(fd, buffer(), bytes, MSG_NOSIGNAL) : ::recv(fd, buffer(), std::min(bytes, kStepBytes), 0);
    if (moved <= 0) {
      return;
    }
    bytes -= static_cast<size_t>(moved);
  }
}

void* start(uint64_t type, void* parent, const Descriptor& event) {
  Descriptor copy = event;
  copy.type = type;
  copy.parent = parent;
  copy.rank = own_rank;
  void* handle = nullptr;
  profiler->start_event(context, &handle, &copy);
  return handle;
}

void send_command(void* handle, int state, size_t bytes = 0) {
  StateArguments arguments{};
  arguments.proxy_step.transferred_bytes = bytes;
  profiler->record_event_state(handle, state, &arguments);
}

/// The data that a connection carries.
struct Carries {
  bool collectives = true;
  bool transfers = false;
};

/// One direction to one peer on one channel: NCCL's "sub" with its connection.
class Sub {
 public:
  Sub(bool sends, int channel, int peer, bool helpers, Carries carries)
      : sends_(sends), channel_(channel), peer_(peer), carries_(carries) {
    std::vector<Pair> pairs = connect_pairs(helpers ? 1 + kDataSockets : 1);
    if (!sends_) {
      for (Pair& pair : pairs) {
        std::swap(pair.near, pair.far);  // the receiver accepts
      }
    }
    control_ = pairs[0];
    data_.assign(pairs.begin() + 1, pairs.end());
    far_ = std::jthread([this](const std::stop_token& stop) { play_far_end(stop); });
    if (helpers) {
      helper_ = std::jthread([this](const std::stop_token& stop) { help(stop); });
    }
  }
  ~Sub() {
    for (const std::jthread* thread : {&far_, &helper_}) {
      const_cast<std::jthread*>(thread)->request_stop();
    }
    for (const Pair& pair : all_pairs()) {
      shutdown(pair.near, SHUT_RDWR);
      shutdown(pair.far, SHUT_RDWR);
    }
  }
  Sub(const Sub&) = delete;
  Sub& operator=(const Sub&) = delete;

  void begin(void* collective) {
    if (carries_.collectives) {
      begin_operation(collective);
    }
    if (carries_.transfers) {
      Descriptor event{};
      event.p2p.function = sends_ ? "Send" : "Recv";
      event.p2p.datatype = "ncclFloat32";
      event.p2p.peer = peer_;
      void* transfer = start(nccl::kEventP2p, nullptr, event);
      begin_operation(transfer);
      profiler->stop_event(transfer);
    }
    done_ = 0;
  }
  void end() {
    for (void* operation : operations_) {
      profiler->stop_event(operation);
    }
    operations_.clear();
  }
  [[nodiscard]] bool done() const { return done_ == kSteps * static_cast<int>(operations_.size()); }

  /// One pass of the progress loop.
  void progress() {
    if (done()) {
      return;
    }
    if (phase_ == 0) {
      Descriptor event{};
      const auto operations = static_cast<int>(operations_.size());
      event.proxy_step = {done_ / operations};
      step_ = start(nccl::kEventProxyStep, operations_[static_cast<size_t>(done_ % operations)], event);
      send_command(step_, sends_ ? nccl::kStateSendGpuWait : nccl::kStateRecvWait);
      phase_ = sends_ ? 1 : 2;
    } else if (phase_ == 1) {
      send_command(step_, nccl::kStateSendPeerWait);
      send_command(step_, nccl::kStateSendWait, kStepBytes);
      phase_ = 2;
    } else if (test()) {
      if (!sends_) {
        send_command(step_, nccl::kStateRecvFlushWait, kStepBytes);
        send_command(step_, nccl::kStateRecvGpuWait);
      }
      profiler->stop_event(step_);
      phase_ = 0;
      ++done_;
    }
  }

  /// "port:channel:peer:direction" of each socket, the control socket first.
  [[nodiscard]] std::string ends() const {
    std::ostringstream text;
    for (const Pair& pair : all_pairs()) {
      text << ' ' << local_port(pair.near) << ':' << channel_ << ':' << peer_ << ':' << sends_;
    }
    return text.str();
  }

 private:
  void begin_operation(void* whole) {
    Descriptor event{};
    event.proxy_op = {getpid(), static_cast<uint8_t>(channel_), peer_, kSteps, static_cast<int>(kStepBytes), sends_};
    operations_.push_back(start(nccl::kEventProxyOp, whole, event));
    send_command(operations_.back(), nccl::kStateOpInProgress);
  }

  [[nodiscard]] std::vector<Pair> all_pairs() const {
    std::vector<Pair> all{control_};
    all.insert(all.end(), data_.begin(), data_.end());
    return all;
  }

  bool move_some(size_t limit) {
    const size_t part = std::min(limit - moved_, kPassBytes);
    const ssize_t moved = sends_ ? ::send(control_.near, buffer(), part, MSG_DONTWAIT | MSG_NOSIGNAL)
                                 : ::recv(control_.near, buffer(), part, MSG_DONTWAIT);
    moved_ += moved > 0 ? static_cast<size_t>(moved) : 0;
    return moved_ == limit;
  }

  /// As ncclNetSocketTest: true with the step's last byte.
  bool test() {
    if (data_.empty()) {
      if (!move_some(kHeaderBytes + kStepBytes)) {
        return false;
      }
    } else {
      if (!header_moved_) {
        header_moved_ = move_some(kHeaderBytes);
        if (header_moved_) {
          task_ = true;
        }
        return false;
      }
      if (task_) {
        return false;
      }
    }
    moved_ = 0;
    header_moved_ = false;
    return true;
  }

  void help(const std::stop_token& stop) {
    name_thread(sends_ ? "NCCL SockS 0" : "NCCL SockR 0");
    while (!stop.stop_requested()) {
      if (!task_) {
        usleep(50);
        continue;
      }
      for (const Pair& pair : data_) {
        move_all(pair.near, kStepBytes / kDataSockets, sends_);
      }
      task_ = false;
    }
  }

  /// The peer: receives everything, or sends everything.
  void play_far_end(const std::stop_token& stop) {
    name_thread("far end");
    while (!stop.stop_requested()) {
      if (sends_) {
        for (const Pair& pair : all_pairs()) {
          ::recv(pair.far, far_bytes_, sizeof far_bytes_, MSG_DONTWAIT);
        }
        usleep(20);
        continue;
      }
      move_all(control_.far, data_.empty() ? kHeaderBytes + kStepBytes : kHeaderBytes, true);
      for (const Pair& pair : data_) {
        move_all(pair.far, kStepBytes / kDataSockets, true);
      }
    }
  }

  const bool sends_;
  const int channel_;
  const int peer_;
  const Carries carries_;
  Pair control_;
  std::vector<Pair> data_;
  std::vector<void*> operations_;  // their steps alternate
  void* step_ = nullptr;
  int phase_ = 0;
  int done_ = 0;
  size_t moved_ = 0;
  bool header_moved_ = false;
  std::atomic<bool> task_ = false;
  char far_bytes_[65536];
  std::jthread far_;
  std::jthread helper_;
};

std::vector<std::unique_ptr<Sub>> subs;

/// Runs some collectives, and transfers beside them, over all connections at once.
void run(int channels, bool helpers, int transfers) {
  std::vector<Carries> connections{{.collectives = true, .transfers = transfers == 2}};
  if (transfers == 1) {
    connections.push_back({.collectives = false, .transfers = true});
  }
  for (int channel = 0; channel < channels; ++channel) {
    for (int peer = 1; peer <= kPeers && (channels > 1 || peer == 1); ++peer) {
      for (const Carries& carries : connections) {
        subs.push_back(std::make_unique<Sub>(true, channel, peer, helpers, carries));
        subs.push_back(std::make_unique<Sub>(false, channel, peer, helpers, carries));
      }
    }
  }
  std::jthread progress([] {
    name_thread("NCCL Progress 0");
    for (int operation = 0; operation < 4; ++operation) {
      Descriptor event{};
      event.coll.function = "AllReduce";
      event.coll.datatype = "ncclFloat32";
      void* collective = start(nccl::kEventColl, nullptr, event);
      for (const auto& sub : subs) {
        sub->begin(collective);
      }
      for (bool busy = true; busy;) {
        busy = false;
        for (const auto& sub : subs) {
          sub->progress();
          busy |= !sub->done();
        }
      }
      for (const auto& sub : subs) {
        sub->end();
      }
      profiler->stop_event(collective);
    }
    sleep(1);  // keeps NCCL's thread alive: its name can be read
  });
}

ncclUniqueId known_id() {
  ncclUniqueId id;
  for (int i = 0; i < 128; ++i) {
    id.internal[i] = static_cast<char>(i + 1);
  }
  return id;
}

std::string obey(const struct standin_api& api, uint64_t hash, const std::string& line) {
  std::istringstream words(line);
  std::string command;
  int a = 0;
  int b = 0;
  int c = 0;
  words >> command >> a >> b >> c;
  if (command == "init") {
    void* comm = nullptr;
    int mask = 0;
    own_rank = b;
    const int failed = api.init_rank(&comm, a, known_id(), b);
    return std::to_string(failed | profiler->init(&context, hash, &mask, "world", a, a, b, nullptr));
  }
  if (command == "run") {
    run(a, b != 0, c);
    std::string ends = "ends";
    for (const auto& sub : subs) {
      ends += sub->ends();
    }
    return ends;
  }
  return "-1";
}

}  // namespace

int main(int argc, char** argv) {
  void* library = argc > 3 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  void* plugin = argc > 3 ? dlopen(argv[2], RTLD_NOW) : nullptr;
  if (library == nullptr || plugin == nullptr) {
    std::fprintf(stderr, "progress: %s\n", dlerror());
    return 1;
  }
  const auto get = reinterpret_cast<const struct standin_api* (*)()>(dlsym(library, "standin_api"));
  profiler = static_cast<const Profiler*>(dlsym(plugin, "ncclProfiler_v5"));
  const uint64_t hash = std::strtoull(argv[3], nullptr, 16);
  std::puts("0");
  std::fflush(stdout);
  char line[256];
  while (std::fgets(line, sizeof line, stdin) != nullptr) {
    std::puts(obey(*get(), hash, line).c_str());
    std::fflush(stdout);
  }
  subs.clear();
  return 0;
}
