// SPDX-License-Identifier: Apache-2.0
#include "mix.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "pattern.h"
#include "script.h"

namespace lab::workload {
namespace {

constexpr size_t kMaxElements = 65536;

unsigned sum_of(int first, int last, int stride, size_t i, long salt) {
  unsigned sum = 0;
  for (int rank = first; rank < last; rank += stride) {
    sum += pattern(rank, i, salt);
  }
  return sum;
}

}  // namespace

Mix::Mix(Job& job)
    : job_(job),
      type_(job.options().dtype),
      count_(std::clamp<size_t>(job.options().elements / static_cast<size_t>(job.nranks()), 1, kMaxElements)),
      half_(job.split(job.rank() % 2)),
      send_(count_ * static_cast<size_t>(job.nranks()) * type_bytes(type_)),
      recv_(count_ * static_cast<size_t>(job.nranks()) * type_bytes(type_)) {}

void Mix::run(long step, cudaStream_t stream) {
  const bool swapped = !bug("order").empty();  // a mistake: the half's call comes after the whole job's elsewhere
  if (swapped) {
    half(step, stream);
  }
  gather_and_scatter(step, stream);
  rooted(step, stream);
  exchange(step, stream);
  all_to_all(step, stream);
  if (!swapped) {
    half(step, stream);
  }
  CHECK_CALL(cudaStreamSynchronize(stream));
  job_.check_alive();
}

void Mix::fill(long salt, cudaStream_t stream) {
  if (!job_.options().verify) {
    return;
  }
  const size_t total = count_ * static_cast<size_t>(job_.nranks());
  const auto data = encode(type_, total, [&](size_t i) { return pattern(job_.rank(), i, salt); });
  CHECK_CALL(cudaMemcpyAsync(send_.get(), data.data(), data.size(), cudaMemcpyHostToDevice, stream));
  CHECK_CALL(cudaMemsetAsync(recv_.get(), 0xff, data.size(), stream));
  CHECK_CALL(cudaStreamSynchronize(stream));
}

void Mix::expect(const char* what, size_t count, cudaStream_t stream, const std::function<unsigned(size_t)>& value) {
  if (!job_.options().verify) {
    return;
  }
  const auto expected = encode(type_, count, value);
  std::vector<std::byte> got(expected.size());
  CHECK_CALL(cudaMemcpyAsync(got.data(), recv_.get(), got.size(), cudaMemcpyDeviceToHost, stream));
  CHECK_CALL(cudaStreamSynchronize(stream));
  job_.check_alive();
  if (got != expected) {
    throw Failure(std::string("wrong result of ") + what);
  }
}

void Mix::gather_and_scatter(long step, cudaStream_t stream) {
  const int nranks = job_.nranks();
  const auto own_offset = count_ * static_cast<size_t>(job_.rank());
  fill(step, stream);
  CHECK_CALL(ncclAllGather(send_.get(), recv_.get(), count_, type_, job_.comm(), stream));
  expect("AllGather", count_ * static_cast<size_t>(nranks), stream,
         [&](size_t i) { return pattern(static_cast<int>(i / count_), i % count_, step); });

  fill(step + 1, stream);
  CHECK_CALL(ncclReduceScatter(send_.get(), recv_.get(), count_, type_, ncclSum, job_.comm(), stream));
  expect("ReduceScatter", count_, stream, [&](size_t i) { return sum_of(0, nranks, 1, own_offset + i, step + 1); });
}

void Mix::rooted(long step, cudaStream_t stream) {
  const int nranks = job_.nranks();
  const int root = static_cast<int>((step + (bug("mismatch") == "root" ? 1 : 0)) % nranks);
  fill(step + 2, stream);
  CHECK_CALL(ncclBroadcast(send_.get(), recv_.get(), count_, type_, root, job_.comm(), stream));
  expect("Broadcast", count_, stream, [&](size_t i) { return pattern(root, i, step + 2); });

  fill(step + 3, stream);
  CHECK_CALL(ncclReduce(send_.get(), recv_.get(), count_, type_, ncclSum, root, job_.comm(), stream));
  if (job_.rank() == root) {
    expect("Reduce", count_, stream, [&](size_t i) { return sum_of(0, nranks, 1, i, step + 3); });
  }
}

void Mix::exchange(long step, cudaStream_t stream) {
  const int nranks = job_.nranks();
  const int next = (job_.rank() + 1) % nranks;
  const int previous = (job_.rank() + nranks - 1) % nranks;
  fill(step + 4, stream);
  CHECK_CALL(ncclGroupStart());
  CHECK_CALL(ncclSend(send_.get(), count_, type_, next, job_.comm(), stream));
  CHECK_CALL(ncclRecv(recv_.get(), count_, type_, previous, job_.comm(), stream));
  CHECK_CALL(ncclGroupEnd());
  expect("Send/Recv", count_, stream, [&](size_t i) { return pattern(previous, i, step + 4); });
}

void Mix::all_to_all(long step, cudaStream_t stream) {
  const size_t part_bytes = count_ * type_bytes(type_);
  fill(step + 6, stream);
  CHECK_CALL(ncclGroupStart());
  for (int peer = 0; peer < job_.nranks(); ++peer) {
    const size_t offset = static_cast<size_t>(peer) * part_bytes;
    CHECK_CALL(ncclSend(send_.at(offset), count_, type_, peer, job_.comm(), stream));
    CHECK_CALL(ncclRecv(recv_.at(offset), count_, type_, peer, job_.comm(), stream));
  }
  CHECK_CALL(ncclGroupEnd());
  const auto own_offset = count_ * static_cast<size_t>(job_.rank());
  expect("all-to-all by Send/Recv", count_ * static_cast<size_t>(job_.nranks()), stream,
         [&](size_t i) { return pattern(static_cast<int>(i / count_), own_offset + i % count_, step + 6); });
}

void Mix::half(long step, cudaStream_t stream) {
  fill(step + 5, stream);
  CHECK_CALL(ncclAllReduce(send_.get(), recv_.get(), count_, type_, ncclSum, half_, stream));
  expect("AllReduce of half the ranks", count_, stream,
         [&](size_t i) { return sum_of(job_.rank() % 2, job_.nranks(), 2, i, step + 5); });
}

}  // namespace lab::workload
