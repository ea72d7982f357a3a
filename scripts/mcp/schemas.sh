#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/mcp/schemas.sh SCHEMAS [PROGRAM [RECORDING ...]]: every message of `stalltrace mcp` and of /mcp of `stalltrace serve` against the
# published schemas of MCP, by hand: it needs node and the npm registry. SCHEMAS is the folder schema/ of the specification's repository
# (modelcontextprotocol/modelcontextprotocol), or one with its 2025-11-25/schema.json and 2026-07-28/schema.json; neither is part of this
# repository. In both versions, over pipes, over HTTP and over copies of nodes: each method, each tool with right and wrong arguments, each
# resource and prompt, methods that it lacks, malformed messages. Each message has to be valid for the definition of what was asked, each
# tool's schemas have to be JSON Schema 2020-12, and each answer of a tool valid for its outputSchema. Prints a line for each message, the
# members that no schema knows, and totals; then breaks a message of each kind on purpose, which has to be refused. Exit code 1: something
# does not match. The recordings need a finding; without any, those of a small simulated job are made. docs/evidence/ keeps a result.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
schemas=$(realpath "${1:?"usage: scripts/mcp/schemas.sh SCHEMAS [PROGRAM [RECORDING ...]]"}")
program=$(realpath "${2:-"$here/../../build/stalltrace"}")
shift $(($# > 1 ? 2 : 1))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
recordings=("$@")
if ((${#recordings[@]} == 0)); then
  "$program" lab simulate --nodes 2 --ranks-per-node 2 --steps 60 --plugin --fault late_rank:rank=1,ms=80,from=20 --out "$folder/job" \
    2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
  recordings=("$folder"/job/node*.db)
fi
mapfile -t recordings < <(realpath "${recordings[@]}")
cp "$here"/schemas/*.mjs "$folder/"
cd "$folder"
npm init -y >/dev/null 2>&1
npm install --ignore-scripts --no-audit --no-fund --silent ajv@8.17.1 ajv-formats@3.0.1
echo "$("$program" version | head -1), node $(node --version), ajv 8.17.1, ${#recordings[@]} recordings"
node main.mjs "$schemas" "$program" "${recordings[@]}"
