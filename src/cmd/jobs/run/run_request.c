/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_request.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "cmd/jobs/job_text.h"
#include "cmd/jobs/run/run_image.h"
#include "cmd/jobs/run/run_streams.h"
#include "cmd/jobs/run/run_wants.h"
#include "job/demand.h"
#include "job/schema.h"
#include "job/warning.h"

enum { RUN_KEY_BYTES = 16 };

bool run_request_is_label(const char *name)
{
	size_t length = strlen(name);
	if (length == 0 || length >= RUN_NAME_MAX || name[0] == '-' || name[length - 1] == '-')
		return false;
	for (const char *at = name; *at; at++)
		if (!(*at >= 'a' && *at <= 'z') && !(*at >= '0' && *at <= '9') && *at != '-')
			return false;
	return true;
}

void run_request_name(const char *command, char out[RUN_NAME_MAX])
{
	const char *slash = strrchr(command, '/');
	size_t length = 0;

	for (const char *at = slash ? slash + 1 : command; *at && length < RUN_NAME_MAX - 1; at++) {
		char c = *at;
		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
			c = '-';
		if (c != '-' || length > 0)
			out[length++] = c;
	}

	while (length > 0 && out[length - 1] == '-')
		length--;

	out[length] = '\0';
	if (length == 0)
		memcpy(out, "job", sizeof("job"));
}

bool run_request_is_key(const char *key)
{
	for (int i = 0; i < RUN_KEY_MAX - 1; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;
		if (dash ? key[i] != '-' : !isxdigit((unsigned char)key[i]))
			return false;
	}
	return key[RUN_KEY_MAX - 1] == '\0';
}

int run_request_new_key(char out[RUN_KEY_MAX], struct err *err)
{
	uint8_t bytes[RUN_KEY_BYTES];
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return err_set(err, -errno, "cannot make a key: no random numbers: %s",
			       err_describe(-errno));

	bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40); /* RFC 9562: version 4, variant 1 */
	bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);

	size_t length = 0;
	for (size_t i = 0; i < sizeof(bytes); i++)
		length +=
		    (size_t)snprintf(out + length, RUN_KEY_MAX - length, "%s%02x",
				     i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);

	return 0;
}

/* "2/8", or "slot" for one of however many there are. -EINVAL. Pure. */
static int run_request_share(const char *text, uint32_t *out_numerator, uint32_t *out_denominator,
			     struct err *err)
{
	uint64_t numerator, denominator;

	if (strcmp(text, "slot") == 0) {
		*out_numerator = 1;
		*out_denominator = JOB_TEXT_ONE_SLOT;
		return 0;
	}

	const char *slash = strchr(text, '/');
	if (!slash ||
	    parse_u64_span(text, (size_t)(slash - text), 1, RUN_SHARE_MAX, &numerator) < 0 ||
	    parse_u64(slash + 1, 1, RUN_SHARE_MAX, &denominator) < 0)
		return err_set(
		    err, -EINVAL,
		    "--share=%s is no part of a GPU such as 1/2; both numbers are from 1 "
		    "to %d",
		    text, RUN_SHARE_MAX);

	if (numerator > denominator)
		return err_set(err, -EINVAL, "--share=%s is more than a whole GPU", text);

	*out_numerator = (uint32_t)numerator;
	*out_denominator = (uint32_t)denominator;
	return 0;
}

/* --- what this process is --------------------------------------------------------------------- */

static int run_request_directory(const struct run_options *options, struct run_request *out,
				 struct err *err)
{
	/* With an image it is one of the container, and podman starts here. */
	const char *given = options->image ? NULL : options->directory;
	if (given && given[0] == '/') {
		if (strlen(given) >= RUN_DIRECTORY_MAX)
			return err_set(err, -EINVAL, "--cwd: the path is too long");
		memcpy(out->directory, given, strlen(given) + 1);
		return 0;
	}

