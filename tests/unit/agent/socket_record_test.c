/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/socket_record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/notes.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/storage.h"
#include "doors/kubelet/kubelet.h"
#include "unit/unit.h"
#include "wire/listen.h"

/* --- instead of the kubelet's resources: --wrap -------------------------------------------------
 */

static const char *served[2]; /* endpoints; NULL: no more */

bool __wrap_kubelet_resource_at(const struct kubelet *kubelet, size_t index,
				struct kubelet_view *out);

bool __wrap_kubelet_resource_at(const struct kubelet *kubelet, size_t index,
				struct kubelet_view *out)
{
	if (index >= 2 || !served[index])
		return false;
	(void)snprintf(out->endpoint, sizeof(out->endpoint), "%s", served[index]);
	return true;
}

/* --- the tests ---------------------------------------------------------------------------------
 */

enum { DEADLINE_S = 20 };

static struct {
	struct loop *loop;
	struct storage *storage;
	struct socket_record *record;
	unsigned removed;
} scene;

static void on_removed(const char *path, void *context)
{
	scene.removed++;
}

static int setup(void **state)
{
	memset(served, 0, sizeof(served));
	memset(&scene, 0, sizeof(scene));
	if (unit_top_setup(NULL) < 0)
		return -1;
	scene.loop = loop_new(LOOP_FAKE, NULL);
	scene.storage = scene.loop ? storage_new(scene.loop, 4, NULL) : NULL;
	const struct socket_record_options options = {.storage = scene.storage,
						      .state_dir = unit_top};
	return scene.storage ? socket_record_new(&options, &scene.record, NULL) : -1;
}

static int teardown(void **state)
{
	(void)storage_close(scene.storage);
	assert_null(socket_record_free(scene.record));
	(void)loop_free(scene.loop);
	return unit_top_teardown(NULL);
}

/* A socket file; nobody listens on it any more. */
static const char *dead(const char *name)
{
	const char *path = unit_path(unit_top, name);
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
	return path;
}

static void update(bool cleans)
{
	static const struct kubelet *const kubelets[] = {(const struct kubelet *)&scene, NULL};
	uint64_t end_ns = unit_now_ns() + DEADLINE_S * UINT64_C(1000000000);
	socket_record_update(scene.record, unit_top, kubelets, 1, cleans);
	do {
		assert_int_equal(loop_pass(scene.loop, 1000000, NULL), 0);
		assert_true(unit_now_ns() < end_ns);
	} while (storage_pending(scene.storage) > 0);
}

/* An agent is killed; the next one serves something else. */
static void test_the_next_one_removes_what_it_does_not_serve(void **state)
{
	char gone[FILE_PATH_MAX], kept[FILE_PATH_MAX];
	served[0] = "nvidia-gpu.sock";
	served[1] = "nvidia-gpu.shared.sock";
	update(false);
	(void)snprintf(gone, sizeof(gone), "%s", dead("nvidia-gpu.shared.sock"));
	(void)snprintf(kept, sizeof(kept), "%s", dead("nvidia-gpu.sock"));
	const char *foreign = dead("nvidia-mig-1g.5gb.sock");

	scene.record = socket_record_free(scene.record);
	const struct socket_record_options options = {.storage = scene.storage,
						      .state_dir = unit_top};
	assert_int_equal(socket_record_new(&options, &scene.record, NULL), 0);
	served[1] = NULL;
	update(false); /* it has only just begun */
	assert_true(file_exists(gone));
	update(true);
	assert_false(file_exists(gone));
	assert_true(file_exists(kept));	   /* it is its own to make anew */
	assert_true(file_exists(foreign)); /* nobody noted it: it may be another plugin's */
	/* What is gone is not noted any more: another plugin may have the name now. */
	assert_string_equal(dead("nvidia-gpu.shared.sock"), gone);
	assert_int_equal(socket_record_clean(unit_top, NULL, on_removed, NULL, NULL), 0);
	assert_true(file_exists(gone));
	assert_false(file_exists(kept));
	assert_int_equal(scene.removed, 1);
}

static void test_one_that_somebody_listens_on_stays(void **state)
{
	const char *path = unit_path(unit_top, "nvidia-gpu.sock");
	served[0] = "nvidia-gpu.sock";
	update(false);
	int fd = wire_listen_unix(path, 0600, NULL);
	assert_true(fd >= 0);
	assert_int_equal(socket_record_clean(unit_top, NULL, on_removed, NULL, NULL), 0);
	assert_true(file_exists(path));
	assert_int_equal(close(fd), 0);
	assert_int_equal(socket_record_clean(unit_top, NULL, on_removed, NULL, NULL), 0);
	assert_false(file_exists(path));
	assert_int_equal(socket_record_clean(unit_top, NULL, on_removed, NULL, NULL), 0);
}

/* Whatever stands in the note, nothing but dead sockets goes. */
static void test_a_note_of_anything(void **state)
{
	char text[4 * FILE_PATH_MAX];
	assert_int_equal(socket_record_clean(unit_top, NULL, NULL, NULL, NULL),
			 0); /* there is none */
	unit_write(unit_path(unit_top, "file.sock"), "x");
	const char *other = dead("no-socket-by-name");
	(void)snprintf(text, sizeof(text),
		       "%s/file.sock\n%s\nrelative.sock\n%s/../x.sock\n\n/nowhere.sock", unit_top,
		       other, unit_top);
	unit_write(unit_path(unit_top, SOCKET_RECORD_NAME), text);
	assert_int_equal(socket_record_clean(unit_top, NULL, on_removed, NULL, NULL), 0);
	assert_int_equal(scene.removed, 0);
	assert_true(file_exists(unit_path(unit_top, "file.sock")));
	assert_true(file_exists(other));
}

/* Cut, a path would name another file: it is left out. */
static void test_a_path_that_is_too_long(void **state)
{
	(void)state;
	for (size_t length = NOTES_TEXT_MAX - 1; length <= NOTES_TEXT_MAX; length++) {
		char path[NOTES_TEXT_MAX + 1];
		struct notes noted = {.count = 0};
		memset(path, 'x', length);
		path[0] = '/';
		memcpy(path + length - 5, ".sock", 5);

		socket_record_parse(path, length, &noted);
		assert_int_equal(noted.count, length < NOTES_TEXT_MAX ? 1 : 0);
		if (noted.count > 0)
			assert_memory_equal(noted.items[0], path, length);

		notes_done(&noted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_the_next_one_removes_what_it_does_not_serve, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_one_that_somebody_listens_on_stays, setup,
					    teardown),
	    cmocka_unit_test_setup_teardown(test_a_note_of_anything, setup, teardown),
	    cmocka_unit_test(test_a_path_that_is_too_long),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
