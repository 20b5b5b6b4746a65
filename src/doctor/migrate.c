/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/migrate.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

/* The first policy of a kind. NULL: there is none. Borrowed. */
static const json_t *migrate_policy(const json_t *facts, const char *kind)
{
	const json_t *policy;
	size_t i;
	json_array_foreach(json_object_get(facts, "operators"), i, policy)

	{
		const char *text = json_string_value(json_object_get(policy, "kind"));
		if (text && strcmp(text, kind) == 0)
			return policy;
	}

	return NULL;
}

/* "KEY: VALUE" with the value as JSON. Nothing for what is not said. */
static int migrate_line(struct buf *out, const char *key, const json_t *value)
{
	if (!value || json_is_null(value))
		return 0;
	_cleanup_free_ char *text =
	    json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
	return text ? buf_printf(out, "%s: %s\n", key, text) : -ENOMEM;
}

static const char *migrate_text(const json_t *settings, const char *key)
{
	const char *text = json_string_value(json_object_get(settings, key));
	return text ? text : "";
}

/* A text of a policy within a comment or a block: letters only, so that it ends nothing. */
static bool migrate_is_word(const char *text)
{
	for (const char *at = text; *at; at++)
		if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_' && *at != '.')
			return false;
	return *text != '\0';
}

static int migrate_config(struct buf *out, const json_t *settings)
{
	const char *strategy = migrate_text(settings, "migStrategy");
	const char *name = migrate_text(settings, "config");
	int rc = 0;

	if (*name) {
		rc = buf_add_text(out, "# The ConfigMap has to be copied to our namespace.\n"
				       "config:\n");
		if (rc == 0)
			rc = migrate_line(out, "  name", json_object_get(settings, "config"));
		if (rc == 0)
			rc = migrate_line(out, "  default",
					  json_object_get(settings, "configDefault"));
	} else if (migrate_is_word(strategy)) {
		rc = buf_printf(out,
				"config:\n  map:\n    default: |\n      version: v1\n"
				"      flags:\n        migStrategy: %s\n  default: default\n",
				strategy);
	}

	return rc;
}

static int migrate_gpus(struct buf *out, const json_t *policy)
{
	const json_t *settings = json_object_get(policy, "settings");
	/* The operator brings the driver unless it is told not to. */
	bool has_driver = !json_is_false(json_object_get(settings, "driver"));
	bool has_labels = !json_is_false(json_object_get(settings, "labels"));
	const char *root = migrate_text(settings, "driverRoot");
	json_t *path = json_string(!has_driver ? "/" : *root ? root : "/run/nvidia/driver");
	int rc = path ? buf_add_text(out, "driver:\n") : -ENOMEM;
	if (rc == 0)
		rc = migrate_line(out, "  root", path);
	json_decref(path);

	if (rc == 0)
		rc = migrate_config(out, settings);

	if (rc == 0)
		rc = buf_printf(out, "features:\n  labels: %s\n%s", has_labels ? "file" : "none",
				has_driver ? "  nodeLabel: true   # to let go of the driver when "
					     "the operator replaces it\n"
					   : "");

	if (rc == 0)
		rc = migrate_line(out, "tolerations", json_object_get(settings, "tolerations"));
	if (rc == 0)
		rc = migrate_line(out, "priorityClassName",
				  json_object_get(settings, "priorityClassName"));

	return rc;
}

static int migrate_rdma(struct buf *out, const json_t *policy)
{
	const char *config = migrate_text(json_object_get(policy, "settings"), "rdmaConfig");
	if (!*config)
		return 0;

	int rc = buf_add_text(
	    out, "# Before: the policy's rdmaSharedDevicePlugin.config as a ConfigMap,\n"
		 "#   kubectl get nicclusterpolicy -o "
		 "jsonpath='{.items[0].spec.rdmaSharedDevicePlugin.config}' > "
		 "config.json\n"
		 "#   kubectl -n sluice create configmap rdma-devices "
		 "--from-file=config.json\n"
		 "rdma:\n  configMap: rdma-devices\n");
	return rc;
}

int migrate_values(const json_t *facts, struct buf *out, struct err *err)
{
	const json_t *gpus = migrate_policy(facts, "ClusterPolicy");
	const json_t *network = migrate_policy(facts, "NicClusterPolicy");
	if (!gpus && !network)
		return err_set(
		    err, -ENOENT,
		    "the cluster has neither a ClusterPolicy nor a NicClusterPolicy that "
		    "may be read: there is nothing to take values from");

	int rc = buf_add_text(
	    out,
	    "# Values for the chart of sluice, of what the policies of NVIDIA's operators say.\n"
	    "# What stays with the operators: driver, OFED, exporters, the MIG manager. Then\n"
	    "#   sluice doctor --cluster   says what of theirs has to be switched off.\n"
	    "image:\n  repository: \"\"   # must be set\n");
	if (rc == 0 && gpus)
		rc = migrate_gpus(out, gpus);
	if (rc == 0 && network)
		rc = migrate_rdma(out, network);

	return rc < 0 ? err_set(err, rc, "the values do not fit: %s", err_describe(rc)) : 0;
}
