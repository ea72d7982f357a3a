/* SPDX-License-Identifier: Apache-2.0
 * What the practice cluster's NCCL launches on a stream in place of a kernel: work of the device that another thread
 * does and ends. The real library has no such functions. */
#ifndef LAB_KERNEL_H_
#define LAB_KERNEL_H_

#include "cuda_runtime.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct labKernel_st* labKernel_t;
typedef void (*labKernelStart_t)(void* userData, labKernel_t kernel);

/* `start` is called when the stream reaches the kernel, on the thread that brought it there, so it must be short. The
 * stream continues after labKernelEnd was called, once, by any thread, also inside `start`. */
cudaError_t labLaunchKernel(cudaStream_t stream, labKernelStart_t start, void* userData);
void labKernelEnd(labKernel_t kernel);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
