# SPDX-License-Identifier: Apache-2.0
"""Imports of what real programs wrote: packets of a connection with known drops, and traces of PyTorch's profiler on Gloo."""

import json
import re
import subprocess

from processes import free_port, rank_environment
from stalltrace import Case, run

PYTHON = "/usr/bin/python3"  # which has PyTorch

# In a network namespace of its own, whose loopback has segments of a network's size: 4 MB over one connection, of which the firewall
# drops 2 % of the segments behind the point where packets are captured.
NETWORK = """
set -e
ip link set dev lo up mtu 1500 gso_max_segs 1
nft add table inet f
nft 'add chain inet f in { type filter hook input priority 0; }'
nft add rule inet f in tcp dport 29999 meta length '>' 200 numgen random mod 1000 '<' 20 counter drop
/usr/bin/python3 - "$1" <<'END'
import socket, struct, sys, threading, time
tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
tap.bind(("lo", 0))
tap.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
tap.settimeout(0.2)
ended = threading.Event()
packets = []
def capture():
    while True:
        try:
            data, address = tap.recvfrom(65535)
        except TimeoutError:
            if ended.is_set():
                return
            continue
        if address[2] != 4:  # PACKET_OUTGOING: loopback has each packet twice
            packets.append((time.time_ns(), data))
def serve():
    connection = server.accept()[0]
    while connection.recv(1 << 16):
        pass
    connection.close()
server = socket.create_server(("127.0.0.1", 29999))
threads = [threading.Thread(target=capture), threading.Thread(target=serve)]
for thread in threads:
    thread.start()
client = socket.create_connection(("127.0.0.1", 29999))
for _ in range(200):
    client.sendall(bytes(20000))
client.close()
threads[1].join()
ended.set()
threads[0].join()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<IHHIIII", 0xa1b23c4d, 2, 4, 0, 0, 96, 1))
    for at, data in packets:
        file.write(struct.pack("<IIII", at // 10**9, at % 10**9, min(len(data), 96), len(data)) + data[:96])
END
nft list chain inet f in
cat /proc/net/snmp
"""

# Two ranks of data-parallel training, of which rank 1 sleeps in each step.
TRAINING = """
import sys, time, torch, torch.distributed as dist, torch.nn as nn
from torch.profiler import profile, schedule, ProfilerActivity
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Sequential(*[nn.Linear(128, 128) for _ in range(4)]))
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=4, repeat=1),
             on_trace_ready=lambda trace: trace.export_chrome_trace(f"{sys.argv[1]}/rank{dist.get_rank()}.json")) as profiler:
    for step in range(6):
        if dist.get_rank() == 1:
            time.sleep(0.05)
        model(torch.randn(8, 128)).sum().backward()
        profiler.step()
"""


class PacketCaptures(Case):
    def test_retransmissions_are_those_that_the_kernel_counted(self):
        self.need_root()
        self.need_program("nft")
        path = self.folder / "lo.pcap"
        result = subprocess.run(["unshare", "-n", "bash", "-c", NETWORK, "bash", path], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(result.returncode, 0, result.stderr)
        dropped = int(re.search(r"counter packets (\d+)", result.stdout)[1])
        names, values = [line.split() for line in result.stdout.splitlines() if line.startswith("Tcp:")]
        sent_again = int(dict(zip(names, values))["RetransSegs"])
        self.assertGreater(dropped, 10)
        capture = json.loads(self.done(run("explain", path, "--json")))["captures"][0]
        flow = capture["troubled_flows"][0]
        self.assertEqual((flow["dst"], flow["retransmits"], flow["lost_before"]), ("127.0.0.1:29999", sent_again, 0))
        self.assertGreaterEqual(flow["retransmits"] - flow["spurious"], dropped)


class ProfilerTraces(Case):
    def test_the_rank_that_sleeps_is_late(self):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("python3-torch is not installed")
        port = free_port()
        ranks = [subprocess.Popen([PYTHON, "-c", TRAINING, self.folder], stderr=subprocess.DEVNULL,
                                  env=rank_environment(rank, 2, port, {"OMP_NUM_THREADS": "1"})) for rank in range(2)]
        for process in ranks:
            self.addCleanup(process.kill)
        self.assertEqual([process.wait(timeout=60) for process in ranks], [0, 0])
        profiles = json.loads(self.done(run("explain", self.folder, "--json")))["profiles"]
        self.assertEqual([(one["rank"], one["on_device"], one["steps"]) for one in profiles], [(0, False, 4), (1, False, 4)])
        self.assertEqual([any(remark.startswith("late:") for remark in one["remarks"]) for one in profiles], [False, True], profiles)
        self.assertGreaterEqual(profiles[1]["idle_ns"], 4 * 40e6)
        # Gloo works in a thread of its own: a call of the step before, or the last one, may fall outside of the trace or into it.
        self.assertIn("all_reduce", {one["op"] for one in profiles[0]["collectives"] if 3 <= one["calls"] <= 5}, profiles[0])
