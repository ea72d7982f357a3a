// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "base/clock.h"
#include "import/kernel_log/message.h"
#include "import/testing/evidence_files.h"
#include "model/events/imported_evidence.h"

namespace stalltrace::import {
namespace {

using Kind = KernelMessageKind;

const std::string kFallen =
    "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.";
const std::string kFault =
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault";
constexpr int64_t kTime = 1'777'975'203'000'000'000;  // 2026-05-05T10:00:03Z

struct Read {
  MemorySource source;
  std::vector<std::string> notes;
  Summary summary;
  std::vector<KernelMessage> messages;
};

std::unique_ptr<Read> read(const std::vector<std::string>& paths) {
  auto out = std::make_unique<Read>();
  const Result<Summary> summary =
      import_kernel_logs(paths, out->source, [&](std::string note) { out->notes.push_back(std::move(note)); }, {});
  EXPECT_TRUE(summary);
  out->summary = summary.value_or(Summary{});
  EXPECT_TRUE(out->source.kernel_messages({}, [&](const KernelMessage& one) { out->messages.push_back(one); }));
  return out;
}

TEST(KernelLog, MessagesAboutDevices) {
  const std::string line = "[ 5.000001] " + kFault;
  const auto xid = read_kernel_message(line);
  ASSERT_TRUE(xid);
  EXPECT_EQ(xid->kind, Kind::kXid);
  EXPECT_EQ(xid->code, 31);
  EXPECT_EQ(xid->device, "0000:3b:00");
  EXPECT_EQ(xid->pid, 4711);
  EXPECT_EQ(xid->process, "python3");
  EXPECT_EQ(xid->text, kFault);
  const auto unknown = read_kernel_message(kFallen);
  EXPECT_EQ(unknown->pid, 0);
  EXPECT_EQ(unknown->process, "");
  EXPECT_EQ(read_kernel_message("NVRM: Xid (0000:03:00): 79, GPU has fallen off the bus.")->device, "0000:03:00");
  const auto sxid = read_kernel_message("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 28006, Non-fatal, Link 46 MC");
  EXPECT_EQ(sxid->kind, Kind::kSxid);
  EXPECT_EQ(sxid->code, 28'006);
  EXPECT_EQ(sxid->device, "0000:c1:00.0");
}

TEST(KernelLog, MessagesAboutPcieAndMemory) {
  const auto lost = read_kernel_message(
      "[ 9.000000] nvidia 0000:3b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer");
  ASSERT_TRUE(lost);
  EXPECT_EQ(lost->kind, Kind::kPcieUncorrected);
  EXPECT_EQ(lost->device, "0000:3b:00.0");
  for (const std::string_view severity : {"Corrected", "Correctable"}) {
    EXPECT_EQ(
        read_kernel_message(fmt::format("x 0000:3b:00.0: PCIe Bus Error: severity={}, type=Physical", severity))->kind,
        Kind::kPcieCorrected);
  }
  EXPECT_EQ(read_kernel_message("pcieport 0000:00:1c.0: DPC: containment event, status:0x1f01")->kind,
            Kind::kPcieUncorrected);
  const auto killed =
      read_kernel_message("Memory cgroup out of memory: Killed process 99 (a b) total-vm:1kB, anon-rss:1kB");
  ASSERT_TRUE(killed);
  EXPECT_EQ(killed->kind, Kind::kOutOfMemory);
  EXPECT_EQ(killed->pid, 99);
  EXPECT_EQ(killed->process, "a b");
}

/// The second and third line have no device and, in some logs, no time.
TEST(KernelLog, AGpuThatFellOffTheBusBeforeItWasSetUp) {
  EvidenceFolder folder;
  const std::string rest = "NVRM: fallen off the bus and is not responding to commands.\n";
  const auto got = read({folder.write("kern.log", "May  5 10:00:03 node3 kernel: NVRM: The NVIDIA GPU 0000:5e:00.0\n" +
                                                      std::string(30, ' ') + "NVRM: (PCI ID: 10de:1) has\n" +
                                                      std::string(30, ' ') + rest),
                         folder.write("dmesg", "[ 7.000001] " + rest +
                                                   "[ 8.000001] NVRM: GPU 0000:5e:00.0: GPU has "
                                                   "fallen off the bus.\n")});
  ASSERT_EQ(got->messages.size(), 3U);
  for (const KernelMessage& message : got->messages) {
    EXPECT_EQ(message.kind, Kind::kXid);
    EXPECT_EQ(message.code, 79);
  }
  EXPECT_EQ(got->messages[0].device, "0000:5e:00.0");
  EXPECT_EQ(got->messages[0].timestamp_ns, kTime);
  EXPECT_EQ(got->messages[1].device, "");
  EXPECT_EQ(got->messages[2].device, "0000:5e:00.0");
}

TEST(KernelLog, FailuresOfOtherDriversAndPanics) {
  const auto reset = read_kernel_message("May  5 10:00:03 node3 kernel: amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!");
  ASSERT_TRUE(reset);
  EXPECT_EQ(reset->kind, Kind::kOther);
  EXPECT_EQ(reset->device, "0000:c1:00.0");
  EXPECT_EQ(reset->prefix, "May  5 10:00:03 node3 kernel: ");
  const auto ring =
      read_kernel_message("[ 1.000001] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring x timeout, signaled seq=1");
  ASSERT_TRUE(ring);
  EXPECT_EQ(ring->prefix, "[ 1.000001] ");
  EXPECT_EQ(ring->device, "");
  EXPECT_EQ(
      read_kernel_message("[ 1.000001] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable unplugged")->device,
      "0000:5e:00.0");
  const std::string panic = "<0>[ 9.000001] Kernel panic - not syncing: x";
  EXPECT_TRUE(read_kernel_message(panic));
  EXPECT_FALSE(read_kernel_message("[ 1.000001] mlx5_core 0000:5e:00.0: Port module event: module 0, Cable plugged"));
}

/// Cut off, with other numbers, or words of programs.
TEST(KernelLog, WhatIsNoMessage) {
  for (const std::string_view line :
       {"NVRM: Xid (", "NVRM: Xid (PCI:0000:3b:00", "NVRM: Xid (PCI:0000:3b:00): ", "NVRM: Xid (PCI:0000:3b:00): -5, x",
        "NVRM: Xid (PCI:0000:3b:00): 7", "NVRM: Xid (PCI:0000:3b:00): 99999999999999, x",
        "NVRM: Xid (PCI:\x1b[31m): 79, x", "PCIe Bus Error: severity=", "rm -rf: PCIe Bus Error: severity=Corrected",
        "Killed process 5", "Killed process -5 (x) total-vm:1kB",
        "Killed process 99999999999999999999 (x) total-vm:1kB", "slurmstepd: Killed process 5 (x)",
        "NVRM: GPU at PCI:0000:3b:00: GPU-efbd"}) {
    EXPECT_FALSE(read_kernel_message(line)) << line;
  }
}

/// As dmesg, dmesg -T, dmesg --time-format iso -x, journalctl -k, rsyslog and launchers print them.
TEST(KernelLog, HostsAndTimesOfAllForms) {
  struct Form {
    std::string_view prefix;
    std::string_view host;
    bool timed;
    bool zone;
  };
  for (const Form& form : {Form{"[ 3600.000002] ", "", false, false}, Form{"<4>[12345.678901] ", "", false, false},
                           Form{"[Tue May  5 10:00:03 2026] ", "", true, false},
                           Form{"kern  :err   : 2026-05-05T12:00:03,000000+02:00 ", "", true, true},
                           Form{"May  5 10:00:03 node-3 kernel: ", "node-3", true, false},
                           Form{"May  5 10:00:03 node3 kernel: [ 3600.000002] ", "node3", true, false},
                           Form{"2026-05-05T10:00:03.000000+00:00 node3.x kernel: ", "node3.x", true, true},
                           Form{"2026-05-05T10:00:03+0000 node3 kernel: ", "node3", true, true},
                           Form{"[1,3]<stdout>:[ 3600.000002] ", "", false, false}, Form{"", "", false, false}}) {
    const std::string line = std::string(form.prefix) + kFallen;
    const auto message = read_kernel_message(line);
    ASSERT_TRUE(message) << line;
    EXPECT_EQ(message->prefix, form.prefix);
    EXPECT_EQ(read_kernel_prefix(message->prefix).host, form.host) << line;
    const auto time = read_kernel_time(message->prefix, kTime + kNsPerSecond);
    EXPECT_EQ(time.has_value(), form.timed) << line;
    if (time) {
      EXPECT_EQ(time->time_ns, kTime) << line;
      EXPECT_EQ(time->has_zone, form.zone) << line;
    }
  }
  EXPECT_EQ(read_kernel_prefix("[   12.345678] ").uptime_ns, 12'345'678'000);
  EXPECT_EQ(read_kernel_prefix("[99999999999999999999.345678] ").uptime_ns, std::nullopt);
}

TEST(KernelLog, AHostIsANodeAndSoIsAFileWithoutOne) {
  EvidenceFolder folder;
  const auto got =
      read({folder.write("kern.log", "May  5 10:00:03 node3 kernel: " + kFallen +
                                         "\r\n2026-05-05T10:00:03+00:00 node4 kernel: \x1b[31m" + kFault + "\n"),
            folder.write("dmesg", "[ 10.000000] x\n[ 12.000000] " + kFault + "\n[ 15.000000] y\n"),
            folder.write("quiet.log", "May  5 10:00:03 node5 kernel: usb 1-1: new device\n")});
  std::map<std::string, std::string> lacking;
  const std::vector<Node> nodes = got->source.nodes().value();
  for (const Node& node : nodes) {
    lacking[node.name] = node.missing_evidence;
    EXPECT_EQ(node.agent_version, "kernel_log");
  }
  EXPECT_EQ(lacking, (std::map<std::string, std::string>{{"node3", "call_durations calls time_zone"},
                                                         {"node4", "call_durations calls"},
                                                         {"node5", "call_durations calls"},
                                                         {"dmesg", "call_durations calls clock_times"}}));
  ASSERT_EQ(got->messages.size(), 3U);
  EXPECT_EQ(got->messages[0].timestamp_ns, kTime);
  EXPECT_EQ(got->messages[1].text, kFault);
  EXPECT_EQ(got->messages[2].line, 2);
  EXPECT_EQ(got->summary.rows, 3U);
}

TEST(KernelLog, FloodsAreCountedNotKept) {
  EvidenceFolder folder;
  std::string text(10 << 20, 'x');
  for (int i = 0; i < 1500; ++i) {
    text +=
        fmt::format("\nMay  5 10:00:03 node3 kernel: nvidia 0000:3b:00.0: PCIe Bus Error: severity=Corrected, n={}", i);
  }
  const auto got = read({folder.write("kern.log", text + "\nMay  5 10:00:03 node3 kernel: " + kFallen.substr(0, 30))});
  EXPECT_EQ(got->messages.size(), 1000U);
  const std::vector<Loss> losses = got->source.losses().value();
  ASSERT_EQ(losses.size(), 1U);
  EXPECT_EQ(losses[0].source, "kernel:messages_not_kept");
  EXPECT_EQ(losses[0].count, 500U);
}

TEST(KernelLog, IsRecognised) {
  EvidenceFolder folder;
  const auto formats = [&](const std::string& text) { return detect(folder.write("x", text)).value(); };
  EXPECT_EQ(formats("job\n" + kFallen + "\n"), std::vector{Format::kKernelLog});
  std::string quiet;
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(formats(quiet + "y\n"), std::vector{Format::kUnknown});
    quiet += fmt::format("[   {}.000001] usb 1-1: new device\n", i);
  }
  EXPECT_EQ(formats(quiet), std::vector{Format::kKernelLog});
  EXPECT_EQ(formats(call_line(0, 1) + "May  5 10:00:03 node0 kernel: " + kFallen),
            (std::vector{Format::kNcclLog, Format::kKernelLog}));
  std::string words;
  for (int i = 0; i < 20; ++i) {
    words += "launching kernel: gemm\n[12.5] step\n";
  }
  EXPECT_EQ(formats(words), std::vector{Format::kUnknown});
}

}  // namespace
}  // namespace stalltrace::import
