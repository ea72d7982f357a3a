#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Installs what scripts/packages.txt lists and this host lacks. Needs root only when something is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

missing=()
while read -r name _; do
  [[ -z $name || $name == \#* ]] && continue
  [[ $(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null) == installed ]] || missing+=("$name")
done <"$here/packages.txt"
if ((${#missing[@]} == 0)); then
  exit 0
fi
if ((EUID != 0)); then
  echo "install_packages: missing: ${missing[*]}; run this as root" >&2
  exit 1
fi

export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { apt-get install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1; }

echo "installing ${#missing[@]} packages: ${missing[*]}" >&2
# The package lists of a fresh host are empty, those of an old one stale: both show as a failed install.
if ! install; then
  apt-get update -q >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    echo "install_packages: apt-get update failed; check the network and /etc/apt/sources.list" >&2
    exit 1
  }
  install || {
    tail -n 5 "$log" >&2
    echo "install_packages: apt-get install failed; see the lines above" >&2
    exit 1
  }
fi
