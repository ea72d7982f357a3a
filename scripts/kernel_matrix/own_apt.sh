# shellcheck shell=bash disable=SC2154
# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that download packages of other releases or architectures; they have sourced
# settings.sh and define fail(). From own_apt on, apt has lists, cache and sources of its
# own: the machine's are not touched.

step() { "$@" >"$apt/log" 2>&1 || fail "'$*': $(grep -E '^(E|Err)' "$apt/log" | tail -n 1 || tail -n 1 "$apt/log")"; }

# own_apt FOLDER SUITE: its files go to FOLDER, as if nothing were installed.
own_apt() {
  local archive release_file apt=$1 suite=$2
  # The archive of this machine's own packages, which has its release.
  . /etc/os-release
  release_file=/dists/$VERSION_CODENAME/InRelease
  archive=$(apt-get --print-uris update 2>/dev/null | sed -n "s|^'\(.*\)$release_file' .*|\1|p" | head -n 1)
  [[ -n $archive ]] || fail "apt's sources have no archive with the release $VERSION_CODENAME"
  mkdir -p "$apt"/{lists,archives}/partial
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $suite main" >"$apt/sources.list"
  : >"$apt/status"
  cat >"$apt/apt.conf" <<END
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Sandbox::User "root";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::Etc::preferencesparts "-";
END
  export APT_CONFIG=$apt/apt.conf
  step apt-get -q --error-on=any update
}
