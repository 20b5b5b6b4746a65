/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/kubelet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/names.h"
#include "doors/kubelet/life.h"
#include "doors/kubelet/resource.h"
#include "doors/kubelet/sockdir.h"
#include "doors/kubelet/surroundings.h"
#include "hardware/gpu.h"
#include "policy/config.h"
#include "units/allocator.h"

/* Between two of the tables that make answers fast; each costs up to 10 ms. */
#define KUBELET_PREPARE_NS UINT64_C(100000000)

/* Whether it is the same socket as before: the inode may come back. */
struct kubelet_identity {
	bool is_there;
	dev_t device;
	ino_t inode;
	struct timespec made;
};

struct kubelet {
	struct kubelet_options options;
	char *root, *socket, *directory; /* owned */
	struct sockdir *sockdir;	 /* owned, all of these */
	struct loop_timer *look;
	struct loop_timer *prepare; /* runs while the allocator lacks tables */
	struct allocator *allocator;
	struct allocator_topology *topology; /* of the allocator */
	uint32_t prepared;		     /* sizes that have their tables */
	struct life **lives; /* owned; in the order of the policy, those that end behind them */
	size_t count, room;
	struct kubelet_identity identity;
	struct loop_task tell;
	char warning[RESOURCE_REASON_MAX]; /* last logged */
};

/* --- what is told ---------------------------------------------------------------------------- */

static void kubelet_on_tell(void *context)
{
	struct kubelet *kubelet = context;
	kubelet->options.changed(kubelet->options.context);
}

static void kubelet_on_changed(void *context)
{
	struct kubelet *kubelet = context;
	if (kubelet->options.changed)
		loop_defer(kubelet->options.loop, &kubelet->tell, kubelet_on_tell, kubelet);
}

static void kubelet_on_ended(struct life *life, void *context)
{
	struct kubelet *kubelet = context;
	size_t at = 0;
	while (kubelet->lives[at] != life)
		at++;

	kubelet->count--;
	memmove(&kubelet->lives[at], &kubelet->lives[at + 1],
		(kubelet->count - at) * sizeof(struct life *));
	(void)life_free(life);
}

/* --- the kubelet's socket -----------------------------------------------------------------------
 */

/* Whether it is another one than when this was last asked. */
static bool kubelet_is_new(struct kubelet *kubelet)
{
	struct stat info;
	struct kubelet_identity now = {0};
	const struct kubelet_identity *was = &kubelet->identity;

	if (lstat(kubelet->socket, &info) == 0)
		now = (struct kubelet_identity){.is_there = true,
						.device = info.st_dev,
						.inode = info.st_ino,
						.made = info.st_mtim};

	bool is_new =
	    now.is_there &&
	    (!was->is_there || was->device != now.device || was->inode != now.inode ||
	     was->made.tv_sec != now.made.tv_sec || was->made.tv_nsec != now.made.tv_nsec);
	kubelet->identity = now;
	return is_new;
}

void kubelet_register_again(struct kubelet *kubelet)
{
	(void)kubelet_is_new(kubelet);
	for (size_t i = 0; i < kubelet->count; i++)
		life_register(kubelet->lives[i]);
}

void kubelet_resume(struct kubelet *kubelet)
{
	for (size_t i = 0; i < kubelet->count; i++)
		life_resume(kubelet->lives[i]);
}

static void kubelet_look(struct kubelet *kubelet)
{
	bool is_other = sockdir_look(kubelet->sockdir);
	if (kubelet_is_new(kubelet) || is_other) {
		kubelet_register_again(kubelet);
		return;
	}
	for (size_t i = 0; i < kubelet->count; i++)
		life_look(kubelet->lives[i]);
}

static void kubelet_on_directory(unsigned changes, void *context)
{
	struct kubelet *kubelet = context;
	/* Made anew is new, whatever inode and time it has. */
	if (changes & SOCKDIR_MADE)
		kubelet_register_again(kubelet);
	else
		kubelet_look(kubelet);
}

static void kubelet_on_look(void *context)
{
	struct kubelet *kubelet = context;
	kubelet_look(kubelet);
	loop_timer_start(kubelet->look, KUBELET_LOOK_NS);
}

/* --- choosing ------------------------------------------------------------------------------------
 */

static void kubelet_on_prepare(void *context)
{
	struct kubelet *kubelet = context;
	uint32_t gpus = kubelet->topology->gpu_count;

	if (gpus > ALLOCATOR_EXACT_MAX)
		gpus = ALLOCATOR_EXACT_MAX;
	if (++kubelet->prepared > gpus)
		return;

	/* Without the table an answer takes longer, that is all. */
	(void)allocator_prepare(kubelet->allocator, kubelet->prepared, NULL);
	loop_timer_start(kubelet->prepare, KUBELET_PREPARE_NS);
}

