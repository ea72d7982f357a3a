#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/kernel_matrix/fetch_kernel.sh NAME: Debian's cloud kernel NAME (5.10 6.1 6.12 newest) into
# build/kernels/ARCH/NAME: `vmlinuz`, `release` (uname -r), `package` (its version) and lib/modules/RELEASE with
# modules.dep. One that is there is kept; remove the folder for a newer one.
set -euo pipefail
. "$(dirname "$0")/settings.sh"

name=${1:?kernel name}
folder=$kernels/$name
[[ ! -s $folder/release ]] || exit 0
fail() {
  echo "kernel_matrix: kernel $name ($arch) was not fetched: $*" >&2
  exit 1
}
suite=$(suite_of "$name") || fail "unknown name; known are ${all_kernels[*]}"

# The archive that this machine's own packages come from: the one that has its release.
. /etc/os-release
release_file=/dists/$VERSION_CODENAME/InRelease
archive=$(apt-get --print-uris update 2>/dev/null | sed -n "s|^'\(.*\)$release_file' .*|\1|p" | head -n 1)
[[ -n $archive ]] || fail "apt's sources have no archive with the release $VERSION_CODENAME"

# apt with lists, cache and sources of its own: the machine's are not touched.
mkdir -p "$kernels"
apt=$(mktemp -d "$kernels/fetch-XXXXXX")
trap 'rm -rf "$apt"' EXIT
mkdir -p "$apt"/{lists,archives}/partial "$apt"/{packages,tree}
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
step() { "$@" >"$apt/log" 2>&1 || fail "'$*': $(grep -E '^(E|Err)' "$apt/log" | tail -n 1 || tail -n 1 "$apt/log")"; }

step apt-get -q update
image=$(apt-cache pkgnames linux-image- | grep -E -- "^linux-image-[0-9].*-cloud-$arch\$" | sort -V | tail -n 1) ||
  fail "$suite has no linux-image-*-cloud-$arch"
release=${image#linux-image-}
# Newer suites keep the kernel and its modules in packages of their own.
packages=("$image")
for part in "linux-binary-$release" "linux-modules-$release"; do
  [[ -z $(apt-cache pkgnames "$part") ]] || packages+=("$part")
done
echo "fetching kernel $release ($arch, $suite)" >&2
cd "$apt/packages"
step apt-get -q download "${packages[@]}"
for package in *.deb; do
  step dpkg-deb -x "$package" "$apt/tree"
done

cd "$apt/tree"
for image_file in boot/vmlinuz-"$release" {usr/,}lib/modules/"$release"/vmlinuz; do
  [[ ! -s $image_file ]] || break
done
[[ -s $image_file ]] || fail "no vmlinuz in ${packages[*]}"
made=$apt/made
mkdir -p "$made/lib/modules"
mv "$image_file" "$made/vmlinuz"
for modules in {usr/,}lib/modules/"$release"; do
  [[ ! -d $modules/kernel ]] || mv "$modules" "$made/lib/modules/"
done
step depmod -b "$made" "$release"
dpkg-deb -f "$apt/packages/$image"_*.deb Version >"$made/package"
echo "$release" >"$made/release"
rm -rf "$folder"
mv "$made" "$folder"
