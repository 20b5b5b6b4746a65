/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/jobs/run/run_export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "base/domain.h"
#include "base/err.h"
#include "base/jsonw.h"
#include "cmd/jobs/job_text.h"
#include "cmd/jobs/run/run_request.h"
#include "job/demand.h"
#include "job/moment.h"
#include "job/wants.h"
#include "job/warning.h"

#define EXPORT_SECOND_NS UINT64_C(1000000000)

enum { EXPORT_TEXT_MAX = 1 << 20 }; /* bytes of an argument or a variable */

/* A text as JSON writes it, which YAML reads; the first failure stays in `rc`. */
static void export_text(struct buf *out, int *rc, const char *before, const char *text)
{
	struct jsonw json;

	if (*rc == 0)
		*rc = buf_add_text(out, before);
	jsonw_init(&json, out);

	if (*rc == 0) {
		jsonw_text(&json, NULL, text);
		*rc = json.rc;
	}

	if (*rc == 0)
		*rc = buf_add_text(out, "\n");
}

/* As above, of what Kubernetes expands: each '$' that would begin something is doubled. */
static void export_plain(struct buf *out, int *rc, const char *before, const char *text)
{
	_cleanup_buf_ struct buf plain;
	buf_init(&plain, 2 * EXPORT_TEXT_MAX);
	for (; *rc == 0 && *text; text++) {
		bool begins = text[0] == '$' && (text[1] == '$' || text[1] == '(');
		*rc = buf_add(&plain, begins ? "$$" : text, begins ? 2 : 1);
	}
	export_text(out, rc, before, *rc == 0 ? buf_text(&plain) : "");
}

