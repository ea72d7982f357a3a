// SPDX-License-Identifier: Apache-2.0
// TCP between two network namespaces: the events of a connection, and its owner.
#include <gmock/gmock.h>
#include <sys/socket.h>

#include <map>
#include <set>

#include "base/process/command.h"
#include "support.h"

namespace stalltrace::capture {
namespace {

using testing::SizeIs;

constexpr const char* kClientNode = "st-capture-a";
constexpr const char* kServerNode = "st-capture-b";

struct Family {
  const char* name;
  const char* client;
  const char* server;
  int32_t number;
};
constexpr Family kIpv4{"IPv4", "10.78.0.1", "10.78.0.2", AF_INET};
constexpr Family kIpv6{"IPv6", "fd78::1", "fd78::2", AF_INET6};

class NetworkRoot : public testing::TestWithParam<Family> {
 protected:
  void SetUp() override {
    ST_NEED_ROOT();
    remove_nodes();
    for (const char* node : {kClientNode, kServerNode}) {
      run_tool({"ip", "netns", "add", node});
      run_tool({"ip", "-n", node, "link", "set", "lo", "up"});
    }
    run_tool({"ip", "link", "add", "eth0", "netns", kClientNode, "type", "veth", "peer", "name", "eth0", "netns",
              kServerNode});
    address(kClientNode, kIpv4.client, kIpv6.client);
    address(kServerNode, kIpv4.server, kIpv6.server);
  }
  void TearDown() override {
    if (::geteuid() == 0) {
      remove_nodes();
    }
  }
  static void remove_nodes() {
    for (const char* node : {kClientNode, kServerNode}) {
      static_cast<void>(run_and_capture({.argv = {"ip", "netns", "del", node}}, std::chrono::seconds(10)));
    }
  }
  static void address(const char* node, const std::string& ipv4, const std::string& ipv6) {
    run_tool({"ip", "-n", node, "addr", "add", ipv4 + "/24", "dev", "eth0"});
    run_tool({"ip", "-n", node, "addr", "add", ipv6 + "/64", "dev", "eth0", "nodad"});
    run_tool({"ip", "-n", node, "link", "set", "eth0", "up"});
  }
  static Job::Options on(const char* node) { return {.netns = node}; }

  static void lose(int percent) {
    run_tool({"ip", "netns", "exec", kServerNode, "nft", "add table inet f"});
    run_tool({"ip", "netns", "exec", kServerNode, "nft", "add chain inet f in { type filter hook input priority 0; }"});
    run_tool({"ip", "netns", "exec", kServerNode, "nft",
              "add rule inet f in meta l4proto tcp numgen random mod 100 < " + std::to_string(percent) + " drop"});
  }

