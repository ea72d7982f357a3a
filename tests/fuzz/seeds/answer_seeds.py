# SPDX-License-Identifier: Apache-2.0
"""answer_seeds.py FOLDER: seeds of the fuzz targets whose inputs other hosts send, in FOLDER/seeds-TARGET: peers, autopsy, fleet."""

import copy
import json
import pathlib
import struct
import sys

SECRET = "0123456789abcdef" * 2
REPORT = {"schema": 1, "host": "gpu01", "failed": True, "facts": {"setting NCCL_ALGO": "Ring", "kernel": "6.1"},
          "checks": [{"check": "nccl_setting", "subject": "NCCL_ALGO", "outcome": "failed", "detail": "=Rnig", "remedy": "unset it"},
                     {"check": "mtu", "subject": "eth0", "outcome": "ok", "detail": "1500 bytes", "remedy": ""}]}
TESTS = {"ask": "tests", "rank": 1, "ranks": 2, "secret": SECRET * 2, "masters": ["10.0.0.1", "fd00::1"], "port": 7702, "wait_ms": 60000, "limit_ms": 90000,
         "rounds": 31, "test_ms": 300, "test_bytes": 1 << 30, "max_mbit": 100}
OF_FIRST = {"rank": 0, "format": "json", "nodes": ["a:7700", "b:7700"], "missing": [{"node": "c:7700", "reason": "Connection refused"}]}
HELLO = {"stalltrace_preflight": 1, "rank": 3, "world_size": 8, "job": "42", "admission": "a" * 32, "host": "4026531840", "hostname": "gpu01", "name": "gpu01",
         "address": "10.0.0.1", "interface": "eth0", "mtu": 9000, "line_mbit": 100000, "tcp_port": 40000, "udp_port": 40001, "secret": SECRET,
         "report": json.dumps(REPORT)}
ORDER = {"order": "test", "address": "fd00::1", "tcp_port": 40000, "udp_port": 40001, "secret": SECRET, "flow_only": False, "reach_only": True,
         "interface_mtu": 1500, "streams": 4, "bytes": 1 << 30, "time_ns": 300000000, "mbit": 0}
FLOW = {"bytes": 1 << 28, "duration_ns": 225000000, "retransmits": 12, "segments": 9000, "waited": 0.97, "receiver": 0.01}
PAIR = {"reach": "reached", "latency": {"median_ns": 52000, "max_ns": 310000, "round_trips": 200}, "path_mtu": {"own": 9000, "largest": 1500, "reported": 1500},
        "alone": FLOW, "half_rate": FLOW, "small_segments": FLOW, "together": FLOW}
PEERS = {
    0: [{"ask": "ready"}, TESTS, TESTS | OF_FIRST, TESTS | {"rank": 2}, {"ask": "shell"}],
    1: [HELLO, ORDER, PAIR, {"reach": "refused", "reach_detail": "Connection refused"}, {"welcome": "a" * 32}, {"bytes": -1, "alone": {"duration_ns": 1e300}}],
    2: [REPORT, REPORT | {"facts": {"a": 1}}],
}
SOCKET = {"netns": 4026531840, "inode": 7, "local": "10.0.0.1:4711", "remote": "[fd00::2]:4712", "state": 1, "timer": "retransmit", "tries": 5, "backoff": 5,
          "expires_ms": 200, "timeout_ms": 6400, "receive_queue": 0, "send_queue": 4096, "unsent_bytes": 1024, "acked_bytes": 1 << 40, "received_bytes": 9,
          "silent_ms": 30000, "ack_age_ms": 31000}
RANK = {"pid": 4000, "start_ticks": 99, "job": "train", "launcher_job": None, "rank": 0, "world_size": 2, "local_size": 1, "problem": "", "state": "alive",
        "debugger": 0, "location": "in load_batch at data.py:212", "call_site": {"function": "load_batch", "line": "data.py:212"}, "activity": "reading a pipe",
        "call": {"name": "all_reduce", "op": "AllReduce", "seen_in": "python_frames"}, "call_known": True, "call_problem": "", "cpu_ticks": 7,
        "no_sockets": "", "sockets": [SOCKET]}
START_NS = 1769827620 * 10**9
ACCOUNT = {"job": "train", "address": "127.0.0.1:28028", "asked_ns": START_NS, "report": "report of NCCL's RAS 2.28.9: 1 communicator",
           "statements": ["rank 1 has not launched"]}


def host(node, **of_rank):
    rank = copy.deepcopy(RANK) | of_rank
    snapshots = [{"taken_ns": START_NS + second * 10**9, "host_addresses": ["10.0.0.1"], "ranks": [rank]} for second in (0, 2)]
    calls = {"done": True, "problem": "", "lasted_ns": 2 * 10**9, "calls": [{"pid": rank["pid"], "ended": 0, "launched": 1}]}
    return {"made_by": "stalltrace autopsy", "schema": 1, "node": node, "evidence": {"calls": calls, "ras": [ACCOUNT], "snapshots": snapshots}}