	if (!getcwd(out->directory, sizeof(out->directory)))
		return err_set(err, -errno, "cannot tell the current directory: %s",
			       err_describe(-errno));
	if (!given)
		return 0;

	size_t length = strlen(out->directory);
	int more = snprintf(out->directory + length, RUN_DIRECTORY_MAX - length, "/%s", given);
	if (more < 0 || (size_t)more >= RUN_DIRECTORY_MAX - length)
		return err_set(err, -EINVAL, "--cwd: the path is too long");

	return 0;
}

static bool run_request_same_variable(const char *a, const char *b)
{
	size_t length = strcspn(a, "=");
	return length == strcspn(b, "=") && strncmp(a, b, length) == 0;
}

static void run_request_add(ProtobufCBinaryData *list, size_t *count, const char *text)
{
	list[(*count)++] = (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)text};
}

/* Sets a variable in the list, in its old place where it was there. */
static void run_request_set(ProtobufCBinaryData *list, size_t *count, const char *text)
{
	for (size_t i = 0; i < *count; i++) {
		if (run_request_same_variable((const char *)list[i].data, text)) {
			size_t one = i;
			run_request_add(list, &one, text);
			return;
		}
	}

	run_request_add(list, count, text);
}

static int run_request_environment(const struct run_options *options, char *const *environment,
				   struct run_request *out, struct err *err)
{
	size_t count = 0;
	while (environment[count])
		count++;

	out->environment =
	    calloc(count + options->environment.count + 1, sizeof(*out->environment));
	if (!out->environment)
		return err_set(err, -ENOMEM, "no memory for the environment");

	out->image_environment =
	    calloc(options->environment.count + 2, sizeof(*out->image_environment));
	if (!out->image_environment)
		return err_set(err, -ENOMEM, "no memory for the environment");

	size_t used = 0, inside = 0;
	for (size_t i = 0; i < count; i++)
		if (strchr(environment[i], '='))
			run_request_add(out->environment, &used, environment[i]);

	if (options->directory && !options->image) {
		if (asprintf(&out->pwd, "PWD=%s", out->directory) < 0) {
			out->pwd = NULL;
			return err_set(err, -ENOMEM, "no memory for the environment");
		}
		run_request_set(out->environment, &used, out->pwd);
	}

	for (size_t i = 0; i < options->environment.count; i++) {
		const char *text = options->environment.items[i];
		if (text[0] == '=' || !strchr(text, '='))
			return err_set(err, -EINVAL, "--env '%s' is not NAME=VALUE", text);
		if (options->image)
			run_request_set(out->image_environment, &inside, text);
		else
			run_request_set(out->environment, &used, text);
	}

	out->spec.environment = out->environment;
	out->spec.n_environment = used;
	out->spec.image_environment = out->image_environment;
	out->spec.n_image_environment = inside;

	return 0;
}

static int run_request_resources(const struct run_options *options, struct run_request *out,
				 struct err *err)
{
	struct buf text;

	if (options->resources.count == 0)
		return 0;

	buf_init(&text, DEMAND_TEXT_MAX - 1);
	int rc = demand_make(options->resources.items, options->resources.count, &text, err);
	if (rc == 0 && !(out->resources = buf_take(&text)))
		rc = err_set(err, -ENOMEM, "no memory for the list of resources");
	buf_done(&text);
	out->spec.resources = out->resources ? out->resources : out->spec.resources;

	return rc < 0 ? err_wrap(err, "--resource") : 0;
}

static int run_request_argv(const struct run_options *options, char *const *argv,
			    struct run_request *out, struct err *err)
{
	size_t count = 0;
	while (argv[count])
		count++;

	out->argv = calloc(count + 2, sizeof(*out->argv));
	if (!out->argv)
		return err_set(err, -ENOMEM, "no memory for the command line");
	if (options->entrypoint)
		run_request_add(out->argv, &out->spec.n_argv, options->entrypoint);

	for (size_t i = 0; i < count; i++)
		run_request_add(out->argv, &out->spec.n_argv, argv[i]);

