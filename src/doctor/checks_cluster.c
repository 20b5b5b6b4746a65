/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of a cluster, of what sluice-cluster found there (libexec/cluster/digest.h). */
#include "doctor/checks.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "doctor/doctor.h"

enum { CLUSTER_FACTS_MAX = 4 << 20, CLUSTER_SKEW_MAX_S = 5 };

/* What the admission of OpenShift says of a pod that no constraint lets in. */
static const char cluster_refusal[] = "unable to validate against any security context constraint";

/* The facts; NULL: there are none, and it has been said. Borrowed. */
static const json_t *cluster_facts(struct doctor *doctor)
{
	struct err err = {0};

	if (doctor->cluster)
		return doctor->cluster;
	if (!doctor->options.ask_cluster) {
		doctor_skip(doctor, "no cluster is looked at without --cluster");
		return NULL;
	}

	if (doctor->cluster_error != 0) {
		doctor_skip(doctor, "the cluster could not be asked");
		return NULL;
	}

	_cleanup_buf_ struct buf text;
	buf_init(&text, CLUSTER_FACTS_MAX);
	doctor->cluster_error = doctor->options.ask_cluster(doctor->options.context, &text, &err);
	if (doctor->cluster_error == 0) {
		doctor->cluster = json_loadb(buf_text(&text), text.length, 0, NULL);
		if (json_is_object(doctor->cluster))
			return doctor->cluster;
		doctor->cluster_error = err_set(&err, -EBADMSG, "what was found is no JSON");
	}

	struct doctor_finding *finding = doctor_add(doctor, DOCTOR_FAIL, "API server");
	doctor_need(doctor_found(finding, "%s", err.text), "an answer of it");
	doctor_do(finding, "kubectl --kubeconfig FILE get nodes\nsluice doctor --cluster "
			   "--kubeconfig FILE");

	return NULL;
}

static const char *cluster_text(const json_t *json, const char *key)
{
	const char *text = json_string_value(json_object_get(json, key));
	return text ? text : "";
}

static int64_t cluster_number(const json_t *json, const char *key)
{
	return (int64_t)json_integer_value(json_object_get(json, key));
}

static bool cluster_is_openshift(const json_t *facts)
{
	return json_is_true(json_object_get(facts, "openshift"));
}

/* Our own DaemonSet. NULL: there is none. Borrowed. */
static const json_t *cluster_own(const json_t *facts)
{
	const json_t *set;
	size_t i;
	json_array_foreach(json_object_get(facts, "daemonsets"), i, set)

	{
		if (strcmp(cluster_text(set, "component"), "sluice") == 0)
			return set;
	}

	return NULL;
}

static const char *cluster_namespace(const json_t *facts)
{
	const char *name = cluster_text(json_object_get(facts, "namespace"), "name");
	return *name ? name : "sluice";
}

static const char *cluster_account(const json_t *facts)
{
	const char *name = cluster_text(cluster_own(facts), "account");
	return *name ? name : "default";
}

/* --- the server ------------------------------------------------------------------------------- */

void check_cluster_access(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor), *problem;
	size_t i;

	if (!facts)
		return;

	json_array_foreach(json_object_get(facts, "problems"), i, problem)

	{
		const char *rule = cluster_text(problem, "rule");
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_UNKNOWN, "API server");
		doctor_found(finding, "%s", cluster_text(problem, "why"));
		if (*rule)
			doctor_need(finding, "%s", rule);
	}

	doctor_found(doctor_add(doctor, DOCTOR_OK, "API server"), "%s, %" PRId64 " nodes",
		     cluster_is_openshift(facts) ? "OpenShift" : "Kubernetes",
		     cluster_number(facts, "node_count"));
}

void check_time(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor);
	if (!facts)
		return;
	if (!json_is_integer(json_object_get(facts, "skew_s"))) {
		doctor_skip(doctor, "the API server does not tell its time");
		return;
	}

	int64_t skew_s = cluster_number(facts, "skew_s");
	bool is_right = skew_s >= -CLUSTER_SKEW_MAX_S && skew_s <= CLUSTER_SKEW_MAX_S;
	struct doctor_finding *finding =
	    doctor_add(doctor, is_right ? DOCTOR_OK : DOCTOR_WARN, "clock of this machine");

	doctor_found(finding, "%" PRId64 " s %s the API server's", skew_s < 0 ? -skew_s : skew_s,
		     skew_s < 0 ? "behind" : "ahead of");
	if (is_right)
		return;

	doctor_need(finding, "not more than %d s", CLUSTER_SKEW_MAX_S);
	doctor_do(finding, "timedatectl set-ntp true\nchronyc tracking");
}

/* --- our own objects -------------------------------------------------------------------------- */

