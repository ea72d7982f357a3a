# SPDX-License-Identifier: Apache-2.0
"""NCCL's settings for ranks that share one GPU; benchmarks and field cases have them from here too."""

# Real NCCL accepts several ranks on one GPU if each claims its own host and uses only sockets.
SOCKETS_ONLY = {"NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none", "NCCL_IB_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
                "NCCL_P2P_DISABLE": "1", "NCCL_CUMEM_HOST_ENABLE": "0", "NCCL_MNNVL_ENABLE": "0"}


def settings_of(rank, interface="lo"):
    return {**SOCKETS_ONLY, "NCCL_HOSTID": f"node{rank}", "NCCL_SOCKET_IFNAME": interface}
