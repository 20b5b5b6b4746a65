/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/container/podman.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "job/launch.h"
#include "libexec/container/choices.h"
#include "libexec/container/words.h"

static void podman_begin(struct words *line, const struct podman_settings *settings)
{
	words_add(line, "podman");
	/* Where systemd's manager asks systemd for a cgroup the job's would be left. */
	words_add(line, "--cgroup-manager=cgroupfs");
	if (settings->runtime)
		words_add(line, "--runtime=%s", settings->runtime);
}

static void podman_add_limit(struct words *line, const char *name, const uint64_t limit[2])
{
	words_add(line, "--ulimit=%s=%" PRIu64 ":%" PRIu64, name, limit[0], limit[1]);
}

static void podman_add_settings(struct words *line, const struct launch *launch,
				const struct podman_settings *settings)
{
	if (settings->parent)
		words_add(line, "--cgroup-parent=%s", settings->parent);
	if (settings->sets_group)
		choices_add_group(line, launch);
	if (settings->has_limits) {
		podman_add_limit(line, "nofile", settings->files);
		podman_add_limit(line, "nproc", settings->processes);
	}

	if (launch->spec.memlock && settings->locked[1] == UINT64_MAX)
		words_add(line, "--ulimit=memlock=-1:-1");
	else if (launch->spec.memlock)
		podman_add_limit(line, "memlock", settings->locked);
}

/* podman reads what it is given as JSON where it is that: as JSON it is always one word. Whatever
 * is no text of Unicode cannot be read as JSON. */
static void podman_add_entrypoint(struct words *line, const char *word)
{
	json_t *list = json_pack("[s]", word);
	_cleanup_free_ char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
	json_decref(list);
	line->failed = line->failed || (!text && strchr(word, '['));
	words_add(line, "--entrypoint=%s", text ? text : word);
}

int podman_run(const struct launch *launch, const struct podman_settings *settings, char ***out,
	       struct err *err)
{
	const struct spec *spec = &launch->spec;
	struct words line = {.count = 0};

	podman_begin(&line, settings);
	words_add(&line, "run");
	words_add(&line, "--rm");

	/* The output goes to the job's files; nobody would read a second copy. */
	words_add(&line, "--log-driver=none");
	words_add(&line, "--pull=%s", spec_pull_to_string(spec->pull));
	podman_add_settings(&line, launch, settings);
	choices_add_name(&line, launch);
	choices_add_devices(&line, launch);
	choices_add(&line, launch, ",notmpcopyup");

	if (spec->pty)
		words_add(&line, "--detach-keys="); /* none: all keys are the job's */
	if (spec->entrypoint > 0)
		podman_add_entrypoint(&line, spec->argv[0]);
	words_add(&line, "--");
	words_add(&line, "%s", spec->image);

	for (size_t i = spec->entrypoint > 0; i < spec->argc; i++)
		words_add(&line, "%s", spec->argv[i]);

	return words_take(&line, out, err);
}

int podman_remove(const struct launch *launch, const struct podman_settings *settings, char ***out,
		  struct err *err)
{
	struct words line = {.count = 0};
	char name[CHOICES_NAME_MAX];

	choices_name(launch, name);
	podman_begin(&line, settings);
	words_add(&line, "rm");
	words_add(&line, "--force");
	words_add(&line, "--ignore");
	words_add(&line, "--time=0");
	words_add(&line, "--volumes");
	words_add(&line, "--");
	words_add(&line, "%s", name);

	return words_take(&line, out, err);
}

int podman_check_version(const char *text, struct err *err)
{
	static const char word[] = "podman version ";
	uint64_t part[2];
	const char *at = text;
	bool is_good = text_starts_with(at, word);

	at += is_good ? strlen(word) : 0;
	for (int i = 0; is_good && i < 2; i++) {
		size_t length = strspn(at, "0123456789");
		is_good = parse_u64_span(at, length, 0, UINT32_MAX, &part[i]) == 0 &&
			  (i == 1 || at[length] == '.');
		at += length + (i == 0);
	}

	if (!is_good)
		return err_set(err, -EINVAL, "'podman --version' says '%.40s': is that podman?",
			       text);
	if (part[0] > PODMAN_MAJOR || (part[0] == PODMAN_MAJOR && part[1] >= PODMAN_MINOR))
		return 0;

	return err_set(err, -ENOTSUP,
		       "podman %" PRIu64 ".%" PRIu64 " is too old: it knows CDI from %d.%d on",
		       part[0], part[1], PODMAN_MAJOR, PODMAN_MINOR);
}