void check_cluster_namespace(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor);
	const json_t *namespace_ = json_object_get(facts, "namespace");

	if (!facts)
		return;
	if (!namespace_) {
		doctor_skip(doctor, "the namespace is not there, or may not be read");
		return;
	}

	const char *enforce = cluster_text(namespace_, "enforce");
	const char *name = cluster_namespace(facts);
	bool is_synced =
	    cluster_is_openshift(facts) && strcmp(cluster_text(namespace_, "sync"), "false") != 0;
	bool is_refused = *enforce && strcmp(enforce, "privileged") != 0;
	struct doctor_finding *finding = doctor_add(doctor,
						    is_refused		     ? DOCTOR_FAIL
						    : is_synced && !*enforce ? DOCTOR_WARN
									     : DOCTOR_OK,
						    "namespace %s", name);

	doctor_found(finding, "pod security %s%s", *enforce ? enforce : "not set",
		     is_synced ? ", kept by OpenShift's label syncer" : "");
	if (!is_refused && (!is_synced || *enforce))
		return;

	doctor_need(finding, "privileged: the pod mounts directories of the host");
	doctor_do(finding,
		  "kubectl label --overwrite namespace %s "
		  "pod-security.kubernetes.io/enforce=privileged%s",
		  name,
		  cluster_is_openshift(facts)
		      ? " security.openshift.io/scc.podSecurityLabelSync=false"
		      : "");
}

static void cluster_advise_scc(struct doctor_finding *finding, const json_t *facts)
{
	doctor_do(finding, "oc adm policy add-scc-to-user privileged -z %s -n %s",
		  cluster_account(facts), cluster_namespace(facts));
}

void check_cluster_daemonset(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor);
	const json_t *own = cluster_own(facts);

	if (!facts)
		return;
	if (!json_object_get(facts, "daemonsets")) {
		doctor_skip(doctor, "DaemonSets may not be listed");
		return;
	}

	if (!own) {
		struct doctor_finding *finding = doctor_add(doctor, DOCTOR_WARN, "cluster");
		doctor_found(finding, "no DaemonSet of sluice");
		doctor_need(finding, "one, labelled app.kubernetes.io/name=sluice");
		doctor_do(finding, "helm install sluice packaging/helm/sluice -n sluice "
				   "--create-namespace --set image.repository=REGISTRY/sluice");

		return;
	}

	int64_t desired = cluster_number(own, "desired"), ready = cluster_number(own, "ready");
	const char *event = cluster_text(own, "event");
	bool is_well = ready >= desired && desired > 0;
	struct doctor_finding *finding = doctor_add(
	    doctor,
	    is_well	   ? DOCTOR_OK
	    : desired == 0 ? DOCTOR_WARN
			   : DOCTOR_FAIL,
	    "DaemonSet %s/%s", cluster_text(own, "namespace"), cluster_text(own, "name"));

	doctor_found(finding, "%" PRId64 " of %" PRId64 " pods ready%s%s", ready, desired,
		     *event ? "; last event: " : "", event);
	if (is_well)
		return;

	if (strstr(event, cluster_refusal)) {
		doctor_need(finding, "a security context constraint that its account may use");
		cluster_advise_scc(finding, facts);
		return;
	}

	doctor_need(finding, desired == 0 ? "a node that it may run on" : "all of them");
	doctor_do(finding, "kubectl -n %s describe daemonset %s\nkubectl -n %s get pods -o wide",
		  cluster_text(own, "namespace"), cluster_text(own, "name"),
		  cluster_text(own, "namespace"));
}

void check_openshift_scc(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor), *scc = json_object_get(facts, "scc");
	if (!facts)
		return;

	if (!scc) {
		doctor_skip(doctor, cluster_is_openshift(facts) ? "rights may not be reviewed"
								: "this is not OpenShift");
		return;
	}

	bool is_allowed = json_is_true(json_object_get(scc, "allowed"));
	struct doctor_finding *finding =
	    doctor_add(doctor, is_allowed ? DOCTOR_OK : DOCTOR_FAIL, "service account %s/%s",
		       cluster_namespace(facts), cluster_account(facts));

	doctor_found(finding, "that it may %suse the constraint privileged",
		     is_allowed ? "" : "not ");
	if (is_allowed)
		return;

	doctor_need(finding, "the right to use it, or profile: restricted with its own");
	cluster_advise_scc(finding, facts);
}

/* --- others ----------------------------------------------------------------------------------- */

void check_openshift_toolkit(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor), *node, *tag;
	const json_t *tags = json_object_get(facts, "tags");
	size_t i, j, right = 0;

	if (!facts)
		return;
	if (!tags) {
		doctor_skip(doctor, "there is no image stream driver-toolkit");
		return;
	}

	json_array_foreach(json_object_get(facts, "nodes"), i, node)

	{
		const char *ostree = cluster_text(node, "ostree");
		bool has_tag = false;

		json_array_foreach(tags, j, tag)

		{
			const char *text = json_string_value(tag);
			has_tag |= text && strcmp(text, ostree) == 0;
		}

		right += has_tag && *ostree;
		if (has_tag || !*ostree)
			continue;

		struct doctor_finding *finding =
		    doctor_add(doctor, DOCTOR_WARN, "node %s", cluster_text(node, "name"));
		doctor_found(finding, "no driver toolkit for its release %s", ostree);
		doctor_need(finding, "that tag in the image stream driver-toolkit");
		doctor_do(finding, "oc -n openshift describe imagestream driver-toolkit");
	}

	if (right > 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "driver toolkit"),
			     "the release of %zu nodes", right);
}

