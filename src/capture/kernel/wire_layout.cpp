// SPDX-License-Identifier: Apache-2.0
// Asserts that records of the kernel side have no hidden padding, so that every byte of them is written. Compiling this
// file is the check.
#include <type_traits>

#include "wire/collective.h"
#include "wire/config.h"
#include "wire/host_drops.h"
#include "wire/marker.h"
#include "wire/python.h"
#include "wire/scheduler.h"
#include "wire/tcp.h"
#include "wire/user_share.h"

namespace stalltrace::capture {
namespace {

template <typename... Records>
constexpr bool all_bytes_count() {
  return (std::has_unique_object_representations_v<Records> && ...);
}

static_assert(all_bytes_count<st_header, st_process_seen, st_process, st_call_spec, st_call_entry, st_call_stack,
                              st_call_return, st_comm_init, st_nccl_layout, st_nccl_fields, st_nccl_identity, st_sync,
                              st_requests_done, st_sequence_key, st_sequence, st_user, st_config>());
static_assert(all_bytes_count<st_tuple, st_tcp_event, st_tcp_metrics, st_tcp_sample, st_net_span, st_socket_seen,
                              st_socket_listing, st_span_state, st_socket, st_drop_key, st_drops, st_connection,
                              st_step_mark, st_last_transfer>());
static_assert(all_bytes_count<st_python_layout, st_python_traceback, st_python_frame, st_python_exception>());
static_assert(all_bytes_count<st_wait, st_exit, st_wait_sum, st_thread_time, st_thread_listing, st_oom_kill>());

}  // namespace
}  // namespace stalltrace::capture
