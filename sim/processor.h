/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an installation of the driver bears of the machine's processor. The simulated one is that of
 * the processor for which the simulator was built: a reader passes over libraries of others.
 */
#ifndef SIM_PROCESSOR_H
#define SIM_PROCESSOR_H

#include <elf.h>

/* PROCESSOR_CACHE_FLAG: how /etc/ld.so.cache marks a library for the GNU libc
 * (sysdeps/generic/ldconfig.h of glibc). */
#if defined(__aarch64__)
#define PROCESSOR_NAME	     "aarch64" /* in /proc/driver/nvidia/version */
#define PROCESSOR_TRIPLET    "aarch64-linux-gnu"
#define PROCESSOR_ELF	     EM_AARCH64
#define PROCESSOR_CACHE_FLAG 0x0a03
#else
#define PROCESSOR_NAME	     "x86_64"
#define PROCESSOR_TRIPLET    "x86_64-linux-gnu"
#define PROCESSOR_ELF	     EM_X86_64
#define PROCESSOR_CACHE_FLAG 0x0303
#endif

#endif