/* Whoever gives out devices is no rival where there is no sluice, and has to stay. */
static bool cluster_is_without_us(const json_t *facts)
{
	return json_object_get(facts, "daemonsets") && !cluster_own(facts);
}

static void cluster_report_policy(struct doctor *doctor, const json_t *facts, const json_t *policy)
{
	const char *kind = cluster_text(policy, "kind"), *name = cluster_text(policy, "name");
	const json_t *on = json_object_get(policy, "on"), *part;
	bool is_gpu = strcmp(kind, "ClusterPolicy") == 0;
	char parts[DOCTOR_TEXT_MAX] = "", patch[DOCTOR_TEXT_MAX] = "";
	size_t i, length = 0, patched = 0;

	json_array_foreach(on, i, part)

	{
		const char *text = json_string_value(part);
		if (!text || length > sizeof(parts) / 2 || patched > sizeof(patch) / 2)
			continue;

		length += (size_t)snprintf(parts + length, sizeof(parts) - length, "%s%.40s",
					   i > 0 ? ", " : "", text);
		patched += (size_t)snprintf(patch + patched, sizeof(patch) - patched,
					    is_gpu ? "%s\"%.40s\":{\"enabled\":false}"
						   : "%s\"%.40s\":null",
					    i > 0 ? "," : "", text);
	}

	bool competes = json_array_size(on) > 0, is_alone = cluster_is_without_us(facts);
	struct doctor_finding *finding = doctor_add(
	    doctor, competes && !is_alone ? DOCTOR_WARN : DOCTOR_INFO, "%s %s", kind, name);

	if (!competes) {
		doctor_found(finding, "an operator that leaves GPUs to others");
		return;
	}

	doctor_found(finding, "that it starts %s%s", parts, is_alone ? ", without sluice" : "");
	if (is_alone)
		return;

	doctor_need(finding, "one that gives out devices, not two");
	doctor_do(finding, "kubectl patch %s %s --type merge -p '{\"spec\":{%s}}'",
		  is_gpu ? "clusterpolicy" : "nicclusterpolicy", name, patch);
}

void check_cluster_operators(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor), *policy;
	size_t i;

	if (!facts)
		return;

	json_array_foreach(json_object_get(facts, "operators"), i, policy)

	{
		cluster_report_policy(doctor, facts, policy);
	}

	if (json_array_size(json_object_get(facts, "operators")) == 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "operators"),
			     "neither ClusterPolicy nor NicClusterPolicy");
}

void check_cluster_plugins(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor), *set;
	size_t i, others = 0;

	if (!facts)
		return;

	json_array_foreach(json_object_get(facts, "daemonsets"), i, set)

	{
		const char *component = cluster_text(set, "component");
		const char *owner = cluster_text(set, "owner");
		/* Those of an operator would come back: cluster.operators says what to do. */
		if (strcmp(component, "sluice") == 0 || strstr(owner, "ClusterPolicy") ||
		    cluster_number(set, "desired") == 0)
			continue;

		others++;
		bool is_alone = cluster_is_without_us(facts);
		struct doctor_finding *finding =
		    doctor_add(doctor, is_alone ? DOCTOR_INFO : DOCTOR_WARN, "DaemonSet %s/%s",
			       cluster_text(set, "namespace"), cluster_text(set, "name"));

		doctor_found(finding, "%s on %" PRId64 " nodes%s", component,
			     cluster_number(set, "desired"), is_alone ? ", without sluice" : "");
		if (is_alone)
			continue;

		doctor_need(finding, "one that does this, not two");
		doctor_do(finding, "kubectl -n %s delete daemonset %s",
			  cluster_text(set, "namespace"), cluster_text(set, "name"));
	}

	if (others == 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "DaemonSets"),
			     "none that gives out the same devices");
}

void check_cluster_nodes(struct doctor *doctor)
{
	const json_t *facts = cluster_facts(doctor), *node, *lack;
	size_t i, j, lacking = 0;

	if (!facts)
		return;

	json_array_foreach(json_object_get(facts, "nodes"), i, node)

	{
		json_array_foreach(json_object_get(node, "lacks"), j, lack)

		{
			struct doctor_finding *finding =
			    doctor_add(doctor, DOCTOR_WARN, "node %s", cluster_text(node, "name"));

			lacking++;
			doctor_found(
			    finding, "%s of %s %s allocatable",
			    *cluster_text(lack, "allocatable") ? cluster_text(lack, "allocatable")
							       : "0",
			    cluster_text(lack, "capacity"), cluster_text(lack, "resource"));
			doctor_need(finding, "all of them: some are unhealthy, or their plugin is "
					     "gone");
			doctor_do(finding, "kubectl describe node %s", cluster_text(node, "name"));
		}
	}

	if (lacking == 0)
		doctor_found(doctor_add(doctor, DOCTOR_OK, "nodes"),
			     "all devices allocatable on %" PRId64,
			     cluster_number(facts, "node_count"));
}
