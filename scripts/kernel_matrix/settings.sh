# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts here: kernels, architecture, paths. It only sets variables. Environment: MATRIX_ARCH, another
# architecture; MATRIX_BUILD, another build folder for the programs; MATRIX_PROGRAMS, more files of the build folder for
# the guest, such as src/base/test_base.

PATH+=:/usr/sbin:/sbin # depmod and modprobe
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
here=$root/scripts/kernel_matrix
arch=${MATRIX_ARCH:-amd64}
guest_build=$root/build  # the programs' path in the guest: it is compiled into the tests
[[ $arch == amd64 ]] || guest_build=$root/build-$arch
programs=${MATRIX_BUILD:-$guest_build}
kernels=$root/build/kernels/$arch
work=$root/build/kernel-matrix/$arch

all_kernels=(5.10 6.1 6.12 newest)
[[ $arch != arm64 ]] || all_kernels+=(newest-16k) # pages of 16 KiB
flavour_of() { # the kernel package's flavour
  if [[ $1 == *-16k ]]; then echo "$arch-16k"; else echo "cloud-$arch"; fi
}
suite_of() { # the Debian suite that has this kernel
  case $1 in
    5.10) echo bullseye ;;
    6.1) echo bookworm ;;
    6.12) echo bookworm-backports ;;
    newest) echo sid ;;
    newest-16k) [[ $arch == arm64 ]] && echo sid ;;
    *) return 1 ;;
  esac
}

# Additional arguments for the kernel's command line.
append_for() {
  # Without cmpxchg16b (below), BPF task storage can be allocated from 6.18 on only where slabs are checked.
  case $arch/$1 in
    amd64/newest) echo "slab_debug=F,kmalloc-*" ;;
  esac
}

# Packages that make_root.sh takes from a sysroot.
tool_packages=(busybox-static dash iproute2 nftables util-linux libstdc++6)

# Two kinds of emulated machine; `-accel kvm` hangs in many virtual machines, and is missing in most. `parallel` has two
# CPUs as fast as the host allows. `steady` has one, whose clock advances one nanosecond per instruction: the times are
# equal on every host, however busy, and idle time costs nothing; it is for all steps judged by time.
parallel=(-accel "tcg,thread=multi" -smp 2)
steady=(-accel "tcg,thread=single" -icount "shift=0,sleep=off" -rtc clock=vm -smp 1)

# Differences between architectures. `sysroot` holds busybox, ip, nft and the libraries for the guest.
case $arch in
  amd64)
    # Without cmpxchg16b: QEMU 7.2 leaves wrong flags after that instruction, and Linux 6.12 panics.
    qemu=(qemu-system-x86_64 -cpu "max,cx16=off")
    console=ttyS0
    library_folders=(lib/x86_64-linux-gnu usr/lib/x86_64-linux-gnu)
    strip="strip"
    sysroot=
    ;;
  arm64)
    # Emulating the architecture's own cipher for pointers is slow.
    qemu=(qemu-system-aarch64 -M virt -cpu "max,pauth-impdef=on")
    console=ttyAMA0
    library_folders=(lib/aarch64-linux-gnu usr/lib/aarch64-linux-gnu)
    strip=aarch64-linux-gnu-strip
    sysroot=$kernels/sysroot  # made by make_sysroot.sh
    ;;
  *)
    echo "kernel_matrix: no settings for the architecture $arch in ${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac
qemu+=(-m 3g -nographic -no-reboot -net none)
