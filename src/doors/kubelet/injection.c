/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/injection.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/loop.h"
#include "base/text.h"
#include "base/yaml.h"
#include "cri.pb-c.h"
#include "wire/client.h"

enum { INJECTION_KIND_MAX = 256 };
#define INJECTION_SOON_NS UINT64_C(100000000)

static const struct wire_method injection_version = {
    .path = "/runtime.v1.RuntimeService/Version",
    .request = &runtime__v1__version_request__descriptor,
    .reply = &runtime__v1__version_response__descriptor,
};
static const struct wire_method injection_status = {
    .path = "/runtime.v1.RuntimeService/Status",
    .request = &runtime__v1__status_request__descriptor,
    .reply = &runtime__v1__status_response__descriptor,
};

/* Where container runtimes listen, if nobody says another place. */
static const char *const injection_sockets[] = {
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/cri-dockerd.sock",
};
static const char *const injection_hooks[] = {"/etc/containers/oci/hooks.d",
					      "/usr/share/containers/oci/hooks.d"};
static const char *const injection_specs[] = {"/etc/cdi", "/var/run/cdi"};

struct injection {
	struct injection_options options;
	char kind[INJECTION_KIND_MAX];
	struct loop_timer *next;    /* owned; runs while nothing is asked */
	size_t place;		    /* which socket is asked */
	bool look_again;	    /* soon after this look, which is under way */
	struct wire_client *client; /* owned; NULL: nothing is asked */
	struct loop_task step;
	struct injection_runtime runtime; /* as far as this look has come */
	enum injection_way way;
	char why[INJECTION_TEXT_MAX];
};

static void injection_ask(void *context);

/* --- directories ----------------------------------------------------------------------------- */

static bool injection_ends(const char *name, const char *end)
{
	size_t length = strlen(name), wanted = strlen(end);
	return length >= wanted && strcmp(name + length - wanted, end) == 0;
}

static int injection_path(const struct injection *injection, const char *path,
			  char out[FILE_PATH_MAX])
{
	const char *root = injection->options.root;
	return file_path(out, NULL, "%s%s", root ? root : "", path);
}

/* Calls `is_it` with each file of a directory until it says yes; its path is then in `out`. */
static bool injection_find(const struct injection *injection, const char *directory,
			   bool (*is_it)(const struct injection *injection, const char *path,
					 const char *name),
			   char out[FILE_PATH_MAX])
{
	char path[FILE_PATH_MAX];
	if (injection_path(injection, directory, path) < 0)
		return false;

	_cleanup_closedir_ DIR *entries = opendir(path);
	const struct dirent *entry;
	for (size_t seen = 0; entries && seen < INJECTION_FILES_MAX && (entry = readdir(entries));
	     seen++) {
		if (file_path(out, NULL, "%s/%s", path, entry->d_name) == 0 &&
		    is_it(injection, out, entry->d_name))
			return true;
	}

	out[0] = '\0';
	return false;
}

static bool injection_is_hook(const struct injection *injection, const char *path, const char *name)
{
	return strstr(name, "nvidia") && injection_ends(name, ".json");
}

/* A specification that provides the kind which we name. */
static bool injection_is_spec(const struct injection *injection, const char *path, const char *name)
{
	struct yaml *yaml = NULL;

	if (!injection_ends(name, ".json") && !injection_ends(name, ".yaml") &&
	    !injection_ends(name, ".yml"))
		return false;

	_cleanup_buf_ struct buf text;
	buf_init(&text, YAML_TEXT_MAX);

	if (file_read(path, &text, NULL) < 0 ||
	    yaml_parse(text.data, text.length, path, &yaml, NULL) < 0)
		return false;

	const struct yaml_node *kind = yaml_get(yaml_root(yaml), "kind");
	bool is_it = kind && strcmp(kind->text, injection->kind) == 0;

	(void)yaml_free(yaml);
	return is_it;
}

