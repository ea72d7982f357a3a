# SPDX-License-Identifier: Apache-2.0
"""`stalltrace mcp` over pipes and HTTP: a whole conversation, its ends, its rights, and its page in docs/."""

import http.client
import json
import re
import signal
import sqlite3
import time

import recordings
from confinement_test import STATUS, status_of
from mcp_client import META, McpClient, problems
from servers import Served, SimulatedNodes
from stalltrace import BUILD, DONE, FAILED, ROOT, USAGE, Case, run

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
PAGE = (ROOT / "docs" / "mcp.md").read_text()


class Mcp(Case):
    def setUp(self):
        super().setUp()
        self.recording = recordings.make(self.folder / "a.db", 200, 150)

    def client(self, *files):
        client = McpClient(*(files or [self.recording]))
        self.addCleanup(client.close)
        return client

    def test_every_answer_matches_its_schema_and_leads_on(self):
        client = self.client()
        tools = {tool["name"]: tool for tool in client.ask("tools/list")["tools"]}
        asked, open_hints = set(), [{"tool": "health", "arguments": {}}]
        extra = [{"tool": tool, "arguments": {}} for tool in ("ranks", "links", "stacks", "who_waits")]
        extra += [{"tool": "compare", "arguments": {"a": {"to": "+1s"}, "b": {"from": "+1s"}}},
                  {"tool": "sql", "arguments": {"sql": "SELECT * FROM collective LIMIT 3"}}]
        while open_hints or extra:
            hint = open_hints.pop(0) if open_hints else extra.pop(0)
            key = json.dumps([hint["tool"], hint["arguments"]])
            if key in asked:
                continue
            asked.add(key)
            with self.subTest(call=key):
                result = client.call(hint["tool"], **hint["arguments"])
                self.assertFalse(result["isError"], result["content"])
                data = result["structuredContent"]
                self.assertEqual(problems(data, tools[hint["tool"]]["outputSchema"]), [])
                self.assertEqual(json.loads(result["content"][1]["text"]), data)
                open_hints += data.get("next", [])
        self.assertEqual({json.loads(key)[0] for key in asked}, set(tools))
        self.assertEqual(client.end(), (DONE, ""))

    def test_a_handshake_opens_a_session(self):
        client = self.client()
        opened = client.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                           "clientInfo": {"name": "test", "version": "1"}}, meta=None)
        self.assertEqual(opened["protocolVersion"], "2025-06-18")
        client.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.assertNotIn("resultType", client.ask("tools/list", meta=None))
        self.assertEqual(client.end(), (DONE, ""))

    def test_garbage_is_answered_and_nothing_else_is_on_stdout(self):
        client = self.client()
        for line, code in [(b"{", -32700), (b"\xff\xfe", -32700), (b"[" * 100_000, -32700), (b"x" * 3_000_000, -32600),
                           (b"[]", -32600), (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600), (b"\0", -32700)]:
            client.write(line)
            self.assertEqual(client.read()["error"]["code"], code, line[:20])
        self.assertEqual(client.ask("ping", meta=None), {})
        self.assertEqual(client.end(), (DONE, ""))

    def test_a_request_that_waits_is_cancelled(self):
        client = self.client()
        slow = client.send("tools/call", {"name": "sql", "arguments": {"sql": ENDLESS, "timeout_s": 1}})
        waiting = client.send("tools/call", {"name": "health"})
        client.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                 "params": {"requestId": waiting}}).encode())
        last = client.send("tools/list")
        first = client.read()
        self.assertEqual((first["id"], first["result"]["isError"]), (slow, True))
        self.assertEqual(client.read()["id"], last)

    def test_signals_end_it_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number.name):
                client = self.client()
                client.ask("tools/list")
                client.send("tools/call", {"name": "sql", "arguments": {"sql": ENDLESS, "timeout_s": 60}})
                time.sleep(0.1)
                client.process.send_signal(number)
                self.assertEqual(client.process.wait(5), DONE)

    def test_it_ends_when_its_output_is_not_read(self):
        client = self.client()
        client.ask("tools/list")
        client.process.stdout.close()
        client.send("tools/list")
        self.assertEqual(client.process.wait(10), DONE)

    def test_files_that_are_no_recordings_are_refused_before_any_message(self):
        for what, path, word in recordings.damaged(self.folder):
            with self.subTest(what=what):
                self.refused(run("mcp", path), FAILED, word)
        self.refused(run("mcp"), USAGE)

    def test_it_has_no_more_rights_than_it_needs(self):
        if "STALLTRACE_SANITIZE:STRING=\n" not in (BUILD / "CMakeCache.txt").read_text():
            self.skipTest("sanitizers need what is given up")
        client = self.client()
        client.ask("tools/list")
        self.assertEqual(status_of(client.process.pid), STATUS)

    def test_a_file_that_is_replaced_is_read_anew(self):
        client = self.client()
        self.assertEqual(client.call("health")["structuredContent"]["collectives"], 400)
        recordings.make(self.folder / "b.db", 50)
        (self.folder / "b.db").replace(self.recording)
        self.assertEqual(client.call("health")["structuredContent"]["collectives"], 100)
        self.recording.unlink()
        gone = client.call("findings")
        self.assertTrue(gone["isError"])
        self.assert_says("no such file", gone["content"][0]["text"])

    def test_over_http_it_answers_as_over_pipes(self):
        """In both eras. Who may not ask at other paths may not here."""
        token = self.folder / "token"
        token.write_text("0123456789abcdef\n")
        token.chmod(0o600)
        served = Served(self.recording, "--listen", "127.0.0.1:0", "--token-file", token)
        self.addCleanup(served.close)
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
        self.addCleanup(connection.close)
        usual = {"Authorization": "Bearer 0123456789abcdef", "Content-Type": "application/json",
                 "Accept": "application/json, text/event-stream"}

        def post(method, params, **headers):
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
            connection.request("POST", "/mcp", body, {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or "{}")

        client = self.client()
        modern = {"MCP_Protocol_Version": "2026-07-28"}
        for tool in ("health", "findings", "ranks"):
            there = client.call(tool)
            params = {"name": tool, "arguments": {}}
            status, here = post("tools/call", {**params, "_meta": META}, Mcp_Method="tools/call", Mcp_Name=tool, **modern)
            self.assertEqual((status, here["result"]), (200, there))
            status, here = post("tools/call", params, MCP_Protocol_Version="2025-11-25")
            self.assertEqual((status, here["result"]["structuredContent"]), (200, there["structuredContent"]))
        status, opened = post("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}})
        self.assertEqual((status, opened["result"]["protocolVersion"]), (200, "2025-11-25"))
        self.assertEqual(post("tools/list", {"_meta": META}, Mcp_Method="tools/call", **modern)[0], 400)
        for method, headers, expected in [("GET", {}, 405), ("DELETE", {}, 405), ("POST", {"Origin": f"http://127.0.0.1:{served.port}"}, 403),
                                          ("POST", {"Authorization": "Bearer 0"}, 401), ("POST", {"Content-Type": "text/plain"}, 415)]:
            other = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
            other.request(method, "/mcp", "{}", {**usual, **headers})
            self.assertEqual(other.getresponse().status, expected, (method, headers))
            other.close()

    def test_the_page_has_every_tool_resource_and_prompt(self):
        client = self.client()
        for kind, key in (("tools", "name"), ("resources", "uri"), ("prompts", "name")):
            offered = {one[key] for one in client.ask(f"{kind}/list")[kind]}
            section = re.search(rf"^## {kind.capitalize()}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
            self.assertIsNotNone(section, kind)
            self.assertEqual(set(re.findall(r"^\| `([^`]+)`", section[1], re.MULTILINE)), offered)


class McpOfNodes(Case):
    """Two of three nodes answer; the other, of rank 1, is down."""

    DOWN = 1

    def setUp(self):
        super().setUp()
        self.nodes = SimulatedNodes(self.folder / "job", "--nodes", 3, "--ranks-per-node", 1, "--steps", 30, "--plugin", "--fault",
                                    "late_rank:rank=2,ms=80,from=10", faults={self.DOWN: "down"})
        self.addCleanup(self.nodes.close)
        self.temporary = self.folder / "temporary"
        self.temporary.mkdir()

    def client(self, *words):
        client = McpClient(*words, prefix=("env", f"TMPDIR={self.temporary}"))
        self.addCleanup(client.close)
        return client

    def ask(self, client, tool, **arguments):
        result = client.call(tool, **arguments)
        self.assertFalse(result["isError"], result["content"])
        return result["structuredContent"]

    def missing(self, data):
        """The nodes that an answer names as missing, each with its reason."""
        gathered = data["gathered"]
        self.assertEqual(gathered["nodes_missing"], sum(alike["nodes_total"] for alike in gathered["missing"]))
        return {node: alike["problem"]["report_text"] for alike in gathered["missing"] for node in alike["nodes"].split(", ")}

    def test_every_answer_names_the_node_that_is_missing(self):
        down = self.nodes.addresses[self.DOWN]
        client = self.client("--nodes", self.nodes.list)
        tools = {tool["name"]: tool for tool in client.ask("tools/list")["tools"]}
        self.assertEqual(list(self.temporary.glob("*/*")), [])  # nothing is asked before a tool is called
        calls = {"health": {}, "findings": {}, "ranks": {}, "slowest": {}, "sql": {"sql": "SELECT name FROM node"}}
        answers = {}
        for tool, arguments in calls.items():
            with self.subTest(tool=tool):
                data = answers[tool] = self.ask(client, tool, **arguments)
                self.assertEqual(problems(data, tools[tool]["outputSchema"]), [])
                self.assertIn("gather_again", tools[tool]["inputSchema"]["properties"])
                self.assertEqual(data["gathered"]["nodes_asked"], 3)
                (node, problem), = self.missing(data).items()
                self.assertEqual(node, down)
                self.assertIn("refused", problem)
        self.assertEqual(len({data["gathered"]["utc"] for data in answers.values()}), 1)  # they were asked once
        ages = [data["gathered"]["age_s"] for data in answers.values()]
        self.assertEqual(ages, sorted(ages))
        self.assertTrue(any(down in note["report_text"] for note in answers["health"]["notes"]), answers["health"]["notes"])
        self.assertEqual([row[1] for row in answers["sql"]["recorded_rows"]], ["node0", "node2"])
        here = self.ask(self.client(self.nodes.file(0), self.nodes.file(2)), "findings")
        self.assertNotIn("gathered", here)
        self.assertEqual(answers["findings"]["findings"], here["findings"])
        self.assertEqual((here["findings"][0]["cause"], here["findings"][0]["culprit"]["rank"]), ("late_rank", 2))
        unknown = client.call("finding", id="packet_loss-00000000")
        self.assertTrue(unknown["isError"])
        self.assert_says("a node is missing from the answers", unknown["content"][0]["text"])
        if "STALLTRACE_SANITIZE:STRING=\n" in (BUILD / "CMakeCache.txt").read_text():
            self.assertEqual(status_of(client.process.pid), STATUS)
        self.assertEqual(client.end(), (DONE, ""))
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_the_nodes_are_asked_again_when_a_tool_is_asked_to(self):
        client = self.client("--nodes", self.nodes.list)
        first = self.ask(client, "health")
        self.assertEqual([one["recording"] for one in first["recordings"]],
                         [f"{address.replace(':', '_')}.db" for address in (self.nodes.addresses[0], self.nodes.addresses[2])])
        with sqlite3.connect(self.nodes.file(2)) as database:
            version, = database.execute("PRAGMA user_version").fetchone()
            database.execute("PRAGMA user_version = 99999")
        database.close()
        self.assertEqual(self.ask(client, "health")["gathered"]["utc"], first["gathered"]["utc"])
        again = self.ask(client, "health", gather_again=True)
        self.assertEqual(set(self.missing(again)), {self.nodes.addresses[1], self.nodes.addresses[2]})
        self.assertEqual(len(again["recordings"]), 1)
        self.assertGreater(again["gathered"]["utc"], first["gathered"]["utc"])
        with sqlite3.connect(self.nodes.file(2)) as database:
            database.execute(f"PRAGMA user_version = {version}")
        database.close()
        self.assertEqual(set(self.missing(self.ask(client, "findings", gather_again=True))), {self.nodes.addresses[self.DOWN]})
        end = time.monotonic() + 10
        while len(copies := list(self.temporary.glob("*/*/*.db"))) != 2 and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(len(copies), 2, copies)  # the earlier ones were removed, once the new ones were taken
        self.nodes.close()
        none = client.call("health", gather_again=True)
        self.assertTrue(none["isError"])
        for address in self.nodes.addresses:
            self.assertIn(address, none["content"][0]["text"])
        self.assertEqual(set(self.missing(self.ask(client, "health"))), {self.nodes.addresses[self.DOWN]})  # of the last copies
        self.assertEqual(client.call("health", gather_again="yes")["isError"], True)

    def test_files_beside_nodes_and_all_nodes_required(self):
        own = self.folder / "own.db"
        own.write_bytes(self.nodes.file(self.DOWN).read_bytes())
        health = self.ask(self.client(own, "--nodes", self.nodes.list), "health")
        self.assertEqual([health["recordings_total"], health["ranks"], health["recordings"][0]["recording"]], [3, 3, "own.db"])
        strict = self.client("--nodes", self.nodes.list, "--require-all")
        refused = strict.call("health")
        self.assertTrue(refused["isError"])
        self.assertIn(self.nodes.addresses[self.DOWN], refused["content"][0]["text"])
        self.assertNotIn(self.nodes.addresses[0], refused["content"][0]["text"])
        self.refused(run("mcp", "--nodes", "gpu[2-1]"), USAGE)

    def test_a_signal_leaves_no_copies(self):
        client = self.client("--nodes", self.nodes.list)
        self.ask(client, "health")
        self.assertEqual(len(list(self.temporary.iterdir())), 1)
        client.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.process.wait(5), DONE)
        end = time.monotonic() + 10
        while list(self.temporary.iterdir()) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(list(self.temporary.iterdir()), [])
