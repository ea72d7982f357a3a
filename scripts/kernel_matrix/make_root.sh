#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/kernel_matrix/make_root.sh: the guest's root file system except its kernel modules, as
# build/kernel-matrix/ARCH/root.cpio.gz: busybox, iproute2, nftables, this build's programs, and the libraries that all
# of them need. It is made again when one of them is newer.
set -euo pipefail
. "$(dirname "$0")/settings.sh"

# dash, since busybox's shell prefers its own ip and tc to these.
tools=(usr/bin/dash usr/bin/ip usr/sbin/tc usr/sbin/nft usr/bin/unshare)
built=(stalltrace libnccl-profiler-stalltrace.so tests/bpf/test_capture_root
  tests/bpf/programs/{standin_job,standin_progress,libstandin_nccl.so,libstandin_inside.so})
read -ra asked_for <<<"${MATRIX_PROGRAMS:-}"
built+=("${asked_for[@]}")
# The lab's programs are embedded in stalltrace: the root only needs their libraries.
carried=(lab/cluster/artefacts/{nccl-train,stress-cpu,libnccl.so.2,libcudart.so.12})

[[ -x $programs/stalltrace ]] || {
  echo "kernel_matrix: $programs/stalltrace is not built; run scripts/build.sh" >&2
  exit 1
}
present=()
absent=()
for file in "${built[@]}" "${carried[@]}"; do
  if [[ -e $programs/$file ]]; then
    present+=("$programs/$file")
  else
    absent+=("$file")
  fi
done
((${#absent[@]} == 0)) || echo "kernel_matrix: the guest lacks what is not built in $programs: ${absent[*]}" >&2

image=$work/root.cpio.gz
up_to_date() {
  local file
  [[ -s $image && $(cat "$work/root.inputs" 2>/dev/null) == "${present[*]}" ]] || return 1
  for file in "${present[@]}" "$here"/make_root.sh "$here"/settings.sh "$here"/guest/{,steps/}*; do
    [[ ! $file -nt $image ]] || return 1
  done
}
! up_to_date || exit 0

mkdir -p "$work"
tree=$(mktemp -d "$work/root-XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/usr/{bin,sbin,lib,lib64} "$tree"/{dev,proc,sys,run,tmp,root,etc,km,results}
for folder in bin sbin lib lib64; do
  ln -s "usr/$folder" "$tree/$folder"
done

# Debug information would triple the size, and with it the time to unpack. Symbols are kept for probes and tests.
copy() { # copy FILE TARGET
  mkdir -p "$tree/$(dirname "$2")"
  "$strip" -g -o "$tree/$2" "$1" 2>/dev/null || cp -L "$1" "$tree/$2"
}
needed_by() {  # prints the loader by path, and the libraries by name
  readelf -ld "$1" 2>/dev/null |
    sed -n 's/.*\[Requesting program interpreter: \/\(.*\)\]/\1/p; s/.*(NEEDED).*\[\(.*\)\]/\1/p'
}
find_library() {
  local folder
  for folder in . "${library_folders[@]}"; do
    if [[ -e $sysroot/$folder/$1 ]]; then
      echo "$folder/$1"
      return
    fi
  done
}
declare -A seen
add_libraries() { # add_libraries FILE...
  local file name path
  for file; do
    for name in $(needed_by "$file"); do
      [[ -z ${seen[$name]:-} ]] || continue
      seen[$name]=yes
      path=$(find_library "$name")
      [[ -n $path ]] || continue # one of the lab's own
      copy "$sysroot/$path" "$path"
      add_libraries "$sysroot/$path"
    done
  done
}

copy "$sysroot/bin/busybox" usr/bin/busybox
for applet in $(busybox --list); do
  [[ $applet == busybox ]] || ln -s busybox "$tree/usr/bin/$applet"
done
for tool in "${tools[@]}"; do
  rm -f "$tree/usr/bin/$(basename "$tool")"
  copy "$sysroot/$tool" "$tool"
done
ln -sf dash "$tree/usr/bin/sh"
for file in "${built[@]}"; do
  [[ ! -e $programs/$file ]] || copy "$programs/$file" "${guest_build#/}/$file"
done
ln -s "$guest_build/stalltrace" "$tree/usr/bin/stalltrace"
add_libraries "$sysroot/bin/busybox" "${tools[@]/#/$sysroot/}" "${present[@]}"
cp -r "$here"/guest/* "$tree/km/"
ln -s "$guest_build" "$tree/km/build"
ln -s km/init "$tree/init"

(cd "$tree" && find . -print0 | LC_ALL=C sort -z | cpio -0 -o -H newc -R 0:0 --quiet | gzip -1 >"$tree.gz")
echo "${present[*]}" >"$work/root.inputs"
mv "$tree.gz" "$image"