static void export_add(struct buf *out, int *rc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void export_add(struct buf *out, int *rc, const char *format, ...)
{
	va_list arguments;
	if (*rc < 0)
		return;
	va_start(arguments, format);
	*rc = buf_vprintf(out, format, arguments);
	va_end(arguments);
}

static uint64_t export_seconds(uint64_t ns)
{
	return ns / EXPORT_SECOND_NS + (ns % EXPORT_SECOND_NS != 0);
}

static int export_check(const Sluice__V1__JobSpec *spec, const struct wants *wants, struct err *err)
{
	const char *no = !*spec->image		   ? "a job without --image"
			 : *spec->gpu_ids	   ? "--gpu-ids"
			 : wants->gpu_type	   ? "--gpu-type; use a nodeSelector"
			 : wants->gpu_memory_bytes ? "--min-gpu-memory; use a nodeSelector"
			 : wants->after		   ? "--after"
			 : wants->array_count	   ? "an array"
			 : spec->pty		   ? "--pty"
			 : *spec->port		   ? "--port"
			 : spec->on_end.len	   ? "--on-end"
			 : spec->output.len	   ? "an output file"
						   : NULL;
	return no ? err_set(err, -EINVAL, "--export: a cluster has no word for %s", no) : 0;
}

static void export_annotations(const Sluice__V1__JobSpec *spec, const struct wants *wants,
			       struct buf *out, int *rc)
{
	bool is_part = spec->share_denominator != 0 && spec->share_denominator != JOB_TEXT_ONE_SLOT;
	char begin[MOMENT_SHOWN_MAX], signal[WARNING_TEXT_MAX];

	if (!wants->priority && !wants->isolation && !wants->prefer && !wants->retry_lost &&
	    !wants->begin_unix_ns && !spec->warn_signal && !is_part)
		return;

	export_add(out, rc, "  annotations:\n");
	if (wants->priority)
		export_add(out, rc, "    " SLUICE_DOMAIN "/priority: \"%" PRId32 "\"\n",
			   wants->priority);
	if (wants->isolation)
		export_text(out, rc, "    " SLUICE_DOMAIN "/isolation: ",
			    isolation_asked_to_string(wants->isolation));
	if (wants->prefer)
		export_text(out, rc, "    " SLUICE_DOMAIN "/prefer: ", wants->prefer);
	if (wants->begin_unix_ns)
		export_text(out, rc, "    " SLUICE_DOMAIN "/begin: ",
			    moment_format((int64_t)wants->begin_unix_ns, begin));

	if (spec->warn_signal) {
		const struct warning warning = {.signal = spec->warn_signal,
						.before_ns = spec->warn_before_ns,
						.command_alone = spec->warn_alone};
		export_text(out, rc,
			    "    " SLUICE_DOMAIN "/signal: ", warning_format(&warning, signal));
	}

	if (wants->retry_lost)
		export_add(out, rc, "    " SLUICE_DOMAIN "/retry-lost: \"true\"\n");
	if (is_part)
		export_add(out, rc, "    " SLUICE_DOMAIN "/share: \"%" PRIu32 "/%" PRIu32 "\"\n",
			   spec->share_numerator, spec->share_denominator);
}

static void export_list(struct buf *out, int *rc, const char *name, const ProtobufCBinaryData *list,
			size_t count)
{
	if (count > 0)
		export_add(out, rc, "        %s:\n", name);
	for (size_t i = 0; i < count; i++)
		export_plain(out, rc, "        - ", (const char *)list[i].data);
}

static void export_environment(const Sluice__V1__JobSpec *spec, struct buf *out, int *rc)
{
	if (spec->n_image_environment > 0)
		export_add(out, rc, "        env:\n");

	for (size_t i = 0; i < spec->n_image_environment; i++) {
		const char *text = (const char *)spec->image_environment[i].data;
		size_t length = strcspn(text, "=");
		char name[256];

		if (length >= sizeof(name))
			continue; /* no shell and no program reads such a one */

		memcpy(name, text, length);
		name[length] = '\0';
		export_text(out, rc, "        - name: ", name);
		export_plain(out, rc, "          value: ", text + length + 1);
	}
}

static void export_resources(const Sluice__V1__JobSpec *spec, const struct wants *wants,
			     struct buf *out, int *rc)
{
	const char *list = spec->resources;
	struct demand demand;
	bool is_slot = spec->share_denominator == JOB_TEXT_ONE_SLOT;

	if (!spec->gpus && !wants->cpu_milli && !wants->mem_bytes && !*list)
		return;

	export_add(out, rc, "        resources:\n          limits:\n");
	if (spec->gpus)
		export_add(out, rc, "            nvidia.com/gpu%s: %" PRIu32 "\n",
			   is_slot ? ".shared" : "", spec->gpus);
	if (wants->cpu_milli)
		export_add(out, rc, "            cpu: %" PRIu32 "m\n", wants->cpu_milli);
	if (wants->mem_bytes)
		export_add(out, rc, "            memory: \"%" PRIu64 "\"\n", wants->mem_bytes);

	while (*list && demand_next(&list, &demand, NULL) > 0 && *rc == 0) {
		export_add(out, rc, "            %s: %" PRIu32 "\n", demand.name, demand.units);
		if (!list)
			break;
	}
}

static void export_security(const Sluice__V1__JobSpec *spec, struct buf *out, int *rc)
{
	const char *group = strchr(spec->run_as, ':');

	if (!*spec->run_as && !spec->memlock && !spec->privileged)
		return;

	export_add(out, rc, "        securityContext:\n");
	if (*spec->run_as)
		export_add(out, rc, "          runAsUser: %.*s\n", (int)strcspn(spec->run_as, ":"),
			   spec->run_as);
	if (group)
		export_add(out, rc, "          runAsGroup: %s\n", group + 1);
	if (spec->privileged)
		export_add(out, rc, "          privileged: true\n");

	if (spec->memlock)
		export_add(out, rc, "          capabilities:\n            add: [\"IPC_LOCK\"]\n");
}

/* "HOST:CONTAINER[:ro]" and "CONTAINER"; the first pass says where, the second what. */
static void export_volumes(const Sluice__V1__JobSpec *spec, bool is_mount, struct buf *out, int *rc)
{
	if (spec->n_volumes + spec->n_tmpfs > 0)
		export_add(out, rc, is_mount ? "        volumeMounts:\n" : "      volumes:\n");

	for (size_t i = 0; i < spec->n_volumes; i++) {
		char host[4096];
		const char *text = (const char *)spec->volumes[i].data;
		const char *inside = strchr(text, ':');
		const char *option = inside ? strchr(inside + 1, ':') : NULL;
		size_t length = inside ? (size_t)(inside - text) : 0;
		if (length >= sizeof(host))
			continue; /* no such path exists */

		memcpy(host, text, length);
		host[length] = '\0';
		export_add(out, rc,
			   is_mount ? "        - name: volume-%zu\n" : "      - name: volume-%zu\n",
			   i);

		if (!is_mount && inside)
			export_text(out, rc, "        hostPath:\n          path: ", host);
		else if (!is_mount)
			export_add(out, rc, "        emptyDir: {}\n");

		if (!is_mount)
			continue;

		length =
		    option ? (size_t)(option - inside) - 1 : strlen(inside ? inside + 1 : text);
		if (length >= sizeof(host))
			continue;

		memcpy(host, inside ? inside + 1 : text, length);
		host[length] = '\0';
		export_text(out, rc, "          mountPath: ", host);

		if (option && strcmp(option, ":ro") == 0)
			export_add(out, rc, "          readOnly: true\n");
	}

	for (size_t i = 0; i < spec->n_tmpfs; i++) {
		char path[4096];
		const char *text = (const char *)spec->tmpfs[i].data, *colon = strrchr(text, ':');
		size_t length = colon ? (size_t)(colon - text) : strlen(text);
		if (length >= sizeof(path))
			continue;

		memcpy(path, text, length);
		path[length] = '\0';
		export_add(out, rc,
			   is_mount ? "        - name: memory-%zu\n" : "      - name: memory-%zu\n",
			   i);

		if (is_mount)
			export_text(out, rc, "          mountPath: ", path);
		else
			export_add(out, rc, "        emptyDir:\n          medium: Memory\n");

		if (!is_mount && colon && strcmp(colon, ":0") != 0)
			export_add(out, rc, "          sizeLimit: \"%s\"\n", colon + 1);
	}
}

static void export_container(const Sluice__V1__JobSpec *spec, const struct wants *wants,
			     struct buf *out, int *rc)
{
	static const char *const pulls[][2] = {
	    {"missing", "IfNotPresent"}, {"never", "Never"}, {"always", "Always"}};
	export_text(out, rc, "      - name: ", spec->name);
	export_text(out, rc, "        image: ", spec->image);

	for (size_t i = 0; i < 3; i++)
		if (strcmp(spec->pull, pulls[i][0]) == 0)
			export_add(out, rc, "        imagePullPolicy: %s\n", pulls[i][1]);

	export_list(out, rc, "command", spec->argv, spec->entrypoint);
	export_list(out, rc, "args", spec->argv + spec->entrypoint,
		    spec->n_argv - spec->entrypoint);
	if (*spec->workdir)
		export_text(out, rc, "        workingDir: ", spec->workdir);
	export_environment(spec, out, rc);
	export_resources(spec, wants, out, rc);
	export_security(spec, out, rc);
	export_volumes(spec, true, out, rc);
}

int run_export(const struct run_request *request, struct buf *out, struct err *err)
{
	const Sluice__V1__JobSpec *spec = &request->spec;
	const struct wants *wants = &request->wants;
	int rc = export_check(spec, wants, err);
	if (rc < 0)
		return rc;

	export_text(out, &rc, "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: ", spec->name);
	export_annotations(spec, wants, out, &rc);
	export_add(out, &rc, "spec:\n  backoffLimit: %" PRIu32 "\n", wants->retries);

	if (spec->deadline_ns)
		export_add(out, &rc, "  activeDeadlineSeconds: %" PRIu64 "\n",
			   export_seconds(spec->deadline_ns));
	if (wants->has_ttl)
		export_add(out, &rc, "  ttlSecondsAfterFinished: %" PRIu64 "\n",
			   export_seconds(wants->ttl_ns));
	if (wants->hold)
		export_add(out, &rc, "  suspend: true\n");
	export_add(out, &rc,
		   "  template:\n    spec:\n      restartPolicy: Never\n"
		   "      terminationGracePeriodSeconds: %" PRIu64 "\n      containers:\n",
		   export_seconds(spec->grace_ns));
	export_container(spec, wants, out, &rc);
	export_volumes(spec, false, out, &rc);

	return rc < 0 ? err_set(err, rc == -ENOSPC ? -E2BIG : rc, "no memory for the exported job")
		      : 0;
}
