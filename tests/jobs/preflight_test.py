# SPDX-License-Identifier: Apache-2.0
"""`stalltrace preflight` on virtual nodes: the healthy ones pass and are alike; a lower MTU, a wrong interface, a slow way and a late rank
are named. And under mpirun and torchrun."""

import functools
import json
import operator
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request

import recordings
from job import OPENMPI, Tracer, wait_until
from processes import free_port
from servers import Served
from stalltrace import BUILD, PROGRAM, ROOT, Case, run, sentence

NODES = 3
PYTHON = "/usr/bin/python3"  # Debian's, which has torch
TORCHRUN = ROOT / "tests" / "field" / "jobs" / "torchrun.py"
# In a node, what it sends to the node with this address takes 3 ms longer. Not every kernel has netem.
SLOW_WAY = """
import collections, fcntl, os, pathlib, select, socket, struct, subprocess, sys, time

address, ready = sys.argv[1:]
way = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(way, 0x400454ca, struct.pack("16sH22x", b"slow", 0x1001))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
pathlib.Path("/proc/sys/net/ipv4/conf/eth0/rp_filter").write_text("2")  # answers do not take this way
for words in ("link set slow addrgenmode none", "link set slow up", f"route add {address} dev slow"):
    subprocess.run(["ip", *words.split()], check=True)
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
out.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
open(ready, "w").close()
held = collections.deque()
while True:
    if select.select([way], [], [], max(0, held[0][0] - time.monotonic()) if held else None)[0]:
        held.append((time.monotonic() + 0.003, os.read(way, 65536)))
    while held and held[0][0] <= time.monotonic():
        out.sendto(held.popleft()[1], (address, 0))
"""


