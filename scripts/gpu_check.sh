#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks real NCCL on a real GPU: ranks of one job on one GPU, over TCP between virtual nodes, with the profiler plugin
# and, with sufficient privilege, the tracer; compares the recording with the ranks' own clocks and CUDA events.
#
#   scripts/gpu_check.sh [--out DIR] [--ranks N] [--max-bytes N]   run it here
#   scripts/gpu_check.sh --pack FILE.tar.gz                        make a package for a machine that has nothing
#   scripts/gpu_check.sh --lab ...                                 the same check on the practice NCCL, without a GPU
#
# Needs an x86-64 machine with glibc 2.35 (Ubuntu 22.04), NCCL 2.23, a CUDA runtime (PyTorch's wheels will do) and Python 3.8;
# nothing else: no compiler, ip, nft or network. The package holds the built program with the plugin inside, and these scripts.
# Without /dev/net/tun or the right to make namespaces the ranks share the loopback, without loss; without BPF there is no
# tracer. It says so. Exit code 0: all that could be run holds; 1: something does not, or there is nothing to run on.
set -euo pipefail
usage() {
  sed -n '3,14s/^# \{0,1\}//p' "$0" >&2
  exit 2
}
here=$(cd "$(dirname "$0")" && pwd)
program=${STALLTRACE:-}
for candidate in "$here/stalltrace" "$here/../build/stalltrace"; do
  [[ -z $program && -x $candidate ]] && program=$candidate
done
[[ -x ${program:-} ]] || {
  echo "gpu_check: no stalltrace to check; run scripts/build.sh, or name one in STALLTRACE" >&2
  exit 1
}

out=gpu-check-$(date -u +%Y%m%dT%H%M%SZ)
words=()
while (($# > 0)); do
  [[ $1 == --lab || $# -gt 1 ]] || usage
  case $1 in
    --out) out=$2; shift ;;
    --lab) words+=(--lab "$(cd "$(dirname "$program")/lab/lib" && pwd)") ;;
    --pack)
      folder=$(mktemp -d)
      trap 'rm -rf "$folder"' EXIT
      mkdir "$folder/gpu-check"
      strip -o "$folder/gpu-check/stalltrace" "$program"
      cp -r "$here/gpu_check.sh" "$here/gpu_check" "$folder/gpu-check/"
      rm -rf "$folder/gpu-check/gpu_check/__pycache__"
      tar -C "$folder" -czf "$2" gpu-check
      echo "$2: unpack it there and run gpu-check/gpu_check.sh"
      exit 0
      ;;
    --ranks | --max-bytes) words+=("$1" "$2"); shift ;;
    *) usage ;;
  esac
  shift
done
export PYTHONDONTWRITEBYTECODE=1
exec python3 "$here/gpu_check/check.py" "$program" "$out" "${words[@]}"
