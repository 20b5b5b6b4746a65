/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/registration.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/err.h"
#include "deviceplugin.pb-c.h"
#include "wire/client.h"

struct registration {
	struct wire_client *client; /* owned */
	void (*done)(const struct err *why, void *context);
	void *context;
	bool over; /* `done` was called, or is being called */
};

/* protoc-c cannot make a service of it: see deviceplugin.proto. */
static const struct wire_method registration_method = {
    .path = "/v1beta1.Registration/Register",
    .request = &v1beta1__register_request__descriptor,
    .reply = &v1beta1__empty__descriptor,
};

static struct registration *registration_free(struct registration *registration)
{
	registration->client = wire_client_free(registration->client);
	free(registration);
	return NULL;
}

static void registration_on_end(const struct wire_result *result, void *context)
{
	struct registration *registration = context;
	struct err why = {0};
	int code = result->code;

	if (code == 0)
		code = result->status == WIRE_DEADLINE_EXCEEDED ? -ETIMEDOUT : -EREMOTEIO;
	if (result->status != WIRE_OK)
		(void)err_set(&why, code, "%s",
			      result->message[0] ? result->message
						 : wire_status_to_string(result->status));

	registration->over = true;
	registration->done(result->status == WIRE_OK ? NULL : &why, registration->context);
	(void)registration_free(registration);
}

/* connect(2) says of a file that nobody listens there. */
static int registration_explain(const char *socket, int code, struct err *err)
{
	struct stat status;
	if (code != -ECONNREFUSED || stat(socket, &status) < 0 || S_ISSOCK(status.st_mode))
		return code;
	return err_set(err, -ENOTSOCK,
		       "'%s' is a %s and no socket; is that the kubelet's directory of device "
		       "plugins?",
		       socket, S_ISDIR(status.st_mode) ? "directory" : "file");
}

static int registration_call(struct registration *registration,
			     const struct registration_options *options, struct err *err)
{
	const struct wire_client_options how = {
	    .reply_max = REGISTRATION_REPLY_MAX,
	    .connect_ns = 2 * REGISTRATION_DEADLINE_NS, /* the call's is what counts */
	};
	const struct wire_client_callbacks callbacks = {.end = registration_on_end,
							.context = registration};
	static char version[] = "v1beta1";
	V1beta1__DevicePluginOptions plugin = V1BETA1__DEVICE_PLUGIN_OPTIONS__INIT;
	V1beta1__RegisterRequest request = V1BETA1__REGISTER_REQUEST__INIT;
	struct err why = {0};

	plugin.get_preferred_allocation_available = !options->is_any_good;
	request.version = version;
	request.endpoint = (char *)options->endpoint;
	request.resource_name = (char *)options->resource;
	request.options = &plugin;
	registration->client = wire_client_new(options->loop, options->socket, &how, &why);
	if (!registration->client) {
		int rc = registration_explain(options->socket, why.code, &why);
		return err_set(err, rc, "%s", why.text);
	}

	return wire_client_call(registration->client, &registration_method, &request.base,
				REGISTRATION_DEADLINE_NS, &callbacks, &why)
		   ? 0
		   : err_set(err, why.code, "%s", why.text);
}

int registration_start(const struct registration_options *options, struct registration **out,
		       struct err *err)
{
	struct registration *registration = calloc(1, sizeof(*registration));
	if (!registration)
		return err_set(err, -ENOMEM, "%s: out of memory for a registration",
			       options->resource);

	registration->done = options->done;
	registration->context = options->context;

	int rc = registration_call(registration, options, err);
	if (rc < 0) {
		(void)registration_free(registration);
		return rc;
	}

	*out = registration;
	return 0;
}

struct registration *registration_cancel(struct registration *registration)
{
	/* Asked from within `done`: it goes after that. */
	if (registration && !registration->over)
		(void)registration_free(registration);
	return NULL;
}
