// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/proxy_step.h"

#include "plugin/abi/events.h"
#include "plugin/box/slots.h"
#include "plugin/recorder/marker.h"

namespace stalltrace::plugin {
namespace {

/// st_box_wait, or ST_BOX_WAIT_NONE for a state that does not belong to a step.
uint8_t wait_of(int nccl_state) {
  switch (nccl_state) {
    case nccl::kStateSendGpuWait:
    case nccl::kStateRecvGpuWait:
      return ST_BOX_WAIT_GPU;
    case nccl::kStateSendPeerWait:
    case nccl::kStateRecvFlushWait:
      return ST_BOX_WAIT_PEER;
    case nccl::kStateSendWait:
    case nccl::kStateRecvWait:
      return ST_BOX_WAIT_NETWORK;
    default:
      return ST_BOX_WAIT_NONE;
  }
}

/// NCCL sets the size in these two states; in the others it is still that of an earlier step.
bool reports_size(int nccl_state) {
  return nccl_state == nccl::kStateSendWait || nccl_state == nccl::kStateRecvFlushWait;
}

/// Adds the time in the current state, which lasts until `now`.
void end_wait(st_box_proxy_step& step, uint64_t now) {
  const uint8_t waited = load(step.state);
  if (waited < ST_BOX_WAITS) {
    add(step.wait_ns[waited], now - load(step.state_since_ns));
  }
}

bool waited_long(const st_box_proxy_step& step) {
  return step.wait_ns[ST_BOX_WAIT_GPU] >= ST_BOX_LONG_WAIT_NS ||
         step.wait_ns[ST_BOX_WAIT_PEER] >= ST_BOX_LONG_WAIT_NS ||
         step.wait_ns[ST_BOX_WAIT_NETWORK] >= ST_BOX_LONG_WAIT_NS;
}

/// Steps that are under way together wait together: only the first to end is reported.
bool begins_long_run(st_box_proxy_op& operation, int32_t step) {
  const auto number = static_cast<uint16_t>(step + 1);
  const uint16_t last = load(operation.long_step);
  if (last != 0 && static_cast<uint16_t>(number - last) < ST_BOX_STEPS_UNDER_WAY) {
    return false;
  }
  store(operation.long_step, number);
  return true;
}

}  // namespace

void join_operation(Box& box, Event& event) {
  st_box_proxy_step& step = event.u.proxy_step;
  step.state = ST_BOX_WAIT_NONE;
  step.peer = -1;
  Event* operation = hold(box, event.parent);
  if (operation == nullptr) {
    return;
  }
  if (operation->type == ST_BOX_PROXY_OP) {
    step.peer = operation->u.proxy_op.peer;
    step.coll = operation->parent;
    event.channels = operation->channels;
    event.flags |= operation->flags & (ST_BOX_SEND_SIDE | ST_BOX_OF_P2P);
  }
  release(box, *operation);
}

void change_wait(Box& box, Event& event, int nccl_state, uint64_t bytes) {
  st_box_proxy_step& step = event.u.proxy_step;
  const uint8_t wait = wait_of(nccl_state);
  if (wait == ST_BOX_WAIT_NONE) {
    count_loss(box, ST_BOX_LOST_UNKNOWN_STATE);
    return;
  }
  if (load(step.nccl_state) == nccl_state) {
    return;
  }
  const uint64_t now = now_ns();
  end_wait(step, now);
  store(step.state_since_ns, now);
  store(step.state, wait);
  store(step.nccl_state, static_cast<uint8_t>(nccl_state));
  if (reports_size(nccl_state)) {
    store(step.transferred_bytes, bytes);
  }
  if (nccl_state == nccl::kStateRecvFlushWait) {
    report_step_moved(box, event);
  }
}

void end_waits(Box& box, Event& event) {
  st_box_proxy_step& step = event.u.proxy_step;
  end_wait(step, event.end_ns);
  if ((event.flags & ST_BOX_SEND_SIDE) != 0) {
    report_step_moved(box, event);
  }
  Event* holder = hold(box, event.parent);
  if (holder == nullptr) {
    count_loss(box, ST_BOX_LOST_LATE_PART);
    return;
  }
  if (holder->type == ST_BOX_PROXY_OP) {
    st_box_proxy_op& operation = holder->u.proxy_op;
    for (int wait = 0; wait < ST_BOX_WAITS; ++wait) {
      if (const uint64_t waited_ns = load(step.wait_ns[wait]); waited_ns != 0) {
        add(operation.wait_ns[wait], waited_ns);
      }
    }
    if (const uint64_t bytes = load(step.transferred_bytes); bytes != 0) {
      add(operation.transferred_bytes, bytes);
    }
    if (waited_long(step) && begins_long_run(operation, step.step)) [[unlikely]] {
      event.flags |= ST_BOX_LONG_STEP;
    }
    add<uint32_t>(operation.steps_ended, 1);
    raise_to(operation.last_step_ns, event.end_ns);
  }
  release(box, *holder);
}

}  // namespace stalltrace::plugin
