// SPDX-License-Identifier: Apache-2.0
// TCP records in, rows out: addresses, the lifetime of a connection, and its owner.
#include "capture/decode/tcp/network_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <map>

#include "model/memory_source.h"

namespace stalltrace::capture {
namespace {

using testing::Optional;
using testing::SizeIs;

constexpr NodeId kNode = 3;
constexpr int64_t kOffset = 5'000'000'000;
constexpr uint64_t kCookie = 0xc00c1e;

std::string text_of(std::initializer_list<int> bytes, uint16_t family) {
  uint8_t address[16] = {};
  std::copy(bytes.begin(), bytes.end(), address);
  return address_text(address, family);
}

TEST(AddressText, Ipv4IsDotted) { EXPECT_EQ(text_of({10, 77, 0, 2}, AF_INET), "10.77.0.2"); }
TEST(AddressText, Ipv6IsShort) {
  EXPECT_EQ(text_of({0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, AF_INET6), "fe80::1");
  EXPECT_EQ(text_of({}, AF_INET6), "::");
}
TEST(AddressText, Ipv4MappedIntoIpv6IsDotted) {
  EXPECT_EQ(text_of({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 2}, AF_INET6), "10.77.0.2");
}
TEST(AddressText, AnUnknownFamilyIsEmpty) { EXPECT_EQ(text_of({1, 2, 3, 4}, 77), ""); }

class NetworkTrackerTest : public testing::Test {
 protected:
  static st_header header(uint64_t time_ns, uint32_t pid = 100, uint32_t tid = 101) {
    return {.version = ST_WIRE_VERSION, .time_ns = time_ns, .tgid = pid, .tid = tid};
  }
  static st_tuple tuple(uint16_t source_port) {
    return {.source = {10, 0, 0, 1},
            .destination = {10, 0, 0, 2},
            .source_port = source_port,
            .destination_port = 5000,
            .family = AF_INET,
            .netns = 99};
  }
  void seen(uint64_t time_ns, uint16_t port, uint32_t pid = 100) {
    st_socket_seen record{};
    record.header = header(time_ns, pid);
    record.cookie = kCookie;
    record.tuple = tuple(port);
    std::memcpy(record.thread_name, "NCCL Progress 0!", ST_COMM_LEN);  // maximum length: not terminated
    tracker_.on_socket(record);
  }
  void event(st_tcp_event_kind kind, uint64_t time_ns, uint16_t port = 40000, uint32_t pid = 100, int32_t state = 0) {
    st_tcp_event record{};
    record.header = header(time_ns, pid);
    record.cookie = kCookie;
    record.cgroup_id = 12;
    record.tuple = tuple(port);
    record.kind = static_cast<uint16_t>(kind);
    record.sequence = 777;
    record.length = 1448;
    record.state = state;
    tracker_.on_event(record);
  }
  Connection connection() {
    const auto all = *sink_.connections();
    EXPECT_THAT(all, SizeIs(1));
    return all.empty() ? Connection{} : all.back();
  }
  std::vector<TcpEvent> events() {
    std::vector<TcpEvent> result;
    EXPECT_TRUE(sink_.tcp_events({}, [&](const TcpEvent& row) { result.push_back(row); }));
    return result;
  }

  MemorySource sink_;
  EventIds ids_{kNode};
  ProcessRegistry processes_{sink_};
  int asked_ = 0;
  UserShares shares_;
  NetworkTracker tracker_{ids_,
                          processes_,
                          shares_,
                          sink_,
                          kOffset,
                          250,
                          [this](int32_t, int32_t tid) {
                            ++asked_;
                            return thread_name_.empty() ? "thread " + std::to_string(tid) : thread_name_;
                          },
                          [this](int32_t, uint64_t nccl_hash) { return facts_[nccl_hash]; }};
  std::string thread_name_;
  std::map<uint64_t, CommunicatorInfo> facts_{{0xa11, {.hash = 0xc033, .nodes = 4}}};
};

/// Connections of a rank 2 of 4, by their sockets' cookies.
class AttributedConnections : public NetworkTrackerTest {
 protected:
  void SetUp() override { add_process(100, 2); }
  void add_process(int32_t pid, int32_t rank) {
    Process process;
    process.pid = pid;
    process.rank = rank;
    process.world_size = 4;
    process.rank_source = RankSource::kEnvironment;
    processes_.add(process);
  }
  void open(uint64_t cookie, uint16_t source_port, const char* thread, uint8_t remote = 2) {
    st_socket_seen record{};
    record.header = header(1000);
    record.cookie = cookie;
    record.tuple = tuple(source_port);
    record.tuple.destination[3] = remote;
    std::strncpy(record.thread_name, thread, ST_COMM_LEN - 1);
    tracker_.on_socket(record);
  }
  void list(uint64_t cookie, uint16_t source_port) {
    st_socket_listing record{};
    record.header = header(9000);
    record.cookie = cookie;
    record.tuple = tuple(source_port);
    tracker_.on_listing(record);
  }
  /// Two marks prove the socket's attribution.
  void mark(uint64_t cookie, int32_t peer) { mark(cookie, {.comm_hash = 0xa11, .rank = 2, .ranks = 4, .peer = peer}); }
  void mark(uint64_t cookie, const st_step_moved& of, uint32_t pid = 100) {
    st_step_mark record{};
    record.header = header(5000, pid);
    record.step = {.size = sizeof record.step,
                   .version = version_,
                   .comm_hash = of.comm_hash,
                   .own = {.steps = ++steps_, .bytes = 0},
                   .alone_since_ns = 4000,
                   .rank = of.rank,
                   .ranks = of.ranks,
                   .peer = of.peer,
                   .channel = 1,
                   .is_send = 1,
                   .kind = ST_STEP_COLLECTIVE};
    record.last = {.cookie = cookie, .moved = 10, .time_ns = 4500};
    tracker_.on_step_mark(record);
  }
  Connection of(uint64_t cookie) {
    const auto rows = *sink_.connections();
    for (const Connection& row : rows) {
      if (row.cookie == cookie) {
        return row;
      }
    }
    return {};
  }

  uint32_t version_ = ST_MARKER_VERSION;

 private:
  uint64_t steps_ = 0;
};

TEST_F(AttributedConnections, APluginOfAnotherVersionIsNotUnderstood) {
  open(11, 40000, "NCCL Progress 0");
  version_ = ST_MARKER_VERSION + 1;
  mark(11, 3);
  mark(11, 3);
  EXPECT_FALSE(of(11).channel);
}

TEST_F(AttributedConnections, AnAttributionIsPeerChannelAndCommunicator) {
  open(11, 40000, "NCCL Progress 0");
  mark(11, 3);
  EXPECT_FALSE(of(11).peer_rank);
  mark(11, 3);
  EXPECT_EQ(of(11).peer_rank, 3);
  EXPECT_EQ(of(11).channel, 1);
  EXPECT_EQ(of(11).comm_id_hash, 0xc033U);
}

constexpr st_step_moved kHalf{.comm_hash = 0xa1f, .rank = 1, .ranks = 2, .peer = 0};

TEST_F(AttributedConnections, ARankOfAPartOfTheJobIsNoRankOfTheJob) {
  open(11, 40000, "NCCL Progress 0");
  mark(11, kHalf);
  mark(11, kHalf);
  EXPECT_FALSE(of(11).peer_rank);
  EXPECT_EQ(of(11).channel, 1);
  EXPECT_EQ(of(11).comm_id_hash, 0xa1fU);
}

TEST_F(AttributedConnections, AMemberOfAPartThatIsHereIsARankOfTheJob) {
  add_process(200, 3);
  open(11, 40000, "NCCL Progress 0");
  mark(11, kHalf);
  mark(11, kHalf);
  mark(0, {.comm_hash = 0xa1f, .rank = 0, .ranks = 2, .peer = 1}, 200);
  tracker_.complete_attributed();
  EXPECT_EQ(of(11).peer_rank, 3);
}

TEST_F(AttributedConnections, AMemberTwoProcessesClaimToBeIsNeither) {
  add_process(200, 3);
  add_process(300, 1);
  open(11, 40000, "NCCL Progress 0");
  mark(0, {.comm_hash = 0xa1f, .rank = 0, .ranks = 2, .peer = 1}, 200);
  mark(0, {.comm_hash = 0xa1f, .rank = 0, .ranks = 2, .peer = 1}, 300);
  mark(11, kHalf);
  mark(11, kHalf);
  EXPECT_FALSE(of(11).peer_rank);
}

TEST_F(AttributedConnections, AnAddressOfTheWholeJobIsARankWhereEachHasAHost) {
  open(11, 40000, "NCCL Progress 0", 7);
  open(12, 40001, "NCCL Progress 0", 7);
  open(13, 40002, "NCCL Progress 0", 8);
  for (const uint64_t cookie : {12, 13}) {
    mark(cookie, kHalf);
    mark(cookie, kHalf);
  }
  mark(11, 3);
  mark(11, 3);
  tracker_.complete_attributed();
  EXPECT_EQ(of(12).peer_rank, 3) << "the same host";
  EXPECT_FALSE(of(13).peer_rank) << "a host that the job's own communicator has not shown";
}

TEST_F(AttributedConnections, AHostOfSeveralRanksSaysNothing) {
  facts_[0xa11].nodes = 2;
  open(11, 40000, "NCCL Progress 0", 7);
  open(12, 40001, "NCCL Progress 0", 7);
  mark(11, 3);
  mark(11, 3);
  mark(12, kHalf);
  mark(12, kHalf);
  EXPECT_FALSE(of(12).peer_rank);
}

TEST_F(AttributedConnections, APartOfTheSameSizeIsNotTheJob) {
  facts_[0xa11].is_part = true;  // its ranks may be in another order than the job's
  open(11, 40000, "NCCL Progress 0");
  mark(11, 3);
  mark(11, 3);
  EXPECT_FALSE(of(11).peer_rank);
  EXPECT_EQ(of(11).comm_id_hash, 0xc033U);
}

TEST_F(AttributedConnections, ACommunicatorThatIsLearntLaterIsFilledIn) {
  facts_[0xa11].hash = 0;
  open(11, 40000, "NCCL Progress 0");
  mark(11, 3);
  mark(11, 3);
  EXPECT_EQ(of(11).comm_id_hash, 0xa11U) << "NCCL's own, until ours is known";
  facts_[0xa11].hash = 0xc033;
  tracker_.complete_attributed();
  EXPECT_EQ(of(11).comm_id_hash, 0xc033U);
  facts_.clear();  // its profiler file is read to the end
  tracker_.on_exit(100, 1);
  list(11, 40000);
  EXPECT_EQ(of(11).comm_id_hash, 0xc033U);
  EXPECT_EQ(of(11).peer_rank, 3);
}

TEST_F(AttributedConnections, SocketsOfHelperThreadsShareAttributionAndListener) {
  open(11, 40000, "NCCL Progress 0");
  open(12, 40001, "NCCL SockS 0");
  open(13, 40002, "NCCL Progress 0");
  mark(11, 3);
  mark(11, 3);
  list(12, 40001);
  list(13, 40002);
  EXPECT_EQ(of(12).peer_rank, 3);
  EXPECT_FALSE(of(13).peer_rank) << "a thread that moves several connections' data has no group";
}

TEST_F(AttributedConnections, AGroupThatDisagreesHasNoAttribution) {
  open(11, 40000, "NCCL Progress 0");
  open(12, 40001, "NCCL SockS 0");
  open(13, 40002, "NCCL Progress 0");
  mark(11, 3);
  mark(11, 3);
  mark(13, 1);
  mark(13, 1);
  list(12, 40001);
  EXPECT_FALSE(of(12).peer_rank);
}

/// As after ncclCommSplit with splitShare: its data are on its parent's sockets.
TEST_F(AttributedConnections, ASocketOfTwoCommunicatorsIsOfNone) {
  open(11, 40000, "NCCL Progress 0");
  open(12, 40001, "NCCL SockS 0");
  open(13, 40002, "NCCL Progress 0");
  for (const uint64_t cookie : {11, 13}) {
    mark(cookie, 3);
    mark(cookie, 3);
  }
  list(12, 40001);
  EXPECT_EQ(of(11).comm_id_hash, 0xc033U);
  EXPECT_EQ(of(12).comm_id_hash, 0xc033U);
  mark(11, kHalf);
  mark(11, 3);
  list(11, 40000);
  list(12, 40001);
  EXPECT_EQ(of(11).comm_id_hash, 0U);
  EXPECT_EQ(of(12).comm_id_hash, 0U) << "a socket of the same connection of NCCL";
}

/// Its group was first the one communicator's, then the other's.
TEST_F(AttributedConnections, WhatTwoCommunicatorsHadOneAfterTheOtherStaysOfNone) {
  open(11, 40000, "NCCL Progress 0");
  open(12, 40001, "NCCL SockS 0");
  open(13, 40002, "NCCL Progress 0");
  mark(11, 3);
  mark(11, 3);
  list(12, 40001);
  EXPECT_EQ(of(12).comm_id_hash, 0xc033U);
  st_tcp_event close{};
  close.header = header(6000);
  close.cookie = 11;
  close.tuple = tuple(40000);
  close.kind = ST_TCP_CLOSE;
  tracker_.on_event(close);
  close.header = header(20'000'000'000);  // the closed one is forgotten
  close.cookie = 99;
  tracker_.on_event(close);
  mark(13, kHalf);
  mark(13, kHalf);
  list(12, 40001);
  EXPECT_EQ(of(12).channel, 1);
  EXPECT_EQ(of(13).comm_id_hash, 0xa1fU);
  EXPECT_EQ(of(12).comm_id_hash, 0U);
}

TEST_F(NetworkTrackerTest, AConnectionLearnsItsPortWhenItIsEstablishedAndKeepsItWhenItCloses) {
  seen(1000, 0);
  EXPECT_EQ(connection().source.port, 0);
  event(ST_TCP_CONNECT, 2000, 40000);
  EXPECT_EQ(connection().source, (Endpoint{"10.0.0.1", 40000}));
  event(ST_TCP_CLOSE, 9000, 0);
  EXPECT_EQ(connection().source, (Endpoint{"10.0.0.1", 40000}));
  EXPECT_EQ(connection().destination, (Endpoint{"10.0.0.2", 5000}));
  EXPECT_EQ(connection().opened_ns, 1000 + kOffset);
  EXPECT_THAT(connection().closed_ns, Optional(9000 + kOffset));
  EXPECT_EQ(connection().netns, 99U);
  EXPECT_EQ(connection().family, AF_INET);
  EXPECT_EQ(connection().thread_name, "NCCL Progress 0!");
  ASSERT_THAT(events(), SizeIs(2));
  EXPECT_EQ(events()[1].source.port, 40000);
}

TEST_F(NetworkTrackerTest, AnEventCarriesWhatTheKernelReported) {
  event(ST_TCP_RETRANSMIT, 2000, 40000, 100, 3);
  ASSERT_THAT(events(), SizeIs(1));
  const TcpEvent row = events()[0];
  EXPECT_EQ(row.event, TcpEventKind::kRetransmit);
  EXPECT_EQ(row.timestamp_ns, 2000 + kOffset);
  EXPECT_EQ(row.cookie, kCookie);
  EXPECT_EQ(row.seq, 777U);
  EXPECT_EQ(row.len, 1448U);
  EXPECT_EQ(row.state, 3);
  EXPECT_EQ(row.cgroup_id, 12U);
  EXPECT_EQ(row.pid, 100);
  EXPECT_EQ(node_of(row.event_id), kNode);
  EXPECT_EQ(tracker_.retransmits(), 1U);
}

TEST_F(NetworkTrackerTest, TheRankIsTheOwningProcesss) {
  processes_.add(Process{.pid = 100, .rank = 4});
  processes_.add(Process{.pid = 200, .rank = 9});
  event(ST_TCP_RETRANSMIT, 2000);
  EXPECT_THAT(events().back().rank, Optional(4));
  event(ST_TCP_RETRANSMIT, 3000, 40000, 200);  // the socket was handed to another process
  EXPECT_THAT(events().back().rank, Optional(9));
  EXPECT_EQ(events().back().pid, 200);
  event(ST_TCP_RETRANSMIT, 4000, 40000, 300);
  EXPECT_EQ(events().back().rank, std::nullopt);
}

TEST_F(NetworkTrackerTest, ARefusedConnectClosesIt) {
  seen(1000, 0);
  event(ST_TCP_CONNECT_FAILED, 2000, 40000, 100, 111);
  EXPECT_THAT(connection().closed_ns, Optional(2000 + kOffset));
  EXPECT_EQ(events()[0].event, TcpEventKind::kConnectFailed);
  EXPECT_EQ(events()[0].state, 111);
}

TEST_F(NetworkTrackerTest, AListedSocketIsAConnectionAndASample) {
  st_socket_listing listing{};
  listing.header = header(1000);
  listing.cookie = kCookie;
  listing.tuple = tuple(40000);
  listing.metrics.srtt_us = 250;
  listing.metrics.busy_jiffies = 10;
  listing.metrics.receiver_limited_jiffies = 3;
  listing.metrics.unread_bytes = 65536;
  tracker_.on_listing(listing);
  listing.header.time_ns = 2000;
  listing.metrics.busy_jiffies = 11;
  tracker_.on_listing(listing);
  EXPECT_EQ(connection().opened_ns, 1000 + kOffset);
  std::vector<TcpSample> samples;
  ASSERT_TRUE(sink_.tcp_samples({}, [&](const TcpSample& row) { samples.push_back(row); }));
  ASSERT_THAT(samples, SizeIs(2));
  EXPECT_EQ(samples[0].srtt_us, 250U);
  EXPECT_EQ(samples[0].busy_ns, 40'000'000U);  // ten ticks of 4 ms
  EXPECT_EQ(samples[0].receiver_limited_ns, 12'000'000U);
  EXPECT_EQ(samples[0].unread_bytes, 65536U);
}

TEST_F(NetworkTrackerTest, ASilentConnectionIsSampledSeldom) {
  st_socket_listing listing{};
  listing.cookie = kCookie;
  listing.tuple = tuple(40000);
  for (uint64_t quarter = 0; quarter <= 40; ++quarter) {  // ten seconds in which nothing changes
    listing.header = header(1000 + quarter * 250'000'000);
    tracker_.on_listing(listing);
  }
  int samples = 0;
  ASSERT_TRUE(sink_.tcp_samples({}, [&](const TcpSample&) { ++samples; }));
  EXPECT_EQ(samples, 3);
}

TEST_F(NetworkTrackerTest, AnErrorAfterTheCloseStillHasItsLocalPort) {
  seen(1000, 40000);
  event(ST_TCP_CLOSE, 2000, 0);
  event(ST_TCP_SOCKET_ERROR, 3000, 0, 100, 104);
  EXPECT_EQ(events().back().source.port, 40000);
  EXPECT_EQ(events().back().state, 104);
}

TEST_F(NetworkTrackerTest, ASpanNamesTheThreadOnceAThread) {
  seen(1000, 40000);
  st_net_span span{};
  span.header = header(2000, 100, 102);
  span.cookie = kCookie;
  span.end_ns = 5000;
  span.bytes = 1 << 20;
  span.calls = 16;
  span.is_send = 1;
  tracker_.on_span(span);
  tracker_.on_span(span);
  EXPECT_EQ(asked_, 1);
  EXPECT_EQ(connection().thread_name, "thread 102");
  std::vector<NetSpan> spans;
  ASSERT_TRUE(sink_.net_spans({}, [&](const NetSpan& row) { spans.push_back(row); }));
  ASSERT_THAT(spans, SizeIs(2));
  EXPECT_EQ(spans[0].timestamp_ns, 2000 + kOffset);
  EXPECT_EQ(spans[0].duration_ns, 3000);
  EXPECT_EQ(spans[0].bytes, 1U << 20);
  EXPECT_EQ(spans[0].calls, 16U);
  EXPECT_TRUE(spans[0].is_send);
}

TEST_F(NetworkTrackerTest, ThreadsThatTakeTurnsAreAskedForTheirNamesOnceASecond) {
  seen(1000, 40000);
  st_net_span span{};
  span.cookie = kCookie;
  for (uint64_t turn = 0; turn < 20; ++turn) {
    span.header = header(2000 + turn, 100, 102 + static_cast<uint32_t>(turn % 2));
    span.end_ns = 3000 + turn;
    tracker_.on_span(span);
  }
  EXPECT_EQ(asked_, 2);
  EXPECT_EQ(connection().thread_name, "thread 103");
  thread_name_ = "renamed";
  span.header = header(2'000'000'000, 100, 102);
  span.end_ns = 2'000'001'000;
  tracker_.on_span(span);
  EXPECT_EQ(asked_, 3);
  EXPECT_EQ(connection().thread_name, "renamed");
}

}  // namespace
}  // namespace stalltrace::capture
