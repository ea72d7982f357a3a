/* SPDX-License-Identifier: Apache-2.0 */
/* A library in NCCL's form, for the symbol reader's tests: weak names beside strong ones at the same address, a name
 * that is data, and the GPU runtime linked in under a hidden name. */
#define EXPORTED __attribute__((visibility("default")))

EXPORTED int pncclAllReduce(int value) { return value + 1; }
EXPORTED int ncclAllReduce(int value) __attribute__((weak, alias("pncclAllReduce")));
EXPORTED int pncclBroadcast(int value) { return value + 2; }
EXPORTED int ncclBroadcast(int value) __attribute__((weak, alias("pncclBroadcast")));
EXPORTED int ncclGroupEnd = 1;
EXPORTED int ncclNotInTheTable(int value) { return value + 3; }

__attribute__((visibility("hidden"), noinline)) int cudaStreamSynchronize(int value) { return value + 4; }
EXPORTED int use_runtime(int value) { return cudaStreamSynchronize(value); }
