/* SPDX-License-Identifier: Apache-2.0 */
#include "doors/kubelet/injection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/names.h"
#include "base/parse.h"
#include "base/yaml.h"

/* From when on a runtime can do CDI; https://github.com/containerd/containerd/pull/6654 and
 * https://github.com/cri-o/cri-o/pull/5309. */
enum injection_versions { CONTAINERD_CDI_MINOR = 7, CRIO_CDI_MINOR = 23 };

const char *injection_way_to_string(enum injection_way way)
{
	static const char *const names[] = {
	    [INJECTION_RUNTIME] = "runtime", [INJECTION_CDI] = "cdi", [INJECTION_NONE] = "none"};
	return names_at(names, way, "unknown");
}

/* --- what the runtime says of its configuration ---------------------------------------------- */

static void injection_yaml_free(struct yaml **yaml)
{
	*yaml = yaml_free(*yaml);
}

/* "nvidia", or a runtime whose program is NVIDIA's, whatever it is called. */
static bool injection_is_nvidia(const char *name, const struct yaml_node *program)
{
	return strcmp(name, "nvidia") == 0 ||
	       (program && strstr(program->text, "nvidia-container-runtime"));
}

static void injection_take_containerd(const struct yaml_node *root, struct injection_runtime *out)
{
	const struct yaml_node *containerd = yaml_get(root, "containerd");
	const struct yaml_node *name = yaml_get(containerd, "defaultRuntimeName");
	const struct yaml_node *cdi = yaml_get(root, "enableCDI");
	const struct yaml_node *directories = yaml_get(root, "cdiSpecDirs");

	if (name) {
		const struct yaml_node *runtime =
		    yaml_get(yaml_get(containerd, "runtimes"), name->text);
		out->is_nvidia = injection_is_nvidia(
		    name->text, yaml_get(yaml_get(runtime, "options"), "BinaryName"));
	}

	out->cdi_is_told = cdi && parse_bool(cdi->text, &out->cdi) == 0;
	for (size_t i = 0; directories && i < directories->entry_count &&
			   out->directory_count < INJECTION_DIRECTORIES_MAX;
	     i++) {
		const struct yaml_node *path = directories->entries[i].value;
		if (path->text[0] == '/' && path->length < sizeof(out->directory[0]))
			memcpy(out->directory[out->directory_count++], path->text,
			       path->length + 1);
	}
}

static void injection_take_crio(const struct yaml_node *crio, struct injection_runtime *out)
{
	const struct yaml_node *name = yaml_get(crio, "DefaultRuntime");
	if (!name)
		return;
	const struct yaml_node *runtime = yaml_get(yaml_get(crio, "Runtimes"), name->text);
	out->is_nvidia = injection_is_nvidia(name->text, yaml_get(runtime, "RuntimePath"));
}

int injection_config_parse(const char *text, size_t length, struct injection_runtime *out,
			   struct err *err)
{
	_cleanup_(injection_yaml_free) struct yaml *yaml = NULL;
	int rc = yaml_parse(text, length, "configuration of the container runtime", &yaml, err);
	if (rc < 0)
		return rc;

	const struct yaml_node *crio = yaml_get(yaml_root(yaml), "crio");

	out->knows_config = true;
	out->is_nvidia = out->cdi_is_told = out->cdi = false;
	out->directory_count = 0;

	if (crio)
		injection_take_crio(crio, out);
	else
		injection_take_containerd(yaml_root(yaml), out);

	return 0;
}

/* --- who injects ----------------------------------------------------------------------------- */

/* Major and minor of "v1.7.2", "1.28.0+unknown". False: it is no such thing. */
static bool injection_version(const char *text, uint64_t *out_major, uint64_t *out_minor)
{
	if (*text == 'v')
		text++;

	size_t major = strspn(text, "0123456789");
	if (text[major] != '.')
		return false;

	const char *rest = text + major + 1;
	size_t minor = strspn(rest, "0123456789");

	return parse_u64_span(text, major, 0, UINT32_MAX, out_major) == 0 &&
	       parse_u64_span(rest, minor, 0, UINT32_MAX, out_minor) == 0;
}

/* Whether containerd can do CDI; else why not. */
static bool injection_containerd(const struct injection_runtime *runtime,
				 char why[INJECTION_TEXT_MAX])
{
	uint64_t major = 0, minor = 0;
	bool is_known = injection_version(runtime->version, &major, &minor);
	if (is_known && (major < 1 || (major == 1 && minor < CONTAINERD_CDI_MINOR))) {
		(void)snprintf(why, INJECTION_TEXT_MAX,
			       "containerd %s cannot do CDI and its default runtime is not "
			       "NVIDIA's: update containerd to 1.7.2 or later, or make NVIDIA's "
			       "runtime its default",
			       runtime->version);
		return false;
	}

	/* Off unless it was switched on before 2.0; on unless it was switched off from then on. */
	if (runtime->cdi_is_told ? runtime->cdi : major >= 2)
		return true;

	(void)snprintf(why, INJECTION_TEXT_MAX,
		       "CDI is switched off in containerd %s and its default runtime is not "
		       "NVIDIA's: set enable_cdi = true for its CRI plugin and restart it",
		       runtime->version);
	return false;
}

static bool injection_crio(const struct injection_runtime *runtime, char why[INJECTION_TEXT_MAX])
{
	uint64_t major = 0, minor = 0;
	if (!injection_version(runtime->version, &major, &minor) || major > 1 ||
	    minor >= CRIO_CDI_MINOR)
		return true;

	(void)snprintf(why, INJECTION_TEXT_MAX,
		       "CRI-O %s cannot do CDI and has no hook of NVIDIA's: update it to 1.23 or "
		       "later",
		       runtime->version);
	return false;
}

enum injection_way injection_judge(const struct injection_runtime *runtime, const char *hook,
				   const char *kind, bool has_kind, char why[INJECTION_TEXT_MAX])
{
	bool is_crio = strcmp(runtime->name, "cri-o") == 0;
	bool is_containerd = strcmp(runtime->name, "containerd") == 0;

	if (runtime->name[0] == '\0') {
		(void)snprintf(why, INJECTION_TEXT_MAX, "no container runtime answers");
		return INJECTION_UNKNOWN;
	}

	if (runtime->is_nvidia) {
		(void)snprintf(why, INJECTION_TEXT_MAX, "the default runtime of %s %s is NVIDIA's",
			       runtime->name, runtime->version);
		return INJECTION_RUNTIME;
	}

	if (is_crio && hook[0]) {
		(void)snprintf(why, INJECTION_TEXT_MAX, "hook '%.200s' of cri-o %s", hook,
			       runtime->version);
		return INJECTION_RUNTIME;
	}

	if (!is_crio && !is_containerd) {
		(void)snprintf(why, INJECTION_TEXT_MAX,
			       "what the container runtime '%s' %s does with CDI is not known",
			       runtime->name, runtime->version);
		return INJECTION_UNKNOWN;
	}

	if (!(is_crio ? injection_crio(runtime, why) : injection_containerd(runtime, why)))
		return INJECTION_NONE;

	if (!has_kind) {
		(void)snprintf(why, INJECTION_TEXT_MAX,
			       "%s %s can do CDI, and no CDI specification provides %s: one that "
			       "does belongs into /var/run/cdi",
			       runtime->name, runtime->version, kind);
		return INJECTION_NONE;
	}

	(void)snprintf(why, INJECTION_TEXT_MAX, "%s %s does CDI, and a specification provides %s",
		       runtime->name, runtime->version, kind);
	return INJECTION_CDI;
}
