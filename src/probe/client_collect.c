/* SPDX-License-Identifier: Apache-2.0 */
/* The one-shot form of the client, for commands that work without a daemon. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/clock.h"
#include "hardware/callmark.h"
#include "hardware/snapshot.h"
#include "probe/client_internal.h"

enum collect_exit { EXIT_FAILED = 1, EXIT_UNAVAILABLE = 69, EXIT_DENIED = 77, EXIT_DEADLINE = 124 };

int probe_exit_code(int error)
{
	switch (error) {
	case 0:
		return 0;
	case -ENODEV:
	case -ELIBBAD:
	case -EIO:
		return EXIT_UNAVAILABLE;
	case -EACCES:
	case -EPERM:
		return EXIT_DENIED;
	case -ETIMEDOUT:
		return EXIT_DEADLINE;
	default:
		return EXIT_FAILED;
	}
}

static int give(struct probe_client *client, struct inventory *out_inventory,
		struct snapshot **out_snapshot, struct err *err)
{
	struct snapshot *snapshot = NULL;

	if (out_snapshot) {
		size_t length = snapshot_length(client->snapshot->gpu_count);
		snapshot = malloc(length);
		if (!snapshot)
			return err_set(err, -ENOMEM, "asking the driver: no memory");
		memcpy(snapshot, client->snapshot, length);
	}

	int rc = inventory_copy(&client->inventory, out_inventory);
	if (rc < 0) {
		free(snapshot);
		return err_set(err, rc, "asking the driver: no memory");
	}

	if (out_snapshot)
		*out_snapshot = snapshot;

	return 0;
}

int probe_collect_events(const struct probe_options *options, uint64_t deadline_ns,
			 struct inventory *out_inventory, struct snapshot **out_snapshot,
			 void (*on_event)(const struct probe_event *event, void *context),
			 void *context, struct err *err)
{
	struct probe_options once = *options;
	once.once = true;
	if (once.call_timeout_ns == 0) {
		/* Two GPUs may hang and the others are still shown. */
		once.call_timeout_ns = deadline_ns / 3 < PROBE_CALL_TIMEOUT_NS
					   ? deadline_ns / 3
					   : PROBE_CALL_TIMEOUT_NS;
	}

	if (once.init_timeout_ns == 0)
		once.init_timeout_ns = deadline_ns;

	_cleanup_probe_client_ struct probe_client *client = NULL;
	int rc = probe_client_start(&once, &client, err);
	if (rc < 0)
		return rc;

	uint64_t end_ns = clock_real_ns() + deadline_ns;
	char last[PROBE_EVENT_TEXT_MAX] = "";

	for (;;) {
		uint64_t now_ns = clock_real_ns();
		struct probe_event event;

		rc = now_ns < end_ns ? probe_client_wait(client, end_ns - now_ns, &event, err) : 0;
		if (rc < 0)
			return rc;
		if (rc == 0)
			break;
		if (on_event)
			on_event(&event, context);

		if (event.kind == PROBE_EVENT_ENDED)
			return give(client, out_inventory, out_snapshot, err);
		if (event.kind == PROBE_EVENT_DRIVER_DOWN)
			return err_set(err, client->down_code, "%s", client->down_text);

		if (client->crashes >= CLIENT_CRASHES_MAX)
			return err_set(
			    err, -ELIBBAD,
			    "libnvidia-ml.so.1 crashes the process that loads it: the "
			    "NVIDIA driver is half installed; install its packages again");

		if (event.kind == PROBE_EVENT_HUNG || event.kind == PROBE_EVENT_REPLACED)
			memcpy(last, event.text, sizeof(last));
	}

	if (client->has_inventory && client->snapshot)
		return give(client, out_inventory, out_snapshot, err);

	struct call_stuck stuck;
	if (last[0] == '\0' && client->marks &&
	    call_mark_is_stuck(&client->marks->slot[0], clock_real_ns(), deadline_ns / 2, &stuck))
		return err_set(err, -ETIMEDOUT,
			       "the driver did not answer within %llu s (%s); see 'dmesg', restart "
			       "the machine if it stays",
			       (unsigned long long)(deadline_ns / UINT64_C(1000000000)),
			       stuck.function);

	return err_set(err, -ETIMEDOUT,
		       "the driver did not answer within %llu s%s%s; see 'dmesg', restart the "
		       "machine if it stays",
		       (unsigned long long)(deadline_ns / UINT64_C(1000000000)),
		       last[0] ? ": " : "", last);
}

int probe_collect(const struct probe_options *options, uint64_t deadline_ns,
		  struct inventory *out_inventory, struct snapshot **out_snapshot, struct err *err)
{
	return probe_collect_events(options, deadline_ns, out_inventory, out_snapshot, NULL, NULL,
				    err);
}
