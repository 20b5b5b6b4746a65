/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleanup attributes: a local that owns something says so at its declaration and is released on
 * every way out of its scope. take_ptr() and take_fd() hand the ownership out.
 */
#ifndef SLUICE_BASE_CLEANUP_H
#define SLUICE_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void cleanup_free_fn(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_close_fn(const int *fd)
{
	if (*fd >= 0)
		(void)close(*fd); /* nothing can be done about it on the way out */
}

static inline void cleanup_fclose_fn(FILE **file)
{
	if (*file)
		(void)fclose(
		    *file); /* files whose content matters are closed and checked explicitly */
}

static inline void cleanup_closedir_fn(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

#define _cleanup_free_	   _cleanup_(cleanup_free_fn)
#define _cleanup_close_	   _cleanup_(cleanup_close_fn)
#define _cleanup_fclose_   _cleanup_(cleanup_fclose_fn)
#define _cleanup_closedir_ _cleanup_(cleanup_closedir_fn)

/* Returns the pointer and leaves NULL behind: the caller now owns it. A macro keeps the type. */
#define take_ptr(pointer)                                                                          \
	__extension__({                                                                            \
		__typeof__(pointer) take_ptr_value_ = (pointer);                                   \
		(pointer) = NULL;                                                                  \
		take_ptr_value_;                                                                   \
	})

/* Returns the descriptor and leaves -1 behind: the caller now owns it. */
static inline int take_fd(int *fd)
{
	int value = *fd;
	*fd = -1;
	return value;
}

#endif
