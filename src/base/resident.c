/* SPDX-License-Identifier: Apache-2.0 */
#include "base/resident.h"

#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

/* The loader has written relocations into its code: those pages are not what the file has. */
static bool resident_is_patched(const struct dl_phdr_info *object)
{
	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &object->dlpi_phdr[i];
		if (header->p_type != PT_DYNAMIC)
			continue;

		const ElfW(Dyn) *entry = (const void *)(object->dlpi_addr + header->p_vaddr);

		for (; entry->d_tag != DT_NULL; entry++) {
			if (entry->d_tag == DT_TEXTREL ||
			    (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL)))
				return true;
		}
	}

	return false;
}

static int resident_on_object(struct dl_phdr_info *object, size_t size, void *context)
{
	struct resident *resident = context;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (resident_is_patched(object))
		return 0;

	for (size_t i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &object->dlpi_phdr[i];
		if (header->p_type != PT_LOAD || (header->p_flags & PF_W) ||
		    resident->count == RESIDENT_RANGE_MAX)
			continue;

		uintptr_t begin = (object->dlpi_addr + header->p_vaddr) & ~(page - 1);
		uintptr_t end = object->dlpi_addr + header->p_vaddr + header->p_memsz;

		resident->range[resident->count].at = (void *)begin;
		resident->range[resident->count++].size = ((end - begin) + page - 1) & ~(page - 1);
	}

	return 0;
}

void resident_init(struct resident *resident)
{
	resident->count = 0;
	(void)dl_iterate_phdr(resident_on_object, resident);
}

void resident_give_back_stack(void)
{
	pthread_attr_t attributes;
	void *lowest;
	size_t size;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	if (pthread_getattr_np(pthread_self(), &attributes) != 0)
		return;

	int rc = pthread_attr_getstack(&attributes, &lowest, &size);

	(void)pthread_attr_destroy(&attributes);
	if (rc != 0)
		return;

	/* A stack grows down (on each machine that we are built for). What is kept is this
	 * function's own frame, and a page for those that it calls. */
	uintptr_t end = ((uintptr_t)__builtin_frame_address(0) & ~(page - 1)) - 2 * page;
	uintptr_t begin = end > RESIDENT_STACK_MAX ? end - RESIDENT_STACK_MAX : 0;

	if (begin < (uintptr_t)lowest)
		begin = ((uintptr_t)lowest + page - 1) & ~(page - 1);
	if (begin < end)
		(void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

void resident_give_back(const struct resident *resident)
{
	(void)malloc_trim(0);
	for (uint32_t i = 0; i < resident->count; i++) /* where it cannot be, it stays */
		(void)madvise(resident->range[i].at, resident->range[i].size, MADV_DONTNEED);
}
