// SPDX-License-Identifier: Apache-2.0
#include "plugin/collectives/orders.h"

#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace stalltrace::collectives {
namespace {

/// Of results that are longer, this much of the beginning and of the end is compared.
constexpr unsigned long long kPartElements = (512U << 10) / sizeof(float);
constexpr long kSpinNs = 1'000'000;  // a wait that is longer gives the CPU away
constexpr long kPauseNs = 50'000;    // between two questions of such a wait
constexpr int kGarbage = 0xff;       // no number

struct Named {
  const char* name;
  Operation operation;
};
constexpr Named kNames[kOperations] = {{"AllReduce", Operation::kAllReduce},
                                       {"AllGather", Operation::kAllGather},
                                       {"ReduceScatter", Operation::kReduceScatter},
                                       {"Broadcast", Operation::kBroadcast},
                                       {"Reduce", Operation::kReduce},
                                       {"SendRecv", Operation::kSendRecv}};

int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// Cuts the next word off; empty at the end.
const char* next_word(char*& rest) {
  const char* word = rest;
  while (*rest != '\0' && *rest != ' ') {
    ++rest;
  }
  if (*rest == ' ') {
    *rest++ = '\0';
  }
  return word;
}

unsigned long long next_number(char*& rest) { return std::strtoull(next_word(rest), nullptr, 10); }

bool from_hexadecimal(const char* text, UniqueId& id) {
  if (std::strlen(text) != 2 * sizeof id.bytes) {
    return false;
  }
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    const char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
    char* end = nullptr;
    id.bytes[i] = static_cast<char>(std::strtoul(digits, &end, 16));
    if (end != digits + 2) {
      return false;
    }
  }
  return true;
}

}  // namespace

void Orders::answer(const char* format, ...) {
  char line[2048];
  va_list arguments;
  va_start(arguments, format);
  const int written = std::vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  auto size = static_cast<size_t>(written < 0 ? 0 : written);
  size = size < sizeof line - 2 ? size : sizeof line - 2;
  line[size++] = '\n';
  for (size_t sent = 0; sent < size;) {
    const ssize_t done = ::write(out_, line + sent, size - sent);
    if (done < 0 && errno != EINTR) {
      ::_exit(1);  // the parent is gone
    }
    sent += done > 0 ? static_cast<size_t>(done) : 0;
  }
}

void Orders::follow(char* line) {
  const char* order = next_word(line);
  const bool known = std::strcmp(order, "load") == 0      ? load(line)
                     : std::strcmp(order, "id") == 0      ? make_id()
                     : std::strcmp(order, "connect") == 0 ? connect(line)
                     : std::strcmp(order, "run") == 0     ? run(line)
                                                          : failure_.set("the order %s is not known", order);
  if (!known) {
    answer("error %s", failure_.text);
  }
}

bool Orders::load(char* words) {
  if (stream_ != nullptr) {
    return failure_.set("a library is loaded already");
  }
  const auto device = static_cast<int>(next_number(words));
  if (!libraries_.load(*words == '\0' ? nullptr : words, failure_)) {
    return false;
  }
  const Cuda& cuda = libraries_.cuda;
  int devices = 0;
  if (!libraries_.cuda_done(cuda.get_device_count(&devices), "cudaGetDeviceCount", failure_)) {
    return false;
  }
  if (devices < 1) {
    return failure_.set("there is no CUDA device");
  }
  if (!libraries_.cuda_done(cuda.set_device(device % devices), "cudaSetDevice", failure_) ||
      !libraries_.cuda_done(cuda.stream_create(&stream_, kNonBlocking), "cudaStreamCreateWithFlags", failure_)) {
    return false;
  }
  answer("loaded %d %d %s", libraries_.version, devices, libraries_.path);
  return true;
}

bool Orders::make_id() {
  UniqueId id{};
  if (libraries_.nccl.get_unique_id == nullptr) {
    return failure_.set("no library is loaded");
  }
  if (!libraries_.nccl_done(libraries_.nccl.get_unique_id(&id), "ncclGetUniqueId", failure_)) {
    return false;
  }
  char text[2 * sizeof id.bytes + 1];
  for (size_t i = 0; i < sizeof id.bytes; ++i) {
    std::snprintf(text + 2 * i, 3, "%02x", static_cast<unsigned char>(id.bytes[i]));
  }
  answer("id %s", text);
  return true;
}

