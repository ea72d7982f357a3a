// SPDX-License-Identifier: Apache-2.0
// Where the program begins. The C library's own crt1.o asks for the __libc_start_main of glibc 2.34, which older systems
// lack. With the first version of it, and no functions for constructors, glibc before 2.34 calls none (this program has
// none), and a newer one reads them from the dynamic section (csu/libc-start.c).

    .section .note.GNU-stack, "", %progbits
    .text
    .global _start
    .type _start, %function
#if defined(__x86_64__)
    .symver __libc_start_main, __libc_start_main@GLIBC_2.2.5
_start:
    endbr64
    xorl %ebp, %ebp
    movq %rdx, %r9           // rtld_fini
    popq %rsi                // argc
    movq %rsp, %rdx          // argv
    andq $-16, %rsp
    pushq %rax
    pushq %rsp               // stack_end
    xorl %r8d, %r8d          // fini
    xorl %ecx, %ecx          // init
    leaq main(%rip), %rdi
    call __libc_start_main@PLT
    hlt
#elif defined(__aarch64__)
    .symver __libc_start_main, __libc_start_main@GLIBC_2.17
_start:
    hint #34                 // bti c
    mov x29, #0
    mov x30, #0
    mov x5, x0               // rtld_fini
    ldr x1, [sp]             // argc
    add x2, sp, #8           // argv
    mov x6, sp               // stack_end
    adrp x0, main
    add x0, x0, :lo12:main
    mov x3, #0               // init
    mov x4, #0               // fini
    bl __libc_start_main
    brk #0
#else
#error "no start for this architecture"
#endif
    .size _start, . - _start