/* Another allocator where the machine is another. `*out_old`: the one before, to be freed when
 * nobody uses it any more. Without memory the first free devices are handed out. */
static int kubelet_renew_allocator(struct kubelet *kubelet, const struct inventory *inventory,
				   struct allocator **out_old, struct err *err)
{
	struct allocator *allocator = NULL;
	struct allocator_topology *topology = calloc(1, sizeof(*topology));

	*out_old = NULL;
	if (!topology)
		return err_set(err, -ENOMEM, "out of memory for the topology of the GPUs");

	allocator_topology_weigh(inventory, topology);
	if (kubelet->allocator && memcmp(topology, kubelet->topology, sizeof(*topology)) == 0) {
		free(topology);
		return 0;
	}

	int rc = allocator_new(topology, &allocator, err);

	*out_old = kubelet->allocator;
	free(kubelet->topology);
	kubelet->topology = topology;
	kubelet->allocator = allocator;
	kubelet->prepared = 0;

	if (allocator)
		loop_timer_start(kubelet->prepare, KUBELET_PREPARE_NS);
	else
		loop_timer_stop(kubelet->prepare);

	return rc;
}

/* --- what there is
 * -------------------------------------------------------------------------------- */

static int kubelet_make_room(struct kubelet *kubelet, size_t count, struct err *err)
{
	if (count <= kubelet->room)
		return 0;

	struct life **lives = reallocarray(kubelet->lives, count, sizeof(struct life *));
	if (!lives)
		return err_set(err, -ENOMEM, "out of memory for %zu resources", count);

	kubelet->lives = lives;
	kubelet->room = count;
	return 0;
}

static size_t kubelet_find(const struct kubelet *kubelet, const char *name)
{
	size_t at = 0;
	while (at < kubelet->count && strcmp(life_resource(kubelet->lives[at])->name, name) != 0)
		at++;
	return at;
}

/* Number `at` becomes the one before those that end or are not in the policy: number `to`. */
static void kubelet_move(struct kubelet *kubelet, size_t at, size_t to)
{
	struct life *life = kubelet->lives[at];
	if (at > to)
		memmove(&kubelet->lives[to + 1], &kubelet->lives[to],
			(at - to) * sizeof(struct life *));
	kubelet->lives[at > to ? to : at] = life;
}

/* `resource` is given. The resource becomes number `to`. */
static int kubelet_take(struct kubelet *kubelet, struct kubelet_resource *resource, size_t to,
			bool is_other_allocator, struct err *err)
{
	const struct life_options options = {
	    .loop = kubelet->options.loop,
	    .log = kubelet->options.log,
	    .socket = kubelet->socket,
	    .directory = kubelet->directory,
	    .no_registration = kubelet->options.no_registration,
	    .book = kubelet->options.book,
	    .changed = kubelet_on_changed,
	    .ended = kubelet_on_ended,
	    .context = kubelet,
	};
	size_t at = kubelet_find(kubelet, resource->name);
	if (at == kubelet->count) {
		int rc = kubelet_make_room(kubelet, kubelet->count + 1, err);
		if (rc == 0)
			rc = life_new(&options, resource, kubelet->allocator, &kubelet->lives[at],
				      err);
		if (rc < 0) {
			(void)resource_free(resource);
			return rc;
		}

		kubelet->count++;
		kubelet_on_changed(kubelet);
	} else if (is_other_allocator || life_is_ending(kubelet->lives[at]) ||
		   !resource_is_same(life_resource(kubelet->lives[at]), resource)) {
		life_update(kubelet->lives[at], resource, kubelet->allocator);
	} else {
		(void)resource_free(resource);
	}

	kubelet_move(kubelet, at, to);
	return 0;
}

static void kubelet_end_from(struct kubelet *kubelet, size_t first)
{
	for (size_t i = first; i < kubelet->count; i++) {
		if (!life_is_ending(kubelet->lives[i]))
			kubelet_on_changed(kubelet);
		life_end(kubelet->lives[i]);
	}
}

/* There is no driver to ask: what was handed out stays, and nothing more is. */
static int kubelet_blame_all(struct kubelet *kubelet, const char *reason, struct err *err)
{
	int first = 0;

	for (size_t i = 0; i < kubelet->count; i++) {
		struct life *life = kubelet->lives[i];
		struct kubelet_resource *resource = NULL;

		if (life_is_ending(life) || resource_healthy(life_resource(life)) == 0)
			continue;

		int rc = resource_copy(life_resource(life), &resource, first == 0 ? err : NULL);
		if (rc == 0) {
			resource_blame(resource, reason);
			life_update(life, resource, kubelet->allocator);
		} else if (first == 0) {
			first = rc;
		}
	}

	return first;
}

