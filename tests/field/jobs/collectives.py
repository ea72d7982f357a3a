# SPDX-License-Identifier: Apache-2.0
"""One interface for the collective libraries that a Python job can call here: PyTorch's Gloo, OpenMPI, and the lab's NCCL (both
of these by ctypes). A rank's environment says who it is, as torchrun or mpirun set it."""

import ctypes
import datetime
import os
import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "scripts" / "gpu_check"))

import one_gpu  # noqa: E402

BYTES_OF_ID = 128
SUCCESS, IN_PROGRESS = 0, 7
FLOAT32, SUM = 7, 0


class Gloo:
    """PyTorch's default process group."""

    device = "cpu"

    def __init__(self, folder):
        import torch
        import torch.distributed as dist
        torch.set_num_threads(1)
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
        self.torch, self.dist = torch, dist
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()

    def all_reduce(self, count=1000):
        self.dist.all_reduce(self.torch.ones(count))

    def barrier(self):
        self.dist.barrier()


class Mpi:
    """MPI_COMM_WORLD of OpenMPI, whose handles are addresses of its variables."""

    def __init__(self, folder):
        self.mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
        self.mpi.MPI_Init(None, None)
        self.world, self.float, self.sum = (ctypes.byref(ctypes.c_char.in_dll(self.mpi, f"ompi_mpi_{name}"))
                                            for name in ("comm_world", "float", "op_sum"))
        rank, ranks = ctypes.c_int(), ctypes.c_int()
        self.mpi.MPI_Comm_rank(self.world, ctypes.byref(rank))
        self.mpi.MPI_Comm_size(self.world, ctypes.byref(ranks))
        self.rank, self.ranks = rank.value, ranks.value

    def all_reduce(self, count=1000):
        values, sums = (ctypes.c_float * count)(), (ctypes.c_float * count)()
        self.mpi.MPI_Allreduce(values, sums, count, self.float, self.sum, self.world)

    def barrier(self):
        self.mpi.MPI_Barrier(self.world)

    def finish(self):
        self.mpi.MPI_Finalize()


class Nccl:
    """The lab's NCCL. As PyTorch does, a rank looks for errors of its communicator while it waits, and raises."""

    class Id(ctypes.Structure):
        _fields_ = [("internal", ctypes.c_char * BYTES_OF_ID)]

    def __init__(self, folder):
        self.cuda = ctypes.CDLL("libcudart.so.12", mode=ctypes.RTLD_GLOBAL)
        self.nccl = ctypes.CDLL("libnccl.so.2")
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.comm, self.stream, self.data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.succeed(self.cuda.cudaStreamCreate(ctypes.byref(self.stream)))
        self.succeed(self.cuda.cudaMalloc(ctypes.byref(self.data), ctypes.c_size_t(1 << 20)))
        self.succeed(self.nccl.ncclCommInitRank(ctypes.byref(self.comm), self.ranks, self.shared_id(folder), self.rank))

    def shared_id(self, folder):
        """Rank 0 leaves it in a file."""
        path, unique = os.path.join(folder, f"id.{os.environ['MASTER_PORT']}"), self.Id()
        if self.rank == 0:
            self.succeed(self.nccl.ncclGetUniqueId(ctypes.byref(unique)))
            with open(path + ".new", "wb") as file:
                file.write(bytes(unique))
            os.rename(path + ".new", path)
        while not os.path.exists(path):
            time.sleep(0.01)
        with open(path, "rb") as file:
            return self.Id.from_buffer_copy(file.read())

    @staticmethod
    def succeed(result):
        if result != SUCCESS:
            raise RuntimeError(f"NCCL or CUDA failed with {result}")

    def all_reduce(self, count=1000):
        self.succeed(self.nccl.ncclAllReduce(self.data, self.data, ctypes.c_size_t(count), FLOAT32, SUM, self.comm, self.stream))
        while self.cuda.cudaStreamQuery(self.stream) != SUCCESS:
            error = ctypes.c_int()
            self.succeed(self.nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(error)))
            if error.value not in (SUCCESS, IN_PROGRESS):
                self.nccl.ncclCommAbort(self.comm)
                raise RuntimeError(f"NCCL failed with {error.value}")
            time.sleep(0.0005)
        self.succeed(self.cuda.cudaStreamSynchronize(self.stream))

    def barrier(self):
        self.all_reduce(1)

    def finish(self):
        self.nccl.ncclCommDestroy(self.comm)


