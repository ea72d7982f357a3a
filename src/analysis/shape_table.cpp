// SPDX-License-Identifier: Apache-2.0
#include "analysis/shape_table.h"

#include <algorithm>

#include "base/hash.h"

namespace stalltrace::analysis {
namespace {

constexpr uint16_t kOtherShape = 0xffff;  // shapes beyond the index space share the last one

/// Sums over processes whose counts may differ by rank, as MPI's "v" variants do.
bool sized_alike(Operation op) {
  return op == Operation::kAllReduce || op == Operation::kBroadcast || op == Operation::kReduce;
}

constexpr int32_t kNcclReduceOps = 5;  // ncclNumOps; what a program makes itself has a number that each process gives

/// Datatypes and reduce-ops of NCCL are numbers; those of others may be addresses.
Shape shape_from(const Collective& row) {
  const bool numbers = row.library == Library::kNccl || row.library == Library::kRccl;
  Shape shape{.op = row.op == Operation::kRecv ? Operation::kSend : row.op, .bytes = row.bytes};
  shape.root = row.root.value_or(Shape::kNoArgument);
  shape.exact = numbers;
  if (numbers && !is_point_to_point(row.op)) {
    shape.datatype = row.datatype.value_or(Shape::kNoArgument);
    const int32_t reduce_op = row.reduce_op.value_or(Shape::kNoArgument);
    shape.reduce_op = reduce_op < kNcclReduceOps ? reduce_op : Shape::kNoArgument;
  }
  return shape;
}

uint64_t hash_of(const Shape& shape) {
  const auto pair = [](int32_t a, int32_t b) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(a)) << 32) | static_cast<uint32_t>(b);
  };
  const uint64_t hash =
      splitmix64_fold(kSplitmixSeed, (static_cast<uint64_t>(shape.op) << 1) | (shape.exact ? 1U : 0U));
  return splitmix64_fold(
      splitmix64_fold(splitmix64_fold(hash, static_cast<uint64_t>(shape.bytes)), pair(shape.datatype, shape.reduce_op)),
      static_cast<uint32_t>(shape.root));
}

}  // namespace

bool agree(const Shape& a, const Shape& b) {
  const auto alike = [](int32_t x, int32_t y) { return x == y || x == Shape::kNoArgument || y == Shape::kNoArgument; };
  if (a.op != b.op || !alike(a.root, b.root)) {
    return false;
  }
  if (a.exact && b.exact) {
    return a.bytes == b.bytes && alike(a.datatype, b.datatype) && alike(a.reduce_op, b.reduce_op);
  }
  return !sized_alike(a.op) || a.bytes == b.bytes;
}

uint16_t ShapeTable::index_of(const Collective& row) {
  Shape shape = shape_from(row);
  if (shape == last_) {
    return last_index_;
  }
  last_ = shape;
  const auto next = static_cast<uint16_t>(std::min<size_t>(shapes_.size(), kOtherShape));
  const auto [found, fresh] = index_.try_emplace(hash_of(shape), next);
  if (fresh && shapes_.size() <= kOtherShape) {
    const uint64_t kind = splitmix64_fold(splitmix64_fold(kSplitmixSeed, static_cast<uint64_t>(shape.op)),
                                          static_cast<uint64_t>(shape.bytes));
    shape.like = like_index_.try_emplace(kind, next).first->second;
    shapes_.push_back(shape);
  }
  return last_index_ = found->second;
}

}  // namespace stalltrace::analysis