	out->spec.argv = out->argv;
	return 0;
}

/* Where this process is, not where the job will be. */
static int run_request_output(const struct run_options *options, struct run_request *out,
			      struct err *err)
{
	char here[RUN_DIRECTORY_MAX] = "";
	const char *given = options->output;

	if (!given)
		return 0;
	if (!*given)
		return err_set(err, -EINVAL, "--output names no file");
	if (given[0] != '/' && !getcwd(here, sizeof(here)))
		return err_set(err, -errno, "cannot tell the current directory: %s",
			       err_describe(-errno));
	if (asprintf(&out->output, "%s%s%s", here, *here ? "/" : "", given) < 0) {
		out->output = NULL;
		return err_set(err, -ENOMEM, "no memory for --output");
	}

	int rc = run_streams_check("--output", out->output, false, err);
	if (rc < 0)
		return rc;

	out->spec.output =
	    (ProtobufCBinaryData){.len = strlen(out->output), .data = (uint8_t *)out->output};
	return 0;
}

static void run_request_limits(struct run_request *out)
{
	mode_t mask = umask(0);
	(void)umask(mask);
	out->spec.umask = mask;

	for (int resource = 0; resource < RUN_LIMITS_MAX; resource++) {
		struct rlimit now;
		if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
			continue; /* not of this kernel */

		size_t at = out->spec.n_limits++;
		sluice__v1__limit__init(&out->limit[at]);
		out->limit[at].resource = (uint32_t)resource;
		out->limit[at].soft = now.rlim_cur;
		out->limit[at].hard = now.rlim_max;
		out->limits[at] = &out->limit[at];
	}

	out->spec.limits = out->limits;
}

/* --- what is wanted --------------------------------------------------------------------------- */

/* Everything of the command line that needs no look at the machine. */
static int run_request_check(const struct run_options *options, struct err *err)
{
	if (options->gpu_ids && options->gpus != RUN_GPUS_NOT_GIVEN)
		return err_set(err, -EINVAL,
			       "--gpu-ids says how many GPUs there are: leave out "
			       "--gpus");

	if (options->gpu_ids && !*options->gpu_ids)
		return err_set(err, -EINVAL, "--gpu-ids names no GPU");
	if (options->share && options->gpus == 0)
		return err_set(err, -EINVAL, "--share and --gpus 0 exclude each other");

	if (options->name && !run_request_is_label(options->name))
		return err_set(
		    err, -EINVAL,
		    "--name '%s' is not a name of small letters, digits and '-', at most "
		    "%d long",
		    options->name, RUN_NAME_MAX - 1);

	if (options->key && !run_request_is_key(options->key))
		return err_set(err, -EINVAL, "--key '%s' is no UUID", options->key);
	if (options->no_wait && options->wait_timeout_ns)
		return err_set(err, -EINVAL, "--no-wait and --wait-timeout exclude each other");
	if (options->detach && (options->wait_timeout_ns || options->report))
		return err_set(err, -EINVAL, "--detach does not wait: leave out %s",
			       options->report ? "--report" : "--wait-timeout");
	if (options->own && options->socket)
		return err_set(err, -EINVAL, "--own and --socket exclude each other");
	if (options->quiet && options->verbose)
		return err_set(err, -EINVAL, "--quiet and --verbose exclude each other");

	return options->report ? run_streams_check("--report", options->report, true, err) : 0;
}

/* Without --time the agent may know a limit: it judges that. */
static int run_request_warning(const struct run_options *options, Sluice__V1__JobSpec *spec,
			       struct err *err)
{
	struct warning warning;
	int rc = warning_parse(options->signal, strlen(options->signal), &warning, err);
	if (rc < 0)
		return err_wrap(err, "--signal");

	if (options->time_ns > 0)
		rc = warning_check(&warning, options->time_ns, err);
	spec->warn_signal = warning.signal;
	spec->warn_before_ns = warning.before_ns;
	spec->warn_alone = warning.command_alone;

