// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Exceptions of traced Python processes, at the entry of the functions by which CPython prints them. They cost nothing
// until then.
#ifndef STALLTRACE_PYTHON_H
#define STALLTRACE_PYTHON_H

#include "calls_in_flight.h"
#include "python_traceback.h"

const volatile struct st_python_layout python_layouts[ST_PYTHON_VERSIONS] = {};

SEC("uprobe")
int python_raised(struct pt_regs* ctx) {
  const struct st_registers* registers = (const struct st_registers*)ctx;
  const u64 cookie = cookie_of(ctx);
  const u64 id = bpf_get_current_pid_tgid();
  const u32 minor = cookie >> ST_PYTHON_VERSION_SHIFT & 0xff;
  const volatile struct st_python_layout* layout = &python_layouts[minor & (ST_PYTHON_VERSIONS - 1)];
  const struct st_process* process = calling_process(current_task(), id >> 32);
  if (!process || !layout->known) {
    return 0;
  }
  struct python_error error = {};
  const u32 function = cookie & 0xff;
  if (function == ST_PYTHON_DISPLAYS) {
    error.type = user_u64(ST_THIRD_ARGUMENT(registers) + layout->object_type);
    error.traceback = ST_FOURTH_ARGUMENT(registers);
  } else {
    const s32 distance = (s32)(cookie >> ST_PYTHON_RUNTIME_SHIFT);
    error = current_python_error(layout, ST_INSTRUCTION_POINTER(registers) + (s64)distance);
  }
  if (!error.type || !ST_HAS_COLLECTIVE_SHARE(process->user, ST_RECORD_BYTES(sizeof(struct st_python_exception)))) {
    return 0;
  }
  struct st_python_exception* record = bpf_ringbuf_reserve(&collective_ring, sizeof(*record), 0);
  if (!record) {
    count_loss(ST_LOSS_COLLECTIVE);
    return 0;
  }
  fill_header(&record->header, ST_RECORD_PYTHON_EXCEPTION, sizeof(*record), bpf_ktime_get_ns(), id >> 32, (u32)id);
  record->traceback = error.traceback;
  record->minor = minor;
  record->function = function;
  record->type[0] = 0;
  bpf_probe_read_user_str(record->type, sizeof(record->type), (const void*)user_u64(error.type + layout->type_name));
  record->depth = walk_traceback(layout, error.traceback, record);
  // Read anew: the verifier would look at all that follows once for each depth.
  const u32 depth = *(volatile u32*)&record->depth;
  for (u32 i = 0; i < ST_PYTHON_FRAMES && i < depth; i++) {
    u32 slot = i;
    asm volatile("" : "+r"(slot));
    read_frame(layout, &record->frames[slot & (ST_PYTHON_FRAMES - 1)]);
  }
  bpf_ringbuf_submit(record, ST_WAKE_FLAGS(&collective_ring));
  return 0;
}

#endif
