# SPDX-License-Identifier: Apache-2.0
"""text_seeds.py FOLDER: inputs of the targets config, sql, words, proc and traceback, each in FOLDER/seeds-TARGET."""

import pathlib
import re
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
CONFIG = ['node = "rack7-node3"\nlibraries = ["/opt/site/lib/libnccl.so.2"]\ntrusted_owners = ["1200"]\n', '# nothing\n', 'node = 5\n',
          'libraries = ["a", 1]\n', "node = '''a\n\\u0041'''\n[table.x]\nd = 1979-05-27T07:32:00Z\nf = [1e3, inf, 0x1f, { a = true }]\n"]
SQL = ["SELECT op, rank, duration_ns FROM collective WHERE rank = 1 ORDER BY 1, 2 LIMIT 5", "SELECT count(*), sum(bytes), max(duration_ns) FROM collective GROUP BY rank HAVING 1",
       "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", "SELECT * FROM event_name e LEFT JOIN node USING(node_id)",
       "SELECT value FROM json_each('[1,2,{\"a\":3}]')", "SELECT printf('%9999999d', 1), hex(zeroblob(99999999)), replace('aaa', 'a', 'b')",
       "INSERT INTO node(node_id) VALUES(1)", "PRAGMA writable_schema = 1", "ATTACH 'x.db' AS x", "SELECT name FROM sqlite_schema WHERE sql GLOB '*a*'",
       "SELECT rank, row_number() OVER (PARTITION BY rank ORDER BY seq) FROM collective", "VALUES(1, x'00ff', NULL, 'a')", "EXPLAIN QUERY PLAN SELECT 1", "SELECT 1; DROP TABLE node",
       "SELECT * FROM collectve", "SELECT load_extension('x')", "CREATE TEMP TABLE t AS SELECT 1", "SELECT group_concat(a.op) FROM collective a, collective b, collective c"]
# In the order of words_target.cpp.
WORDS = [["500ms", "20s", "2m", "1h", "250us"], ["500m", "2g", "64k", "4096"], ["-17", "9223372036854775807"], ["2026-01-31T02:47:00.5Z", "+2s", "2026-01-31 02:47:00"], ["12:3456"],
         ["10.0.0.1:7700", "[fe80::1%eth0]:80"], ["127.0.0.1:7700", "[::1]:7700", ":0", "localhost:1"], ["127.0.0.1 localhost a.b # c\n::1\tip6\n"], ["a\x1b]0;x\x07\u202e\u200b\xff"],
         ["a:7700,gpu[001-128,130]:7700", "rack[1-2]-node[01-16]", "https://[::1]:7700"],
         ["packet_loss:rank=2,percent=2,start=2s", "late_rank:rank=random,ms=80,every=1s,pulse=100ms,duration=5s", "none", "slow_link:rank=1,mbit=5,start=launch"],
         ["late_rank:rank=5,ms=80", "slow_link:rank=1,factor=4,from=3,to=9", "process_stopped:rank=0,ms=0", "packet_loss:rank=2,per_step=0.5"], ["ddp", "tp-pp-dp tp=2,pp=2,dp=2", "fsdp"]]
PROC = ["55a0-55b0 r-xp 00001000 08:01 1234 /usr/lib/libnccl.so.2 (deleted)\n7f00-7f10 r-xp 0 00:05 9 /memfd:x\nffff-fff0 --xp 0 00:00 0 [vdso]\n",
        "29 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n30 29 0:26 /a /mnt/a\\040b rw master:2 - nfs4 host:/x rw\n31 29 0:99 / /c rw - overlay o rw\n",
        "42 (a ) b) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654321 1 2 3\n", "Name:\ta\nState:\tS (sleeping)\nTgid:\t42\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t42\t1\n",
        "RANK=3\0WORLD_SIZE=8\0AWS_SECRET_ACCESS_KEY=x\0=\0", "python\0train.py\0--token=abc\0-p\0pass word\0", "0 0 4294967295\n1000 100000 65536\n", "0::/user.slice/a\n4:cpu,cpuacct:/docker/4711\n",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 total=5\n", "  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n", "0000272d 00000001 00000002 0 0 0 0 0 0 0 0 0 0\n",
        "202 0x7f00 0x80 0x0 0x0 0x0 0x0 0x7ffd 0x7f01\n", "running\n", "   0: 0100007F:1F90 0200007F:C350 01 00000000:00000000 00:00000000 00000000 1000 0 4711 1 0000000000000000\n", "usage_usec 5\nnr_throttled 2\n"]
FRAME = struct.Struct("<QQQQiiHHHH")  # struct st_python_frame, before its memory
MEMORY = (208, 256, 256, 2048)
FRAMES_AT, KEPT = 24 + 8 + 4 + 2 + 2 + 96, 3


def put(folder, name, content):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)


def tracebacks():
    """The recorded ones of capture/testdata, the first frames of each."""
    for path in sorted((ROOT / "src/capture/testdata").glob("python3.*.traceback")):
        record = bytearray(FRAMES_AT + 16 * (FRAME.size + sum(MEMORY)))
        for at, text in re.findall(r"^([0-9a-f]+) ([0-9a-f]+)$", path.read_text().split("\n\n")[0], re.M):
            piece = bytes.fromhex(text)
            record[int(at, 16) * 64:int(at, 16) * 64 + len(piece)] = piece
        minor, = struct.unpack_from("<H", record, 36)
        output = struct.pack(">BHH", minor, KEPT, 10) + b"ValueError"
        for slot in range(KEPT):
            at = FRAMES_AT + slot * (FRAME.size + sum(MEMORY))
            *numbers, code, file, name, table = FRAME.unpack_from(record, at)
            output += struct.pack(">BQQQQii", slot, *numbers)
            at += FRAME.size
            for size, room in zip((code, file, name, table), MEMORY):
                used = min(len(bytes(record[at:at + min(size, room)]).rstrip(b"\0")) + 16, size)
                output += struct.pack(">H", used) + record[at:at + used]
                at += room
        yield path.stem, output


def main():
    root = pathlib.Path(sys.argv[1])
    for number, text in enumerate(CONFIG):
        put(root / "seeds-config", str(number), text.encode())
    for number, text in enumerate(SQL):
        put(root / "seeds-sql", str(number), bytes([number % 2]) + text.encode())
    for number, texts in enumerate(WORDS):
        for text in texts:
            put(root / "seeds-words", f"{number}-{texts.index(text)}", bytes([number]) + text.encode())
    for number, text in enumerate(PROC):
        put(root / "seeds-proc", str(number), text.encode())
    for name, content in tracebacks():
        put(root / "seeds-traceback", name, content)


main()
