/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/doors/rdma_act.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/libexec.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "base/storage.h"
#include "doors/cdi/adapters.h"

_Static_assert(RDMA_IFNAME_MAX == IFNAMSIZ, "names of interfaces are copied");

enum { RDMA_ACT_HOOK_MAX = 1 << 20 }; /* bytes of the program */

struct rdma_act {
	struct storage_job job;
	void (*done)(const struct rdma_act_result *result, void *context);
	void *context;
	struct rdma_act_result result;
	char root[FILE_PATH_MAX], hook[FILE_PATH_MAX];
	bool wants_hook;
	const char *kind;
	bool writes_cdi;
	struct adapters_device *devices; /* owned, with their nodes */
	size_t device_count, device_room;
	char (*interfaces)[RDMA_IFNAME_MAX]; /* owned: to be set up */
	size_t interface_count;
	struct err err;
};

static struct rdma_act *rdma_act_free(struct rdma_act *act)
{
	for (size_t i = 0; i < act->device_count; i++)
		free(act->devices[i].nodes);
	free(act->devices);
	free(act->interfaces);
	free(act);
	return NULL;
}

/* --- what is to be: the loop's ------------------------------------------------------------------
 */

/* Whether an adapter is offered at all, and whether every resource that has it hands out what
 * manages the subnet: a device that somebody names by hand gets no more than that. */
static bool act_is_offered(const struct rdma_policy *policy, uint32_t function,
			   bool *out_management)
{
	bool is_offered = false;

	*out_management = true;
	for (size_t i = 0; i < policy->count; i++) {
		const struct rdma_resource *resource = &policy->resources[i];

		for (uint32_t k = 0; k < resource->candidate_count; k++) {
			const struct rdma_candidate *candidate = &resource->candidates[k];
			if (candidate->function != function || candidate->reason_count > 0)
				continue;
			is_offered = true;
			*out_management &= resource->entry->management;
		}
	}

	return is_offered;
}

static bool act_has(const struct rdma_act *act, const char *name)
{
	for (size_t i = 0; i < act->device_count; i++) {
		if (strcmp(act->devices[i].name, name) == 0)
			return true;
	}
	return false;
}

/* With multiport one RDMA device serves several functions, and is there once. */
static int act_add_function(struct rdma_act *act, const struct rdma_act_options *options,
			    uint32_t place, struct err *err)
{
	const struct rdma_function *function = &options->inventory->function[place];
	bool management;
	int rc = 0;

	if (!act_is_offered(options->policy, place, &management))
		return 0;
	if (function->simulated)
		act->kind = ADAPTERS_KIND_SIMULATED;

	for (uint32_t i = 0; rc == 0 && i < function->device_count; i++) {
		const char *name = options->inventory->device[function->devices[i]].name;
		struct adapters_device *device = &act->devices[act->device_count];

		if (act->device_count == act->device_room || act_has(act, name))
			continue;

		(void)snprintf(device->name, sizeof(device->name), "%s", name);
		rc = rdma_device_nodes(options->inventory, function->devices[i], management,
				       &device->nodes, &device->node_count, err);
		act->device_count += rc == 0;
	}

	return rc;
}

static int act_add_resource(struct rdma_act *act, const struct rdma_act_options *options,
			    const struct rdma_resource *resource, struct err *err)
{
	struct adapters_device *device = &act->devices[act->device_count];
	adapters_resource_name(resource->name, device->name);

	int rc = rdma_resource_nodes(resource, options->inventory, options->is_down, &device->nodes,
				     &device->node_count, err);

	device->memlock_bytes = resource->entry->memlock_bytes;
	device->memlock_warns = resource->entry->memlock_warns;
	act->wants_hook |= device->memlock_bytes > 0;
	act->device_count += rc == 0;

	return rc;
}

static int act_fill_devices(struct rdma_act *act, const struct rdma_act_options *options,
			    struct err *err)
{
	const struct rdma_inventory *inventory = options->inventory;
	const struct rdma_policy *policy = options->policy;

	if (!inventory || !options->wants_cdi)
		return 0;

	act->device_room = inventory->device_count;
	act->devices = calloc(inventory->device_count + policy->count + 1, sizeof(*act->devices));
	if (!act->devices)
		return err_set(err, -ENOMEM, "out of memory for the CDI devices of adapters");

	int rc = 0;
	for (uint32_t i = 0; rc == 0 && i < inventory->function_count; i++)
		rc = act_add_function(act, options, i, err);

	for (size_t i = 0; rc == 0 && i < policy->count; i++)
		rc = act_add_resource(act, options, &policy->resources[i], err);

	return rc;
}

/* Once for each adapter that comes: what an administrator sets down afterwards stays down. */
static int act_fill_interfaces(struct rdma_act *act, const struct rdma_act_options *options,
			       struct err *err)
{
	const struct rdma_policy *policy = options->policy;

	if (!options->inventory || options->root[0] != '\0')
		return 0;

	act->interfaces = calloc(RDMA_INTERFACE_MAX, sizeof(*act->interfaces));
	if (!act->interfaces)
		return err_set(err, -ENOMEM, "out of memory for the interfaces of adapters");

