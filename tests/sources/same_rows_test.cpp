// SPDX-License-Identifier: Apache-2.0
// The contract of EventSource: a source in memory, a recording (while it is written and when it is complete) and a live
// window deliver the same rows for every range, given the same random rows. The test iterates over the list of event
// types, so a new type needs no edit here. FleetSource needs a server for each node: src/fleet/rows/fleet_source_test
// compares it with the same recordings on one host.
#include <algorithm>
#include <map>
#include <random>

#include "analysis/live/live_window.h"
#include "model/memory_source.h"
#include "store/testing/random_row.h"
#include "store/testing/test_support.h"

namespace stalltrace {
namespace {

using analysis::LiveWindow;

constexpr NodeId kNode = 5;
constexpr int kRows = 1'200;                 // per streamed type: more than a zone of a recording
constexpr int64_t kStepNs = 4;               // average distance between rows
constexpr int64_t kEndNs = kRows * kStepNs;  // nothing begins later

/// Random rows in the order of a trace: starts jump back and forth, lengths vary, some rows are open. A row with a key
/// is repeated with other fields, as when a call completes.
class RandomTrace {
 public:
  explicit RandomTrace(uint64_t seed) : random_(seed) {
    add_states();
    for (int i = 0; i < kRows; ++i) {
      for_each_type(kStreamedTypes, [&]<typename T>() { events_.emplace_back(streamed<T>(i)); });
    }
  }

  [[nodiscard]] const std::vector<Event>& events() const { return events_; }

  TimeRange range() {
    const int64_t from_ns = below(kEndNs + 400) - 200;
    switch (below(6)) {
      case 0:
        return {.from_ns = from_ns};
      case 1:
        return {.to_ns = from_ns};
      case 2:
        return {from_ns, from_ns + below(kEndNs)};
      default:
        return {from_ns, from_ns + below(200)};
    }
  }

 private:
  int64_t below(int64_t end) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(end)); }

  void add_states() {
    Node node = store::random_row<Node>(random_, kNode);
    node.ended_ns = kEndNs;  // otherwise the writer and the window would set it
    events_.emplace_back(node);
    for_each_type(kStateTypes, [&]<typename T>() {
      for (int i = 0; i < 100 && !std::is_same_v<T, Node>; ++i) {
        events_.emplace_back(store::random_row<T>(random_, kNode));
      }
    });
  }

  template <StreamedType T>
  T streamed(int i) {
    T row = store::random_row<T>(random_, kNode);
    row.timestamp_ns = std::max<int64_t>(0, i * kStepNs + below(100) - 100);
    if constexpr (requires { row.event_id; }) {
      int64_t& last = last_number_[EventTraits<T>::kTable];
      const bool again = KeyedType<T> && last > 0 && below(4) == 0;
      row.event_id = make_event_id(kNode, static_cast<uint64_t>(again ? 1 + below(last) : ++last));
    }
    row_group(row);
    return row;
  }

  /// Most rows are short and closed, as in a trace.
  template <typename T>
  void row_group(T& row) {
    const int64_t length_ns = below(below(10) == 0 ? 2'000 : 40);
    if constexpr (requires { row.duration_ns.has_value(); }) {
      row.duration_ns = below(50) == 0 ? std::nullopt : std::optional(length_ns);
    } else if constexpr (requires { row.duration_ns; }) {
      row.duration_ns = length_ns;
    }
    if constexpr (requires { row.launch_ns; }) {
      row.launch_ns = below(3) == 0 ? std::nullopt : std::optional(length_ns / 2);
    }
    if constexpr (requires {
                    row.window_ns;
                    row.open;
                  }) {
      row.window_ns = length_ns;
      row.open = below(50) == 0;
    }
  }

  std::mt19937_64 random_;
  std::map<std::string_view, int64_t> last_number_;  // by table
  std::vector<Event> events_;
};

template <StreamedType T>
std::vector<std::string> rows_in(EventSource& source, TimeRange range) {
  std::vector<std::string> rows;
  store::must(source.stream<T>(range, [&](const T& row) { rows.push_back(store::text_of(row)); }));
  return rows;
}

template <StateType T>
std::vector<std::string> all_of(EventSource& source) {
  std::vector<std::string> rows;
  for (const T& row : store::must(source.all<T>())) {
    rows.push_back(store::text_of(row));
  }
  std::sort(rows.begin(), rows.end());  // state has no order
  return rows;
}

/// The first difference, instead of thousands of rows.
std::string difference(const std::vector<std::string>& expected, const std::vector<std::string>& found) {
  const auto [a, b] = std::mismatch(expected.begin(), expected.end(), found.begin(), found.end());
  return a == expected.end() && b == found.end()
             ? ""
             : fmt::format("row {} of {}, {} found\nexpected: {}\nfound:    {}", a - expected.begin(), expected.size(),
                           found.size(), a == expected.end() ? "none" : *a, b == found.end() ? "none" : *b);
}

void expect_same_state(EventSource& expected, EventSource& source) {
  for_each_type(kStateTypes, [&]<typename T>() {
    const std::vector<std::string> rows = all_of<T>(expected);
    EXPECT_FALSE(rows.empty()) << EventTraits<T>::kTable;
    EXPECT_EQ(difference(rows, all_of<T>(source)), "") << EventTraits<T>::kTable;
  });
}

/// Compares every type that has rows in one of the ranges; returns the number of rows compared.
size_t expect_same_streams(EventSource& expected, EventSource& source, const std::vector<TimeRange>& ranges) {
  size_t compared = 0;
  for (const TimeRange& range : ranges) {
    for_each_type(kStreamedTypes, [&]<typename T>() {
      const std::vector<std::string> rows = rows_in<T>(expected, range);
      compared += rows.size();
      EXPECT_EQ(difference(rows, rows_in<T>(source, range)), "")
          << EventTraits<T>::kTable << " in [" << range.from_ns << ", " << range.to_ns << ")";
    });
  }
  return compared;
}

class SameRows : public testing::TestWithParam<uint64_t> {
 protected:
  SameRows() {
    for (const Event& event : trace_.events()) {
      memory_.accept(event);
    }
    ranges_.emplace_back();
    for (int i = 0; i < 15; ++i) {
      ranges_.push_back(trace_.range());
    }
  }
  void expect_same(EventSource& source) {
    expect_same_state(memory_, source);
    EXPECT_GT(expect_same_streams(memory_, source, ranges_), size_t{kRows});
  }