bool Orders::connect(char* words) {
  ranks_ = next_number(words);
  rank_ = next_number(words);
  const unsigned long long bytes = next_number(words);
  UniqueId id{};
  if (comm_ != nullptr) {
    return failure_.set("there is a communicator already");
  }
  if (stream_ == nullptr || rank_ >= ranks_ || !from_hexadecimal(words, id)) {
    return failure_.set("no library is loaded, or the order is no valid one");
  }
  const int64_t begin_ns = now_ns();
  const Nccl& nccl = libraries_.nccl;
  const int made = nccl.comm_init_rank(&comm_, static_cast<int>(ranks_), id, static_cast<int>(rank_));
  const int64_t end_ns = now_ns();
  if (!libraries_.nccl_done(made, "ncclCommInitRank", failure_) || !make_buffers(bytes)) {
    return false;
  }
  answer("connected %lld", static_cast<long long>(end_ns - begin_ns));
  return true;
}

bool Orders::make_buffers(unsigned long long bytes) {
  const unsigned long long least = ranks_ * sizeof(float);
  capacity_ = bytes < least ? least : bytes;
  host_ = static_cast<float*>(std::malloc(kPartElements * sizeof(float)));
  if (host_ == nullptr) {
    return failure_.set("no memory is left");
  }
  const Cuda& cuda = libraries_.cuda;
  if (!libraries_.cuda_done(cuda.malloc(&send_, capacity_), "cudaMalloc", failure_) ||
      !libraries_.cuda_done(cuda.malloc(&receive_, capacity_), "cudaMalloc", failure_) ||
      !libraries_.cuda_done(cuda.malloc(&meeting_, sizeof(float)), "cudaMalloc", failure_) ||
      !libraries_.cuda_done(cuda.memset(meeting_, 0, sizeof(float)), "cudaMemset", failure_)) {
    return false;
  }
  const unsigned long long elements = capacity_ / sizeof(float);
  for (unsigned long long begin = 0; begin < elements; begin += kPartElements) {
    const unsigned long long count = elements - begin < kPartElements ? elements - begin : kPartElements;
    for (unsigned long long i = 0; i < count; ++i) {
      host_[i] = value_of(rank_, begin + i);
    }
    const int error =
        cuda.memcpy(static_cast<char*>(send_) + begin * sizeof(float), host_, count * sizeof(float), kToDevice);
    if (!libraries_.cuda_done(error, "cudaMemcpy", failure_)) {
      return false;
    }
  }
  return libraries_.cuda_done(cuda.device_synchronize(), "cudaDeviceSynchronize", failure_);
}

bool Orders::launch(const Call& call) {
  const Nccl& nccl = libraries_.nccl;
  const auto next = static_cast<int>((rank_ + 1) % ranks_);
  const auto previous = static_cast<int>((rank_ + ranks_ - 1) % ranks_);
  constexpr int kRoot = 0;
  int result = kSuccess;
  const char* name = "ncclGroupEnd";
  switch (call.operation) {
    case Operation::kAllReduce:
      name = "ncclAllReduce";
      result = nccl.all_reduce(send_, receive_, call.count, kFloat32, kSum, comm_, stream_);
      break;
    case Operation::kAllGather:
      name = "ncclAllGather";
      result = nccl.all_gather(send_, receive_, call.count, kFloat32, comm_, stream_);
      break;
    case Operation::kReduceScatter:
      name = "ncclReduceScatter";
      result = nccl.reduce_scatter(send_, receive_, call.count, kFloat32, kSum, comm_, stream_);
      break;
    case Operation::kBroadcast:
      name = "ncclBroadcast";
      result = nccl.broadcast(send_, receive_, call.count, kFloat32, kRoot, comm_, stream_);
      break;
    case Operation::kReduce:
      name = "ncclReduce";
      result = nccl.reduce(send_, receive_, call.count, kFloat32, kSum, kRoot, comm_, stream_);
      break;
    case Operation::kSendRecv: {
      nccl.group_start();
      const int sent = nccl.send(send_, call.count, kFloat32, next, comm_, stream_);
      const int received = nccl.recv(receive_, call.count, kFloat32, previous, comm_, stream_);
      const int ended = nccl.group_end();
      name = sent != kSuccess ? "ncclSend" : received != kSuccess ? "ncclRecv" : name;
      result = sent != kSuccess ? sent : received != kSuccess ? received : ended;
      break;
    }
  }
  return libraries_.nccl_done(result, name, failure_);
}

