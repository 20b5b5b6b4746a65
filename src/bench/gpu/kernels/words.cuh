/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernels are written in: clang's CUDA dialect without NVIDIA's headers. `make ptx` makes
 * one text of all of them for each target.
 */
#pragma once
#define KERNEL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
#define DEVICE static __attribute__((device)) inline
typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short f16; /* the bits of one */
typedef u32 u32x4 __attribute__((ext_vector_type(4)));

DEVICE u32 thread_index(void)
{
	return __nvvm_read_ptx_sreg_tid_x();
}

DEVICE u32 block_index(void)
{
	return __nvvm_read_ptx_sreg_ctaid_x();
}

DEVICE u32 global_index(void)
{
	return block_index() * __nvvm_read_ptx_sreg_ntid_x() + thread_index();
}

/* Nanoseconds of the whole GPU; its step differs between GPUs (1 us on many). */
DEVICE u64 timer_ns(void)
{
	u64 now;
	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) : : "memory");
	return now;
}
