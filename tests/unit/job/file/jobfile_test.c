/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule of the job file, one row each: a document made of a template and what is put into it,
 * and what is said of it. */
#include "job/file/jobfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/file.h"
#include "job/file/jobfile_fields.h"
#include "unit/unit.h"

static const struct jobfile_options none = {0};

static struct jobfile *parse_with(const char *text, const struct jobfile_options *options,
				  struct err *err)
{
	struct jobfile *file = NULL;
	int rc = jobfile_parse(text, strlen(text), "f.yaml", options, &file, err);
	assert_true((rc == 0) == (file != NULL));
	return file;
}

static struct jobfile *parse(const char *text)
{
	struct err err = {0};
	struct jobfile *file = parse_with(text, &none, &err);
	if (!file)
		fail_msg("%s", err.text);
	return file;
}

static void refuse_with(const char *text, const struct jobfile_options *options,
			const char *message)
{
	struct err err = {0};
	struct jobfile *file = parse_with(text, options, &err);
	bool is_right = !file && strstr(err.text, message) != NULL;
	(void)jobfile_free(file);
	if (!is_right)
		fail_msg("'%s' does not hold '%s'; of\n%s", err.text, message, text);
}

static void refuse(const char *text, const char *message)
{
	refuse_with(text, &none, message);
}

/* A Job with something in its spec, in its pod's spec and in its container. */
static const char *job(const char *spec, const char *pod, const char *container)
{
	static char text[4][8192];
	static unsigned next;
	char *out = text[next++ % 4];
	(void)snprintf(out, sizeof(text[0]),
		       "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec:\n%s"
		       "  template:\n    spec:\n      restartPolicy: Never\n%s"
		       "      containers:\n      - name: c\n        image: i:1\n%s",
		       spec, pod, container);
	return out;
}

static bool is_noted(const struct jobfile *file, const char *text)
{
	for (const struct jobfile_note *note = jobfile_at(file, 0)->notes; note; note = note->next)
		if (strstr(note->text, text))
			return true;
	return false;
}

static void test_job_defaults(void **state)
{
	struct jobfile *file = parse(job("", "", ""));
	const struct jobfile_job *one = jobfile_at(file, 0);
	assert_int_equal(jobfile_count(file), 1);
	assert_int_equal(one->kind, JOBFILE_JOB);
	assert_string_equal(one->name, "j");
	assert_string_equal(one->namespace, "default");
	assert_string_equal(one->task.image, "i:1");
	assert_int_equal(one->task.gpus, 0); /* Kubernetes' meaning of no limit */
	assert_int_equal(one->array, JOBFILE_ARRAY_NONE);
	assert_int_equal(one->retries, 6);
	assert_int_equal(one->deadline_s, 0);
	assert_false(one->has_ttl || one->has_grace || one->is_suspended);
	assert_null(one->notes);
	(void)jobfile_free(file);
}

static void test_job_fields(void **state)
{
	struct jobfile *file = parse(job(
	    "  backoffLimit: 2\n  activeDeadlineSeconds: 60\n  ttlSecondsAfterFinished: 0\n"
	    "  suspend: true\n  completions: 5\n  parallelism: 9\n  completionMode: Indexed\n",
	    "      terminationGracePeriodSeconds: 7\n      activeDeadlineSeconds: 50\n",
	    "        command: [a, '$(X)']\n        args: ['$$(X)', $(Y)]\n"
	    "        workingDir: /w\n        imagePullPolicy: Always\n"
	    "        env:\n        - {name: X, value: '1'}\n        - {name: Z, value: $(X)2}\n"
	    "        - name: 'N'\n          valueFrom: {fieldRef: {fieldPath: metadata.name}}\n"
	    "        - name: M\n          valueFrom: {fieldRef: {fieldPath: metadata.namespace}}\n"
	    "        resources:\n          limits: {nvidia.com/gpu: 2, cpu: 500m, memory: 1.5Gi,"
	    " rdma/a: '1', ephemeral-storage: 1Gi}\n"
	    "          requests: {nvidia.com/gpu: 2, cpu: 0.25}\n"
	    "        securityContext: {runAsUser: 7, runAsGroup: 8,"
	    " capabilities: {add: [IPC_LOCK]}}\n"));
	const struct jobfile_job *one = jobfile_at(file, 0);
	const struct jobfile_task *task = &one->task;
	assert_int_equal(one->retries, 2);
	assert_int_equal(one->deadline_s, 50); /* the shorter one */
	assert_true(one->has_ttl && one->ttl_s == 0 && one->is_suspended);
	assert_int_equal(one->array, JOBFILE_ARRAY_INDEXED);
	assert_int_equal(one->members, 5);
	assert_int_equal(one->parallel, 5);
	assert_int_equal(one->grace_s, 7);
	assert_int_equal(task->command_count, 2);
	assert_string_equal(task->command[1], "1");
	assert_string_equal(task->arguments[0], "$(X)");
	assert_string_equal(task->arguments[1], "$(Y)"); /* not known: stays */
	assert_string_equal(task->directory, "/w");
	assert_int_equal(task->pull, JOBFILE_PULL_ALWAYS);
	assert_string_equal(task->variables[1].value, "12");
	assert_string_equal(task->variables[2].value, "j");
	assert_string_equal(task->variables[3].value, "default");
	assert_int_equal(task->gpus, 2);
	assert_int_equal(task->cpu_milli, 500);
	assert_int_equal(task->mem_bytes, 1610612736);
	assert_int_equal(task->resource_count, 1);
	assert_string_equal(task->resources[0].name, "rdma/a");
	assert_true(task->memlock && task->has_user && task->user == 7 && task->group == 8);
	(void)jobfile_free(file);
}

