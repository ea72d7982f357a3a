// SPDX-License-Identifier: Apache-2.0
// The program of plugin/collectives as bytes of this binary. The file is found in the include path.

    .section .rodata
    .balign 16
    .global st_embedded_collectives_program
    .global st_embedded_collectives_program_end
st_embedded_collectives_program:
    .incbin "st-collectives"
st_embedded_collectives_program_end:
    .byte 0

    .section .note.GNU-stack, "", %progbits