bool Orders::wait_for_stream() {
  const int64_t begin_ns = now_ns();
  for (;;) {
    const int state = libraries_.cuda.stream_query(stream_);
    if (state != kNotReady) {
      return libraries_.cuda_done(state, "cudaStreamQuery", failure_);
    }
    int error = kSuccess;
    const int asked = libraries_.nccl.comm_get_async_error(comm_, &error);
    if (!libraries_.nccl_done(asked, "ncclCommGetAsyncError", failure_) ||
        (error != kInProgress && !libraries_.nccl_done(error, "an error of the communicator", failure_))) {
      return false;
    }
    if (now_ns() - begin_ns < kSpinNs) {
      ::sched_yield();
    } else {
      const timespec pause{.tv_sec = 0, .tv_nsec = kPauseNs};
      ::nanosleep(&pause, nullptr);
    }
  }
}

bool Orders::wait_for_all_ranks() {
  const int result = libraries_.nccl.all_reduce(meeting_, meeting_, 1, kFloat32, kSum, comm_, stream_);
  return libraries_.nccl_done(result, "ncclAllReduce", failure_) && wait_for_stream();
}

bool Orders::run(char* words) {
  const char* name = next_word(words);
  const unsigned long long bytes = next_number(words);
  const unsigned long long calls = next_number(words);
  const bool with_check = next_number(words) == 1;
  const Named* named = nullptr;
  for (const Named& one : kNames) {
    named = std::strcmp(one.name, name) == 0 ? &one : named;
  }
  if (comm_ == nullptr || named == nullptr || calls == 0 || bytes > capacity_) {
    return failure_.set("there is no communicator, or the order is no valid one");
  }
  const Call call{.operation = named->operation,
                  .ranks = ranks_,
                  .rank = rank_,
                  .count = count_of_size(named->operation, bytes, ranks_)};
  unsigned long long wrong = 0;
  if (with_check && !check(call, wrong)) {
    return false;
  }
  if (!wait_for_all_ranks()) {
    return false;
  }
  const int64_t begin_ns = now_ns();
  for (unsigned long long i = 0; i < calls; ++i) {
    if (!launch(call)) {
      return false;
    }
  }
  if (!with_check) {
    answer("launched");
  }
  if (!wait_for_stream()) {
    return false;
  }
  const int64_t duration_ns = (now_ns() - begin_ns) / static_cast<int64_t>(calls);
  const bool parts = call.operation == Operation::kAllGather || call.operation == Operation::kReduceScatter;
  answer("done %lld %llu %llu", static_cast<long long>(duration_ns), wrong,
         static_cast<unsigned long long>(call.count * sizeof(float) * (parts ? ranks_ : 1)));
  return true;
}

bool Orders::check(const Call& call, unsigned long long& wrong) {
  const unsigned long long results = call.results();
  const Cuda& cuda = libraries_.cuda;
  if (!libraries_.cuda_done(cuda.memset(receive_, kGarbage, results * sizeof(float)), "cudaMemset", failure_) ||
      !libraries_.cuda_done(cuda.device_synchronize(), "cudaDeviceSynchronize", failure_) || !launch(call)) {
    return false;
  }
  answer("launched");
  if (!wait_for_stream()) {
    return false;
  }
  const unsigned long long first = results < kPartElements ? results : kPartElements;
  const unsigned long long last = results - first < kPartElements ? first : results - kPartElements;
  return check_part(call, 0, first, wrong) && check_part(call, last, results, wrong);
}

bool Orders::check_part(const Call& call, unsigned long long begin, unsigned long long end, unsigned long long& wrong) {
  if (begin == end) {
    return true;
  }
  const int error = libraries_.cuda.memcpy(host_, static_cast<const char*>(receive_) + begin * sizeof(float),
                                           (end - begin) * sizeof(float), kToHost);
  if (!libraries_.cuda_done(error, "cudaMemcpy", failure_)) {
    return false;
  }
  for (unsigned long long i = begin; i < end; ++i) {
    wrong += host_[i - begin] == call.expected(i) ? 0 : 1;  // what is no number is wrong, too
  }
  return true;
}

}  // namespace stalltrace::collectives