static void test_arrays(void **state)
{
	static const struct {
		const char *spec;
		enum jobfile_array array;
		uint32_t members, parallel;
		bool suspended;
	} cases[] = {
	    {"  parallelism: 1\n", JOBFILE_ARRAY_NONE, 1, 1, false},
	    {"  completions: 1\n", JOBFILE_ARRAY_NONE, 1, 1, false},
	    {"  completions: 3\n", JOBFILE_ARRAY_PLAIN, 3, 1, false},
	    {"  completions: 3\n  parallelism: 2\n", JOBFILE_ARRAY_PLAIN, 3, 2, false},
	    {"  parallelism: 3\n", JOBFILE_ARRAY_QUEUE, 3, 3, false},
	    {"  completions: 1\n  completionMode: Indexed\n", JOBFILE_ARRAY_INDEXED, 1, 1, false},
	    {"  completions: 3\n  parallelism: 0\n", JOBFILE_ARRAY_PLAIN, 3, 1, true},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		struct jobfile *file = parse(job(cases[i].spec, "", ""));
		const struct jobfile_job *one = jobfile_at(file, 0);
		assert_int_equal(one->array, cases[i].array);
		assert_int_equal(one->members, cases[i].members);
		assert_int_equal(one->parallel, cases[i].parallel);
		assert_int_equal(one->is_suspended, cases[i].suspended);
		(void)jobfile_free(file);
	}
}

/* An escaped one is a shell's, and one in a variable is no index on a cluster either. */
static void test_index_of_a_member(void **state)
{
	static const char spec[] = "  completions: 2\n  completionMode: Indexed\n";
	struct jobfile *file =
	    parse(job(spec, "",
		      "        command: [sh, -c, echo $$(JOB_COMPLETION_INDEX)]\n"
		      "        env: [{name: A, value: $(JOB_COMPLETION_INDEX)}]\n"));
	const struct jobfile_task *task = &jobfile_at(file, 0)->task;
	assert_string_equal(task->command[2], "echo $(JOB_COMPLETION_INDEX)");
	assert_string_equal(task->variables[0].value, "$(JOB_COMPLETION_INDEX)");
	(void)jobfile_free(file);
	refuse(job(spec, "", "        args: [$$$(JOB_COMPLETION_INDEX)]\n"), "not supported here");
}

