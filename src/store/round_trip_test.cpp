// SPDX-License-Identifier: Apache-2.0
// Writes and reads every struct and compares field by field.
#include <algorithm>
#include <utility>

#include "store/read/plausible.h"
#include "store/schema/table.h"
#include "store/testing/random_row.h"
#include "store/testing/test_support.h"

namespace stalltrace::store {
namespace {

/// Converts to the type of any member.
struct AnyMember {
  template <typename Member>
  operator Member() const;  // NOLINT(google-explicit-constructor)
};

template <typename T, size_t... I>
consteval bool has_members(std::index_sequence<I...> /*members*/) {
  return requires { T{(static_cast<void>(I), AnyMember{})...}; };
}

/// The number of members of an aggregate: the most values that it can be initialised with.
template <typename T, size_t kMost = 64>
consteval size_t count_members() {
  if constexpr (has_members<T>(std::make_index_sequence<kMost>())) {
    return kMost;
  } else {
    return count_members<T, kMost - 1>();
  }
}

/// Gives each field of a row a different value, as large as its type or a reader allows.
class Filler {
 public:
  template <typename Field>
  void operator()(Column column, Field&& field) {
    ++count_;
    kind_ = column.kind();
    fill(field);
  }

 private:
  void fill(std::string& value) const { value = "text " + std::to_string(count_) + " with 'quotes' and \xc3\xa9"; }
  void fill(double& value) const { value = count_ + 0.1; }
  void fill(bool& value) const { value = true; }
  template <typename T>
  requires std::is_integral_v<T>
  void fill(T& value) const {
    const bool time = kind_ == ValueKind::kTime || kind_ == ValueKind::kOffset;
    const T most = static_cast<T>(sizeof(T) < 8 || kind_ == ValueKind::kOther ? std::numeric_limits<T>::max()
                                  : time                                      ? static_cast<T>(kLatestTimeNs)
                                                                              : static_cast<T>(kLongestNs));
    value = static_cast<T>(most - static_cast<T>(count_));
  }
  template <typename T>
  requires std::is_enum_v<T>
  void fill(T& value) const { value = static_cast<T>(2); }
  template <typename T>
  void fill(std::optional<T>& value) const {
    fill(value.emplace());
  }
  template <typename T>
  void fill(OrNull<T>& field) const {
    fill(field.value);
  }
  template <typename T>
  void fill(OrNullUnless<T>& field) const {
    fill(field.value);
  }