bool injection_has_kind(const struct injection *injection)
{
	const struct injection_runtime *runtime = &injection->runtime;
	char path[FILE_PATH_MAX];
	for (uint32_t i = 0; i < runtime->directory_count; i++) {
		if (injection_find(injection, runtime->directory[i], injection_is_spec, path))
			return true;
	}

	for (size_t i = 0; runtime->directory_count == 0 &&
			   i < sizeof(injection_specs) / sizeof(*injection_specs);
	     i++) {
		if (injection_find(injection, injection_specs[i], injection_is_spec, path))
			return true;
	}

	return false;
}

/* --- asking ---------------------------------------------------------------------------------- */

static void injection_step(struct injection *injection, loop_callback callback)
{
	loop_defer(injection->options.loop, &injection->step, callback, injection);
}

/* Everything is known that will be. */
static void injection_conclude(void *context)
{
	struct injection *injection = context;
	char hook[FILE_PATH_MAX] = "", why[INJECTION_TEXT_MAX];

	injection->client = wire_client_free(injection->client);
	for (size_t i = 0;
	     hook[0] == '\0' && i < sizeof(injection_hooks) / sizeof(*injection_hooks); i++)
		(void)injection_find(injection, injection_hooks[i], injection_is_hook, hook);

	enum injection_way way = injection_judge(&injection->runtime, hook, injection->kind,
						 injection_has_kind(injection), why);
	bool is_new = way != injection->way || strcmp(why, injection->why) != 0;

	injection->way = way;
	memcpy(injection->why, why, sizeof(why));
	bool is_silent = way == INJECTION_UNKNOWN && injection_is_there(injection);
	loop_timer_start(injection->next, injection->look_again ? INJECTION_SOON_NS
					  : is_silent		? INJECTION_SILENT_NS
								: INJECTION_PERIOD_NS);
	injection->look_again = false;
	if (is_new && injection->options.changed)
		injection->options.changed(injection->options.context);
}

static void injection_on_status(const ProtobufCMessage *message, void *context)
{
	struct injection *injection = context;
	const Runtime__V1__StatusResponse *reply = (const Runtime__V1__StatusResponse *)message;

	for (size_t i = 0; i < reply->n_info; i++) {
		const Runtime__V1__Info *info = reply->info[i];
		/* One that cannot be read is as good as none: it is judged without. */
		if (strcmp(info->key, "config") == 0)
			(void)injection_config_parse(info->value, strlen(info->value),
						     &injection->runtime, NULL);
	}
}

static void injection_on_status_end(const struct wire_result *result, void *context)
{
	injection_step(context, injection_conclude);
}

static void injection_on_version(const ProtobufCMessage *message, void *context)
{
	struct injection *injection = context;
	const Runtime__V1__VersionResponse *reply = (const Runtime__V1__VersionResponse *)message;
	(void)snprintf(injection->runtime.name, sizeof(injection->runtime.name), "%.*s",
		       (int)sizeof(injection->runtime.name) - 1, reply->runtime_name);
	(void)snprintf(injection->runtime.version, sizeof(injection->runtime.version), "%.*s",
		       (int)sizeof(injection->runtime.version) - 1, reply->runtime_version);
}

static void injection_on_version_end(const struct wire_result *result, void *context)
{
	struct injection *injection = context;
	const struct wire_client_callbacks callbacks = {
	    .message = injection_on_status, .end = injection_on_status_end, .context = injection};
	Runtime__V1__StatusRequest request = RUNTIME__V1__STATUS_REQUEST__INIT;

	request.verbose = true;
	if (injection->runtime.name[0] == '\0')
		injection_step(injection, injection_ask); /* of the next socket */
	else if (!wire_client_call(injection->client, &injection_status, &request.base,
				   INJECTION_DEADLINE_NS, &callbacks, NULL))
		injection_step(injection, injection_conclude);
}

