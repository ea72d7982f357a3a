// SPDX-License-Identifier: Apache-2.0
// Pages of docs/ as bytes of this binary. The files are found in the include path.

    .macro page name
    .global st_page_\name
    .global st_page_\name\()_end
st_page_\name:
    .incbin "\name\().md"
st_page_\name\()_end:
    .byte 0
    .endm

    .section .rodata
    page recording
    page findings
    page queries
    page runbook

    .section .note.GNU-stack, "", %progbits