	return rc;
}

static int run_request_fill(const struct run_options *options, char *const *argv,
			    struct run_request *out, struct err *err)
{
	Sluice__V1__JobSpec *spec = &out->spec;

	if (options->share) {
		int rc = run_request_share(options->share, &spec->share_numerator,
					   &spec->share_denominator, err);
		if (rc < 0)
			return rc;
	}

	if (options->name)
		memcpy(out->name, options->name, strlen(options->name) + 1);
	else
		run_request_name(argv[0] ? argv[0] : options->image, out->name);

	if (options->key)
		memcpy(out->key, options->key, RUN_KEY_MAX);
	else if (run_request_new_key(out->key, err) < 0)
		return -EIO;

	bool given = options->gpus != RUN_GPUS_NOT_GIVEN;

	spec->name = out->name;
	spec->directory =
	    (ProtobufCBinaryData){.len = strlen(out->directory), .data = (uint8_t *)out->directory};
	spec->gpus = given ? options->gpus : 1;

	if (options->gpu_ids) {
		spec->gpu_ids = (char *)options->gpu_ids;
		for (const char *at = options->gpu_ids; *at; at++)
			spec->gpus += *at == ',';
	}

	if (options->workers && !options->gpu_ids) /* both are small: checked by the table */
		spec->gpus *= options->workers;
	/* Whoever says nothing of GPUs gets one where there is one. */
	spec->gpus_if_any = !given && !options->gpu_ids && !options->share && !options->gpu_type &&
			    !options->gpu_memory_bytes;

	if (options->on_end)
		spec->on_end = (ProtobufCBinaryData){.len = strlen(options->on_end),
						     .data = (uint8_t *)options->on_end};
	if (options->port)
		spec->port = (char *)options->port;
	spec->pty = options->pty;
	spec->grace_ns = options->grace_ns;
	spec->deadline_ns = options->time_ns;

	if (options->signal && run_request_warning(options, spec, err) < 0)
		return -EINVAL;

	spec->ignore_outsiders = options->busy_outsiders == RUN_OUTSIDERS_IGNORE;
	out->message.key = out->key;
	out->message.spec = spec;
	out->message.no_wait = options->no_wait;
	out->message.dry_run = options->dry_run;

	return 0;
}

int run_request_wants(struct run_request *request, struct err *err)
{
	int rc = wants_check(&request->wants, err);
	schema_from_wants(&request->wants, &request->wants_message);
	request->spec.wants = &request->wants_message;
	return rc == -E2BIG ? -EINVAL : rc;
}

int run_request_make(const struct run_options *options, char *const *argv, char *const *environment,
		     struct run_request *out, struct err *err)
{
	memset(out, 0, sizeof(*out));
	sluice__v1__submit_request__init(&out->message);
	sluice__v1__job_spec__init(&out->spec);

	int rc = run_request_check(options, err);
	if (rc == 0)
		rc = run_image_check(options, argv, err);
	if (rc == 0)
		rc = run_request_directory(options, out, err);
	if (rc == 0)
		rc = run_request_environment(options, environment, out, err);

	if (rc == 0)
		rc = run_request_argv(options, argv, out, err);
	if (rc == 0)
		rc = run_image_fill(options, out, err);
	if (rc == 0)
		rc = run_request_resources(options, out, err);
	if (rc == 0)
		rc = run_wants_make(options, &out->wants, err);
	if (rc == 0)
		rc = run_request_wants(out, err);

	if (rc == 0)
		rc = run_request_fill(options, argv, out, err);
	if (rc == 0)
		rc = run_request_output(options, out, err);
	if (rc == 0)
		run_request_limits(out);

	return rc;
}

void run_request_done(struct run_request *request)
{
	free(request->argv);
	free(request->environment);
	free(request->image_environment);
	run_image_done(request);
	free(request->resources);
	wants_done(&request->wants);
	free(request->pwd);
	free(request->output);
	memset(request, 0, sizeof(*request));
}