class Ddp(Gloo):
    """Gloo below PyTorch's DistributedDataParallel: a step is forward, backward and the optimizer."""

    def __init__(self, folder):
        super().__init__(folder)
        nn = self.torch.nn
        self.torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        self.ddp = nn.parallel.DistributedDataParallel(self.model)
        self.optimizer = self.torch.optim.SGD(self.ddp.parameters(), lr=0.01)
        self.loss = nn.CrossEntropyLoss()

    def backward(self, size=16, data=None):
        """Of a batch of `size` samples, made up here where `data` gives none."""
        inputs, labels = next(data) if data else (self.torch.randn(size, 256), self.torch.randint(0, 10, (size,)))
        self.loss(self.ddp(inputs), labels).backward()

    def step(self, size=16, data=None):
        self.optimizer.zero_grad()
        self.backward(size, data)
        self.optimizer.step()


class Gpu:
    """NCCL on a GPU below DistributedDataParallel: several buckets, each reduced while the backward pass goes on, and nothing that waits
    for the device but every twentieth step. FIELD_TORCH_DEVICE=cpu tries the cases on Gloo."""

    def __init__(self, folder):
        import torch
        import torch.distributed as dist
        self.torch, self.dist = torch, dist
        self.device = os.environ.get("FIELD_TORCH_DEVICE", "cuda")
        os.environ.update(one_gpu.settings_of(os.environ["RANK"]))
        timeout = datetime.timedelta(seconds=float(os.environ.get("FIELD_TIMEOUT", "600")))
        dist.init_process_group("nccl" if self.device == "cuda" else "gloo", timeout=timeout)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        if self.device == "cuda":
            torch.cuda.set_device(0)
        nn = torch.nn
        torch.manual_seed(1)
        width = int(os.environ.get("FIELD_WIDTH", "512"))
        layers = [layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU())]
        self.width, self.model = width, nn.Sequential(*layers, nn.Linear(width, 10)).to(self.device)
        self.ddp = nn.parallel.DistributedDataParallel(self.model, bucket_cap_mb=2)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=0.001)
        self.loss = nn.CrossEntropyLoss()
        self.steps = 0

    def all_reduce(self, count=1000, group=None):
        self.dist.all_reduce(self.torch.ones(count, device=self.device), group=group)

    def barrier(self):
        self.dist.barrier()
        self.synchronize()

    def synchronize(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def compute(self, seconds):
        """On the device; the caller does not wait for it."""
        if self.device != "cuda":
            time.sleep(seconds)
            return
        if not hasattr(self, "square"):
            self.square = self.torch.randn(4096, 4096, device=self.device)
            self.synchronize()
            begin = time.monotonic()
            for _ in range(20):
                self.square @ self.square
            self.synchronize()
            self.product_seconds = (time.monotonic() - begin) / 20
        for _ in range(round(seconds / self.product_seconds)):
            self.square @ self.square

    def backward(self, size=64, data=None):
        torch = self.torch
        if data:
            inputs, labels = (tensor.to(self.device, non_blocking=True) for tensor in next(data))
            inputs = inputs.repeat(1, self.width // inputs.shape[1])
        else:
            inputs, labels = torch.randn(size, self.width, device=self.device), torch.randint(0, 10, (size,), device=self.device)
        loss = self.loss(self.ddp(inputs), labels)
        loss.backward()
        return loss

    def step(self, size=64, data=None):
        self.optimizer.zero_grad()
        loss = self.backward(size, data)
        self.optimizer.step()
        self.steps += 1
        if self.steps % 20 == 0:
            loss.item()  # as a log line needs it

    def finish(self):
        self.dist.destroy_process_group()


LIBRARIES = {"ddp": Ddp, "gpu": Gpu, "gloo": Gloo, "mpi": Mpi, "nccl": Nccl}