/* A container that is told CDI names alone would begin without the channel. */
static bool kubelet_misses_channel(const struct config *config,
				   const struct kubelet_resource *resource)
{
	static const uint32_t cdi = CONFIG_LIST_CDI_ANNOTATIONS | CONFIG_LIST_CDI_CRI;
	const struct kubelet_settings *settings = &resource->settings;
	return config->imex_channel && config->imex_required && resource_names_cdi(settings) &&
	       (settings->also_cdi || !(settings->list_strategy & ~cdi)) &&
	       !(settings->cdi_modes & RESOURCE_CDI_IMEX);
}

static int kubelet_take_all(struct kubelet *kubelet, const struct kubelet_machine *machine,
			    const struct surroundings *surroundings, bool is_other_allocator,
			    struct err *err)
{
	const struct policy *policy = machine->policy;
	size_t to = 0, wanted = 0;
	int first = 0;

	for (uint32_t i = 0; i < policy->resource_count; i++) {
		const struct policy_resource *of = &policy->resources[i];
		struct kubelet_resource *resource = NULL;
		struct err why = {0};

		if (of->door != POLICY_DOOR_KUBELET || of->count == 0)
			continue;

		wanted++;
		int rc = resource_new(machine->inventory, policy, of, machine->config,
				      &surroundings->resource, &resource, &why);
		if (rc == 0 && surroundings->problem[0])
			resource_blame(resource, surroundings->problem);
		if (rc == 0 && kubelet_misses_channel(machine->config, resource))
			resource_blame(resource, "no CDI specification has the IMEX channel that "
						 "imex.required asks for");

		if (rc == 0)
			rc = kubelet_take(kubelet, resource, to, is_other_allocator, &why);
		if (rc == 0)
			to++;
		else if (first == 0)
			first = err_set(err, rc, "%s", why.text);
	}

	/* One that could not be made anew stays as it was. */
	if (to == wanted)
		kubelet_end_from(kubelet, to);

	return first;
}

int kubelet_set_resources(struct kubelet *kubelet, struct kubelet_resource *const *resources,
			  size_t count, struct err *err)
{
	size_t to = 0;
	int first = 0;

	for (size_t i = 0; i < count; i++) {
		struct err why = {0};
		int rc = kubelet_take(kubelet, resources[i], to, false, &why);
		if (rc == 0)
			to++;
		else if (first == 0)
			first = err_set(err, rc, "%s", why.text);
	}

	/* One that could not be made anew stays as it was. */
	if (to == count)
		kubelet_end_from(kubelet, to);

	return first;
}

static void kubelet_warn(struct kubelet *kubelet, const struct surroundings *surroundings)
{
	const char *text = surroundings->problem[0] ? surroundings->problem : surroundings->warning;
	if (strcmp(text, kubelet->warning) == 0)
		return;
	memcpy(kubelet->warning, text, sizeof(kubelet->warning));
	if (*text)
		log_write(kubelet->options.log, LOG_LEVEL_WARNING, NULL, "%s", text);
}

int kubelet_set_machine(struct kubelet *kubelet, const struct kubelet_machine *machine,
			struct err *err)
{
	struct allocator *old = NULL;
	struct surroundings surroundings;
	struct err ignored = {0};

	if (!machine->inventory || !machine->policy)
		return kubelet_blame_all(kubelet,
					 machine->inventory
					     ? "the configuration does not fit this machine"
					     : "the driver does not answer",
					 err);

	int rc = surroundings_read(kubelet->root, machine->config, machine->inventory,
				   &surroundings, err);
	if (rc < 0)
		return rc;

	surroundings.resource.unhealthy = machine->gpu_unhealthy;
	surroundings.resource.mig_unhealthy = machine->mig_unhealthy;
	surroundings.resource.also_cdi = machine->also_cdi;
	surroundings.resource.also_nodes = machine->also_nodes;
	surroundings.resource.cdi = machine->cdi;
	kubelet_warn(kubelet, &surroundings);

	int weighed = kubelet_renew_allocator(kubelet, machine->inventory, &old, &ignored);
	rc = kubelet_take_all(kubelet, machine, &surroundings, old != NULL || weighed < 0, err);

	/* Those that end, or could not be made anew, may still use it. */
	for (size_t i = 0; old && i < kubelet->count; i++)
		life_set_allocator(kubelet->lives[i], kubelet->allocator);

