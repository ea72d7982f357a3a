/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where a function's arguments lie at its first instruction, by architecture.
 *
 * x86-64 (System V ABI, section 3.2.3): six integer arguments in rdi, rsi, rdx, rcx, r8, r9; further ones on the
 * stack from rsp + 8 (rsp holds the return address). A struct larger than 16 bytes passed by value takes no
 * register: it lies on the stack, so ncclCommInitRank(comm*, nranks, id, rank) has its rank in edx and its id
 * at rsp + 8.
 * arm64 (AAPCS64, section 6.8.2): eight integer arguments in x0 to x7. A struct larger than 16 bytes is replaced by
 * a pointer to a copy, in the register of its position: the id's address is in x2, the rank in w3.
 *
 * Plain C over a register file and a reader of user memory, so that both conventions are tested on any machine.
 * The including file defines ST_READ_USER(destination, size, address), which returns 0 on success.
 */
#ifndef STALLTRACE_CALLING_CONVENTION_H
#define STALLTRACE_CALLING_CONVENTION_H

#include "wire/collective.h"

/* struct pt_regs of x86-64, up to the stack segment (arch/x86/include/asm/ptrace.h). */
struct st_registers_x86_64 {
  __u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

/* struct user_pt_regs of arm64 (arch/arm64/include/uapi/asm/ptrace.h). */
struct st_registers_arm64 {
  __u64 regs[31], sp, pc, pstate;
};

/* One call's arguments by slot: [1] is the first. id_address is the address of a by-value unique id, 0 if none. */
struct st_arguments {
  __u64 slot[ST_ARGUMENT_SLOTS];
  __u64 id_address;
};

#define ST_ALWAYS_INLINE static inline __attribute__((always_inline))

/* Slots count the arguments of the C prototype without a by-value id, which has no slot of its own. */
ST_ALWAYS_INLINE void st_read_arguments_x86_64(const struct st_registers_x86_64* registers,
                                               const struct st_call_spec* spec, struct st_arguments* arguments) {
  arguments->slot[1] = registers->di;
  arguments->slot[2] = registers->si;
  arguments->slot[3] = registers->dx;
  arguments->slot[4] = registers->cx;
  arguments->slot[5] = registers->r8;
  arguments->slot[6] = registers->r9;
  const __u64 stack = registers->sp + 8;
  if (spec->id_by_value) {
    arguments->id_address = stack;
    return;
  }
  for (unsigned int i = 0; i < ST_MAX_STACK_ARGUMENTS; i++) {
    if (i < spec->stack_arguments) {
      ST_READ_USER(&arguments->slot[7 + i], sizeof(__u64), stack + i * sizeof(__u64));
    }
  }
}

ST_ALWAYS_INLINE void st_read_arguments_arm64(const struct st_registers_arm64* registers,
                                              const struct st_call_spec* spec, struct st_arguments* arguments) {
  if (spec->id_by_value) {
    /* (comm*, nranks, &copy of id, rank, config*): drop the pointer's register from the count. */
    arguments->slot[1] = registers->regs[0];
    arguments->slot[2] = registers->regs[1];
    arguments->id_address = registers->regs[2];
    arguments->slot[3] = registers->regs[3];
    arguments->slot[4] = registers->regs[4];
    return;
  }
  arguments->slot[1] = registers->regs[0];
  arguments->slot[2] = registers->regs[1];
  arguments->slot[3] = registers->regs[2];
  arguments->slot[4] = registers->regs[3];
  arguments->slot[5] = registers->regs[4];
  arguments->slot[6] = registers->regs[5];
  arguments->slot[7] = registers->regs[6];
  arguments->slot[8] = registers->regs[7];
  for (unsigned int i = 2; i < ST_MAX_STACK_ARGUMENTS; i++) { /* AAPCS64 has two registers more than x86-64 */
    if (i < spec->stack_arguments) {
      ST_READ_USER(&arguments->slot[7 + i], sizeof(__u64), registers->sp + (i - 2) * sizeof(__u64));
    }
  }
}

#define ST_CODE_BYTES 8 /* code bytes examined before an address */

/* Whether an address after these bytes can be a return address, that is, follows a call. One in 170 random byte strings
 * matches. Intel SDM volume 2, CALL: E8 with 32 bits, or FF /2 with a ModRM byte, and SIB and displacement. */
ST_ALWAYS_INLINE int st_is_behind_call_x86_64(const __u8* code) {
  const __u8* end = code + ST_CODE_BYTES;
  return end[-5] == 0xe8 || (end[-2] == 0xff && (end[-1] & 0x38) == 0x10) ||
         (end[-3] == 0xff && (end[-2] & 0x38) == 0x10) || (end[-4] == 0xff && (end[-3] & 0x38) == 0x10) ||
         (end[-6] == 0xff && (end[-5] & 0x38) == 0x10) || (end[-7] == 0xff && (end[-6] & 0x38) == 0x10);
}

/* BL, and BLR with or without pointer authentication (Arm ARM, C6.2). */
ST_ALWAYS_INLINE int st_is_behind_call_arm64(const __u8* code) {
  const __u8* last = code + ST_CODE_BYTES - 4;
  const __u32 instruction = (__u32)last[0] | (__u32)last[1] << 8 | (__u32)last[2] << 16 | (__u32)last[3] << 24;
  return (instruction & 0xfc000000) == 0x94000000 || (instruction & 0xfefff000) == 0xd63f0000;
}

#if defined(__TARGET_ARCH_x86)
#define st_is_behind_call st_is_behind_call_x86_64
#define ST_CODE_ADDRESS(pointer) (pointer)
#define st_registers st_registers_x86_64
#define st_read_arguments st_read_arguments_x86_64
#define ST_FIRST_ARGUMENT(registers) ((registers)->di)
#define ST_THIRD_ARGUMENT(registers) ((registers)->dx)
#define ST_FOURTH_ARGUMENT(registers) ((registers)->cx)
#define ST_FIFTH_ARGUMENT(registers) ((registers)->r8)
#define ST_INSTRUCTION_POINTER(registers) ((registers)->ip)
#define ST_STACK_POINTER(registers) ((registers)->sp)
#define ST_RETURN_VALUE(registers) ((registers)->ax)
#define ST_FRAME_POINTER(registers) ((registers)->bp)
#define ST_RETURN_ADDRESS(registers) user_u64((registers)->sp) /* at entry, as on arm64 */
/* At a return probe the return address has been popped; at entry it had been pushed. */
#define ST_ENTRY_STACK_POINTER_AT_RETURN(registers) ((registers)->sp - 8)
#elif defined(__TARGET_ARCH_arm64)
#define st_is_behind_call st_is_behind_call_arm64
#define ST_CODE_ADDRESS(pointer) ((pointer)&0xffffffffffff) /* without its authentication code */
#define st_registers st_registers_arm64
#define st_read_arguments st_read_arguments_arm64
#define ST_FIRST_ARGUMENT(registers) ((registers)->regs[0])
#define ST_THIRD_ARGUMENT(registers) ((registers)->regs[2])
#define ST_FOURTH_ARGUMENT(registers) ((registers)->regs[3])
#define ST_FIFTH_ARGUMENT(registers) ((registers)->regs[4])
#define ST_INSTRUCTION_POINTER(registers) ((registers)->pc)
#define ST_STACK_POINTER(registers) ((registers)->sp)
#define ST_RETURN_VALUE(registers) ((registers)->regs[0])
#define ST_FRAME_POINTER(registers) ((registers)->regs[29])
#define ST_RETURN_ADDRESS(registers) ((registers)->regs[30])
#define ST_ENTRY_STACK_POINTER_AT_RETURN(registers) ((registers)->sp)
#endif

#endif
