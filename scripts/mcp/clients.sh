#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/mcp/clients.sh [PROGRAM [RECORDING ...]]: the official MCP clients against `stalltrace mcp` and, over HTTP, `stalltrace serve`,
# by hand: it needs node and the npm registry. The TypeScript SDK 1.x (the handshake), the client 2.x (automatic, pinned to 2026-07-28, and the handshake) and the
# inspector's command line list everything, call every tool, read every resource and get every prompt. The packages go into a
# temporary folder; their scripts don't run. Without recordings, a small one is made. docs/evidence/ keeps the output.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-build/stalltrace}")
shift || true
folder=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server"; rm -rf "$folder"' EXIT
recordings=("$@")
if ((${#recordings[@]} == 0)); then
  build/tests/make_recording "$folder/small.db" 200 150
  recordings=("$folder/small.db")
fi
mapfile -t recordings < <(realpath "${recordings[@]}")
cp scripts/mcp/clients.mjs "$folder/"
cd "$folder"
npm init -y >/dev/null 2>&1
npm install --ignore-scripts --no-audit --no-fund --silent \
  @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/inspector@0.15.0
echo "$("$program" version | head -1), node $(node --version), ${#recordings[@]} recordings"
node clients.mjs "$program" "${recordings[@]}"
"$program" serve "${recordings[@]}" --listen 127.0.0.1:0 2>"$folder/serving" &
server=$!
until url=$(grep -o 'http://[^ ]*' "$folder/serving"); do sleep 0.1; done
inspect() {
  answer_of stdio "$program" mcp "${recordings[@]}" "$@"
  answer_of HTTP "$url/mcp" --transport http "$@"
}
answer_of() {
  local answer transport=$1
  shift
  answer=$(node_modules/.bin/mcp-inspector --cli "$@")
  while [[ $1 != --method ]]; do shift; done
  node -e 'const answer = JSON.parse(require("fs").readFileSync(0, "utf8"));
    if (answer.isError) { console.error(answer); process.exit(1); }
    console.log("inspector 0.15.0,", process.argv.slice(1).join(" "), ":", Object.keys(answer).join(", "));' -- "$transport," "$@" <<<"$answer"
}
inspect --method tools/list
inspect --method resources/list
inspect --method prompts/list
for tool in health findings slowest who_waits ranks links stacks; do
  inspect --method tools/call --tool-name "$tool"
done
inspect --method tools/call --tool-name sql --tool-arg "sql=SELECT count(*) FROM collective"
inspect --method resources/read --uri stalltrace://runbook
inspect --method prompts/get --prompt-name hang
echo "all passed"
