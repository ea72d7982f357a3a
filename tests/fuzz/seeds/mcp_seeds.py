#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mcp_seeds.py FOLDER: seeds of the fuzz target mcp: each method in both eras, over pipes and HTTP, each tool with its arguments, and what
is refused."""

import json
import pathlib
import sys

META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}}
RANGE = {"from": "+1s", "to": "2026-01-31T02:47:02.5Z"}
PAGE = {"limit": 2, "offset": 1}
TOOLS = [
    ("health", PAGE), ("findings", {"cause": "late_rank", "rank": 1, **RANGE, **PAGE}), ("finding", {"id": "late_rank-0", **RANGE}),
    ("why", {"event": "5:101"}), ("why", {"event": "node5:101"}),
    ("slowest", {"by": "transfer", "op": "ALL_REDUCE", "communicator": "0x0000000000005eed", "last_rank": 1, **RANGE, **PAGE}),
    ("who_waits", {"time": "+1500ms", "window_ms": 100, **PAGE}), ("ranks", {"rank": 1, **RANGE, **PAGE}), ("links", {"rank": 1, **RANGE}),
    ("stacks", {"time": "+1s", "margin_s": 2, "rank": 1, "frames": 3, **PAGE}),
    ("compare", {"a": {**RANGE, "recording": "r.db"}, "b": {}, **PAGE}),
    ("sql", {"sql": "SELECT rank, count(*) FROM collective GROUP BY 1", "recording": "r.db", "limit": 5, "timeout_s": 1})]
METHODS = [("ping", {}), ("server/discover", {}), ("tools/list", {}), ("resources/list", {}), ("resources/templates/list", {}),
           ("prompts/list", {"cursor": "x"}), ("resources/read", {"uri": "stalltrace://causes/late_rank"}),
           ("resources/read", {"uri": "stalltrace://runbook"}), ("prompts/get", {"name": "hang", "arguments": {"since": "+1s"}}),
           ("initialize", {"protocolVersion": "2025-06-18"})]
LINES = ['{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}', '{"jsonrpc":"2.0","id":"a","result":{}}',
         '[{"jsonrpc":"2.0","id":1,"method":"ping"},5]', "{", "[[[[", '"\\ud800"', '{"jsonrpc":"2.0","id":1.5,"method":"x"}']


def request(method, params, number=1):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def main():
    folder = pathlib.Path(sys.argv[1])
    calls = METHODS + [("tools/call", {"name": name, "arguments": arguments}) for name, arguments in TOOLS]
    seeds = [b"\0" + request(method, {**params, **META}).encode() for method, params in calls]
    seeds += [b"\3" + request(method, params).encode() for method, params in calls]
    seeds += [bytes([session]) + line.encode() for line in LINES for session in range(4)]
    seeds.append(b"\3" + "\n".join(request(method, params, number) for number, (method, params) in enumerate(calls)).encode())
    names = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
    json_type = "application/json"
    for method, params in calls:  # over HTTP, by the headers that the target has
        name = params.get(names.get(method, ""), "")
        for headers in ([json_type, json_type, method, name, "2026-07-28"], ["*/*", json_type, "", "", "2025-11-25"]):
            meta = META if headers[4] == "2026-07-28" else {}
            seeds.append(b"\x80" + "\n".join([*headers, request(method, {**params, **meta})]).encode())
    for headers in (["text/html", json_type, "", "", ""], ["", "text/plain", "", "", ""], ["", json_type, "", "=?base64?aA==?=", "1"]):
        seeds += [b"\x80" + "\n".join([*headers, line]).encode() for line in LINES]
    for number, seed in enumerate(seeds):
        (folder / f"seed{number:03}").write_bytes(seed)


if __name__ == "__main__":
    main()