	(void)allocator_free(old);
	surroundings_done(&surroundings);
	return rc == 0 && weighed < 0 ? err_set(err, weighed, "%s", ignored.text) : rc;
}

/* --- its life
 * -------------------------------------------------------------------------------------- */

static int kubelet_find_socket(struct kubelet *kubelet, struct err *err)
{
	char path[FILE_PATH_MAX];
	const struct kubelet_options *options = &kubelet->options;
	int rc = options->socket ? file_path(path, err, "%s", options->socket)
				 : file_path(path, err, "%s%s", kubelet->root, KUBELET_SOCKET);
	if (rc < 0)
		return rc;

	kubelet->socket = strdup(path);
	char *slash = strrchr(path, '/');
	if (path[0] != '/' || !slash || slash[1] == '\0')
		return err_set(err, -EINVAL, "'%s' is no absolute path of the kubelet's socket",
			       path);

	slash[slash == path ? 1 : 0] = '\0';
	kubelet->directory = strdup(path);
	return kubelet->socket && kubelet->directory ? 0 : -ENOMEM;
}

static int kubelet_start(struct kubelet *kubelet, struct err *err)
{
	kubelet->root = strdup(kubelet->options.root ? kubelet->options.root : "");
	if (!kubelet->root)
		return -ENOMEM;

	int rc = kubelet_find_socket(kubelet, err);
	if (rc < 0)
		return rc;

	kubelet->look = loop_timer_new(kubelet->options.loop, kubelet_on_look, kubelet, err);
	kubelet->prepare = loop_timer_new(kubelet->options.loop, kubelet_on_prepare, kubelet, err);
	if (!kubelet->look || !kubelet->prepare)
		return -ENOMEM;

	const struct sockdir_options watch = {
	    .loop = kubelet->options.loop,
	    .directory = kubelet->directory,
	    .name = strrchr(kubelet->socket, '/') + 1,
	    .changed = kubelet_on_directory,
	    .context = kubelet,
	};
	rc = sockdir_new(&watch, &kubelet->sockdir, err);
	if (rc < 0)
		return rc;

	(void)kubelet_is_new(kubelet);
	loop_timer_start(kubelet->look, KUBELET_LOOK_NS);
	return 0;
}

int kubelet_open(const struct kubelet_options *options, struct kubelet **out, struct err *err)
{
	struct kubelet *kubelet = calloc(1, sizeof(*kubelet));
	if (!kubelet)
		return err_set(err, -ENOMEM, "out of memory for the kubelet door");

	kubelet->options = *options;
	int rc = kubelet_start(kubelet, err);
	if (rc < 0) {
		(void)kubelet_close(kubelet);
		return rc == -ENOMEM ? err_set(err, rc, "out of memory for the kubelet door") : rc;
	}

	*out = kubelet;
	return 0;
}

struct kubelet *kubelet_close(struct kubelet *kubelet)
{
	if (!kubelet)
		return NULL;

	loop_cancel(kubelet->options.loop, &kubelet->tell);
	kubelet->options.changed = NULL;
	for (size_t i = 0; i < kubelet->count; i++)
		(void)life_free(kubelet->lives[i]);

	(void)sockdir_free(kubelet->sockdir);
	(void)loop_timer_free(kubelet->look);
	(void)loop_timer_free(kubelet->prepare);
	(void)allocator_free(kubelet->allocator);
	free(kubelet->topology);
	free(kubelet->lives);
	free(kubelet->root);
	free(kubelet->socket);
	free(kubelet->directory);
	free(kubelet);

	return NULL;
}

/* --- how it is
 * ------------------------------------------------------------------------------------- */

size_t kubelet_count(const struct kubelet *kubelet)
{
	size_t count = 0;
	for (size_t i = 0; i < kubelet->count; i++)
		count += !life_is_ending(kubelet->lives[i]);
	return count;
}

bool kubelet_resource_at(const struct kubelet *kubelet, size_t index, struct kubelet_view *out)
{
	for (size_t i = 0; i < kubelet->count; i++) {
		if (life_is_ending(kubelet->lives[i]) || index-- > 0)
			continue;
		life_view(kubelet->lives[i], out);
		return true;
	}
	return false;
}

const char *kubelet_state_to_string(enum kubelet_state state)
{
	static const char *const names[] = {
	    [KUBELET_WAITING] = "waiting",
	    [KUBELET_REGISTERING] = "registering",
	    [KUBELET_REGISTERED] = "registered",
	    [KUBELET_ATTACHED] = "attached",
	};
	return names_at(names, state, "unknown");
}
