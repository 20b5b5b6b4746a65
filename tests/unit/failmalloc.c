/* SPDX-License-Identifier: Apache-2.0 */
/* Linked with --wrap for each function below: a call of malloc() arrives at __wrap_malloc(). */
#include "unit/failmalloc.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/unit.h"

enum { FAILMALLOC_LIVE = 1 << 16, FAILMALLOC_ROUNDS = 100000 };

static pthread_mutex_t failmalloc_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long failmalloc_count;	       /* allocations so far */
static unsigned long failmalloc_at;	       /* the one that fails; 0: none */
static bool failmalloc_tracks;		       /* whether live memory is written down */
static void *failmalloc_live[FAILMALLOC_LIVE]; /* open hash; FAILMALLOC_GONE: was here */
static long failmalloc_live_count;

#define FAILMALLOC_GONE ((void *)&failmalloc_mutex)

/* Only in programs that link these libraries. */
void event_set_mem_functions(void *(*allocate)(size_t), void *(*resize)(void *, size_t),
			     void (*release)(void *)) __attribute__((weak));
void json_set_alloc_funcs(void *(*allocate)(size_t), void (*release)(void *)) __attribute__((weak));

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
void __real_free(void *memory);
/* Seen from outside: the linker refers a shared library's malloc() to them as well where it checks,
 * though that library goes on calling the C library's. */
#pragma GCC visibility push(default)
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t size);
void __wrap_free(void *memory);
#pragma GCC visibility pop

static size_t failmalloc_slot(const void *memory)
{
	return ((uintptr_t)memory >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 48;
}

static void failmalloc_add(void *memory)
{
	for (size_t i = 0; i < FAILMALLOC_LIVE; i++) {
		void **slot = &failmalloc_live[(failmalloc_slot(memory) + i) % FAILMALLOC_LIVE];
		if (*slot && *slot != FAILMALLOC_GONE)
			continue;
		*slot = memory;
		failmalloc_live_count++;
		return;
	}
}

static void failmalloc_remove(const void *memory)
{
	for (size_t i = 0; i < FAILMALLOC_LIVE; i++) {
		void **slot = &failmalloc_live[(failmalloc_slot(memory) + i) % FAILMALLOC_LIVE];
		if (!*slot)
			return; /* made before tracking began, or by somebody else */
		if (*slot != memory)
			continue;
		*slot = FAILMALLOC_GONE;
		failmalloc_live_count--;
		return;
	}
}

/* Counts one allocation; false: this one fails. */
static bool failmalloc_may(void)
{
	(void)pthread_mutex_lock(&failmalloc_mutex);
	bool may = ++failmalloc_count != failmalloc_at;
	(void)pthread_mutex_unlock(&failmalloc_mutex);
	if (!may)
		errno = ENOMEM;
	return may;
}

static void *failmalloc_made(void *memory, const void *old)
{
	(void)pthread_mutex_lock(&failmalloc_mutex);
	if (failmalloc_tracks && memory) {
		if (old)
			failmalloc_remove(old);
		failmalloc_add(memory);
	}
	(void)pthread_mutex_unlock(&failmalloc_mutex);
	return memory;
}

void *__wrap_malloc(size_t size)
{
	return failmalloc_may() ? failmalloc_made(__real_malloc(size), NULL) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
	return failmalloc_may() ? failmalloc_made(__real_calloc(count, size), NULL) : NULL;
}

void *__wrap_realloc(void *old, size_t size)
{
	return failmalloc_may() ? failmalloc_made(__real_realloc(old, size), old) : NULL;
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
	return failmalloc_may() ? failmalloc_made(__real_reallocarray(old, count, size), old)
				: NULL;
}

char *__wrap_strndup(const char *text, size_t size)
{
	size_t length = strnlen(text, size);
	char *copy = __wrap_malloc(length + 1);
	if (copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
	}
	return copy;
}

char *__wrap_strdup(const char *text)
{
	return __wrap_strndup(text, SIZE_MAX);
}

void __wrap_free(void *memory)
{
	(void)pthread_mutex_lock(&failmalloc_mutex);
	if (failmalloc_tracks && memory)
		failmalloc_remove(memory);
	(void)pthread_mutex_unlock(&failmalloc_mutex);
	__real_free(memory);
}

/* $FAILMALLOC_AT of the runner, which passes small decimal numbers only. */
static unsigned long failmalloc_asked(void)
{
	const char *text = getenv("FAILMALLOC_AT");
	unsigned long value = 0;
	for (; text && *text >= '0' && *text <= '9'; text++)
		value = 10 * value + (unsigned long)(*text - '0');
	return value;
}

__attribute__((constructor)) static void failmalloc_begin(void)
{
	failmalloc_at = failmalloc_asked();
	if (event_set_mem_functions)
		event_set_mem_functions(__wrap_malloc, __wrap_realloc, __wrap_free);
	if (json_set_alloc_funcs)
		json_set_alloc_funcs(__wrap_malloc, __wrap_free);
}

/* Tells the runner how far the program came. */
__attribute__((destructor)) static void failmalloc_end(void)
{
	const char *path = getenv("FAILMALLOC_REPORT");
	FILE *report = path ? fopen(path, "we") : NULL;
	if (report) {
		(void)fprintf(report, "%lu\n", failmalloc_count);
		(void)fclose(report);
	}
}

static void failmalloc_track(bool on)
{
	(void)pthread_mutex_lock(&failmalloc_mutex);
	memset(failmalloc_live, 0, sizeof(failmalloc_live));
	failmalloc_live_count = 0;
	failmalloc_tracks = on;
	(void)pthread_mutex_unlock(&failmalloc_mutex);
}

unsigned failmalloc_each(int (*scenario)(void *context), void *context)
{
	if (getenv("FAILMALLOC_REPORT"))
		skip(); /* the runner is at work, and would do it over and over */
	for (unsigned long at = 1; at < FAILMALLOC_ROUNDS; at++) {
		failmalloc_track(true);
		failmalloc_count = 0;
		failmalloc_at = at;
		int rc = scenario(context);
		unsigned long made = failmalloc_count;
		long left = failmalloc_live_count;
		failmalloc_at = 0;
		failmalloc_track(false);
		if (rc != 0 && rc != -ENOMEM)
			fail_msg("allocation %lu failed: the result is %d", at, rc);
		if (left != 0)
			fail_msg("allocation %lu failed: %ld were not given back", at, left);
		if (made < at) {
			assert_int_equal(rc, 0); /* nothing failed this time */
			return (unsigned)made;
		}
	}
	fail_msg("the scenario does not end");
	return 0;
}
