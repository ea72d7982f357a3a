#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/kernel_matrix/make_sysroot.sh: for an architecture that is not this machine's, the guest's tools and libraries
# of this machine's release, unpacked into build/kernels/ARCH/sysroot. One that is there is kept.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
fail() {
  echo "kernel_matrix: the tools for $arch were not fetched: $*" >&2
  exit 1
}
. "$here/own_apt.sh"

[[ -n $sysroot && ! -d $sysroot ]] || exit 0
mkdir -p "$kernels"
apt=$(mktemp -d "$kernels/fetch-XXXXXX")
trap 'rm -rf "$apt"' EXIT
. /etc/os-release
own_apt "$apt" "$VERSION_CODENAME"
echo "fetching the guest's tools ($arch, $VERSION_CODENAME)" >&2
step apt-get -q -y -d -o Debug::NoLocking=1 --no-install-recommends install "${tool_packages[@]}"
mkdir "$apt/sysroot"
for package in "$apt"/archives/*.deb; do
  step dpkg-deb -x "$package" "$apt/sysroot"
done
for folder in bin sbin lib; do # as an installed system has it: /bin is /usr/bin
  cp -a "$apt/sysroot/$folder/." "$apt/sysroot/usr/$folder"
  rm -r "${apt:?}/sysroot/$folder"
  ln -s "usr/$folder" "$apt/sysroot/$folder"
done
mv "$apt/sysroot" "$sysroot"