class Preflight(Case):
    def setUp(self):
        super().setUp()
        self.need_root()
        self.addCleanup(run, "lab", "down")
        self.done(run("lab", "up", "--ranks", NODES))

    def check(self, node, **settings):
        variables = [f"{name}={value}" for name, value in settings.items()]
        return subprocess.run(["ip", "netns", "exec", f"stalltrace-node{node}", "env", *variables, PROGRAM, "preflight", "--json"],
                              capture_output=True, text=True, check=False, timeout=20)

    def reports(self):
        paths = []
        for node in range(NODES):
            report = json.loads(self.check(node).stdout)
            paths.append(self.folder / f"node{node}.json")
            paths[-1].write_text(json.dumps({**report, "host": f"node{node}"}))  # virtual nodes share the host's name
        return paths

    def interface(self, result):
        return [(check["subject"], check["outcome"]) for check in json.loads(result.stdout)["checks"] if check["check"] == "interface"]

    def test_what_is_wrong_on_one_node(self):
        self.assertEqual(self.interface(self.check(0)), [("eth0", "ok")])
        self.assertEqual(self.done(run("preflight", *self.reports())), "0 checks failed, 0 warnings.\n")
        subprocess.run(["ip", "-n", "stalltrace-node1", "link", "set", "eth0", "mtu", "1400"], check=True)
        result = run("preflight", "--json", *self.reports())
        self.assertEqual(result.returncode, 0)  # TCP adapts to the smaller MTU
        difference, = json.loads(result.stdout)["checks"]
        self.assertEqual((difference["subject"], difference["outcome"]), ("MTU of eth0", "warning"))
        self.assertIn("1400", difference["detail"])
        self.assertEqual(self.interface(self.check(2, NCCL_SOCKET_IFNAME="ens")), [("", "failed")])
        subprocess.run(["ip", "-n", "stalltrace-node2", "link", "set", "eth0", "down"], check=True)
        self.assertIn(("lo", "failed"), self.interface(self.check(2)))

    def start(self, rank, *words, node=None, ranks=NODES, prefix=(), stdout=subprocess.PIPE, **settings):
        """A rank of a launch, on the node of its number."""
        node = f"node{rank if node is None else node}"
        variables = {"RANK": rank, "WORLD_SIZE": ranks, "MASTER_ADDR": "10.77.0.1", "STALLTRACE_NODE": node, **settings}
        return subprocess.Popen(["ip", "netns", "exec", f"stalltrace-{node}", *prefix, "env",
                                 *(f"{name}={value}" for name, value in variables.items()), PROGRAM, "preflight", "--network", "--json",
                                 *words], stdout=stdout, stderr=subprocess.PIPE, text=True)

    def launch(self, *words, test_time="300ms"):
        """Plays a launch with a rank on each node. Rank 0's exit code, and its report."""
        ranks = [self.start(rank, "--test-time", test_time, *words) for rank in range(NODES)]
        outputs = [rank.communicate(timeout=60) for rank in ranks]
        self.assertTrue(outputs[0][0], outputs[0][1])
        return ranks[0].returncode, json.loads(outputs[0][0])

    def launch_checks(self, *words, **options):
        """Rank 0's exit code, and (check, subject, outcome) of all checks."""
        code, report = self.launch(*words, **options)
        return code, {(check["check"], check["subject"], check["outcome"]) for check in report["checks"]}

    def rules(self, *rules):
        """A firewall on node 2, which lasts until the next fault."""
        subprocess.run(["ip", "netns", "exec", "stalltrace-node2", "nft", "flush ruleset; add table inet t; "
                        "add chain inet t c { type filter hook input priority 0; }; " +
                        "; ".join(f"add rule inet t c {rule}" for rule in rules)], check=True)

    def test_each_fault_between_nodes_is_found(self):
        code, report = self.launch()
        self.assertEqual((code, report["failed"]), (0, False), report["checks"])
        self.assertEqual({(pair["reach"], pair["path_mtu"]["largest"]) for pair in report["pairs"]}, {("reached", 1500)})
        self.assertEqual(len(report["pairs"]), NODES * (NODES - 1))
        # Node 2 refuses; node 1 has a smaller MTU, and a limit of what it sends.
        self.rules("tcp dport != 7702 tcp flags syn / syn,ack reject with tcp reset")
        subprocess.run(["ip", "-n", "stalltrace-node1", "link", "set", "eth0", "mtu", "1400"], check=True)
        self.done(run("lab", "fault", "slow_link:rank=1,mbit=80"))
        code, found = self.launch_checks()
        self.assertEqual(code, 4)
        self.assertLessEqual({("reach", "all 2 links to node2", "failed"), ("bandwidth", "node1 -> node0", "failed")}, found)
        self.assertIn(("path_mtu", "all 2 links to node1", "warning"), found)
        self.done(run("lab", "fault", "none"))
        subprocess.run(["ip", "-n", "stalltrace-node1", "link", "set", "eth0", "mtu", "1500"], check=True)
        # Before node 2 all large packets vanish, before node 1 only those of TCP.
        self.rules("meta length > 1300 drop")
        self.done(run("lab", "fault", "mtu_blackhole:rank=1,bytes=1300"))
        code, found = self.launch_checks()
        single_segments = ("bandwidth", "node1 -> node0")  # node 1 sends nothing else under this fault: a slow flow on a busy CPU
        self.assertEqual({check[:2] for check in found if check[2] == "failed"} - {single_segments},
                         {("path_mtu", "all 2 links to node2"), ("path_mtu", "all 2 links to node1")})
        self.rules()
        self.done(run("lab", "fault", "none"))
        self.done(run("lab", "fault", "packet_loss:rank=2,percent=2"))
        code, found = self.launch_checks("--rounds", "1", test_time="2s")  # of nodes 1 and 2; the verdict needs 20 losses
        self.assertTrue([one for one in found if one[0] == "retransmits" and one[2] == "failed" and "node2" in one[1]], found)

    def slow_way(self, node, other):
        """What `node` sends to the other one comes late, until the test ends."""
        script, ready = self.folder / "slow_way.py", self.folder / "slow_way.ready"
        script.write_text(SLOW_WAY)
        process = subprocess.Popen(["ip", "netns", "exec", f"stalltrace-node{node}", sys.executable, script, f"10.77.0.{other + 1}", ready])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: ready.exists() or process.poll() is not None, "the slow way")
        self.assertIsNone(process.poll())

    def named(self, node, wrong=None):
        """For start(): the host name and the hosts file of a node. There the name of the node `wrong` stands for its own loopback."""
        hosts = self.folder / f"hosts{node}"
        hosts.write_text("".join(f"{'127.0.1.1' if one == wrong else f'10.77.0.{one + 1}'} node{one}\n" for one in range(NODES)))
        return ["unshare", "--uts", "--mount", "sh", "-c", 'hostname "$0" && mount --bind "$1" /etc/hosts && shift && exec "$@"',
                f"node{node}", hosts]

    def busy_cpu(self, cpu, rank):
        """Another program has the CPU, and the rank gets a thousandth: each of its turns takes some 10 to 200 ms. Returns what ends it."""
        os.sched_setaffinity(rank.pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, rank.pid, 19)
        other = subprocess.Popen(["nice", "-n", "-12", "taskset", "-c", str(cpu), "sh", "-c", "echo; while :; do :; done"],
                                 stdout=subprocess.PIPE)
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        other.stdout.read(1)
        return other.kill

    def test_a_late_rank_a_slow_way_a_wrong_name_and_a_wrong_variable(self):
        if not os.path.exists("/dev/net/tun"):
            self.skipTest("the kernel has no TUN")
        *cpus, busy = sorted(os.sched_getaffinity(0))
        cpus = ["taskset", "-c", ",".join(map(str, cpus or [busy]))]  # of all but the late rank
        self.slow_way(1, 2)
        report = self.folder / "report.json"
        with open(report, "wb") as out:
            start = functools.partial(self.start, ranks=NODES + 1, stdout=out)
            words = ["--test-time", "100ms"]
            ranks = [start(0, *words, prefix=[*cpus, *self.named(0)]),
                     start(1, *words, prefix=[*cpus, *self.named(1, wrong=2)]),
                     start(2, *words, prefix=[*cpus, *self.named(2)], NCCL_SOCKET_IFNAME="ens"),
                     # A second rank of its node takes part in nothing but the barrier.
                     start(3, *words, node=2, prefix=self.named(2), NCCL_SOCKET_IFNAME="ens")]
        for rank in ranks:
            self.addCleanup(rank.wait)
            self.addCleanup(rank.kill)
        limit = threading.Timer(60, ranks[0].kill)
        self.addCleanup(limit.cancel)
        limit.start()
        lines, lift = [], None
        for line in ranks[0].stderr:  # what rank 0 is about to do
            lines.append(line)
            if "4 ranks" in line:
                ranks[3].send_signal(signal.SIGSTOP)  # until its CPU is busy: the barrier waits for it to be ready
            elif "barrier" in line:
                lift = self.busy_cpu(busy, ranks[3])
                ranks[3].send_signal(signal.SIGCONT)
            elif lift and re.search(sentence("all send at once"), line):
                lift()
        for rank in ranks[1:]:
            rank.communicate(timeout=60)
        self.assertEqual([rank.wait(10) for rank in ranks], [4] * len(ranks), "".join(lines))
        checks = json.loads(report.read_text())["checks"]
        found = {(check["check"], check["subject"], check["outcome"]) for check in checks}
        self.assertEqual({one for one in found if one[0] == "latency" or one[0] in ("name", "interface", "barrier") and one[2] == "failed"},
                         {("name", "node1", "failed"), ("interface", "node2", "failed"), ("latency", "node1 -> node2", "warning"),
                          ("latency", "node2 -> node1", "warning"), ("barrier", "rank 3 on node2", "failed")}, checks)
        self.assertIn(("differs", "setting NCCL_SOCKET_IFNAME", "warning"), found)
        name, = [check["detail"] for check in checks if check["check"] == "name"]
        self.assertIn("node2 is 127.0.1.1", name)

    def test_collectives_of_the_jobs_library(self):
        words = ["--collectives", "--library", BUILD / "lab/lib/libnccl.so.2", "--max-size", "1m"]

        def collectives():
            code, report = self.launch(*map(str, words))
            found = report["collectives"]
            self.assertEqual((found["ranks"], found["complete"], found["wrong"]), (NODES, True, []), report["checks"])
            largest = max((time for time in found["times"] if time["operation"] == "AllReduce"), key=operator.itemgetter("bytes"))
            self.assertEqual(largest["bytes"], 2**20)
            return code, [check for check in report["checks"] if check["check"] == "collectives"], largest["busbw_gb_per_s"]

        code, checks, healthy = collectives()
        self.assertEqual((code, [check["outcome"] for check in checks]), (0, ["ok"]), checks)
        self.done(run("lab", "fault", "slow_link:rank=1,mbit=80"))
        code, checks, slow = collectives()
        self.assertEqual(code, 4)  # the link has a failed check of its own
        self.assertLess(slow, 0.02)  # GB/s; the link has 0.01
        self.assertLess(slow, healthy / 2)
        warning, = [check for check in checks if check["outcome"] == "warning"]
        self.assertIn("node1 -> ", warning["detail"])

    def test_servers_find_a_fault_without_a_launch(self):
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        recording = recordings.make(self.folder / "a.db")
        fingerprints = []
        for node in range(NODES):
            served = Served(recording, "--listen", f"10.77.0.{node + 1}:7700", "--token-file", token, "--allow-preflight", lines=2,
                            prefix=["ip", "netns", "exec", f"stalltrace-node{node}", "env", f"STALLTRACE_NODE=node{node}"])
            self.addCleanup(served.close)
            fingerprints += ["--tls-fingerprint", served.lines[1].split()[-1]]

        def preflight():
            result = run("preflight", "--nodes", "10.77.0.1,10.77.0.2,10.77.0.3", "--token-file", token, *fingerprints, "--json",
                         prefix=["ip", "netns", "exec", "stalltrace-node0"])
            self.assertTrue(result.stdout, result.stderr)
            return result.returncode, json.loads(result.stdout)

        code, report = preflight()
        self.assertEqual((code, report["failed"]), (0, False), report["checks"])
        self.assertEqual([node["name"] for node in report["nodes"]], ["node0", "node1", "node2"])
        self.assertEqual({pair["reach"] for pair in report["pairs"]}, {"reached"})
        self.assertEqual(len(report["pairs"]), NODES * (NODES - 1))
        self.rules("meta length > 1300 drop")
        code, report = preflight()
        self.assertEqual(code, 4)
        self.assertIn(("path_mtu", "all 2 links to node2", "failed"),
                      {(check["check"], check["subject"], check["outcome"]) for check in report["checks"]})


