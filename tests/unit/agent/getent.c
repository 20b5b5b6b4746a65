/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/agent/getent.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/loop.h"
#include "unit/unit.h"

int getent_setup(void **state, const char *text)
{
	static struct getent getent;
	memset(&getent, 0, sizeof(getent));
	getent.directory = unit_tmp_new();
	getent.loop = loop_new(LOOP_FAKE, NULL);
	getent.children = getent.loop ? child_set_new(getent.loop, CHILD_WATCH_AUTO, NULL) : NULL;
	(void)snprintf(getent.program, sizeof(getent.program), "%s/get ent", getent.directory);
	(void)snprintf(getent.file, sizeof(getent.file), "%s/file", getent.directory);
	unit_write(getent.file, text);
	*state = &getent;
	return getent.children ? 0 : -1;
}

int getent_teardown(void **state)
{
	struct getent *getent = *state;
	getent->children = child_set_free(getent->children);
	getent->loop = loop_free(getent->loop);
	getent->directory = unit_tmp_free(getent->directory);
	return 0;
}

void getent_answer(const struct getent *getent, const char *script)
{
	unit_write(getent->program, script);
	assert_int_equal(chmod(getent->program, 0755), 0);
}

void getent_changed(void *getent)
{
	((struct getent *)getent)->changes++;
}

void getent_pass_until_no_child(const struct getent *getent)
{
	uint64_t end_ns = unit_now_ns() + UINT64_C(20000000000);
	while (child_set_count(getent->children) > 0 && unit_now_ns() < end_ns)
		assert_int_equal(loop_pass(getent->loop, 50000000, NULL), 0);
	assert_int_equal(child_set_count(getent->children), 0);
}
