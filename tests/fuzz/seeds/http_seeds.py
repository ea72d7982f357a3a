#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""http_seeds.py FOLDER: seeds of the fuzz target http: targets of requests, rows of answers, lists of nodes, hosts files."""

import pathlib
import sys

HEAD = '{"recording":"a.db","nodes":["node0"],"columns":["a","b"]}\n'
END = '{"end":true,"rows":%d,"truncated":false}\n'
SEEDS = {
    0: ["/v1/query?recording=a%20b.db&limit=10&timeout_ms=5", "/v1/node", "/%2e%2e/etc?x", "/a%00", "/?=&=&a", "nothing"],
    1: [HEAD + "[1,2.5]\n" + END % 1, HEAD + '["\\u202e",null]\n' + HEAD + "[-1,1e300]\n" + END % 2,
        HEAD + '[{"blob":"00ff"},{"real":"-inf"}]\n' + END % 1, HEAD + "[9223372036854775807,-0.0]\n" + END % 1, HEAD, END % 0, "[1]\n"],
    2: ["a:7700,b:7700", "gpu[001-128,130]:7700", "r[1-2]n[01-03].x", "https://[::1]:5,10.0.0.1", "slurm", "a[1-", "a:0"],
    3: ["127.0.0.1 localhost\n::1 Gpu1 gpu1 # x\n", "# 10.0.0.9 gone\nnonsense\n"],
}


def main():
    folder = pathlib.Path(sys.argv[1])
    for kind, texts in SEEDS.items():
        for number, text in enumerate(texts):
            (folder / f"seed{kind}{number:02}").write_bytes(bytes([kind]) + text.encode())


if __name__ == "__main__":
    main()
