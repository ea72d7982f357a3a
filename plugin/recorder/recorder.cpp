// SPDX-License-Identifier: Apache-2.0
#include "plugin/recorder/recorder.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "plugin/abi/events.h"
#include "plugin/box/communicators.h"
#include "plugin/box/ring.h"
#include "plugin/box/slots.h"
#include "plugin/recorder/call_numbers.h"
#include "plugin/recorder/marker.h"
#include "plugin/recorder/proxy_step.h"

namespace stalltrace::plugin {
namespace {

// In the static TLS block, since a thread's first access must not allocate.
[[gnu::tls_model("initial-exec")]] constinit thread_local uint32_t this_thread = 0;

uint32_t thread_id() {
  if (this_thread == 0) {
    this_thread = static_cast<uint32_t>(syscall(SYS_gettid));
  }
  return this_thread;
}

/// Collectives and the parts that show their end need a slot even if they are not recorded.
bool is_followed(const Box& box, uint8_t type) {
  constexpr uint32_t kNeeded = 1U << ST_BOX_COLL | 1U << ST_BOX_P2P | 1U << ST_BOX_PROXY_OP | 1U << ST_BOX_PROXY_STEP |
                               1U << ST_BOX_KERNEL_CHANNEL;
  return ((kNeeded | box.kept_mask) >> type & 1) != 0;
}

/// The next number of a communicator's collectives.
uint64_t count_collective(Communicator* communicator) {
  return communicator != nullptr ? add<uint64_t>(communicator->collectives, 1) : ST_BOX_NUMBER_UNKNOWN;
}

/// Numbers a call, unless it is captured into a CUDA graph, which does not run it now; each run of the graph counts.
void number_call(Communicator* communicator, Event& call) {
  if (communicator != nullptr && (call.flags & ST_BOX_GRAPH_CAPTURED) == 0) {
    const uint64_t number = count_collective(communicator);
    call.u.api.call_ordinal = number + 1;
    note_call(call.id, number);
  }
}

/// Not all calls become a COLL: they are counted when reported, so that all ranks agree on the numbers.
uint64_t number_of_collective(Communicator* communicator, const Event& event) {
  const uint64_t number = number_of_call(event.parent);
  return number != ST_BOX_NUMBER_UNKNOWN ? number : count_collective(communicator);
}

/// NCCL's kernel counts a rank's transfer to itself among a channel's works, its host does not (addP2pToPlan in NCCL's
/// src/enqueue.cc, 2.26 to 2.30): from the first one on, the host reads the times of earlier works.
bool reports_kernels_too_early(const Communicator* communicator) {
  return communicator != nullptr && load(communicator->own_transfers) != 0;
}

void expect_kernel(Event& event, const Communicator* communicator) {
  if (reports_kernels_too_early(communicator)) {
    event.flags |= ST_BOX_KERNELS_UNTRUE;
  } else {
    event.flags |= ST_BOX_KERNEL_EXPECTED;
  }
}

void number_collective(Box& box, Communicator* communicator, Event& event) {
  const bool alone = communicator != nullptr && communicator->ranks == 1;
  if (box.kernels_reported && !alone) {
    expect_kernel(event, communicator);
  }
  event.u.coll.call_number = number_of_collective(communicator, event);
}

/// Numbers a collective of the copy engines.
void number_copy(Communicator* communicator, Event& event) {
  const bool counts = event.parent == 0 && communicator != nullptr;  // its call is not recorded
  const uint64_t number = counts ? count_collective(communicator) : number_of_call(event.parent);
  event.u.ce.call_ordinal = number != ST_BOX_NUMBER_UNKNOWN ? number + 1 : 0;
}

void number_transfer(Box& box, uint64_t context, Communicator* communicator, Event& event) {
  const bool own = st_box_is_own_transfer(&event) != 0;
  if (box.kernels_reported && !own) {
    expect_kernel(event, communicator);
  } else if (own && communicator != nullptr) {
    store<uint32_t>(communicator->own_transfers, 1);
  }
  event.u.coll.call_number = ST_BOX_NUMBER_UNKNOWN;
  event.flags |= ST_BOX_OWN_SEQUENCE;
  event.u.coll.sequence = ST_BOX_NUMBER_UNKNOWN;
  if (communicator != nullptr) {
    const bool send = event.u.coll.operation == ST_BOX_OP_SEND;
    add<uint64_t>(send ? communicator->sends : communicator->receives, 1);
    event.u.coll.sequence = count_transfer(context, send, event.u.coll.root_or_peer);
  }
}

/// Makes a proxy operation or kernel channel a part of its collective.
void join_collective(Box& box, Event& part) {
  const bool is_operation = part.type == ST_BOX_PROXY_OP;
  const bool foreign = is_operation && part.u.proxy_op.maker_pid != static_cast<int32_t>(box.header->pid);
  if (part.parent == 0) {
    return;
  }
  if (foreign || part.parent >> ST_BOX_ID_TAG_SHIFT != box.tag) {
    part.flags |= ST_BOX_FOREIGN_PARENT;
    return;
  }
  Event* whole = hold_for_part(box, part.parent);
  if (whole == nullptr) {
    count_loss(box, ST_BOX_LOST_LATE_PART);
    return;
  }
  part.flags |= ST_BOX_COUNTED;
  st_box_coll& coll = whole->u.coll;
  if (is_operation) {
    part.flags |= whole->type == ST_BOX_P2P ? ST_BOX_OF_P2P : 0;
    add<uint16_t>(coll.ops_started, 1);
    return;
  }
  add<uint16_t>(coll.kernels_started, 1);
  lower_to(coll.kernel_start_ns, part.start_ns);
  if (part.u.kernel_channel.gpu_start_ns != 0) {
    lower_to(coll.gpu_start_ns, part.u.kernel_channel.gpu_start_ns);
  }
}

void join_as_kernel(Box& box, const Communicator* communicator, Event& kernel) {
  Event* whole = reports_kernels_too_early(communicator) ? hold(box, kernel.parent) : nullptr;
  const bool untrue = whole != nullptr && (whole->flags & ST_BOX_KERNELS_UNTRUE) != 0;
  if (whole != nullptr) {
    release(box, *whole);
  }
  if (!untrue) {
    join_collective(box, kernel);
  }
}

/// A part has ended: its collective ends no earlier. The part holds `whole`.
void leave_collective(Box& box, Event& whole, bool is_operation, uint64_t end_ns, uint64_t gpu_stop_ns) {
  st_box_coll& coll = whole.u.coll;
  raise_to(whole.end_ns, end_ns);
  raise_to(coll.gpu_stop_ns, gpu_stop_ns);
  add<uint16_t>(is_operation ? coll.ops_ended : coll.kernels_ended, 1);
  release(box, whole);
}

void stop_part(Box& box, Event& part) {
  const uint64_t end_ns = now_ns();
  part.end_ns = end_ns;
  const bool is_operation = part.type == ST_BOX_PROXY_OP;
  const bool counted = (part.flags & ST_BOX_COUNTED) != 0;
  const uint64_t parent = part.parent;
  const uint64_t gpu_stop_ns = is_operation ? 0 : load(part.u.kernel_channel.gpu_stop_ns);
  if (is_operation) {
    count_operation_end((part.flags & ST_BOX_SEND_SIDE) != 0, end_ns);
  }
  release(box, part);  // before the collective: its parts precede it in the ring
  if (Event* whole = counted ? held_by_part(box, parent) : nullptr) {
    leave_collective(box, *whole, is_operation, end_ns, gpu_stop_ns);
  }
}

void record_operation_state(Box& box, Event& event, int state, const StateDetail& detail) {
  st_box_proxy_op& operation = event.u.proxy_op;
  if (state == nccl::kStateOpInProgress || state == nccl::kStateSendPosted || state == nccl::kStateRecvPosted) {
    lower_to(operation.in_progress_ns, now_ns());
  } else if (state < nccl::kStateSendPosted || state > nccl::kStateRecvDone) {
    count_loss(box, ST_BOX_LOST_UNKNOWN_STATE);
    return;
  }
  store(operation.nccl_state, static_cast<uint16_t>(state));
  raise_to(operation.transferred_bytes, detail.bytes);
}

void record_control_state(Box& box, Event& event, int state, const StateDetail& detail) {
  if (state < nccl::kStateCtrlIdle || state > nccl::kStateCtrlAppendEnd) {
    count_loss(box, ST_BOX_LOST_UNKNOWN_STATE);
    return;
  }
  store(event.u.proxy_ctrl.nccl_state, static_cast<int32_t>(state));
  if (state == nccl::kStateCtrlAppendEnd) {
    store(event.u.proxy_ctrl.appended_ops, detail.appended_ops);
  }
}

void record_group_state(Box& box, Event& event, int state) {
  if (state == nccl::kStateGroupStartApiStop) {
    store(event.u.api.start_returned_ns, now_ns());
  } else if (state == nccl::kStateGroupEndApiStart) {
    store(event.u.api.end_entered_ns, now_ns());
  } else {
    count_loss(box, ST_BOX_LOST_UNKNOWN_STATE);
  }
}

void record_held(Box& box, Event& event, int state, const StateDetail& detail) {
  switch (event.type) {
    case ST_BOX_PROXY_STEP:
      return change_wait(box, event, state, detail.bytes);
    case ST_BOX_PROXY_OP:
      return record_operation_state(box, event, state, detail);
    case ST_BOX_PROXY_CTRL:
      return record_control_state(box, event, state, detail);
    case ST_BOX_GROUP_API:
      return record_group_state(box, event, state);
    case ST_BOX_KERNEL_CHANNEL:
      if (state == nccl::kStateKernelChStop) {
        return store(event.u.kernel_channel.gpu_stop_ns, detail.gpu_timer_ns);
      }
      break;
    case ST_BOX_NET:
      if (state == nccl::kStateNetPluginUpdate) {
        add<uint32_t>(event.u.net.updates, 1);
        return;
      }
      break;
    case ST_BOX_CE_COLL:
    case ST_BOX_CE_SYNC:
    case ST_BOX_CE_BATCH:
      if (state >= nccl::kStateCeCollStart && state <= nccl::kStateCeBatchComplete) {
        return;  // start and stop have the same content
      }
      break;
    default:
      break;
  }
  count_loss(box, ST_BOX_LOST_UNKNOWN_STATE);
}

}  // namespace

uint64_t start_event(Box& box, uint64_t context, const Event& initial) {
  if (!is_followed(box, initial.type)) {
    return 0;
  }
  Event* slot = claim(box, initial);
  if (slot == nullptr) {
    if (initial.type == ST_BOX_PROXY_OP) {
      count_operation_start((initial.flags & ST_BOX_SEND_SIDE) != 0, 0);
    }
    return 0;
  }
  Communicator* communicator = communicator_of(box, context);
  slot->communicator = communicator != nullptr ? serial_of(context) : 0;
  slot->tid = thread_id();
  slot->start_ns = now_ns();
  switch (initial.type) {
    case ST_BOX_COLL:
      number_collective(box, communicator, *slot);
      break;
    case ST_BOX_P2P:
      number_transfer(box, context, communicator, *slot);
      break;
    case ST_BOX_COLL_API:
      number_call(communicator, *slot);
      break;
    case ST_BOX_CE_COLL:
      number_copy(communicator, *slot);
      break;
    case ST_BOX_PROXY_OP:
      count_operation_start((slot->flags & ST_BOX_SEND_SIDE) != 0, slot->start_ns);
      join_collective(box, *slot);
      break;
    case ST_BOX_KERNEL_CHANNEL:
      join_as_kernel(box, communicator, *slot);
      break;
    case ST_BOX_PROXY_STEP:
      join_operation(box, *slot);
      break;
    default:
      break;
  }
  const uint64_t id = slot->id;
  const uint64_t start_ns = slot->start_ns;
  publish(*slot);
  refresh_anchor(box, start_ns);
  return id;
}

void stop_event(Box& box, uint64_t id) {
  Event* slot = end(box, id);
  if (slot == nullptr) {
    return;
  }
  switch (slot->type) {
    case ST_BOX_COLL:
    case ST_BOX_P2P:
      slot->u.coll.enqueued_ns = now_ns();
      break;
    case ST_BOX_PROXY_OP:
    case ST_BOX_KERNEL_CHANNEL:
      return stop_part(box, *slot);
    case ST_BOX_PROXY_STEP:
      slot->end_ns = now_ns();
      end_waits(box, *slot);
      break;
    default:
      slot->end_ns = now_ns();
      break;
  }
  release(box, *slot);
}

void record_state(Box& box, uint64_t id, int state, const StateDetail& detail) {
  Event* slot = hold(box, id);
  if (slot == nullptr) {
    count_loss(box, id >> ST_BOX_ID_TAG_SHIFT == box.tag ? ST_BOX_LOST_STALE_HANDLE : ST_BOX_LOST_FOREIGN_HANDLE);
    return;
  }
  record_held(box, *slot, state, detail);
  release(box, *slot);
}

void forget_thread() { this_thread = 0; }

}  // namespace stalltrace::plugin
