# SPDX-License-Identifier: Apache-2.0
"""Traces of torch.profiler for size_bench.py, as Kineto writes them: one rank, a step every 100 ms."""

import functools
import gzip
import random

from making import BEGIN_S, Made, count, fill

LAYERS = 24
KERNELS = ("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", "void at::native::vectorized_elementwise_kernel<4, "
           "at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, at::detail::Array<char*, 3> >(int)",
           "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>(int, float, float const*)")
OPERATORS = ("aten::linear", "aten::addmm", "aten::native_layer_norm", "aten::mul")
BUCKETS = (26_214_400, 13_107_200, 6_553_600, 3_276_800, 1_638_400)
VARIANTS = 4
FIRST_STEP = 1000


def event(category, name, at_us, duration_us, arguments, tid):
    """`@` stands for the step, whose number is that of its time in units of 100 ms."""
    return (f'{{"ph": "X", "cat": "{category}", "name": "{name}", "pid": 4711, "tid": {tid}, "ts": @{at_us:09.3f}, "dur": {duration_us:.3f}'
            f', "args": {{{arguments}}}}},\n')


def kernel(name, at_us, duration_us, number, stream, more=""):
    return event("kernel", name, at_us, duration_us, f'"External id": {number}, "queued": 0, "device": 0, "context": 1, "stream": {stream}, '
                 f'"correlation": {number}, "registers per thread": 90, "shared memory": 49152, "blocks per SM": 2.5, "warps per SM": 20.0, '
                 f'"grid": [{number % 97 + 1}, 8, 1], "block": [256, 1, 1], "est. achieved occupancy %": 31{more}', stream)


def step(variant, only_device):
    """(text, kernels) of a step."""
    chance = random.Random(variant)
    text = [event(category, "ProfilerStep#@", 0, 99_990, "", tid) for category, tid in (("user_annotation", 4711), ("gpu_user_annotation", 7))]
    text += [event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 10 + 50 * i, 30, '"bytes": 4194304, "stream": 7', 7) for i in range(2)]
    kernels = 0
    for layer in range(LAYERS):
        for part in range(3):
            number = layer * 3 + part
            at = 200 + number * 1300 + chance.random() * 100
            if not only_device:
                text.append(event("python_function", f"torch/nn/modules/linear.py({100 + part}): forward", at, 900, f'"Python id": {number}', 4711))
                text += [event("cpu_op", name, at + i, 300 - i, f'"External id": {number}, "Record function id": 0, "Ev Idx": {number}', 4711)
                         for i, name in enumerate(OPERATORS)]
                text.append(f'{{"ph": "s", "id": {number}, "pid": 4711, "tid": 4711, "ts": @{at + 20:09.3f}, "cat": "ac2g", "name": "ac2g"}},\n')
            text.append(event("cuda_runtime", "cudaLaunchKernel", at + 20, 5, f'"External id": {number}, "cbid": 211, "correlation": {number}', 4711))
            text.append(kernel(KERNELS[part], at + 40, 900 + chance.random() * 300, number, 7))
            kernels += 1
    for index, elements in enumerate(BUCKETS):
        more = (f', "Collective name": "allreduce", "In msg nelems": {elements}, "Out msg nelems": {elements}, "Group size": 8, "dtype": "BFloat16", '
                '"In split size": "[]", "Out split size": "[]", "Process Group Name": "0", "Process Group Description": "default_pg", '
                '"Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"')
        text.append(kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 15_000 * (index + 1),
                           3000 + chance.random() * 2000, 9000 + index, 20, more))
        kernels += 1
    return "".join(text).encode(), kernels


HEAD = ('{\n"schemaVersion": 1,\n"deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 84942979072, "numSms": 132}],\n'
        '"cuda_runtime_version": 12040, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8, "pg_count": 1, "pg_config": [{"pg_name": '
        f'"0", "pg_desc": "default_pg", "ranks": [0, 1, 2, 3, 4, 5, 6, 7]}}], "nccl_version": "2.21.5"}},\n"baseTimeNanoseconds": {BEGIN_S}000000000,\n'
        '"traceEvents": [\n{"ph": "M", "name": "process_name", "pid": 4711, "tid": 0, "ts": 0, "args": {"name": "python"}},\n').encode()
TAIL = b'{"ph": "i", "name": "Record Window End", "pid": "", "tid": "", "ts": 1}],\n"traceName": "rank3.pt.trace.json"\n}\n'


def trace(name, only_device=False, compressed=False):
    def make(folder, size):
        steps = [step(variant, only_device) for variant in range(VARIANTS)]
        kernels = steps[0][1]

        def block(number):
            return steps[number % VARIANTS][0].replace(b"@", b"%d" % (FIRST_STEP + number))

        open_file = functools.partial(gzip.open, compresslevel=1) if compressed else open
        blocks, written = fill(folder / name, size, block, HEAD, TAIL, open_file)
        return Made({"SELECT sum(kernels) FROM trace_profile": kernels * blocks, count("trace_step"): blocks,
                     "SELECT sum(calls) FROM trace_collective": len(BUCKETS) * blocks}, written if compressed else None)

    return make
