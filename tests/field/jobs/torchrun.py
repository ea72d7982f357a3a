# SPDX-License-Identifier: Apache-2.0
"""torchrun of Debian's PyTorch 1.13. There it fails on Python 3.11, which leaves 0 out when it goes through a Flag: this repairs
the default "0"."""

import torch.distributed.elastic.multiprocessing.api as api
from torch.distributed.run import main

api.Std.from_str = classmethod(lambda std, value: std(int(value)))
main()
