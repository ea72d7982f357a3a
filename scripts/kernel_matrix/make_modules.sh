#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# scripts/kernel_matrix/make_modules.sh NAME: the kernel modules that lab and tests need, uncompressed, with a list in
# the order to load them, as build/kernels/ARCH/NAME/modules.cpio.gz.
set -euo pipefail
. "$(dirname "$0")/settings.sh"

# virtio_blk transfers the results; `stalltrace lab` needs the others for ip, tc and nft. Some kernels have some of them
# built in.
wanted=(virtio_pci virtio_mmio virtio_blk veth bridge nf_tables nft_counter nft_objref nft_ct nft_numgen nft_limit
  nft_reject_inet sch_tbf sch_htb cls_fw)
folder=$kernels/${1:?kernel name}
image=$folder/modules.cpio.gz
[[ ! $image -nt $0 ]] || exit 0

release=$(<"$folder/release")
tree=$(mktemp -d "$folder/modules-XXXXXX")
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/km/modules"
: >"$tree/km/modules/order"
for module in "${wanted[@]}"; do
  # modprobe prints "insmod FILE" for the module, after those for its dependencies.
  while read -r command file _; do
    [[ $command == insmod ]] || continue
    name=$(basename "$file")
    name=${name%.[xgz]*}
    [[ ! -e $tree/km/modules/$name ]] || continue
    case $file in
      *.xz) xz -dc "$file" ;;
      *.gz) gzip -dc "$file" ;;
      *.zst) zstd -qdc "$file" ;;
      *) cat "$file" ;;
    esac >"$tree/km/modules/$name"
    echo "$name" >>"$tree/km/modules/order"
  done < <(modprobe -d "$folder" -S "$release" --show-depends "$module" 2>/dev/null)
done
(cd "$tree" && find . -print0 | cpio -0 -o -H newc -R 0:0 --quiet | gzip -1 >"$tree.gz")
mv "$tree.gz" "$image"
