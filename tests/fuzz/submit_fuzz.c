/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request as it arrives on the agent's socket, made what is stored, handed to a supervisor, and
 * read there: refused at one of these steps with a reason, or the same job at the end, with the
 * user, groups and limits of who asked whatever the request says. Its command goes back to who
 * looks at it as it came.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "agent/message.h"
#include "base/buf.h"
#include "base/err.h"
#include "job/launch.h"
#include "job/spec.h"
#include "sluice.pb-c.h"
#include "wire/arena.h"
#include "wire/message.h"

enum { SUBMIT_ARENA_MAX = 64 << 20, SUBMIT_GROUPS = 3, SUBMIT_HARD = 1000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const gid_t submit_groups[SUBMIT_GROUPS] = {4, 24, 1000};

static struct message_caller submit_caller(void)
{
	struct message_caller caller = {
	    .uid = 1000, .gid = 1000, .groups = submit_groups, .group_count = SUBMIT_GROUPS};
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		caller.limits[i] = (struct spec_limit){i, 500 + i, SUBMIT_HARD + i};
	return caller;
}

static void expect(bool condition)
{
	if (!condition)
		abort();
}

static void check_bytes(const ProtobufCBinaryData *from, size_t from_count, char *const *list,
			size_t count)
{
	expect(from_count == count);
	for (size_t i = 0; i < count; i++)
		expect(strlen(list[i]) == from[i].len &&
		       (from[i].len == 0 || memcmp(list[i], from[i].data, from[i].len) == 0));
}

static void check_limits(const struct message_caller *caller, const struct spec *spec)
{
	expect(spec->limit_count == SPEC_LIMITS_MAX);
	for (uint32_t i = 0; i < SPEC_LIMITS_MAX; i++)
		expect(spec->limits[i].resource == i &&
		       spec->limits[i].hard <= caller->limits[i].hard &&
		       spec->limits[i].soft <= spec->limits[i].hard);
}

/* That is what was asked, as this caller. */
static void check_spec(const Sluice__V1__JobSpec *asked, const struct message_caller *caller,
		       const struct spec *spec)
{
	expect(spec->uid == caller->uid && spec->gid == caller->gid &&
	       spec->group_count == SUBMIT_GROUPS &&
	       memcmp(spec->groups, submit_groups, sizeof(submit_groups)) == 0);
	check_limits(caller, spec);
	check_bytes(asked->argv, asked->n_argv, spec->argv, spec->argc);
	check_bytes(asked->environment, asked->n_environment, spec->environment,
		    spec->environment_count);
	check_bytes(asked->image_environment, asked->n_image_environment, spec->image_environment,
		    spec->image_environment_count);
	check_bytes(asked->volumes, asked->n_volumes, spec->volumes, spec->volume_count);
	expect(strcmp(asked->name, spec->name) == 0 && strcmp(asked->image, spec->image) == 0 &&
	       strlen(spec->directory) == asked->directory.len && asked->gpus == spec->gpus &&
	       asked->umask == spec->umask && asked->pty == spec->pty &&
	       asked->privileged == spec->privileged);
}

/* To the supervisor, as the agent does it. */
static void pass_on(const struct spec *spec, struct launch *out)
{
	struct launch launch;
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;
	launch_init(&launch);
	launch.id = 7;
	launch.attempt = 1;
	struct spec unused = launch.spec;
	launch.spec = *spec; /* lent */
	int rc = launch_format(&launch, &bytes, &length, &err);
	launch.spec = unused;
	launch_done(&launch);
	expect(rc == 0 && launch_parse(bytes, length, out, &err) == 0);
	free(bytes);
}

/* To who looks at the job. */
static void check_shown(const Sluice__V1__JobSpec *asked, const struct spec *spec)
{
	_cleanup_arena_ struct arena arena;
	_cleanup_buf_ struct buf bytes;
	Sluice__V1__Job job = SLUICE__V1__JOB__INIT;
	ProtobufCMessage *back = NULL;
	struct err err = {0};
	arena_init(&arena, SUBMIT_ARENA_MAX);
	buf_init(&bytes, SUBMIT_ARENA_MAX);
	expect(message_add_command(spec, &arena, &job, &err) == 0);
	expect(wire_message_encode(&job.base, &bytes, &err) == 0);
	expect(wire_message_decode(&sluice__v1__job__descriptor, bytes.data + WIRE_FRAME_HEADER,
				   bytes.length - WIRE_FRAME_HEADER, &arena, &back, &err) == 0);
	const Sluice__V1__Job *shown = (const Sluice__V1__Job *)back;
	check_bytes(shown->argv, shown->n_argv, spec->argv, spec->argc);
	expect(shown->n_argv == asked->n_argv && strcmp(shown->image, asked->image) == 0);
}

static void submit(const Sluice__V1__JobSpec *asked)
{
	const struct message_caller caller = submit_caller();
	struct launch launch;
	struct spec spec, stored;
	struct err err = {0};
	char *bytes = NULL;
	size_t length = 0;
	if (message_to_spec(asked, &caller, &spec, &err) < 0) {
		expect(err.text[0] != '\0');
		return;
	}
	check_spec(asked, &caller, &spec);
	if (spec_check(&spec, &err) < 0) {
		expect(err.text[0] != '\0');
	} else if (spec_format(&spec, &bytes, &length, &err) == 0) {
		expect(spec_parse(bytes, length, &stored, &err) == 0);
		expect(spec_is_equal(&spec, &stored));
		pass_on(&stored, &launch);
		expect(spec_is_equal(&spec, &launch.spec));
		check_spec(asked, &caller, &launch.spec);
		check_shown(asked, &launch.spec);
		launch_done(&launch);
		spec_done(&stored);
	} else {
		expect(err.code == -E2BIG);
	}
	free(bytes);
	spec_done(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_arena_ struct arena arena;
	ProtobufCMessage *message = NULL;
	struct err err = {0};
	arena_init(&arena, SUBMIT_ARENA_MAX);
	if (wire_message_decode(&sluice__v1__submit_request__descriptor, data, size, &arena,
				&message, &err) < 0)
		return 0;
	const Sluice__V1__SubmitRequest *request = (const Sluice__V1__SubmitRequest *)message;
	if (request->spec)
		submit(request->spec);
	return 0;
}
