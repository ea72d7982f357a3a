#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# From a bare Debian 12 to a finding: installs, builds, runs a four-rank job that loses 2 % of the packets into one
# node, and explains it. Leaves build/stalltrace, build/demo/stall.db and build/demo/findings.json. Needs root.
set -euo pipefail
cd "$(dirname "$0")"

if ((EUID != 0)); then
  echo "demo: needs root, for network namespaces and eBPF" >&2
  exit 1
fi

say() { printf '\n== %s\n' "$*"; }

say "Installing packages"
scripts/install_packages.sh
say "Building (a few minutes)"
scripts/build.sh default stalltrace

out=build/demo
rm -rf "$out"
mkdir -p build
say "Running 4 ranks of a training loop; 2 % of the packets into rank 2's node are lost"
build/stalltrace lab run --ranks 4 --workload nccl --steps 200 --fault packet_loss:rank=2,percent=2 --out "$out" \
  >"build/demo.log" || {
  echo "demo: the lab run failed; see build/demo.log" >&2
  exit 1
}
build/stalltrace merge "$out"/node*.db --out "$out/stall.db"
build/stalltrace explain "$out/stall.db" --json >"$out/findings.json"

slowest=$(cat docs/queries/slowest.sql)
retransmits=$(cat docs/queries/retransmits.sql)
say "Slow AllReduces and the retransmits in their windows: stalltrace query $out/stall.db \"\$(cat docs/queries/retransmits.sql)\""
build/stalltrace query "$out/stall.db" "$retransmits"
say "The same in any SQLite shell: sqlite3 $out/stall.db"
sqlite3 -header -column "$out/stall.db" "$retransmits"
say "The longest calls: stalltrace query $out/stall.db \"\$(cat docs/queries/slowest.sql)\""
build/stalltrace query "$out/stall.db" "$slowest"

say "Left behind: build/stalltrace, $out/stall.db (all nodes), $out/findings.json, $out/truth.json (what was injected)"

say "stalltrace explain $out/stall.db"
build/stalltrace explain "$out/stall.db"
grep -q '"cause": "packet_loss"' "$out/findings.json" || {
  echo "demo: the injected packet loss was not found" >&2
  exit 1
}