  static std::set<TcpEventKind> kinds(const std::vector<TcpEvent>& events) {
    std::set<TcpEventKind> result;
    for (const TcpEvent& event : events) {
      result.insert(event.event);
    }
    return result;
  }
  static std::map<bool, uint64_t> bytes(const std::vector<NetSpan>& spans) {
    std::map<bool, uint64_t> result;
    for (const NetSpan& span : spans) {
      result[span.is_send] += span.bytes;
    }
    return result;
  }
};

void connect(Job& client, Job& server, const Family& family) {
  server.must(std::string("listen @") + family.server + " 7001");
  client.must(std::string("connect @") + family.server + " 7001");
  server.must("accept");
}

TEST_P(NetworkRoot, AConnectionsLifeIsSeenFromBothEnds) {
  const Family family = GetParam();
  Trace trace;
  Job client(on(kClientNode));
  Job server(on(kServerNode));
  client.must("init 2 0");
  server.must("init 2 1");
  connect(client, server, family);
  const long port = client.ask("port");
  constexpr long kBytes = 1'000'000;
  client.send_command("send 1000000");
  EXPECT_EQ(server.ask("recv 1000000"), kBytes);
  EXPECT_EQ(client.answer(), "1000000");
  server.send_command("send 5000");
  EXPECT_EQ(client.ask("recv 5000"), 5000);
  EXPECT_EQ(server.answer(), "5000");
  client.must("close");
  server.must("close");
  sleep_ms(1000);  // the last acknowledgement may need a retransmission
  trace.stop();

  const auto at_client = trace.connections(client.pid());
  const auto at_server = trace.connections(server.pid());
  ASSERT_THAT(at_client, SizeIs(1));
  ASSERT_THAT(at_server, SizeIs(1));
  EXPECT_EQ(at_client[0].source, (Endpoint{family.client, static_cast<uint16_t>(port)}));
  EXPECT_EQ(at_client[0].destination, (Endpoint{family.server, 7001}));
  EXPECT_EQ(at_server[0].source, at_client[0].destination);
  EXPECT_EQ(at_server[0].destination, at_client[0].source);
  EXPECT_EQ(at_client[0].family, family.number);
  EXPECT_NE(at_client[0].netns, at_server[0].netns);
  EXPECT_EQ(at_client[0].netns, trace.process(client.pid()).netns);
  EXPECT_TRUE(at_client[0].closed_ns);
  EXPECT_TRUE(at_server[0].closed_ns);
  EXPECT_EQ(at_client[0].rank, 0);
  EXPECT_EQ(at_server[0].rank, 1);

  EXPECT_TRUE(kinds(trace.tcp_events(client.pid())).contains(TcpEventKind::kConnect));
  EXPECT_TRUE(kinds(trace.tcp_events(client.pid())).contains(TcpEventKind::kClose));
  EXPECT_TRUE(kinds(trace.tcp_events(server.pid())).contains(TcpEventKind::kAccept));
  EXPECT_TRUE(kinds(trace.tcp_events(server.pid())).contains(TcpEventKind::kClose));

  EXPECT_EQ(bytes(trace.spans(client.pid())), (std::map<bool, uint64_t>{{true, 1'000'000}, {false, 5000}}));
  EXPECT_EQ(bytes(trace.spans(server.pid())), (std::map<bool, uint64_t>{{true, 5000}, {false, 1'000'000}}));
  uint64_t acked = 0;
  for (const TcpSample& sample : trace.samples(client.pid())) {
    acked = std::max(acked, sample.bytes_acked);
  }
  EXPECT_GE(acked, 1'000'000U);
}

TEST_P(NetworkRoot, ARefusedConnectHasItsErrno) {
  Trace trace;
  Job client(on(kClientNode));
  client.must("init 2 0");
  EXPECT_EQ(client.ask(std::string("connect @") + GetParam().server + " 7009"), ECONNREFUSED);
  sleep_ms(100);
  trace.stop();
  bool refused = false;
  for (const TcpEvent& event : trace.tcp_events(client.pid())) {
    if (event.event == TcpEventKind::kConnectFailed) {
      refused = true;
      EXPECT_EQ(event.state, ECONNREFUSED);
      EXPECT_EQ(event.destination, (Endpoint{GetParam().server, 7009}));
    }
  }
  EXPECT_TRUE(refused);
}

TEST_P(NetworkRoot, AResetIsSeenWhereItWasSentAndWhereItArrived) {
  Trace trace;
  Job client(on(kClientNode));
  Job server(on(kServerNode));
  client.must("init 2 0");
  server.must("init 2 1");
  connect(client, server, GetParam());
  client.send_command("send 1000");
  EXPECT_EQ(server.ask("recv 1000"), 1000);
  EXPECT_EQ(client.answer(), "1000");
  client.must("reset");
  sleep_ms(200);
  trace.stop();
  EXPECT_TRUE(kinds(trace.tcp_events(server.pid())).contains(TcpEventKind::kResetReceived));
  const auto at_client = kinds(trace.tcp_events(client.pid()));
  EXPECT_TRUE(at_client.contains(TcpEventKind::kClose));
  EXPECT_FALSE(at_client.contains(TcpEventKind::kResetReceived));
}

TEST_P(NetworkRoot, ASocketOpenedBeforeTracingIsFound) {
  Job client(on(kClientNode));
  Job server(on(kServerNode));
  connect(client, server, GetParam());
  const long port = client.ask("port");
  Trace trace(TracerOptions{});
  client.send_command("send 3000");
  EXPECT_EQ(server.ask("recv 3000"), 3000);
  EXPECT_EQ(client.answer(), "3000");
  sleep_ms(300);
  trace.stop();
  ASSERT_THAT(trace.connections(client.pid()), SizeIs(1));
  ASSERT_THAT(trace.connections(server.pid()), SizeIs(1));
  EXPECT_EQ(trace.connections(client.pid())[0].source, (Endpoint{GetParam().client, static_cast<uint16_t>(port)}));
  EXPECT_EQ(bytes(trace.spans(client.pid()))[true], 3000U);
}

/// Retransmits come from interrupts and timers: whatever process was running, they belong to the sender.
TEST_P(NetworkRoot, EveryRetransmitBelongsToTheSender) {
  Trace trace;
  Job client(on(kClientNode));
  Job server(on(kServerNode));
  client.must("init 2 0");
  server.must("init 2 1");
  connect(client, server, GetParam());
  // Few packets are lost at once, as often as it takes: with many, a transfer can wait for minutes for its timers.
  lose(5);
  long bytes_sent = 0;
  long counted = 0;
  for (int round = 0; round < 100 && counted < 5; ++round) {
    client.send_command("send 400000");
    EXPECT_EQ(server.ask("recv 400000", 60'000), 400'000);
    EXPECT_EQ(client.answer(60'000), "400000");
    bytes_sent += 400'000;
    counted = client.ask("retransmits");
  }
  trace.stop();

  size_t retransmits = 0;
  std::set<int32_t> owners;
  const Connection connection = trace.connections(client.pid()).at(0);
  ASSERT_TRUE(trace.sink().tcp_events({}, [&](const TcpEvent& event) {
    const bool ours = event.source == connection.source && event.destination == connection.destination;
    if (ours && event.event == TcpEventKind::kRetransmit) {
      retransmits += event.len > 0;  // a repeated SYN has no payload
      owners.insert(event.pid);
      EXPECT_EQ(event.rank, 0);
      EXPECT_EQ(event.cookie, connection.cookie);
    }
  }));
  EXPECT_GT(retransmits, 0U);
  EXPECT_LE(retransmits, static_cast<size_t>(counted));  // the kernel counts segments, an event may be several
  EXPECT_EQ(owners, std::set<int32_t>{client.pid()});
  uint64_t delivered = 0;
  for (const NetSpan& span : trace.spans(server.pid())) {
    delivered += span.is_send ? 0 : span.bytes;
  }
  EXPECT_EQ(delivered, static_cast<uint64_t>(bytes_sent));
}

INSTANTIATE_TEST_SUITE_P(Families, NetworkRoot, testing::Values(kIpv4, kIpv6),
                         [](const auto& parameter) { return parameter.param.name; });

}  // namespace
}  // namespace stalltrace::capture
