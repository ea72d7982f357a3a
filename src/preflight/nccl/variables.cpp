// SPDX-License-Identifier: Apache-2.0
#include "preflight/nccl/variables.h"

#include <algorithm>
#include <array>
#include <limits>

namespace stalltrace::preflight {
namespace {

constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();

// clang-format off
constexpr std::array kDocumented{
    Variable{.name = "NCCL_SOCKET_IFNAME", .kind = ValueKind::kInterfaces},
    Variable{.name = "NCCL_SOCKET_FAMILY", .kind = ValueKind::kWord, .words = "AF_INET AF_INET6", .exact_case = true},
    Variable{.name = "NCCL_SOCKET_MAGIC"},
    Variable{.name = "NCCL_SOCKET_RETRY_CNT", .kind = ValueKind::kInteger, .low = 1, .high = kLargest},
    Variable{.name = "NCCL_SOCKET_RETRY_SLEEP_MSEC", .kind = ValueKind::kInteger, .low = 1, .high = kLargest},
    Variable{.name = "NCCL_SOCKET_POLL_TIMEOUT_MSEC", .kind = ValueKind::kInteger, .high = kLargest},
    Variable{.name = "NCCL_SOCKET_NTHREADS", .kind = ValueKind::kInteger, .low = 1, .high = 16},
    Variable{.name = "NCCL_NSOCKS_PERTHREAD", .kind = ValueKind::kInteger, .low = 1, .high = 64},
    Variable{.name = "NCCL_CROSS_NIC", .kind = ValueKind::kInteger, .high = 2},
    Variable{.name = "NCCL_IB_HCA", .kind = ValueKind::kDevices},
    Variable{.name = "NCCL_IB_TIMEOUT", .kind = ValueKind::kInteger, .high = 31},
    Variable{.name = "NCCL_IB_RETRY_CNT", .kind = ValueKind::kInteger, .high = 7},
    Variable{.name = "NCCL_IB_GID_INDEX", .kind = ValueKind::kInteger, .low = -1, .high = 255},
    Variable{.name = "NCCL_IB_ADDR_FAMILY", .kind = ValueKind::kWord, .words = "AF_INET AF_INET6", .exact_case = true},
    Variable{.name = "NCCL_IB_ADDR_RANGE"},
    Variable{.name = "NCCL_IB_ROCE_VERSION_NUM", .kind = ValueKind::kInteger, .low = 1, .high = 2},
    Variable{.name = "NCCL_IB_SL", .kind = ValueKind::kInteger, .low = -1, .high = 15},
    Variable{.name = "NCCL_IB_TC", .kind = ValueKind::kInteger, .low = -1, .high = 255},
    Variable{.name = "NCCL_IB_FIFO_TC", .kind = ValueKind::kInteger, .low = -1, .high = 255},
    Variable{.name = "NCCL_IB_RETURN_ASYNC_EVENTS", .kind = ValueKind::kInteger, .high = 1},
    Variable{.name = "NCCL_OOB_NET_ENABLE", .kind = ValueKind::kInteger, .high = 1},
    Variable{.name = "NCCL_OOB_NET_IFNAME"},
    Variable{.name = "NCCL_UID_STAGGER_THRESHOLD", .kind = ValueKind::kInteger, .low = 1, .high = kLargest},
    Variable{.name = "NCCL_UID_STAGGER_RATE", .kind = ValueKind::kInteger, .low = 1, .high = kLargest},
    Variable{.name = "NCCL_NET"},
    Variable{.name = "NCCL_NET_PLUGIN"},
    Variable{.name = "NCCL_TUNER_PLUGIN"},
    Variable{.name = "NCCL_PROFILER_PLUGIN"},
    Variable{.name = "NCCL_ENV_PLUGIN"},
    Variable{.name = "NCCL_IGNORE_CPU_AFFINITY", .kind = ValueKind::kInteger, .high = 1},
    Variable{.name = "NCCL_CONF_FILE"},
    Variable{.name = "NCCL_DEBUG", .kind = ValueKind::kWord, .words = "NONE VERSION WARN INFO ABORT TRACE"},
    Variable{.name = "NCCL_DEBUG_FILE"},
    Variable{.name = "NCCL_DEBUG_SUBSYS", .kind = ValueKind::kWords, .words = "INIT COLL P2P SHM NET GRAPH TUNING ENV ALLOC ALLOC_HOST CALL PROXY NVLS BOOTSTRAP REG PROFILE RAS DESTROY ALL"},
    Variable{.name = "NCCL_DEBUG_TIMESTAMP_FORMAT"},
    Variable{.name = "NCCL_DEBUG_TIMESTAMP_LEVELS"},
    Variable{.name = "NCCL_COLLNET_ENABLE", .kind = ValueKind::kInteger, .high = 1},
    Variable{.name = "NCCL_COLLNET_NODE_THRESHOLD", .kind = ValueKind::kInteger, .high = kLargest},
    Variable{.name = "NCCL_CTA_POLICY"},
    Variable{.name = "NCCL_NETDEVS_POLICY"},
    Variable{.name = "NCCL_MULTI_RANK_GPU_ENABLE", .kind = ValueKind::kInteger, .high = 1},
    Variable{.name = "NCCL_TOPO_FILE"},
    Variable{.name = "NCCL_TOPO_DUMP_FILE"},
    Variable{.name = "NCCL_SET_THREAD_NAME"},
    Variable{.name = "NCCL_P2P_DISABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_P2P_LEVEL", .kind = ValueKind::kLevel, .high = kLargest, .words = "LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS", .exact_case = true, .workaround = true},
    Variable{.name = "NCCL_P2P_DIRECT_DISABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_SHM_DISABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_BUFFSIZE", .kind = ValueKind::kInteger, .low = 1, .high = kLargest, .workaround = true},
    Variable{.name = "NCCL_NTHREADS", .kind = ValueKind::kInteger, .low = 32, .high = 1024, .workaround = true},
    Variable{.name = "NCCL_MAX_NCHANNELS", .kind = ValueKind::kInteger, .low = 1, .high = kLargest, .workaround = true},
    Variable{.name = "NCCL_MIN_NCHANNELS", .kind = ValueKind::kInteger, .low = 1, .high = kLargest, .workaround = true},
    Variable{.name = "NCCL_CHECKS_DISABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true, .obsolete = "NCCL_CHECK_POINTERS replaced it in 2.2.12"},
    Variable{.name = "NCCL_CHECK_POINTERS", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_CHECK_MODE", .workaround = true},
    Variable{.name = "NCCL_LAUNCH_MODE", .kind = ValueKind::kWord, .words = "PARALLEL GROUP", .workaround = true, .obsolete = "it is deprecated since NCCL 2.9"},
    Variable{.name = "NCCL_IB_DISABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IB_AR_THRESHOLD", .kind = ValueKind::kInteger, .high = kLargest, .workaround = true},
    Variable{.name = "NCCL_IB_OOO_RQ", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IB_QPS_PER_CONNECTION", .kind = ValueKind::kInteger, .low = 1, .high = 128, .workaround = true},
    Variable{.name = "NCCL_IB_SPLIT_DATA_ON_QPS", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IB_CUDA_SUPPORT", .kind = ValueKind::kInteger, .high = 1, .workaround = true, .obsolete = "NCCL_NET_GDR_LEVEL replaced it in 2.4"},
    Variable{.name = "NCCL_IB_PCI_RELAXED_ORDERING", .kind = ValueKind::kInteger, .high = 2, .workaround = true},
    Variable{.name = "NCCL_IB_ADAPTIVE_ROUTING", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IB_ECE_ENABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_MEM_SYNC_DOMAIN", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_CUMEM_ENABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_CUMEM_HOST_ENABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IB_GDR_LEVEL", .obsolete = "NCCL_NET_GDR_LEVEL replaced it in 2.4"},
    Variable{.name = "NCCL_NET_GDR_LEVEL", .kind = ValueKind::kLevel, .high = kLargest, .words = "LOC NVL NVB C2C PIX PXB P2C PXN PHB SYS", .exact_case = true, .workaround = true},
    Variable{.name = "NCCL_NET_GDR_C2C", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_NET_GDR_READ", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_NET_SHARED_BUFFERS", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_NET_SHARED_COMMS", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IGNORE_NET_MISMATCH", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IGNORE_COLLNET_MISMATCH", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_SINGLE_RING_THRESHOLD", .kind = ValueKind::kInteger, .high = kLargest, .workaround = true, .obsolete = "it was removed in NCCL 2.3"},
    Variable{.name = "NCCL_LL_THRESHOLD", .kind = ValueKind::kInteger, .high = kLargest, .workaround = true, .obsolete = "it was removed in NCCL 2.5"},
    Variable{.name = "NCCL_TREE_THRESHOLD", .kind = ValueKind::kInteger, .high = kLargest, .workaround = true, .obsolete = "it was removed in NCCL 2.5"},
    Variable{.name = "NCCL_ALGO", .kind = ValueKind::kWords, .words = "Ring Tree CollnetChain CollnetDirect NVLS NVLSTree PAT", .workaround = true},
    Variable{.name = "NCCL_PROTO", .kind = ValueKind::kWords, .words = "LL LL128 Simple", .workaround = true},
    Variable{.name = "NCCL_NVB_DISABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_PXN_DISABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_P2P_PXN_LEVEL", .kind = ValueKind::kInteger, .high = 2, .workaround = true},
    Variable{.name = "NCCL_PXN_C2C", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_RUNTIME_CONNECT", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_GRAPH_REGISTER", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_LOCAL_REGISTER", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_LEGACY_CUDA_REGISTER", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_WIN_ENABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_SET_STACK_SIZE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_GRAPH_MIXING_SUPPORT", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_GRAPH_STREAM_ORDERING", .workaround = true},
    Variable{.name = "NCCL_DMABUF_ENABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_P2P_NET_CHUNKSIZE", .kind = ValueKind::kInteger, .low = 1, .high = kLargest, .workaround = true},
    Variable{.name = "NCCL_P2P_LL_THRESHOLD", .kind = ValueKind::kInteger, .high = kLargest, .workaround = true},
    Variable{.name = "NCCL_ALLOC_P2P_NET_LL_BUFFERS", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_COMM_BLOCKING", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_CGA_CLUSTER_SIZE", .kind = ValueKind::kInteger, .high = 8, .workaround = true},
    Variable{.name = "NCCL_MAX_CTAS", .kind = ValueKind::kInteger, .low = 1, .high = 64, .workaround = true},
    Variable{.name = "NCCL_MIN_CTAS", .kind = ValueKind::kInteger, .low = 1, .high = 64, .workaround = true},
    Variable{.name = "NCCL_NVLS_ENABLE", .kind = ValueKind::kInteger, .high = 2, .workaround = true},
    Variable{.name = "NCCL_IB_MERGE_NICS", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_NET_MERGE_POLICY", .kind = ValueKind::kWord, .words = "ALL RAIL", .workaround = true},
    Variable{.name = "NCCL_MNNVL_ENABLE", .kind = ValueKind::kInteger, .high = 2, .workaround = true},
    Variable{.name = "NCCL_MNNVL_UUID", .workaround = true},
    Variable{.name = "NCCL_MNNVL_CLIQUE_ID", .workaround = true},
    Variable{.name = "NCCL_RAS_ENABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_RAS_ADDR", .workaround = true},
    Variable{.name = "NCCL_RAS_TIMEOUT_FACTOR", .kind = ValueKind::kInteger, .low = 1, .high = kLargest, .workaround = true},
    Variable{.name = "NCCL_LAUNCH_ORDER_IMPLICIT", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_LAUNCH_RACE_FATAL", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_IPC_USE_ABSTRACT_SOCKET", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
    Variable{.name = "NCCL_SYM_GIN_KERNELS_ENABLE", .kind = ValueKind::kInteger, .high = 1, .workaround = true},
};

/// Read by NCCL's source code, not in its guide.
constexpr std::array kUndocumented = std::to_array<std::string_view>({
    "NCCL_ALLGATHERV_ENABLE", "NCCL_CHUNK_SIZE", "NCCL_COMM_ID", "NCCL_COMM_SHRINK_SHARE_RESOURCES",
    "NCCL_COMM_SPLIT_SHARE_RESOURCES", "NCCL_CONNECT_ROUND_MAX_PEERS", "NCCL_DEV_API_JIT", "NCCL_DISABLE_MEM_MANAGER",
    "NCCL_ELASTIC_BUFFER_REGISTER", "NCCL_ENABLE_VERSION_CHECK", "NCCL_GDAKI_USE_RELIABLE_DB", "NCCL_GDRCOPY_ENABLE",
    "NCCL_GDRCOPY_FIFO_ENABLE", "NCCL_GDRCOPY_FLUSH_ENABLE", "NCCL_GDRCOPY_SYNC_ENABLE", "NCCL_GDR_FLUSH_DISABLE",
    "NCCL_GIN_ENABLE", "NCCL_GIN_ERROR_QUERY_SEC", "NCCL_GIN_GDAKI_MAX_DEST_RD_ATOMIC",
    "NCCL_GIN_GDAKI_MAX_QP_RD_ATOMIC", "NCCL_GIN_GDAKI_NIC_HANDLER", "NCCL_GIN_GDAKI_QP_DEPTH", "NCCL_GIN_IB_TC",
    "NCCL_GIN_NCONNECTIONS", "NCCL_GIN_PLUGIN", "NCCL_GIN_PLUGIN_REF_COUNT", "NCCL_GIN_PROXY_QUEUE_SIZE",
    "NCCL_GIN_TYPE", "NCCL_GRAPH_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE_RANK", "NCCL_GRAPH_FILE",
    "NCCL_GRAPH_HELPER_DISABLE", "NCCL_GROUP_CUDA_STREAM", "NCCL_HOSTID", "NCCL_IBVERBS_LIB", "NCCL_IB_DATA_DIRECT",
    "NCCL_IB_DEVICE_PCI_ORDER", "NCCL_IB_MERGE_VFS", "NCCL_IB_MQP_RETRY_ALL", "NCCL_IB_MQP_RETRY_CNT",
    "NCCL_IB_MQP_RETRY_SLEEP_MSEC", "NCCL_IB_PKEY", "NCCL_IB_PREPOST_RECEIVE_WORK_REQUESTS",
    "NCCL_IB_QUERY_PORT_SPEED", "NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME", "NCCL_IB_RESILIENCY_PORT_FAILOVER",
    "NCCL_IB_RESILIENCY_PORT_FAILOVER_MAX_ATTEMPTS", "NCCL_IB_RESILIENCY_PORT_FAILOVER_PROBE_DELAY",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY", "NCCL_IB_RESILIENCY_PORT_RECOVERY_ACK_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_INTERVAL",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_BATCH_SIZE",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_SEQUENCE_SIZE", "NCCL_IB_RESILIENCY_PORT_RECOVERY_ALIVE_MSG_TIMEOUT",
    "NCCL_IB_RESILIENCY_PORT_RECOVERY_ATTEMPTS_MAX", "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
    "NCCL_IB_ROUTABLE_FLID_GID_INDEX", "NCCL_IB_SUBNET_AWARE_ROUTING", "NCCL_IB_SUBNET_PREFIX_LEN",
    "NCCL_IB_USE_INLINE", "NCCL_IB_WARN_RAIL_LOCAL", "NCCL_IGNORE_DISABLED_P2P", "NCCL_L1_SHARED_MEMORY_CARVEOUT",
    "NCCL_LL128_BUFFSIZE", "NCCL_LL128_C2C", "NCCL_LL128_NTHREADS", "NCCL_LL_BUFFSIZE", "NCCL_LSA_TEAM_SIZE",
    "NCCL_MAX_NRINGS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_MIN_NRINGS", "NCCL_MIN_P2P_NCHANNELS",
    "NCCL_MLOPART_RDMA_ENABLE", "NCCL_MNNVL_CROSS_CLIQUE", "NCCL_MNNVL_RAIL_PER_HOST",
    "NCCL_MNNVL_SCATTER_NETS_ENABLE", "NCCL_MULTI_SEGMENT_REGISTER", "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NET_DISABLE_INTRA", "NCCL_NET_FORCE_FLUSH", "NCCL_NET_FORCE_MERGE", "NCCL_NET_GDR_MLOPART",
    "NCCL_NET_MERGE_LEVEL", "NCCL_NET_OPTIONAL_RECV_COMPLETION", "NCCL_NET_OVERHEAD", "NCCL_NET_PLUGIN_REF_COUNT",
    "NCCL_NUM_RMA_CTX", "NCCL_NVB_PRECONNECT", "NCCL_NVLINK_UTIL_CENTRIC_SCHED_ENABLE", "NCCL_NVLSTREE_MAX_CHUNKSIZE",
    "NCCL_NVLS_CHUNKSIZE", "NCCL_NVLS_NCHANNELS", "NCCL_NVTX_DISABLE", "NCCL_P2P_EPOCH_ENABLE", "NCCL_P2P_MAX_PEERS",
    "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_PCI_CHUNKSIZE", "NCCL_P2P_PER_CHANNEL_NET_BW", "NCCL_P2P_READ_ENABLE",
    "NCCL_P2P_SCHEDULE_GROUP_SIZE", "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_PAT_ENABLE", "NCCL_PROGRESS_APPENDOP_FREQ",
    "NCCL_PROXY_APPEND_BATCH_SIZE", "NCCL_PROXY_CPUSET", "NCCL_PROXY_DUMP_SIGNAL", "NCCL_REPORT_CONNECT_PROGRESS",
    "NCCL_RMA_DISABLE", "NCCL_RMA_PLUGIN", "NCCL_RMA_PLUGIN_REF_COUNT", "NCCL_RMA_PROXY_DUMP_SIGNAL",
    "NCCL_RMA_PROXY_QUEUE_SIZE", "NCCL_SET_CPU_STACK_SIZE", "NCCL_SHADOW_MEMPOOL_MAX_SIZE", "NCCL_SHM_LOCALITY",
    "NCCL_SINGLE_PROC_MEM_REG_ENABLE", "NCCL_SOCKET_INLINE", "NCCL_SOCKET_MIN_TASKSIZE", "NCCL_SOCKET_RCVBUF",
    "NCCL_SOCKET_SNDBUF", "NCCL_SYM_CE_THRESHOLD", "NCCL_SYM_CTAS", "NCCL_SYM_KERNEL", "NCCL_SYM_NOWIN_ENABLE",
    "NCCL_SYM_REUSE_SYSMEM_HANDLES", "NCCL_SYM_RS_GIN_CHUNK_SIZE", "NCCL_SYM_TMA_ENABLE", "NCCL_THREAD_THRESHOLDS",
    "NCCL_TOPO_DUMP_FILE_RANK", "NCCL_TOPO_SPLIT_MLOPART", "NCCL_UNPACK_DOUBLE_NCHANNELS", "NCCL_WIN_STRIDE",
    "NCCL_WORK_ARGS_BYTES", "NCCL_WORK_FIFO_BYTES",
    "NCCL_NO_CACHE", "NCCL_PARAM_DUMP_ALL", "NCCL_WARN_ENABLE_DEBUG_INFO",
});
// clang-format on

}  // namespace

std::span<const Variable> documented_variables() { return kDocumented; }

const Variable* find_variable(std::string_view name) {
  const auto* const found = std::ranges::find(kDocumented, name, &Variable::name);
  return found == kDocumented.end() ? nullptr : found;
}

bool is_undocumented(std::string_view name) { return std::ranges::find(kUndocumented, name) != kUndocumented.end(); }

std::vector<std::string_view> all_variable_names() {
  std::vector<std::string_view> names(kUndocumented.begin(), kUndocumented.end());
  for (const Variable& variable : kDocumented) {
    names.push_back(variable.name);
  }
  return names;
}

}  // namespace stalltrace::preflight