	for (size_t i = 0; i < policy->count; i++) {
		const struct rdma_resource *resource = &policy->resources[i];

		for (uint32_t k = 0; resource->entry->sets_link_up && k < resource->candidate_count;
		     k++) {
			uint32_t place = resource->candidates[k].function;
			const struct rdma_function *function = &options->inventory->function[place];

			if (function->is_software && !resource->entry->takes_software)
				continue;

			for (uint32_t n = 0;
			     options->is_new[place] && n < function->interface_count &&
			     act->interface_count < RDMA_INTERFACE_MAX;
			     n++)
				memcpy(act->interfaces[act->interface_count++],
				       function->interface[n].name, RDMA_IFNAME_MAX);
		}
	}

	return 0;
}

/* --- what is done: the storage thread's ---------------------------------------------------------
 */

static int act_set_up(const char *name, struct err *err)
{
	struct ifreq request = {.ifr_flags = 0};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memcpy(request.ifr_name, name, IFNAMSIZ);
	if (fd < 0 || ioctl(fd, SIOCGIFFLAGS, &request) < 0)
		return err_set(err, -errno, "cannot look at the interface '%s': %s", name,
			       err_describe(errno));
	if (request.ifr_flags & IFF_UP)
		return 0;

	request.ifr_flags = (short)(request.ifr_flags | IFF_UP);
	if (ioctl(fd, SIOCSIFFLAGS, &request) < 0)
		return err_set(err, -errno, "cannot set the interface '%s' up: %s", name,
			       err_describe(errno));

	return 0;
}

/* The program that runtimes start as root: a copy of ours in a directory of the host, because an
 * agent in a container has its own elsewhere. Written when it differs. */
static int act_install_hook(const struct rdma_act *act, struct err *err)
{
	char program[FILE_PATH_MAX], directory[FILE_PATH_MAX];
	struct stat status;
	_cleanup_buf_ struct buf bytes, before;

	buf_init(&bytes, RDMA_ACT_HOOK_MAX);
	buf_init(&before, RDMA_ACT_HOOK_MAX);

	int rc = libexec_find("sluice-memlock", "memlock", NULL, program, err);
	if (rc == 0)
		rc = file_read(program, &bytes, err);
	if (rc < 0)
		return rc;

	if (lstat(act->hook, &status) == 0 && S_ISREG(status.st_mode) &&
	    (status.st_mode & 07777) == 0755 && status.st_uid == geteuid() &&
	    file_read(act->hook, &before, NULL) == 0 && before.length == bytes.length &&
	    memcmp(before.data, bytes.data, bytes.length) == 0)
		return 0;

	rc = file_path(directory, err, "%.*s", (int)(strrchr(act->hook, '/') - act->hook),
		       act->hook);
	if (rc == 0)
		rc = file_mkdirs(directory, 0755, err);

	return rc < 0 ? rc : file_write_atomic(act->hook, bytes.data, bytes.length, 0755, err);
}

static int rdma_act_work(void *context)
{
	struct rdma_act *act = context;
	int rc = 0;
	for (size_t i = 0; i < act->interface_count; i++) {
		int one = act_set_up(act->interfaces[i], &act->err);
		rc = one < 0 ? one : rc;
	}

	if (!act->writes_cdi)
		return rc;

	int hook = act->wants_hook ? act_install_hook(act, &act->err) : 0;
	int kept = adapters_keep(act->kind, act->root, hook < 0 ? NULL : act->hook, act->devices,
				 act->device_count, hook < 0 ? NULL : &act->err);

	act->result.has_hook = hook >= 0;
	act->result.has_cdi = kept >= 0;
	if (hook < 0)
		return hook;

	return kept < 0 ? kept : rc;
}

static void rdma_act_on_done(void *context, int code)
{
	struct rdma_act *act = context;
	act->result.error = code < 0 ? act->err.text : "";
	act->done(&act->result, act->context);
	(void)rdma_act_free(act);
}

int rdma_act_start(const struct rdma_act_options *options, struct rdma_act **out, struct err *err)
{
	struct rdma_act *act = calloc(1, sizeof(*act));
	if (!act)
		return err_set(err, -ENOMEM, "out of memory for the CDI devices of adapters");

	act->done = options->done;
	act->result.has_cdi = act->result.has_hook = true; /* unless it is tried, and fails */
	act->context = options->context;
	act->writes_cdi = options->writes_cdi;
	act->kind = options->root[0] != '\0' ? ADAPTERS_KIND_SIMULATED : ADAPTERS_KIND;
	act->job =
	    (struct storage_job){.work = rdma_act_work, .done = rdma_act_on_done, .context = act};

	int rc = file_path(act->root, err, "%s", options->root);
	if (rc == 0)
		rc = file_path(act->hook, err, "%s/bin/sluice-memlock", options->directory);
	if (rc == 0)
		rc = act_fill_devices(act, options, err);
	if (rc == 0)
		rc = act_fill_interfaces(act, options, err);

	if (rc == 0)
		rc = storage_submit(options->storage, &act->job, err);
	if (rc < 0) {
		(void)rdma_act_free(act);
		return rc;
	}

	*out = act;
	return 0;
}