static bool injection_connect(struct injection *injection, const char *path)
{
	static const struct wire_client_options how = {.reply_max = INJECTION_REPLY_MAX,
						       .connect_ns = INJECTION_DEADLINE_NS};
	const struct wire_client_callbacks callbacks = {
	    .message = injection_on_version, .end = injection_on_version_end, .context = injection};
	Runtime__V1__VersionRequest request = RUNTIME__V1__VERSION_REQUEST__INIT;

	injection->client = wire_client_free(injection->client);
	injection->client = wire_client_new(injection->options.loop, path, &how, NULL);
	return injection->client &&
	       wire_client_call(injection->client, &injection_version, &request.base,
				INJECTION_DEADLINE_NS, &callbacks, NULL);
}

/* Number `place` of the sockets at which a runtime may listen; false behind the last. */
static bool injection_socket(const struct injection *injection, size_t place,
			     char out[FILE_PATH_MAX])
{
	static const char scheme[] = "unix://";
	const char *named = injection->options.endpoint;
	bool is_named = named && *named;
	if (place >= (is_named ? 1 : sizeof(injection_sockets) / sizeof(*injection_sockets)))
		return false;

	if (is_named && text_starts_with(named, scheme))
		named += sizeof(scheme) - 1;
	if (injection_path(injection, is_named ? named : injection_sockets[place], out) < 0)
		out[0] = '\0';

	return true;
}

bool injection_is_there(const struct injection *injection)
{
	char path[FILE_PATH_MAX];
	for (size_t i = 0; injection_socket(injection, i, path); i++) {
		if (path[0] != '\0' && file_exists(path))
			return true;
	}
	return false;
}

/* Asks the next runtime that listens somewhere; concludes when there is none. */
static void injection_ask(void *context)
{
	struct injection *injection = context;
	char path[FILE_PATH_MAX];

	while (injection_socket(injection, injection->place++, path)) {
		if (path[0] != '\0' && injection_connect(injection, path))
			return;
	}

	injection_conclude(injection);
}

static void injection_on_next(void *context)
{
	struct injection *injection = context;
	injection->runtime = (struct injection_runtime){.knows_config = false};
	injection->place = 0;
	injection_ask(injection);
}

/* --- its life -------------------------------------------------------------------------------- */

void injection_set_vendor(struct injection *injection, const char *vendor)
{
	char kind[INJECTION_KIND_MAX];
	(void)snprintf(kind, sizeof(kind), "%.*s/gpu", INJECTION_KIND_MAX - 5, vendor);
	if (strcmp(kind, injection->kind) == 0)
		return;
	memcpy(injection->kind, kind, sizeof(kind));
	injection_look(injection);
}

void injection_look(struct injection *injection)
{
	/* Of a look under way nobody knows how far it has come. */
	injection->look_again = !loop_timer_is_running(injection->next);
	if (!injection->look_again)
		loop_timer_start(injection->next, INJECTION_SOON_NS);
}

int injection_open(const struct injection_options *options, struct injection **out, struct err *err)
{
	struct injection *injection = calloc(1, sizeof(*injection));
	if (!injection)
		return err_set(err, -ENOMEM, "out of memory for asking the container runtime");

	injection->options = *options;
	injection->next = loop_timer_new(options->loop, injection_on_next, injection, err);
	if (!injection->next) {
		free(injection);
		return -ENOMEM;
	}

	(void)snprintf(injection->why, sizeof(injection->why),
		       "the container runtime has not been asked yet");
	injection_set_vendor(injection, options->vendor);
	injection->look_again = false; /* the first look is still to come */
	loop_timer_start(injection->next, 0);
	*out = injection;

	return 0;
}

struct injection *injection_close(struct injection *injection)
{
	if (!injection)
		return NULL;
	loop_cancel(injection->options.loop, &injection->step);
	(void)wire_client_free(injection->client);
	(void)loop_timer_free(injection->next);
	free(injection);
	return NULL;
}

enum injection_way injection_now(const struct injection *injection)
{
	return injection->way;
}

const char *injection_reason(const struct injection *injection)
{
	return injection->why;
}