class Launchers(Case):
    """Two ranks on this host, as launchers start them: no pair is tested."""

    def report(self, *launcher):
        """What rank 0 prints."""
        words = [*launcher, PROGRAM, "preflight", "--network", "--json", "--port", free_port(), "--test-time", "100ms"]
        environment = {**os.environ, "NCCL_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        result = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=60, env=environment)
        self.assertIn("{", result.stdout, result.stderr)
        report, _ = json.JSONDecoder().raw_decode(result.stdout, result.stdout.index("{"))
        self.assertEqual(result.stdout.count('"barrier_rounds"'), 2, result.stdout)  # one report alone
        self.assertEqual([rank["rank"] for rank in report["ranks"]], [0, 1])
        for rank in report["ranks"]:
            self.assertIn(rank["barrier_rounds"], range(1, 201))
        self.assertEqual(len(report["nodes"]), 1)
        self.assertEqual(report["failed"], result.returncode != 0, result.stderr)  # what fails is a check of this host
        self.assert_says("preflight_announces", result.stderr)

    def test_mpirun(self):
        self.need_program("mpirun.openmpi")
        self.report(*OPENMPI, "-n", 2, "-x", "MASTER_ADDR=127.0.0.1")

    def test_torchrun(self):
        if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode != 0:
            self.skipTest("python3-torch is not installed")
        self.report(PYTHON, TORCHRUN, "--no_python", "--nproc_per_node", 2, "--master_port", free_port())


class BesideATrace(Case):
    def test_the_tests_end_with_the_server(self):
        self.need_root()
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        tracer = Tracer(self, "--serve", "127.0.0.1:0", "--token-file", token, "--allow-preflight", "--pid", os.getpid())
        log = self.folder / "tracer.log"
        wait_until(lambda: re.search(r"http://\S+:\d+\n", log.read_text()), "the server")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            body = {"ask": "tests", "rank": 1, "ranks": 2, "secret": "a" * 64, "masters": ["127.0.0.1"], "port": listener.getsockname()[1],
                    "wait_ms": 60000, "limit_ms": 60000, "rounds": 1, "test_ms": 100, "test_bytes": 1000000, "max_mbit": 0}
            request = urllib.request.Request(re.search(r"http://\S+:\d+", log.read_text())[0] + "/v1/preflight", json.dumps(body).encode(),
                                             {"Authorization": "Bearer 0123456789abcdef"})
            with urllib.request.urlopen(request, timeout=10):
                listener.settimeout(10)
                connection, _ = listener.accept()
                with connection:
                    connection.settimeout(10)
                    self.assertTrue(connection.recv(1))
                    server, = [int(pid) for pid in
                               pathlib.Path(f"/proc/{tracer.process.pid}/task/{tracer.process.pid}/children").read_text().split()
                               if pathlib.Path(f"/proc/{pid}/comm").read_text() == "st-server\n"]
                    os.kill(server, signal.SIGKILL)
                    while connection.recv(65536):
                        pass
        self.assertEqual(tracer.stop(), 0)
