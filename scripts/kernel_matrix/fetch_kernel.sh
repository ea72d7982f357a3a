#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/kernel_matrix/fetch_kernel.sh NAME: Debian's kernel NAME (5.10 6.1 6.12 newest newest-16k) into
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

. "$here/own_apt.sh"
mkdir -p "$kernels"
apt=$(mktemp -d "$kernels/fetch-XXXXXX")
trap 'rm -rf "$apt"' EXIT
mkdir "$apt"/{packages,tree}
own_apt "$apt" "$suite"
flavour=$(flavour_of "$name")
image=$(apt-cache pkgnames linux-image- | grep -E -- "^linux-image-[0-9][^-]*(-[0-9]+)?-$flavour\$" | sort -V | tail -n 1) ||
  fail "$suite has no linux-image-*-$flavour"
release=${image#linux-image-}
# Newer suites have the kernel and its modules in separate packages.
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
