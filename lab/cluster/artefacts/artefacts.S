// SPDX-License-Identifier: Apache-2.0
// The lab's programs and libraries as bytes of this binary. The files are found in the include path.

    .section .rodata
.macro artefact symbol, file
    .balign 16
    .global st_artefact_\symbol
    .global st_artefact_\symbol\()_end
st_artefact_\symbol:
    .incbin "\file"
st_artefact_\symbol\()_end:
    .byte 0
.endm

    artefact nccl, libnccl.so.2
    artefact cudart, libcudart.so.12
    artefact nccl_train, nccl-train
    artefact stress_cpu, stress-cpu
    artefact torch_train, torch-train.py
    artefact node_shell, node-shell
#ifdef ST_LAB_MPI
    artefact mpi_train, mpi-train
#endif

    .section .note.GNU-stack, "", %progbits