static void test_job_refused(void **state)
{
	static const char *const cases[][4] = {
	    {"  paralelism: 2\n", "", "",
	     "f.yaml:5:3: spec.paralelism: unknown field; did you mean 'parallelism'?"},
	    {"  backoffLimit: '6'\n", "", "", "spec.backoffLimit: a whole number is wanted"},
	    {"  backoffLimit: -1\n", "", "", "is out of range: 0 to 2147483647"},
	    {"  backoffLimit: 99999999999\n", "", "", "is out of range"},
	    {"  backoffLimit: []\n", "", "", "not a list"},
	    {"  suspend: 'true'\n", "", "", "true or false is wanted"},
	    {"  suspend: 1\n", "", "", "true or false is wanted, not '1'"},
	    {"  completions: 0\n", "", "", "there is nothing to run"},
	    {"  parallelism: 010\n", "", "", "'010' is octal to Kubernetes: write 8"},
	    {"", "", "        resources: {limits: {nvidia.com/gpu: 010}}\n", "is octal to"},
	    {"", "", "        resources: {limits: {memory: -010}}\n", "is octal to Kubernetes"},
	    {"", "      volumes: [{name: v, emptyDir: {sizeLimit: 0777}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "write 511"},
	    {"  completions: 10001\n", "", "", "10001 are more than the 10000"},
	    {"  completionMode: Indexed\n", "", "", "spec.completions: is missing"},
	    {"  completionMode: Sorted\n", "", "", "neither Indexed nor NonIndexed"},
	    {"  activeDeadlineSeconds: 0\n", "", "", "0 seconds"},
	    {"  podFailurePolicy: {}\n", "", "", "spec.podFailurePolicy: not supported here"},
	    {"  successPolicy: {}\n", "", "", "not supported here"},
	    {"  backoffLimitPerIndex: 1\n", "", "", "not supported here"},
	    {"  maxFailedIndexes: 1\n", "", "", "not supported here"},
	    {"  managedBy: a.b/c\n", "", "", "'a.b/c' would run the job"},
	    {"  suspend: true\n  suspend: true\n", "", "", "a second time (first on line 5)"},
	    {"", "      initContainers: []\n", "", "initContainers: not supported here"},
	    {"", "      ephemeralContainers: []\n", "", "not supported here"},
	    {"", "      hostAliases: []\n", "", "not supported here"},
	    {"", "      hostPID: true\n", "", "hostPID: true lets the job see every GPU"},
	    {"", "      node_name: a\n", "", "did you mean 'nodeName'?"},
	    {"", "      <<: {nodeName: a}\n", "", "merge keys"},
	    {"", "      securityContext: {sysctls: []}\n", "", "not supported here"},
	    {"", "      securityContext: {runAsUser: 0, runAsNonRoot: true}\n", "",
	     "exclude each other"},
	    {"", "", "        lifecycle: {}\n",
	     "spec.template.spec.containers[0].lifecycle: not supported here"},
	    {"", "", "        envFrom: []\n", "not supported here"},
	    {"", "", "        volumeDevices: []\n", "not supported here"},
	    {"", "", "        runAsUser: 0\n", "unknown field; it belongs into securityContext"},
	    {"", "", "        restartPolicy: Never\n", "it belongs beside 'containers'"},
	    {"", "", "        command: ls\n", "a list is wanted, not 'ls'"},
	    {"", "", "        command: [1]\n", "command[0]: '1' is no text to Kubernetes"},
	    {"", "", "        command: [yes]\n", "is no text to Kubernetes"},
	    {"", "", "        command: [{}]\n", "a text is wanted, not a map"},
	    {"", "", "        workingDir: here\n", "is not absolute"},
	    {"", "", "        imagePullPolicy: Maybe\n", "Always, IfNotPresent or Never"},
	    {"", "", "        env: [{value: a}]\n", "needs a name"},
	    {"", "", "        env: [{name: A=B}]\n", "needs a name"},
	    {"", "", "        env: [{name: A, value: 16}]\n", "env[0].value: '16' is no text"},
	    {"", "", "        env: [{name: A, valueFrom: {secretKeyRef: {}}}]\n",
	     "there are no Secrets"},
	    {"", "", "        env: [{name: A, valueFrom: {configMapKeyRef: {}}}]\n",
	     "there are no ConfigMaps"},
	    {"", "", "        env: [{name: A, valueFrom: {resourceFieldRef: {}}}]\n",
	     "write the number"},
	    {"", "", "        env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]\n",
	     "'status.podIP'"},
	    {"", "",
	     "        env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: "
	     "metadata.name}}}]\n",
	     "has value and valueFrom"},
	    {"", "", "        resources: {limits: {nvidia.com/gpus: 1}}\n",
	     "unknown resource 'nvidia.com/gpus'; did you mean 'nvidia.com/gpu'?"},
	    {"", "", "        resources: {limits: {nvidia.com/gpu: 500m}}\n", "no whole number"},
	    {"", "", "        resources: {limits: {nvidia.com/gpu: -1}}\n", "out of range"},
	    {"", "", "        resources: {limits: {nvidia.com/gpu: true}}\n", "is no quantity"},
	    {"", "", "        resources: {limits: {nvidia.com/gpu: 1, nvidia.com/mig-1g.5gb: 1}}\n",
	     "one kind of GPU"},
	    {"", "", "        resources: {limits: {memory: 16GB}}\n", "'16GB' is no quantity"},
	    {"", "", "        resources: {requests: {nvidia.com/gpu: 1}}\n",
	     "it has to stand in limits as well"},
	    {"", "",
	     "        resources: {limits: {nvidia.com/gpu: 2}, requests: {nvidia.com/gpu: 1}}\n",
	     "the request is not the limit"},
	    {"", "", "        resources: {limits: {cpu: 1}, requests: {cpu: 2}}\n",
	     "more than the limit"},
	    {"", "", "        resources: {claims: []}\n", "not supported here"},
	    {"", "", "        securityContext: {privileged: true}\n", "allow it with --privileged"},
	    {"", "", "        securityContext: {capabilities: {add: [SYS_ADMIN]}}\n",
	     "the capability SYS_ADMIN"},
	    {"", "", "        volumeMounts: [{name: v, mountPath: /v}]\n",
	     "there is no volume 'v'"},
	    {"", "", "        volumeMounts: [{name: v}]\n", "a mount needs mountPath"},
	    {"", "      volumes: [{name: v, hostPath: {}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "hostPath has no path"},
	    {"", "      volumes: [{name: v, hostPath: {path: a}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "is not an absolute path"},
	    {"", "      volumes: [{name: v, hostPath: {path: /a, type: Dir}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "no such type of hostPath"},
	    {"", "      volumes: [{name: v, hostPath: {path: /a/../b}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "without '..'"},
	    {"", "      volumes: [{name: v, emptyDir: {medium: HugePages}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "medium 'HugePages'"},
	    {"", "      volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "--volume data=PATH"},
	    {"", "      volumes: [{name: v, configMap: {name: data}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "--volume data=PATH"},
	    {"", "      volumes: [{name: v, secret: {secretName: data}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "--volume data=PATH"},
	    {"", "      volumes: [{name: v, nfs: {}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "--volume v=PATH"},
	    {"", "      volumes: [{name: v, emptyDir: {}, hostPath: {path: /}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /v}]\n", "more than one kind"},
	    {"", "      volumes: [{name: v}, {name: v}]\n", "", "a second volume 'v'"},
	    {"", "      volumes: [{name: v, emptyDir: {}}]\n",
	     "        volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /b}]\n",
	     "volumeMounts[1]: not supported here: the emptyDir 'v' in two places"},
	    {"", "      volumes: [{name: v, hostPath: {path: /h}}, {name: w}]\n",
	     "        volumeMounts: [{name: v, mountPath: /a}, {name: w, mountPath: /a/}]\n",
	     "volumeMounts[1]: a second volume at '/a/'"},
	    {"",
	     "      volumes: [{name: v, readOnly: true, persistentVolumeClaim: {claimName: d}}]\n",
	     "", "into persistentVolumeClaim, where it makes the claim read-only"},
	};
	for (size_t i = 0; i < array_length(cases); i++)
		refuse(job(cases[i][0], cases[i][1], cases[i][2]), cases[i][3]);
}

static void test_documents_refused(void **state)
{
	static const char *const cases[][2] = {
	    {"", "there is no job in it"},
	    {"--- \n---\n", "there is no job in it"},
	    {"[]", "an object of Kubernetes is wanted"},
	    {"a: b", "apiVersion is missing"},
	    {"apiVersion: v1\nkind: Service\n", "kind 'Service' is no job"},
	    {"apiVersion: batch/v1beta1\nkind: Job\n", "write batch/v1"},
	    {"apiVersion: batch/v1\nkind: CronJob\n", "nothing is repeated"},
	    {"apiVersion: batch/v1\nkind: Job\n", "the job needs a name"},
	    {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n", "spec: is missing"},
	    {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: A_b}\nspec: {}\n",
	     "'A_b' is no name"},
	    {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: "
	     "{containers: []}}}\n",
	     "restartPolicy: is missing"},
	    {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: "
	     "{restartPolicy: Always, containers: []}}}\n",
	     "write Never or OnFailure"},
	    {"apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\nspec: {template: {spec: "
	     "{restartPolicy: Never, containers: []}}}\n",
	     "exactly one container is wanted, not 0"},
	    {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: "
	     "b}]}\n",
	     "a Pod's default, Always, never ends"},
	    {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {sluice.dev/prioriti: "
	     "'1'}}\nspec: {}\n",
	     "did you mean 'priority'?"},
	    {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {sluice.dev/priority: "
	     "'101'}}\nspec: {}\n",
	     "is no priority"},
	    {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {sluice.dev/gang: "
	     "'yes'}}\nspec: {}\n",
	     "\"true\" or \"false\""},
	    {"apiVersion: v1\nkind: Pod\nmetadata: {name: a, annotations: {x: 1}}\nspec: {}\n",
	     "is no text to Kubernetes"},
	    {"a: &a [x, *a]", "alias"},
	    {"a: b\nc: [", "f.yaml:"},
	};
	for (size_t i = 0; i < array_length(cases); i++)
		refuse(cases[i][0], cases[i][1]);
}

static void test_hostile(void **state)
{
	struct err err = {0};
	struct jobfile *file = NULL;
	size_t length = 10 << 20;
	char *large = malloc(length + 1);
	assert_non_null(large);
	memset(large, 'x', length);
	memcpy(large, "a: \"", 4);
	assert_int_equal(jobfile_parse(large, length, "f.yaml", &none, &file, &err), -E2BIG);
	assert_non_null(strstr(err.text, "larger than 1 MiB"));
	memset(large, '[', 40);
	large[40] = '\0';
	refuse(large, "nested deeper than 32 levels");
	/* An alias that stands for 1000 bytes, a hundred times. */
	int at = snprintf(large, length, "a: &a \"%01000d\"\nb: [", 0);
	for (int i = 0; i < 100; i++)
		at += snprintf(large + at, length - (size_t)at, "*a, ");
	(void)snprintf(large + at, length - (size_t)at, "*a]\n");
	refuse(large, "grows by more than 64 KiB");
	free(large);
	/* Each variable twice the one before it. */
	char text[4096];
	at = snprintf(text, sizeof(text), "        env: [{name: V0, value: aaaaaaaa}");
	for (int i = 1; i < 40; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       ", {name: V%d, value: $(V%d)$(V%d)}", i, i - 1, i - 1);
	(void)snprintf(text + at, sizeof(text) - (size_t)at, "]\n");
	refuse(job("", "", text), "are too large");
	/* Each small enough, all together not. */
	at = snprintf(text, sizeof(text), "        env: [{name: V0, value: aaaaaaaa}");
	for (int i = 1; i < 60; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       i < 13 ? ", {name: V%d, value: $(V%d)$(V%d)}"
				      : ", {name: V%d, value: $(V12)}",
			       i, i - 1, i - 1);
	(void)snprintf(text + at, sizeof(text) - (size_t)at, "]\n");
	refuse(job("", "", text), "1048576 together");
}

static void test_notes(void **state)
{
	struct jobfile *file = parse(
	    job("",
		"      nodeName: node-1\n      serviceAccount: a\n      serviceAccountName: a\n"
		"      nodeSelector: {a: b}\n      tolerations: []\n      hostIPC: true\n",
		"        ports: []\n        livenessProbe: {}\n"
		"        env: [{name: NVIDIA_VISIBLE_DEVICES, value: all},\n"
		"          {name: CUDA_VISIBLE_DEVICES, value: '0'}]\n"
		"        resources: {requests: {memory: 1Gi}}\n"));
	assert_true(is_noted(file, "NVIDIA_VISIBLE_DEVICES=all is left out"));
	assert_true(is_noted(file, "CUDA_VISIBLE_DEVICES=0 is left out"));
	assert_int_equal(jobfile_at(file, 0)->task.variable_count, 0);
	assert_true(is_noted(file, "a request of memory without a limit"));
	assert_true(is_noted(file, "on a cluster: spec.template.spec.nodeName, "
				   "spec.template.spec.serviceAccount, "));
	assert_true(is_noted(file, "spec.template.spec.hostIPC, "
				   "spec.template.spec.containers[0].ports, "));
	(void)jobfile_free(file);
}

static void test_volumes(void **state)
{
	static const struct jobfile_place places[] = {
	    {.name = "data=", .name_length = 4, .path = "/srv/data"},
	    {.name = "settings", .name_length = 8, .path = "/srv/settings"},
	};
	const struct jobfile_options options = {.places = places, .place_count = 2};
	struct err err = {0};
	struct jobfile *file = parse_with(
	    job("",
		"      volumes: [{name: a, emptyDir: {medium: Memory, sizeLimit: 1Gi}}, {name: "
		"b},\n"
		"        {name: c, hostPath: {path: /h, type: Directory}},\n"
		"        {name: d, persistentVolumeClaim: {claimName: data, readOnly: true}},\n"
		"        {name: settings, configMap: {name: other}}]\n",
		"        volumeMounts: [{name: a, mountPath: /dev/shm}, {name: b, mountPath: /b},\n"
		"          {name: c, mountPath: /c, subPath: x/y}, {name: d, mountPath: /d},\n"
		"          {name: settings, mountPath: /e}]\n"),
	    &options, &err);
	if (!file)
		fail_msg("%s", err.text);
	const struct jobfile_mount *mounts = jobfile_at(file, 0)->task.mounts;
	assert_int_equal(jobfile_at(file, 0)->task.mount_count, 5);
	assert_int_equal(mounts[0].storage, JOBFILE_STORAGE_MEMORY);
	assert_int_equal(mounts[0].size_bytes, 1 << 30);
	assert_int_equal(mounts[1].storage, JOBFILE_STORAGE_EMPTY);
	assert_string_equal(mounts[2].source, "/h/x/y");
	assert_string_equal(mounts[3].source, "/srv/data");
	assert_true(mounts[3].read_only && mounts[4].read_only && !mounts[2].read_only);
	assert_string_equal(mounts[4].source, "/srv/settings"); /* by the volume's name */
	(void)jobfile_free(file);
}

static void test_privileged(void **state)
{
	const struct jobfile_options options = {.privileged = true};
	struct err err = {0};
	struct jobfile *file = parse_with(
	    job("", "", "        securityContext: {privileged: true}\n"), &options, &err);
	assert_non_null(file);
	assert_true(jobfile_at(file, 0)->task.privileged);
	assert_true(is_noted(file, "not isolated"));
	(void)jobfile_free(file);
}

/* --- MPIJob ----------------------------------------------------------------------------------- */

static const char *mpijob(const char *spec, const char *launcher, const char *worker,
			  const char *container)
{
	static char text[4][4096];
	static unsigned next;
	char *out = text[next++ % 4];
	(void)snprintf(out, sizeof(text[0]),
		       "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: m}\n"
		       "spec:\n%s  mpiReplicaSpecs:\n    Launcher:\n%s"
		       "      template: {spec: {containers: [{name: l, image: i, "
		       "command: [mpirun, x]}]}}\n"
		       "    Worker:\n%s      template:\n        spec:\n          containers:\n"
		       "          - name: w\n            image: j\n%s",
		       spec, launcher, worker, container);
	return out;
}

static void test_mpijob(void **state)
{
	struct jobfile *file = parse(mpijob(
	    "  slotsPerWorker: 4\n  mpiImplementation: MPICH\n"
	    "  runPolicy: {backoffLimit: 1, suspend: true, cleanPodPolicy: Running}\n",
	    "", "      replicas: 2\n", "            resources: {limits: {nvidia.com/gpu: 8}}\n"));
	const struct jobfile_job *one = jobfile_at(file, 0);
	assert_int_equal(one->kind, JOBFILE_MPIJOB);
	assert_int_equal(one->workers, 2);
	assert_int_equal(one->slots, 4);
	assert_int_equal(one->mpi, JOBFILE_MPI_MPICH);
	assert_int_equal(one->worker.gpus, 8);
	assert_int_equal(one->task.gpus, 0);
	assert_int_equal(one->retries, 1);
	assert_true(one->is_suspended);
	assert_true(is_noted(file, "spec.runPolicy.cleanPodPolicy"));
	(void)jobfile_free(file);
}

static void test_mpijob_worker_commands(void **state)
{
	static const char *const waiting[] = {
	    "            command: [/usr/sbin/sshd]\n            args: [-De, -f, /home/x/.sshd]\n",
	    "            command: [sleep, '1000']\n",
	    "            command: [/sluice/rsh, serve]\n",
	    "            args: [sshd, -De]\n",
	};
	for (size_t i = 0; i < array_length(waiting); i++)
		(void)jobfile_free(parse(mpijob("", "", "      replicas: 1\n", waiting[i])));
	const char *other =
	    mpijob("", "", "      replicas: 1\n", "            command: [python, x.py]\n");
	refuse(other, "--worker-command skip");
	const struct jobfile_options skip = {.worker_command = JOBFILE_WORKER_SKIP};
	struct err err = {0};
	struct jobfile *file = parse_with(other, &skip, &err);
	assert_non_null(file);
	assert_true(is_noted(file, "is not run"));
	(void)jobfile_free(file);
}

static void test_mpijob_refused(void **state)
{
	static const char *const cases[][5] = {
	    {"  slotsPerWorker: -1\n", "", "      replicas: 1\n", "", "out of range"},
	    {"  mpiImplementation: OpenMP\n", "", "      replicas: 1\n", "", "none of OpenMPI"},
	    {"  cleanPodPolicy: None\n", "", "      replicas: 1\n", "",
	     "it belongs into runPolicy"},
	    {"  mainContainer: a\n", "", "      replicas: 1\n", "", "v1alpha2"},
	    {"  gpus: 4\n", "", "      replicas: 1\n", "", "v1alpha1"},
	    {"  runPolicy: {managedBy: a/b}\n", "", "      replicas: 1\n", "", "would run the job"},
	    {"", "      replicas: 2\n", "      replicas: 1\n", "", "a job has one launcher"},
	    {"", "      restartPolicy: ExitCode\n", "      replicas: 1\n", "",
	     "'ExitCode' is not supported"},
	    {"", "", "", "", "spec.mpiReplicaSpecs.Worker.replicas: at least 1"},
	    {"", "", "      replicas: 0\n", "", "at least 1"},
	    {"", "", "      replicas: 300\n", "", "more than the 255"},
	    {"  runLauncherAsWorker: true\n", "", "      replicas: 1\n",
	     "            resources: {limits: {nvidia.com/gpu: 1}}\n",
	     "the same GPUs as a worker (1), not 0"},
	};
	for (size_t i = 0; i < array_length(cases); i++)
		refuse(mpijob(cases[i][0], cases[i][1], cases[i][2], cases[i][3]), cases[i][4]);
	refuse(
	    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: 1a}\nspec: "
	    "{mpiReplicaSpecs: {Launcher: {template: {spec: {containers: [{name: l, image: i}]}}},"
	    " Worker: {replicas: 1, template: {spec: {containers: [{name: l, image: i}]}}}}}",
	    "'1a-worker-0' is no name of a host");
}

/* The name of the host of the last worker has 63 characters at most. */
static void test_mpijob_name(void **state)
{
	char text[1024];
	for (int length = 54; length <= 55; length++) {
		(void)snprintf(
		    text, sizeof(text),
		    "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: %.*s}\n"
		    "spec: {mpiReplicaSpecs: {Launcher: {template: {spec: {containers: "
		    "[{name: l, image: i}]}}}, Worker: {replicas: 1, template: {spec: "
		    "{containers: [{name: l, image: i}]}}}}}",
		    length, "abcdefghijabcdefghijabcdefghijabcdefghijabcdefghijabcdefghij");
		if (length == 54)
			(void)jobfile_free(parse(text));
		else
			refuse(text, "at most 63 characters");
	}
}

static void test_several_documents_and_json(void **state)
{
	struct jobfile *file = parse(
	    "---\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a.b\"}, "
	    "\"spec\": {\"restartPolicy\": \"Never\", \"containers\": [{\"name\": \"c\", "
	    "\"image\": \"i\"}]}}\n---\n# nothing\n---\n"
	    "apiVersion: v1\nkind: Pod\nmetadata: {generateName: b-}\n"
	    "spec: {restartPolicy: OnFailure, containers: [{name: c, image: i, args: ~}]}\n");
	assert_int_equal(jobfile_count(file), 2);
	assert_string_equal(jobfile_at(file, 0)->name, "a-b");
	assert_int_equal(jobfile_at(file, 0)->retries, 0);
	assert_string_equal(jobfile_at(file, 1)->name, "b");
	assert_int_equal(jobfile_at(file, 1)->retries, JOBFILE_RETRIES_MAX);
	assert_int_equal(jobfile_at(file, 1)->line, 6);
	(void)jobfile_free(file);
}

static void test_old_mpijob_is_converted(void **state)
{
	struct jobfile *file =
	    parse("apiVersion: kubeflow.org/v1alpha2\nkind: MPIJob\nmetadata: {name: m}\nspec:\n"
		  "  backoffLimit: 3\n  mpiDistribution: intel_mpi\n  mpiReplicaSpecs:\n"
		  "    Launcher: {template: {spec: {containers: [{name: l, image: i}]}}}\n"
		  "    Worker: {replicas: 2, restartPolicy: Always, template: {spec: {containers: "
		  "[{name: w, image: i, command: [sleep, inf]}]}}}\n");
	const struct jobfile_job *one = jobfile_at(file, 0);
	assert_int_equal(one->retries, 3);
	assert_int_equal(one->mpi, JOBFILE_MPI_INTEL);
	assert_int_equal(one->worker.command_count, 0);
	assert_true(is_noted(file, "spec.backoffLimit moves to spec.runPolicy.backoffLimit"));
	(void)jobfile_free(file);
}

static void test_gang(void **state)
{
	static const char text[] =
	    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: "
	    "{sluice.dev/gang: 'true', sluice.dev/restart: gang, sluice.dev/share: 1/2, "
	    "sluice.dev/retry-lost: 'true', sluice.dev/priority: '-3'}}\n"
	    "spec: {completionMode: Indexed, completions: 4, parallelism: %d, template: {spec: "
	    "{restartPolicy: Never, containers: [{name: c, image: i}]}}}";
	char made[1024];
	(void)snprintf(made, sizeof(made), text, 4);
	struct jobfile *file = parse(made);
	const struct jobfile_job *one = jobfile_at(file, 0);
	assert_true(one->is_gang && one->retry_lost && one->priority == -3);
	assert_string_equal(one->share, "1/2");
	assert_true(is_noted(file, "sluice.dev/restart"));
	(void)jobfile_free(file);
	(void)snprintf(made, sizeof(made), text, 3);
	refuse(made, "starts all 4 completions");
}

/* Each table is sound: names once, reasons where there have to be some. */
static void check_table(const struct objschema_table *table, unsigned depth)
{
	assert_true(depth < OBJSCHEMA_DEPTH_MAX);
	for (const struct objschema_row *row = table->rows; row->name; row++) {
		bool wants_table = row->kind == OBJSCHEMA_OBJECT || row->kind == OBJSCHEMA_OBJECTS;
		bool wants_why =
		    row->class == OBJSCHEMA_REFUSED || row->class == OBJSCHEMA_MISPLACED;
		assert_true(wants_table == (row->table != NULL));
		assert_true(wants_why == (row->why != NULL));
		for (const struct objschema_row *other = row + 1; other->name; other++)
			if (strcmp(row->name, other->name) == 0)
				fail_msg("%s: %s is there twice", table->name, row->name);
		if (row->table)
			check_table(row->table, depth + 1);
	}
}

static void test_tables(void **state)
{
	check_table(&fields_of_pod, 0);
	check_table(&fields_of_job, 0);
	check_table(&fields_of_mpijob, 0);
}

/* --- the page --------------------------------------------------------------------------------- */

static int page_row_list(const struct objschema_table *table, enum objschema_class class,
			 struct buf *out)
{
	int rc = 0;
	bool is_first = true;
	for (const struct objschema_row *row = table->rows; rc == 0 && row->name; row++) {
		if (row->class != class)
			continue;
		rc = buf_printf(out, "%s`%s`", is_first ? "" : ", ", row->name);
		if (rc == 0 && class == OBJSCHEMA_REFUSED)
			rc = buf_printf(out, " (%s)", row->why);
		is_first = false;
	}
	return rc;
}

/* Each table once, in the order in which it is first met. */
static int page_table(const struct objschema_table *table, struct buf *out)
{
	char head[128];
	(void)snprintf(head, sizeof(head), "| %s |", table->name);
	if (strstr(buf_text(out), head))
		return 0;
	int rc = buf_printf(out, "%s ", head);
	if (rc == 0)
		rc = page_row_list(table, OBJSCHEMA_HONOURED, out);
	if (rc == 0)
		rc = buf_add_text(out, " | ");
	if (rc == 0)
		rc = page_row_list(table, OBJSCHEMA_IGNORED, out);
	if (rc == 0)
		rc = buf_add_text(out, " | ");
	if (rc == 0)
		rc = page_row_list(table, OBJSCHEMA_REFUSED, out);
	if (rc == 0)
		rc = buf_add_text(out, " |\n");
	for (const struct objschema_row *row = table->rows; rc == 0 && row->name; row++)
		if (row->table)
			rc = page_table(row->table, out);
	return rc;
}

static void test_page(void **state)
{
	static const char begin[] = "<!-- fields -->\n", end[] = "<!-- end of fields -->";
	char path[FILE_PATH_MAX];
	struct err err = {0};
	_cleanup_buf_ struct buf page, wanted;
	buf_init(&page, 1 << 20);
	buf_init(&wanted, 1 << 20);
	assert_int_equal(file_path(path, &err, "%s/doc/job-files.md", getenv("MESON_SOURCE_ROOT")),
			 0);
	if (file_read(path, &page, &err) < 0)
		fail_msg("%s", err.text);
	const char *from = strstr(buf_text(&page), begin), *to = strstr(buf_text(&page), end);
	assert_true(from && to);
	from += strlen(begin);
	assert_int_equal(
	    buf_add_text(&wanted, "| of | honoured | ignored | refused |\n|---|---|---|---|\n"), 0);
	assert_int_equal(page_table(&fields_of_pod, &wanted), 0);
	assert_int_equal(page_table(&fields_of_job, &wanted), 0);
	assert_int_equal(page_table(&fields_of_mpijob, &wanted), 0);
	bool is_same = (size_t)(to - from) == wanted.length &&
		       memcmp(from, buf_text(&wanted), wanted.length) == 0;
	if (!is_same && getenv("SLUICE_UPDATE_RESULTS")) {
		_cleanup_buf_ struct buf made;
		buf_init(&made, 1 << 20);
		assert_int_equal(buf_add(&made, page.data, (size_t)(from - page.data)), 0);
		assert_int_equal(buf_add_text(&made, buf_text(&wanted)), 0);
		assert_int_equal(buf_add_text(&made, to), 0);
		assert_int_equal(file_write_atomic(path, made.data, made.length, 0644, &err), 0);
	} else if (!is_same) {
		fail_msg("%s is not what the tables say; SLUICE_UPDATE_RESULTS=1 writes it", path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_job_defaults),
	    cmocka_unit_test(test_job_fields),
	    cmocka_unit_test(test_arrays),
	    cmocka_unit_test(test_index_of_a_member),
	    cmocka_unit_test(test_job_refused),
	    cmocka_unit_test(test_documents_refused),
	    cmocka_unit_test(test_hostile),
	    cmocka_unit_test(test_notes),
	    cmocka_unit_test(test_volumes),
	    cmocka_unit_test(test_privileged),
	    cmocka_unit_test(test_mpijob),
	    cmocka_unit_test(test_mpijob_worker_commands),
	    cmocka_unit_test(test_mpijob_refused),
	    cmocka_unit_test(test_mpijob_name),
	    cmocka_unit_test(test_several_documents_and_json),
	    cmocka_unit_test(test_old_mpijob_is_converted),
	    cmocka_unit_test(test_gang),
	    cmocka_unit_test(test_tables),
	    cmocka_unit_test(test_page),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
