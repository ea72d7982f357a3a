// SPDX-License-Identifier: Apache-2.0
// System calls and descriptors: from lines of the kernel's format, and of this process.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>

#include "base/handle.h"
#include "base/process/procfs.h"
#include "stacks/blocked/descriptors.h"
#include "stacks/blocked/system_calls.h"

namespace stalltrace::stacks {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

TEST(ParseSystemCall, NumberAndArguments) {
  const auto call = parse_system_call("202 0x7f01 0x80 0x0 0xffffffffffffffff 0x0 0x5 0x7ffe 0x7f02\n");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->number, 202);
  EXPECT_THAT(call->arguments, ElementsAre(0x7f01, 0x80, 0, UINT64_MAX, 0, 5));
  for (const char* text :
       {"", "running", "-1 0x7ffe 0x7f02", "202", "202 0x1 0x2 0x3 0x4 0x5 0x6", "202 1 0x2 0x3 0x4 0x5 0x6 0x7 0x8",
        "202 0x 0x2 0x3 0x4 0x5 0x6 0x7 0x8", "202 0x1ffffffffffffffff 0x2 0x3 0x4 0x5 0x6 0x7 0x8",
        "x 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8"}) {
    EXPECT_FALSE(parse_system_call(text)) << text;
  }
}

TEST(CallName, KnownOrItsNumber) {
  EXPECT_EQ(call_name(SYS_read), "read");
  EXPECT_EQ(call_name(SYS_futex), "futex");
  EXPECT_EQ(call_name(100'000), "system call 100000");
}

TEST(ParseTcpRow, BothFamilies) {
  const auto v4 = parse_tcp_row(
      "   0: 0100007F:1F90 0200000A:7338 01 00000000:00000000 00:00000000 00000000     0        0 4711 1 0 20 4 30 10 "
      "-1");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->local, "127.0.0.1:8080");
  EXPECT_EQ(v4->remote, "10.0.0.2:29496");
  EXPECT_EQ(v4->state, "ESTABLISHED");
  EXPECT_EQ(v4->inode, 4711U);
  const auto v6 = parse_tcp_row(
      "   1: 00000000000000000000000001000000:0016 0000000000000000FFFF00000100007F:D903 0A 0:0 0:0 0 0 0 12 1 0 99 0 "
      "0 10 -1");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->local, "[::1]:22");
  EXPECT_EQ(v6->remote, "127.0.0.1:55555");
  EXPECT_EQ(v6->state, "LISTEN");
  for (const char* text :
       {"", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "0: 0100007F 0200000A:7338 01 0 0 0 0 0 12", "0: 0100007:1F90 0200000A:7338 01 0 0 0 0 0 12",
        "0: 010000ZF:1F90 0200000A:7338 01 0 0 0 0 0 12", "0: 0100007F:1F90 0200000A:7338 0 0 0 0 0 0 12",
        "0: 0100007F:1F90 0200000A:7338 01 0 0 0 0 0 x"}) {
    EXPECT_FALSE(parse_tcp_row(text)) << text;
  }
}

class OwnDescriptors : public testing::Test {
 protected:
  Descriptor at(int number) {
    auto descriptor = descriptors_.at(::getpid(), number);
    EXPECT_TRUE(descriptor);
    Descriptor found = descriptor.value_or(Descriptor());
    Descriptor* wanted = &found;
    const pid_t pid = ::getpid();
    descriptors_.find_peers({&wanted, 1}, {&pid, 1}, Descriptors::kPeerSearchNs);
    return found;
  }

  Procfs procfs_;
  Descriptors descriptors_{procfs_};
};

TEST_F(OwnDescriptors, APipeAndWhoHasItsOtherEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd reads(ends[0]);
  UniqueFd writes(ends[1]);
  const Descriptor whole = at(reads.get());
  EXPECT_EQ(whole.kind, DescriptorKind::kPipe);
  EXPECT_THAT(whole.link, StartsWith("pipe:["));
  EXPECT_THAT(whole.peers, ElementsAre(Field(&PeerProcess::itself, true)));
  EXPECT_TRUE(whole.peers_known);
  writes.reset();
  const Descriptor half = at(reads.get());
  EXPECT_THAT(half.peers, IsEmpty()) << "no process writes";
  EXPECT_TRUE(half.peers_known);
  EXPECT_FALSE(descriptors_.at(::getpid(), 12'345));
  EXPECT_FALSE(descriptors_.at(::getpid(), -1));
}

TEST_F(OwnDescriptors, AConnectionWithItsAddressesAndItsPeer) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  const UniqueFd accepted(::accept(listener.get(), nullptr, nullptr));
  const Descriptor descriptor = at(client.get());
  EXPECT_EQ(descriptor.kind, DescriptorKind::kTcp);
  EXPECT_EQ(descriptor.remote, "127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
  EXPECT_EQ(descriptor.state, "ESTABLISHED");
  EXPECT_THAT(descriptor.peers, ElementsAre(Field(&PeerProcess::pid, ::getpid())));
}

TEST_F(OwnDescriptors, AUnixSocketAndWhatEpollWatches) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd one(ends[0]);
  const UniqueFd other(ends[1]);
  const UniqueFd epoll(::epoll_create1(0));
  epoll_event event{.events = EPOLLIN, .data = {}};
  ASSERT_EQ(::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, one.get(), &event), 0);
  EXPECT_EQ(at(one.get()).kind, DescriptorKind::kUnix);
  EXPECT_THAT(descriptors_.watched_by(::getpid(), epoll.get(), 8), ElementsAre(one.get()));
  EXPECT_THAT(descriptors_.watched_by(::getpid(), epoll.get(), 0), IsEmpty());
}

}  // namespace
}  // namespace stalltrace::stacks
