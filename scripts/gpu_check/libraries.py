# SPDX-License-Identifier: Apache-2.0
"""Finds this machine's NCCL and CUDA runtime libraries: those of PyTorch's wheels, else the system's."""

import ctypes
import glob
import importlib.util
import os
import pathlib
import subprocess
import sys

SYSTEM = [f"{sys.prefix}/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda*/lib64", "/usr/local/cuda*/lib"]


def wheel_folders():
    """The library folders of NVIDIA's and PyTorch's wheels, found without importing them."""
    for name in ("nvidia", "torch"):
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or []) if spec else []:
            yield from (f"{folder}/nccl/lib", f"{folder}/cuda_runtime/lib", f"{folder}/cu*/lib", f"{folder}/lib")


def find(pattern, folders=()):
    """The first matching file in LD_LIBRARY_PATH, `folders`, the wheels, the system; None if there is none."""
    own = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in [*folders, *own, *wheel_folders(), *SYSTEM]:
        for path in sorted(glob.glob(f"{folder}/{pattern}")):
            if pathlib.Path(path).is_file():
                return path
    return None


def find_nccl():
    return find("libnccl.so.2")


def find_cudart():
    return find("libcudart.so.1[0-9]*")


def nccl_version(path):
    """NCCL's version, such as (2, 28, 9). OSError if it can't be loaded."""
    version = ctypes.c_int()
    ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version))
    return version.value // 10000, version.value // 100 % 100, version.value % 100


def device_count(cudart):
    """The number of devices; 0 if the driver is missing or refuses, or the library can't be loaded."""
    count = ctypes.c_int()
    try:
        return count.value if ctypes.CDLL(cudart).cudaGetDeviceCount(ctypes.byref(count)) == 0 else 0
    except OSError:
        return 0


def has_torch():
    """True if PyTorch with NCCL and a device can be imported; tested in a separate process, so that none of it stays
    here.
    """
    question = "import torch, torch.distributed as d; raise SystemExit(not (torch.cuda.is_available() and d.is_nccl_available()))"
    try:
        return subprocess.run([sys.executable, "-c", question], capture_output=True, timeout=300, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
