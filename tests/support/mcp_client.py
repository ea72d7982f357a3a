# SPDX-License-Identifier: Apache-2.0
"""An MCP client over the program's standard input and output, and a check of values against JSON Schemas."""

import json
import select
import subprocess

from stalltrace import PROGRAM

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}


class McpClient:
    """`stalltrace mcp FILE...`, with the methods of a client of 2026-07-28. `prefix`: a command that starts it."""

    def __init__(self, *files, prefix=()):
        self.process = subprocess.Popen([*prefix, PROGRAM, "mcp", *map(str, files)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        self.last_id = 0

    def write(self, line):
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self, timeout=30):
        """The next line as JSON."""
        if not select.select([self.process.stdout], [], [], timeout)[0]:
            raise TimeoutError("no answer")
        return json.loads(self.process.stdout.readline())

    def send(self, method, params=None, meta=META):
        self.last_id += 1
        params = {**(params or {}), **({"_meta": meta} if meta else {})}
        self.write(json.dumps({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}).encode())
        return self.last_id

    def ask(self, method, params=None, meta=META):
        """The result of a request that succeeds."""
        number = self.send(method, params, meta)
        answer = self.read()
        if answer.get("id") != number or "result" not in answer:
            raise AssertionError(f"{method}: {answer}")
        return answer["result"]

    def call(self, tool, **arguments):
        """The result of a tool, whether it failed or not."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def end(self):
        """Closes standard input; the exit code and what was written to stderr."""
        self.process.stdin.close()
        code = self.process.wait(20)
        return code, self.process.stderr.read().decode()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if not stream.closed:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


def problems(value, schema, path=""):
    """What in `value` does not match the schema, or has none: one line each."""
    kind = schema.get("type")
    if kind and (not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        return [f"{path}: {value!r} is no {kind}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is none of {schema['enum']}")
    if isinstance(value, dict) and "properties" in schema:
        found += [f"{path}: no {name}" for name in schema.get("required", []) if name not in value]
        for name, member in value.items():
            known = schema["properties"].get(name)
            found += problems(member, known, f"{path}.{name}") if known is not None else [f"{path}: {name} is in no schema"]
    if isinstance(value, list):
        for number, item in enumerate(value):
            found += problems(item, schema.get("items", {}), f"{path}[{number}]")
    return found