  RandomTrace trace_{GetParam()};
  MemorySource memory_;
  std::vector<TimeRange> ranges_;
};

TEST_P(SameRows, InARecording) {
  const store::TemporaryFolder folder;
  auto writer = store::must(store::RecordingWriter::create(folder / "r.db"));
  size_t accepted = 0;
  for (const Event& event : trace_.events()) {
    writer->accept(event);
    if (++accepted % 5'000 == 0) {  // a replaced row must be in another transaction than the first
      store::must(writer->flush());
    }
  }
  store::must(writer->flush());
  {
    SCOPED_TRACE("being written: read with SQL");
    expect_same(*store::must(store::open_recording(folder / "r.db")));
  }
  store::must(writer->close());
  SCOPED_TRACE("complete: read from its pages");
  expect_same(*store::must(store::open_recording(folder / "r.db")));
}

TEST_P(SameRows, InALiveWindow) {
  LiveWindow window({.length_ns = 2 * kEndNs, .rows = 2 * kRows, .states = 1'000});
  for (const Event& event : trace_.events()) {
    window.accept(event);
  }
  window.advance(kEndNs);
  expect_same(window);
}

/// Beyond its length the window drops exactly the rows that report nothing about the later time; an open row too,
/// unless its start is pinned (LiveWindow::pin).
TEST_P(SameRows, InALiveWindowThatHasPassed) {
  LiveWindow window({.length_ns = kEndNs / 2, .rows = 2 * kRows, .states = 1'000});
  MemorySource remembered;
  // The window sweeps by the clock, from zero: the trace is shifted to where a sweep is due.
  constexpr int64_t kNowNs = 3 * kNsPerSecond;
  constexpr int64_t kShiftNs = kNowNs - kEndNs;
  const TimeRange held{kShiftNs + kEndNs / 4, kShiftNs + kEndNs / 4 + 500};
  window.pin({held});
  for (Event event : trace_.events()) {
    std::visit(
        [&]<typename T>(T& row) {
          if constexpr (StreamedType<T>) {
            row.timestamp_ns += kShiftNs;
          }
        },
        event);
    window.accept(event);
    remembered.accept(event);
  }
  window.advance(kNowNs);
  size_t forgotten = 0;
  for_each_type(kStreamedTypes, [&]<typename T>() {
    std::vector<std::string> rows;
    store::must(remembered.stream<T>({}, [&](const T& row) {
      if (EventTraits<T>::known_until_ns(row) >= window.from_ns() || held.contains(row.timestamp_ns)) {
        rows.push_back(store::text_of(row));
      } else {
        ++forgotten;
      }
    }));
    EXPECT_EQ(difference(rows, rows_in<T>(window, {})), "") << EventTraits<T>::kTable;
  });
  EXPECT_GT(forgotten, size_t{kRows});
}

INSTANTIATE_TEST_SUITE_P(Seeds, SameRows, testing::Values(1, 2));

}  // namespace
}  // namespace stalltrace
