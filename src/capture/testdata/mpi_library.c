/* SPDX-License-Identifier: Apache-2.0 */
/* A library in MPICH's form, for the symbol reader's tests: its handles are ints, as one of its own names tells. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int MPI_Allreduce(int value) { return value + 1; }
EXPORTED int MPI_Test(int value) { return value + 2; }
EXPORTED int MPIR_Dup_fn(int value) { return value + 3; }
