#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/install_packages.sh [PRESET]: installs what scripts/packages.txt lists and this host lacks, and what
# scripts/packages_PRESET.txt lists beyond that. Needs root only when something is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lists=("$here/packages.txt")
if (($#)); then
  lists+=("$here/packages_$1.txt")
  [[ -r ${lists[1]} ]] || {
    echo "install_packages: there is no list scripts/packages_$1.txt" >&2
    exit 1
  }
fi

# installed NAME[:ARCHITECTURE]: default is the host's. One package may be installed for several architectures.
native=$(dpkg --print-architecture)
installed() {
  local architecture=$native
  [[ $1 != *:* ]] || architecture=${1#*:}
  dpkg-query -W -f '${Architecture} ${db:Status-Status}\n' "$1" 2>/dev/null | grep -qxE "(all|$architecture) installed"
}

missing=()
foreign=()
while read -r name _; do
  [[ -z $name || $name == \#* ]] && continue
  installed "$name" || missing+=("$name")
  [[ $name != *:* || ${name#*:} == "$native" ]] || foreign+=("${name#*:}")
done < <(cat "${lists[@]}")
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
for architecture in $(printf '%s\n' "${foreign[@]}" | sort -u); do
  dpkg --add-architecture "$architecture"
done
install() { apt-get install -y -q --no-install-recommends "${missing[@]}" >"$log" 2>&1; }

echo "installing ${#missing[@]} packages: ${missing[*]}" >&2
# A fresh host's package lists are empty, an old one's outdated: both show as a failed install.
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
