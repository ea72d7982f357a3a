// SPDX-License-Identifier: Apache-2.0
#include "analysis/timeline/signature_table.h"

#include <algorithm>
#include <numeric>

#include "base/hash.h"

namespace stalltrace::analysis {
namespace {

constexpr uint16_t kOtherSignature = 0xffff;  // signatures beyond the index space share the last index

constexpr int32_t kNcclReduceOps = 5;  // ncclNumOps; user-made operators have numbers that differ by process

/// Datatypes and reduce-ops of NCCL are numbers; those of other libraries may be addresses.
CallSignature signature_from(const Collective& row) {
  const bool numbers = row.library == Library::kNccl || row.library == Library::kRccl;
  CallSignature signature{.op = row.op == Operation::kRecv ? Operation::kSend : row.op, .bytes = signature_bytes(row)};
  signature.root = row.root.value_or(CallSignature::kNoArgument);
  signature.exact = numbers;
  if (numbers && !is_point_to_point(row.op)) {
    signature.datatype = row.datatype.value_or(CallSignature::kNoArgument);
    const int32_t reduce_op = row.reduce_op.value_or(CallSignature::kNoArgument);
    signature.reduce_op = reduce_op < kNcclReduceOps ? reduce_op : CallSignature::kNoArgument;
  }
  return signature;
}

uint64_t hash_of(const CallSignature& signature) {
  const auto pair = [](int32_t a, int32_t b) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  };
  const uint64_t hash =
      splitmix64_fold(kSplitmixSeed, (static_cast<uint64_t>(signature.op) << 1) | (signature.exact ? 1U : 0U));
  return splitmix64_fold(splitmix64_fold(splitmix64_fold(hash, static_cast<uint64_t>(signature.bytes)),
                                         pair(signature.datatype, signature.reduce_op)),
                         static_cast<uint32_t>(signature.root));
}

}  // namespace

int64_t signature_bytes(const Collective& row) {
  if (!has_a_part_per_rank(row.op)) {
    return row.bytes;
  }
  const bool nccl = row.library == Library::kNccl || row.library == Library::kRccl;
  const int element_bytes = nccl && row.datatype ? nccl_datatype_size(*row.datatype) : 0;
  int64_t own = 0;
  if (row.count && element_bytes > 0 && !__builtin_mul_overflow(*row.count, int64_t{element_bytes}, &own)) {
    return own;
  }
  // A row without a number of ranks has no bytes either.
  return row.nranks.value_or(0) > 0 ? row.bytes / *row.nranks : CallSignature::kUnknownBytes;
}

bool agree(const CallSignature& a, const CallSignature& b) {
  const auto alike = [](int32_t x, int32_t y) {
    return x == y || x == CallSignature::kNoArgument || y == CallSignature::kNoArgument;
  };
  if (a.op != b.op || !alike(a.root, b.root)) {
    return false;
  }
  if (a.exact && b.exact) {
    return a.sized_as(b) && alike(a.datatype, b.datatype) && alike(a.reduce_op, b.reduce_op);
  }
  return !needs_equal_sizes(a.op) || a.bytes == b.bytes;
}

uint16_t SignatureTable::index_of(const Collective& row) {
  CallSignature signature = signature_from(row);
  if (signature == last_) {
    first_ns_[last_index_] = std::min(first_ns_[last_index_], row.timestamp_ns);
    return last_index_;
  }
  last_ = signature;
  const auto next = static_cast<uint16_t>(std::min<size_t>(signatures_.size(), kOtherSignature));
  const auto [found, fresh] = index_.try_emplace(hash_of(signature), next);
  if (fresh && signatures_.size() <= kOtherSignature) {
    signature.baseline_class = class_index_.try_emplace(kind_of(signature), next).first->second;
    signatures_.push_back(signature);
    first_ns_.push_back(row.timestamp_ns);
  }
  last_index_ = found->second;
  first_ns_[last_index_] = std::min(first_ns_[last_index_], row.timestamp_ns);
  return last_index_;
}

uint64_t SignatureTable::kind_of(const CallSignature& signature) {
  return splitmix64_fold(splitmix64_fold(kSplitmixSeed, static_cast<uint64_t>(signature.op)),
                         static_cast<uint64_t>(signature.bytes));
}

std::vector<uint16_t> SignatureTable::order_by_time() {
  if (std::ranges::is_sorted(first_ns_)) {
    return {};
  }
  std::vector<uint16_t> order(signatures_.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::stable_sort(order, {}, [this](uint16_t signature) { return first_ns_[signature]; });
  std::vector<uint16_t> numbers(order.size());
  std::vector<CallSignature> signatures;
  std::unordered_map<uint64_t, uint16_t> classes;
  for (size_t i = 0; i < order.size(); ++i) {
    const auto number = static_cast<uint16_t>(i);
    numbers[order[i]] = number;
    signatures.push_back(signatures_[order[i]]);
    signatures.back().baseline_class = classes.try_emplace(kind_of(signatures.back()), number).first->second;
  }
  signatures_ = std::move(signatures);
  class_index_ = std::move(classes);
  std::ranges::sort(first_ns_);
  for (auto& [hash, signature] : index_) {
    signature = numbers[signature];
  }
  last_ = {.bytes = -2};
  return numbers;
}

}  // namespace stalltrace::analysis
