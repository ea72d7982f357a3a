#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Boots a kernel in an emulated machine, runs one command line as root there and ends with its exit code:
#
#   scripts/kernel_matrix/boot.sh [--steady] [--limit SECONDS] [--results DIR] KERNEL -- COMMAND...
#
# KERNEL is 5.10, 6.1, 6.12 or newest; it is fetched if it isn't there. The machine has two CPUs; with --steady one, whose time
# does not depend on the host (settings.sh). One word of COMMAND is a shell line; several are a
# command with arguments. What the command prints comes out on standard output; what it leaves in /results (see
# guest/keep and guest/save) goes to DIR. `stalltrace` is on the PATH; the tests' programs lie where they lie here.
# MATRIX_BUILD=DIR takes the programs from another build folder; MATRIX_PROGRAMS="FILE..." takes more of its files.
# Exit code 124: the time limit passed; 125: it did not boot.
set -euo pipefail
. "$(dirname "$0")/settings.sh"
usage() {
  sed -n '3,11s/^# \{0,1\}//p' "$0" >&2
  exit 2
}

limit=600
results=
machine=("${parallel[@]}")
while (($# > 0)); do
  case $1 in
    --steady) machine=("${steady[@]}"); shift ;;
    --limit) limit=${2:?}; shift 2 ;;
    --results) results=${2:?}; shift 2 ;;
    *) break ;;
  esac
done
if (($# < 3)) || [[ $2 != -- ]]; then
  usage
fi
kernel=$1
shift 2

scratch=$(mktemp -d)
qemu_pid=
clean_up() {
  [[ -z $qemu_pid ]] || kill "$qemu_pid" 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean_up EXIT
mkdir -p "$scratch/extra/km"
if (($# == 1)); then
  echo "$1" >"$scratch/extra/km/command"
else
  printf '%q ' "$@" >"$scratch/extra/km/command"
fi
(cd "$scratch/extra" && find . | cpio -o -H newc -R 0:0 --quiet | gzip -1) >"$scratch/extra.cpio.gz"
mkdir -p "$work"
(
  flock 9  # parallel boots share the files made here
  "$here/fetch_kernel.sh" "$kernel"
  "$here/make_modules.sh" "$kernel"
  "$here/make_sysroot.sh"
  "$here/make_root.sh"
  cat "$work/root.cpio.gz" "$kernels/$kernel/modules.cpio.gz" "$scratch/extra.cpio.gz" >"$scratch/initrd"
) 9>"$work/lock"
truncate -s 256M "$scratch/disk"

mkfifo "$scratch/console"
timeout -k 5 "$limit" "${qemu[@]}" "${machine[@]}" -kernel "$kernels/$kernel/vmlinuz" -initrd "$scratch/initrd" \
  -append "console=$console panic=-1 quiet $(append_for "$kernel")" -drive "file=$scratch/disk,if=virtio,format=raw,cache=unsafe" \
  </dev/null >"$scratch/console" 2>"$scratch/qemu.log" &
qemu_pid=$!

# Before "up" the console shows the firmware's and the kernel's output: printed only if the guest does not come up.
: >"$scratch/boot.log"
code=
up=
while IFS= read -r line; do
  line=${line%$'\r'}
  case $line in
    *'@@KM up '*) up=${line##* } ;;
    *'@@KM exit '*)  # follows output that ends without a newline
      code=${line##* }
      printf '%s' "${line%@@KM exit *}"
      ;;
    *) if [[ -n $up && -z $code ]]; then printf '%s\n' "$line"; else printf '%s\n' "$line" >>"$scratch/boot.log"; fi ;;
  esac
done <"$scratch/console"
ended=0
wait "$qemu_pid" || ended=$?
qemu_pid=
if [[ -n $results ]]; then
  mkdir -p "$results"
  tar -x -i -f "$scratch/disk" -C "$results"
  printf '%s\n' "${up:-}" >"$results/boot_seconds"
fi
if [[ -z $up ]]; then
  tail -n 30 "$scratch/boot.log" "$scratch/qemu.log" >&2
  echo "kernel_matrix: kernel $kernel ($arch) did not come up within $limit s" >&2
  exit 125
elif [[ -z $code ]]; then
  echo "kernel_matrix: kernel $kernel ($arch): the command did not end ($([[ $ended == 124 ]] && echo "within $limit s" || echo "the machine died"))" >&2
  exit 124
fi
exit "$code"
