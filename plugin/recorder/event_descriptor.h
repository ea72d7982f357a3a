// SPDX-License-Identifier: Apache-2.0
// Converts an event descriptor of any interface version to the start of an event in the profiler file. One template:
// missing fields are detected at compile time.
#pragma once

#include "plugin/abi/profiler.h"
#include "plugin/box/box.h"
#include "plugin/recorder/names.h"

namespace stalltrace::plugin {

/// The handle for a group that is not recorded: NCCL up to 2.27 reports a group's collectives only if the group's start
/// returned a handle (`if (plan->groupEventHandle)` in its profiler.cc). It is no id, since ids have a tag.
inline constexpr uint64_t kUnkeptGroup = 1;

/// 0: the handle of an event that is not recorded.
inline uint64_t id_of_handle(const void* handle) {
  const auto id = reinterpret_cast<uint64_t>(handle);
  return id == kUnkeptGroup ? 0 : id;
}

template <typename Coll>
void fill_collective(const Coll& from, Event& to) {
  to.type = ST_BOX_COLL;
  to.channels = from.channels;
  st_box_coll& coll = to.u.coll;
  coll.sequence = from.sequence;
  coll.count = from.count;
  coll.root_or_peer = from.root;
  coll.operation = operation_of(from.function);
  coll.datatype = datatype_of(from.datatype);
  coll.algorithm = algorithm_of(from.algorithm);
  coll.protocol = protocol_of(from.protocol);
}

template <typename P2p>
void fill_transfer(const P2p& from, Event& to) {
  to.type = ST_BOX_P2P;
  if constexpr (requires { from.channels; }) {
    to.channels = from.channels;
  }
  st_box_coll& coll = to.u.coll;
  coll.count = from.count;
  coll.root_or_peer = from.peer;
  coll.operation = operation_of(from.function);
  coll.datatype = datatype_of(from.datatype);
}

inline void fill_proxy_op(const nccl::ProxyOp& from, Event& to) {
  to.type = ST_BOX_PROXY_OP;
  to.channels = from.channel;
  to.flags = from.is_send != 0 ? ST_BOX_SEND_SIDE : 0;
  st_box_proxy_op& operation = to.u.proxy_op;
  operation.peer = from.peer;
  operation.maker_pid = from.pid;
  operation.steps = from.steps;
  operation.chunk_bytes = from.chunk_bytes;
}

template <typename KernelCh>
void fill_kernel_channel(const KernelCh& from, Event& to) {
  to.type = ST_BOX_KERNEL_CHANNEL;
  to.channels = from.channel;
  if constexpr (requires { from.gpu_timer_ns; }) {
    to.u.kernel_channel.gpu_start_ns = from.gpu_timer_ns;
  }
}

template <typename Api>
void fill_api(const Api& from, uint8_t type, Event& to) {
  to.type = type;
  st_box_api& api = to.u.api;
  api.datatype = ST_BOX_DATATYPE_UNKNOWN;
  api.root = -1;
  if constexpr (requires { from.function; }) {
    api.operation = operation_of(from.function);
    api.datatype = datatype_of(from.datatype);
    api.count = from.count;
  }
  if constexpr (requires { from.root; }) {
    api.root = from.root;
  }
  if constexpr (requires { from.stream; }) {
    api.stream = reinterpret_cast<uint64_t>(from.stream);
  }
  if constexpr (requires { from.depth; }) {
    api.depth = from.depth;
  }
  if constexpr (requires { from.graph_captured; }) {
    to.flags = from.graph_captured ? ST_BOX_GRAPH_CAPTURED : 0;
  }
}

/// Fills in the data of NCCL's own transports; of other plugins only the id.
void fill_net(const nccl::NetPlugin& from, Event& to);

void fill_copy_engine(const nccl::v6::CeColl& from, Event& to);
void fill_copy_engine_sync(const nccl::v6::CeSync& from, Event& to);
void fill_copy_engine_batch(const nccl::v6::CeBatch& from, Event& to);

/// Fills in types that v5 and v6 added; false for an unknown type.
template <typename Descriptor>
bool fill_later_types(const Descriptor& from, Event& to) {
  const auto type = static_cast<uint64_t>(from.type);
  if constexpr (requires { from.kernel_ch; }) {
    if (type == nccl::kEventKernelCh) {
      return fill_kernel_channel(from.kernel_ch, to), true;
    }
    if (type == nccl::kEventNetPlugin) {
      return fill_net(from.net_plugin, to), true;
    }
  }
  if constexpr (requires { from.group_api; }) {
    switch (type) {
      case nccl::kEventGroupApi:
        return fill_api(from.group_api, ST_BOX_GROUP_API, to), true;
      case nccl::kEventCollApi:
        return fill_api(from.coll_api, ST_BOX_COLL_API, to), true;
      case nccl::kEventP2pApi:
        return fill_api(from.p2p_api, ST_BOX_P2P_API, to), true;
      case nccl::kEventKernelLaunch:
        return fill_api(from.kernel_launch, ST_BOX_KERNEL_LAUNCH, to), true;
      default:
        break;
    }
  }
  if constexpr (requires { from.ce_coll; }) {
    switch (type) {
      case nccl::kEventCeColl:
        return fill_copy_engine(from.ce_coll, to), true;
      case nccl::kEventCeSync:
        return fill_copy_engine_sync(from.ce_sync, to), true;
      case nccl::kEventCeBatch:
        return fill_copy_engine_batch(from.ce_batch, to), true;
      default:
        break;
    }
  }
  return false;
}

/// Fills in an event that is all zero; false for a type of a later interface.
template <typename Descriptor>
bool fill_event(const Descriptor& from, Event& to) {
  to.rank = from.rank;
  to.parent = id_of_handle(from.parent);
  switch (static_cast<uint64_t>(from.type)) {
    case nccl::kEventGroup:
      return fill_api(from, ST_BOX_GROUP, to), true;
    case nccl::kEventColl:
      return fill_collective(from.coll, to), true;
    case nccl::kEventP2p:
      return fill_transfer(from.p2p, to), true;
    case nccl::kEventProxyOp:
      return fill_proxy_op(from.proxy_op, to), true;
    case nccl::kEventProxyStep:
      to.type = ST_BOX_PROXY_STEP;
      to.u.proxy_step.step = from.proxy_step.step;
      return true;
    case nccl::kEventProxyCtrl:
      to.type = ST_BOX_PROXY_CTRL;
      return true;
    default:
      return fill_later_types(from, to);
  }
}

}  // namespace stalltrace::plugin
