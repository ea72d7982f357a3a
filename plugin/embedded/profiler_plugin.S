// SPDX-License-Identifier: Apache-2.0
// The profiler plugin as bytes of this binary. The file is found in the include path.

    .section .rodata
    .balign 16
    .global st_embedded_profiler_plugin
    .global st_embedded_profiler_plugin_end
st_embedded_profiler_plugin:
    .incbin "libnccl-profiler-stalltrace.so"
st_embedded_profiler_plugin_end:
    .byte 0

    .section .note.GNU-stack, "", %progbits
