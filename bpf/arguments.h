// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Decodes the arguments of a call: registers and stack, an MPI datatype, a struct of Gloo's options.
#ifndef STALLTRACE_ARGUMENTS_H
#define STALLTRACE_ARGUMENTS_H

#include "kernel_types.h"
#include "wire/collective.h"

#define ST_READ_USER(destination, size, address) bpf_probe_read_user(destination, size, (const void*)(address))
#include "calling_convention.h"

// 0 for slot 0.
static __always_inline u64 argument(const struct st_arguments* arguments, u8 slot) {
  return arguments->slot[slot & (ST_ARGUMENT_SLOTS - 1)];
}

// A handle as it was passed. Its register or stack slot has undefined bits above an int.
static __always_inline u64 handle_argument(const struct st_arguments* arguments, u8 slot, bool int_handles) {
  const u64 value = argument(arguments, slot);
  return int_handles ? (u32)value : value;
}

// A handle in memory, 0 where it can't be read.
static __always_inline u64 handle_at(u64 address, bool int_handles) {
  u64 handle = 0;
  if (int_handles) {
    bpf_probe_read_user(&handle, sizeof(u32), (const void*)address);
  } else {
    bpf_probe_read_user(&handle, sizeof(u64), (const void*)address);
  }
  return handle;
}

// Bytes of one element of an MPI_Datatype. OpenMPI's is a pointer to struct ompi_datatype_t, whose base, struct
// opal_datatype_t (opal/datatype/opal_datatype.h), has the size after a 16-byte object head, two u16 and a u32. MPICH's
// is an int that holds the size of a predefined type in its second byte (src/include/mpi.h.in, 0x4c00SSnn).
static __always_inline u32 mpi_element_bytes(u64 datatype, bool int_handles) {
  if (int_handles) {
    return (datatype & 0xff000000) == 0x4c000000 ? (datatype >> 8) & 0xff : 0;
  }
  u64 bytes = 0;
  bpf_probe_read_user(&bytes, sizeof(bytes), (const void*)(datatype + 24));
  return bytes < (1ULL << 32) ? bytes : 0;
}

static __always_inline u64 user_u64(u64 address) {
  u64 value = 0;
  bpf_probe_read_user(&value, sizeof(value), (const void*)address);
  return value;
}

static __always_inline u32 user_u32(u64 address, u32 unreadable) {
  u32 value = 0;
  return bpf_probe_read_user(&value, sizeof(value), (const void*)address) ? unreadable : value;
}

// Fills in the fields from a Gloo call's options at address `options`.
static __always_inline void read_options(const volatile struct st_call_spec* spec, u64 options,
                                         struct st_call_entry* record) {
  record->comm_rank = (s32)user_u32(record->comm + ST_GLOO_CONTEXT_RANK, -1);
  record->comm_size = (s32)user_u32(record->comm + ST_GLOO_CONTEXT_SIZE, -1);
  if (spec->option_element_bytes) {
    record->element_bytes = (u32)user_u64(options + spec->option_element_bytes);
  }
  if (spec->option_count) {
    record->count = user_u64(options + spec->option_count);
  } else if (spec->option_buffer && record->element_bytes) {
    const u64 buffer = user_u64(options + spec->option_buffer);
    record->count = buffer ? user_u64(buffer + ST_GLOO_BUFFER_SIZE) / record->element_bytes : 0;
  }
  if (spec->option_root) {
    record->root = (s32)user_u32(options + spec->option_root, -1);
  }
  if (spec->option_tag) {
    record->tag = user_u32(options + spec->option_tag, 0);
    record->flags |= ST_CALL_HAS_TAG;
  }
}

#endif
