// SPDX-License-Identifier: Apache-2.0
#include "model/memory_source.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "model/visit_in_order.h"

namespace stalltrace {
namespace {

/// Searches from the newest row, since a row is nearly always replaced soon after it was added.
template <KeyedType T>
void upsert(std::vector<T>& rows, T row) {
  const auto key = EventTraits<T>::key(row);
  const auto found =
      std::find_if(rows.rbegin(), rows.rend(), [&](const T& other) { return EventTraits<T>::key(other) == key; });
  if (found == rows.rend()) {
    rows.push_back(std::move(row));
  } else {
    *found = std::move(row);
  }
}

}  // namespace

MemorySource::MemorySource() = default;
MemorySource::MemorySource(const MemorySource&) = default;
MemorySource::MemorySource(MemorySource&&) noexcept = default;
MemorySource& MemorySource::operator=(const MemorySource&) = default;
MemorySource& MemorySource::operator=(MemorySource&&) noexcept = default;
MemorySource::~MemorySource() = default;

void MemorySource::accept(Event event) {
  std::visit(
      [this]<typename T>(T&& row) {
        auto& rows = std::get<std::vector<std::remove_cvref_t<T>>>(rows_);
        if constexpr (std::is_same_v<std::remove_cvref_t<T>, Collective>) {  // too many for a search
          const auto [found, fresh] = collective_index_.try_emplace(row.event_id, rows.size());
          if (!fresh) {
            rows[found->second] = std::forward<T>(row);
            return;
          }
          rows.push_back(std::forward<T>(row));
        } else if constexpr (KeyedType<std::remove_cvref_t<T>>) {
          upsert(rows, std::forward<T>(row));
        } else {
          rows.push_back(std::forward<T>(row));
        }
      },
      std::move(event));
}

Status MemorySource::read_state(AnyRows rows) {
  std::visit(
      [this]<typename T>(std::vector<T>* all) {
        const auto& kept = std::get<std::vector<T>>(rows_);
        all->insert(all->end(), kept.begin(), kept.end());
      },
      rows);
  return {};
}

Status MemorySource::read_stream(TimeRange range, AnyVisitor visitor) {
  std::visit(
      [&]<typename T>(const Visitor<T>* visit) { visit_in_order(std::get<std::vector<T>>(rows_), range, *visit); },
      visitor);
  return {};
}

}  // namespace stalltrace
