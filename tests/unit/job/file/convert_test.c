/* SPDX-License-Identifier: Apache-2.0 */
#include "job/file/convert.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/err.h"
#include "base/yaml.h"
#include "base/yaml_write.h"
#include "job/file/jobfile_arena.h"
#include "unit/unit.h"

static int told(uint32_t line, const char *text, bool is_unknown, void *context)
{
	return buf_printf(context, "%u %s%s\n", line, is_unknown ? "unknown: " : "", text);
}

/* Converts `text`; what was told is in `notes`. */
static int convert(const char *text, struct buf *out, struct buf *notes, struct err *err)
{
	struct yaml *yaml = NULL;
	struct jobfile_arena arena = {0};
	int rc = yaml_parse(text, strlen(text), "f", &yaml, err);
	const struct yaml_node *document = rc == 0 ? yaml_root(yaml) : NULL;
	if (rc == 0 && convert_is_needed(document))
		rc = convert_document(document, "f", &arena, told, notes, &document, err);
	if (rc == 0)
		rc = yaml_write(document, out, err);
	jobfile_arena_done(&arena);
	(void)yaml_free(yaml);
	return rc;
}

#define HEAD "apiVersion: kubeflow.org/v1alpha2\nkind: MPIJob\nmetadata:\n  name: m\nspec:\n"
#define ROLES                                                                                      \
	"  mpiReplicaSpecs:\n    Launcher:\n      template: {spec: {containers: [{name: a}, "      \
	"{name: b}]}}\n"                                                                           \
	"    Worker:\n      template: {spec: {containers: [{name: b, command: [sleep, x], args: "  \
	"[y]}]}}\n"

/* Every row of the table of conversions: what is in the result, and what was told. */
static void test_rows(void **state)
{
	static const char *const cases[][3] = {
	    {HEAD ROLES, "apiVersion: kubeflow.org/v2beta1\n", "1 kubeflow.org/v1alpha2 becomes"},
	    {HEAD ROLES, "    sluice.dev/transport: exec\n", "the annotation sluice.dev/transport"},
	    {HEAD "  backoffLimit: 3\n" ROLES, "  runPolicy:\n    backoffLimit: 3\n",
	     "6 spec.backoffLimit moves"},
	    {HEAD "  activeDeadlineSeconds: 3\n" ROLES,
	     "  runPolicy:\n    activeDeadlineSeconds: 3\n", "moves"},
	    {HEAD "  cleanPodPolicy: All\n" ROLES, "  runPolicy:\n    cleanPodPolicy: All\n",
	     "moves"},
	    {HEAD "  backoffLimit: 3\n  runPolicy: {backoffLimit: 9}\n" ROLES,
	     "  runPolicy:\n    backoffLimit: 9\n", "spec.runPolicy.backoffLimit counts"},
	    {HEAD "  mpiDistribution: OpenMPI\n" ROLES, "  mpiImplementation: OpenMPI\n",
	     "becomes"},
	    {HEAD "  mpiDistribution: open_mpi\n" ROLES, "  mpiImplementation: OpenMPI\n",
	     "becomes"},
	    {HEAD "  mpiDistribution: IntelMPI\n" ROLES, "  mpiImplementation: Intel\n", "becomes"},
	    {HEAD "  mpiDistribution: MPICH\n" ROLES, "  mpiImplementation: MPICH\n", "becomes"},
	    {HEAD "  mainContainer: b\n" ROLES,
	     "          containers:\n          - name: b\n          - name: a\n",
	     "Launcher: the container 'b' moves to the front"},
	    {HEAD ROLES, "          - name: b\n", "Worker: the command 'sleep' is left out"},
	    {HEAD "  strange: 1\n" ROLES, "  strange: 1\n",
	     "6 unknown: unknown field spec.strange"},
	    {HEAD "  mpiReplicaSpecs: {Worker: {restartPolicy: Always}}\n",
	     "restartPolicy: OnFailure\n", "Worker: restartPolicy Always becomes OnFailure"},
	    {HEAD "  mpiReplicaSpecs: {Worker: {restartPolicy: ExitCode}}\n",
	     "restartPolicy: Never\n", "Worker: restartPolicy ExitCode becomes Never"},
	    {HEAD "  mpiReplicaSpecs: {Launcher: {restartPolicy: Always}}\n",
	     "restartPolicy: OnFailure\n", "Launcher: restartPolicy Always"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		_cleanup_buf_ struct buf once, twice, notes, more;
		struct err err = {0};
		buf_init(&once, 100000);
		buf_init(&twice, 100000);
		buf_init(&notes, 100000);
		buf_init(&more, 100000);
		if (convert(cases[i][0], &once, &notes, &err) < 0)
			fail_msg("%s", err.text);
		if (!strstr(buf_text(&once), cases[i][1]) || !strstr(buf_text(&notes), cases[i][2]))
			fail_msg("%zu:\n%s\n%s", i, buf_text(&once), buf_text(&notes));
		assert_int_equal(convert(buf_text(&once), &twice, &more, &err), 0);
		assert_string_equal(buf_text(&twice), buf_text(&once));
		assert_string_equal(buf_text(&more), "");
	}
}

static void test_refused(void **state)
{
	static const char *const cases[][2] = {
	    {"apiVersion: kubeflow.org/v1alpha1\nkind: MPIJob\nspec: {gpus: 4}\n",
	     "f:1:13: MPIJob v1alpha1"},
	    {"apiVersion: kubeflow.org/v1\nkind: MPIJob\nspec: []\n", "a map 'spec'"},
	    {HEAD "  mpiDistribution: other\n" ROLES, "none of OpenMPI, IntelMPI and MPICH"},
	    {HEAD "  mainContainer: c\n" ROLES, "Launcher has no container 'c'"},
	    {HEAD "  mainContainer: a\n" ROLES, "Worker has no container 'a'"},
	    {"apiVersion: kubeflow.org/v1\nkind: MPIJob\nmetadata: []\nspec: {}\n",
	     "a map is wanted"},
	};
	for (size_t i = 0; i < array_length(cases); i++) {
		_cleanup_buf_ struct buf out, notes;
		struct err err = {0};
		buf_init(&out, 100000);
		buf_init(&notes, 100000);
		int rc = convert(cases[i][0], &out, &notes, &err);
		if (rc != -EINVAL || !strstr(err.text, cases[i][1]))
			fail_msg("%zu: %d %s", i, rc, err.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_rows),
	    cmocka_unit_test(test_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
