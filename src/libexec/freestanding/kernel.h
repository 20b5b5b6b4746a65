/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few calls of the kernel that sluice-memlock and sluice-rsh make, without a C library: what
 * runs as root between a container's creation and its start has no loader, no environment and no
 * configuration that somebody could turn against it, and what runs in anybody's image asks for no
 * library there. Each returns what the kernel returns: -errno on failure.
 *
 * https://man7.org/linux/man-pages/man2/syscall.2.html
 */
#ifndef SLUICE_LIBEXEC_FREESTANDING_KERNEL_H
#define SLUICE_LIBEXEC_FREESTANDING_KERNEL_H

#include <asm/unistd.h>

static inline long kernel_call(long number, long a, long b, long c, long d)
{
#if defined(__x86_64__)
	long result;
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = number;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	__asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory", "cc");
	return x0;
#else
#error                                                                                             \
    "sluice-memlock and sluice-rsh know x86-64 and aarch64: add the system call of this processor here"
#endif
}

/* The first instruction: hands the stack, with argc and argv on it, to the function `start`. */
#if defined(__x86_64__)
#define KERNEL_ENTRY(start)                                                                        \
	__asm__(".text\n.globl _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n"              \
		"\tand $-16, %rsp\n\tcall " start "\n\thlt\n")
#elif defined(__aarch64__)
#define KERNEL_ENTRY(start)                                                                        \
	__asm__(".text\n.globl _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n"      \
		"\tbl " start "\n\tbrk #0\n")
#endif

#endif
