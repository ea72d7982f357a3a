/* SPDX-License-Identifier: Apache-2.0 */
/* A library in MPICH's form, for the symbol reader's tests: its handles are ints, as one of its own names shows. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int MPI_Allreduce(int value) { return value + 1; }
EXPORTED int MPI_Test(int value) { return value + 2; }
#if defined(__x86_64__)
/* Begins with a load, as OpenMPI's MPI_Test does, here before a push and here not. */
static long level __attribute__((used)) = 5;
__attribute__((naked)) EXPORTED int MPI_Wait(void) { __asm__("mov level(%rip), %rax\n push %r12\n pop %r12\n ret"); }
__attribute__((naked)) EXPORTED int MPI_Barrier(void) { __asm__("mov level(%rip), %rax\n ret"); }
#endif
EXPORTED int MPIR_Dup_fn(int value) { return value + 3; }