  int count_ = 0;
  ValueKind kind_ = ValueKind::kOther;
};

constexpr NodeId kLargestNode = 0x7fffff;  // the largest

template <typename T>
T full_row() {
  T row;
  each_column(row, Filler());
  if constexpr (requires { row.node_id; }) {
    row.node_id = kLargestNode;
  }
  if constexpr (requires { row.event_id; }) {
    row.event_id = make_event_id(kLargestNode, 3);
  }
  if constexpr (requires { row.timestamp_ns; }) {
    row.timestamp_ns = 1'769'827'620'000'000'001;
  }
  if constexpr (requires { row.duration_ns; }) {
    row.duration_ns = 5'000'000'001;
  }
  if constexpr (requires { row.window_ns; }) {
    row.window_ns = 5'000'000'001;
  }
  return row;
}

template <typename T>
std::vector<T> rows_of(EventSource& source) {
  if constexpr (StateType<T>) {
    return must(source.all<T>());
  } else {
    std::vector<T> rows;
    must(source.stream<T>({}, [&](const T& row) { rows.push_back(row); }));
    return rows;
  }
}

template <typename T>
class RoundTrip : public ::testing::Test {
 protected:
  T written_and_read(const T& row) {
    const TemporaryFolder folder;
    auto writer = must(RecordingWriter::create(folder / "r.db"));
    if constexpr (!std::is_same_v<T, Node>) {
      writer->accept(node_row(kLargestNode, "n"));
    }
    writer->accept(row);
    must(writer->close());
    const std::vector<T> rows = rows_of<T>(*must(open_recording(folder / "r.db")));
    EXPECT_EQ(rows.size(), 1);
    return rows.empty() ? T() : rows.front();
  }
};
using RowTypes = ForTypes<::testing::Types, Itself, kEventTypes>;
TYPED_TEST_SUITE(RoundTrip, RowTypes);

TYPED_TEST(RoundTrip, EveryMemberIsAColumn) {
  constexpr size_t kEndpoints = requires(TypeParam row) { row.source.address; }
  ? 2 : 0;  // two columns each
  EXPECT_EQ(column_names<TypeParam>().size(), count_members<TypeParam>() + kEndpoints);
}

TYPED_TEST(RoundTrip, FullRow) {
  const auto row = full_row<TypeParam>();
  EXPECT_EQ(text_of(this->written_and_read(row)), text_of(row));
}

TYPED_TEST(RoundTrip, UnknownStaysUnknown) {
  TypeParam row;
  if constexpr (requires { row.node_id; }) {
    row.node_id = kLargestNode;
  }
  if constexpr (requires { row.event_id; }) {
    row.event_id = make_event_id(kLargestNode, 1);
  }
  if constexpr (std::is_same_v<TypeParam, Node>) {
    row.ended_ns = 5;  // the writer sets it on closing otherwise
  }
  EXPECT_EQ(text_of(this->written_and_read(row)), text_of(row));
}

TEST(Nulls, UnknownIsNullAndZeroIsZero) {
  const TemporaryFolder folder;
  {
    auto writer = must(RecordingWriter::create(folder / "r.db"));
    Collective row = collective_row(1, 1, 10, std::nullopt);
    row.rank.reset();
    row.comm_id_hash = 0;
    writer->accept(row);
    row = collective_row(1, 2, 20, 0);
    row.rank = 0;
    row.count = 0;
    row.bytes = 0;
    writer->accept(row);
    must(writer->close());
  }
  EXPECT_EQ(ask(folder / "r.db",
                "SELECT quote(rank) || quote(comm_id_hash) || quote(duration_ns) || completion FROM collective"),
            "NULLNULLNULLopen");
  EXPECT_EQ(ask(folder / "r.db", "SELECT rank || duration_ns || bytes FROM collective WHERE event_id & 2"), "000");
}

/// A program with more enumeration values writes such texts.
TEST(UnknownTexts, ReadAsTheValueThatProvesLeast) {
  const TemporaryFolder folder;
  {
    auto writer = must(RecordingWriter::create(folder / "r.db"));
    writer->accept(node_row(1, "n"));
    writer->accept(collective_row(1, 1, 10, 5));
    writer->accept(retransmit_row(1, 2, 10));
    writer->accept(WaitSpan{.node_id = 1, .kind = WaitKind::kDisk});
    writer->accept(ProxyStep{.node_id = 1, .waits_for = ProxyWait::kPeer});
    must(writer->close());
  }
  ask(folder / "r.db", "UPDATE collective SET op = 'NEW', completion = 'new', library = 'new', rank_source = 'new'");
  ask(folder / "r.db", "UPDATE tcp_events SET event = 'new'");
  ask(folder / "r.db", "UPDATE wait_span SET kind = 'new'");
  ask(folder / "r.db", "UPDATE proxy_step SET waits_for = 'new'");
  const auto source = must(open_recording(folder / "r.db"));
  const std::vector<Collective> calls = rows_of<Collective>(*source);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].op, Operation::kGroup);
  EXPECT_EQ(calls[0].completion, Completion::kUnobserved);
  EXPECT_EQ(calls[0].library, Library::kNccl);
  EXPECT_EQ(calls[0].rank_source, RankSource::kUnknown);
  EXPECT_EQ(rows_of<TcpEvent>(*source).at(0).event, TcpEventKind::kClose);
  EXPECT_EQ(rows_of<WaitSpan>(*source).at(0).kind, WaitKind::kBlocked);
  EXPECT_EQ(rows_of<ProxyStep>(*source).at(0).waits_for, ProxyWait::kNone);
}

TEST(Stacks, AreStored) {
  const TemporaryFolder folder;
  auto writer = must(RecordingWriter::create(folder / "r.db"));
  writer->accept(Stack{-5, "main\nstart"});
  writer->accept(Stack{-5, "main\nstart"});
  must(writer->close());
  EXPECT_EQ(ask(folder / "r.db", "SELECT group_concat(stack_id || frames) FROM stack"), "-5main\nstart");
}

}  // namespace
}  // namespace stalltrace::store