def hosts():
    outside = host("gpu02", rank=1, call=None, call_site=None)
    yield [host("gpu01")]
    yield [host("gpu01"), outside]
    yield [host("gpu01"), host("gpu02", rank=1, state="stopped", call=None), host("gpu03", rank=1, launcher_job="train")]
    yield [host("gpu01"), host("gpu01")]
    yield [host("gpu01", rank=None, world_size=None, problem="Permission denied", no_sockets="Permission denied", sockets=[])]
    yield [host("gpu01") | {"schema": 2}]
    yield [host("gpu01") | {"nodes": []}]
    yield [host("")]


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def texts(*values):
    return b"\3", b"".join(b"\0" + varint(len(value)) + value.encode() for value in values)


def integers(*differences):
    return b"\1", b"".join(varint(value * 2 if value >= 0 else -2 * value - 1) for value in differences)


def columns_of(*columns):
    """The content of a header frame after its number: names, and what the integers are relative to."""
    return varint(len(columns)) + b"".join(varint(len(name)) + name.encode() + bytes([form]) for name, form in columns)


def rows_of(count, *columns):
    return varint(count) + b"".join(kind + varint(len(values)) + values for kind, values in columns)


def zstd_frame(raw):
    """Not compressed: one block of plain bytes."""
    size = b"\x20" + bytes([len(raw)]) if len(raw) < 256 else b"\x60" + struct.pack("<H", len(raw) - 256)
    return struct.pack("<I", 0xFD2FB528) + size + struct.pack("<I", len(raw) << 3 | 1)[:3] + raw


def frame(kind, content):
    return kind + struct.pack("<I", len(content)) + content


NODE_COLUMNS = columns_of(("node_id", 0), ("name", 0), ("boot_id", 0), ("started_ns", 1))
NODE_ROWS = rows_of(2, integers(5, 4), texts("gpu01", "gpu02"), texts("b1", "b2"), integers(START_NS, START_NS + 7))
CALL_COLUMNS = columns_of(("timestamp_ns", 0), ("seq", 0), ("comm_id_hash", 0), ("duration_ns", 0x80 | 5), ("event_id", 0), ("node_id", 0), ("rank", 0),
                          ("kernel_end_ns", 0x80 | 3), ("called_ns", 2))
CALL_ROWS = rows_of(2, integers(START_NS, 1000), integers(1, 0), integers(77, 0), integers(10, 0), integers(1, 1), integers(5, 4), integers(0, 1),
                    integers(0, 1), integers(-100, 0))
END = json.dumps({"notes": ["3 rows were left out"], "rows_left_out": 3}).encode()
NODE = {"api": 1, "version": "1.0", "utc_error_ns": 50000,
        "recordings": [{"name": "a.db", "being_written": True, "bytes": 4096, "lost_events": 1, "nodes": [{"name": "gpu01"}],
                        "range": {"from_ns": START_NS, "to_ns": START_NS + 10, "collectives": 7}}, {"name": "b.db", "problem": "damaged"}]}
REQUESTS = [{"reads": [{"table": "node"}, {"table": "collective", "from_ns": START_NS, "to_ns": START_NS + 5, "narrow": True}],
             "windows": [[30, 40], [10, 20], [15, 25]], "clocks": [[5, -7], [9, 1 << 60]]},
            {"reads": [{"table": "python_stack"}]}, {"reads": []}, {"reads": [{"table": "sqlite_master"}]}]


def sized(content):
    return struct.pack(">H", len(content)) + content


def fleet():
    for request in REQUESTS:
        yield b"\0" + json.dumps(request).encode()
    clock = {"now_ns": START_NS + 5, "monotonic_ns": START_NS // 2, "boot_id": "b1"}
    for node, answer in ((NODE, clock), (NODE, {"now_ns": -1}), (NODE | {"api": 99}, clock)):
        yield b"\1" + sized(json.dumps(node).encode()) + json.dumps(answer).encode()
    nodes = frame(b"H", struct.pack("<I", 0) + NODE_COLUMNS) + frame(b"B", zstd_frame(NODE_ROWS))
    calls = frame(b"H", struct.pack("<I", 1) + CALL_COLUMNS) + frame(b"B", zstd_frame(CALL_ROWS))
    yield b"\2" + nodes + calls + frame(b"E", END)
    yield b"\2" + calls + frame(b"E", END) + nodes
    yield b"\2" + frame(b"E", END)
    yield b"\2" + nodes
    yield b"\3\0" + sized(NODE_COLUMNS) + b"\1" + sized(NODE_ROWS) + b"\1" + sized(CALL_COLUMNS) + b"\1" + sized(CALL_ROWS)
    yield b"\3\1" + sized(CALL_COLUMNS) + b"\2" + sized(CALL_ROWS) * 2
    yield b"\3\3" + sized(columns_of(("stack_id", 0), ("frames", 0))) + b"\1" + sized(rows_of(1, integers(4), texts("main")))


def main():
    root = pathlib.Path(sys.argv[1])
    seeds = {"peers": [bytes([kind]) + json.dumps(one).encode() + b"\n" for kind, all_of in PEERS.items() for one in all_of],
             "autopsy": [b"\0".join(json.dumps(one).encode() for one in files) for files in hosts()], "fleet": list(fleet())}
    for target, contents in seeds.items():
        folder = root / f"seeds-{target}"
        folder.mkdir(parents=True, exist_ok=True)
        for number, content in enumerate(contents):
            (folder / f"seed{number:02}").write_bytes(content)


main()
