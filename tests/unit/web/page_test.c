/* SPDX-License-Identifier: Apache-2.0 */
#include "web/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "unit/failmalloc.h"
#include "unit/unit.h"
#include "web/view.h"

enum { DOCUMENT_MAX = 4 << 20, NOW_S = 1000 };
static const uint64_t now_ns = NOW_S * CLOCK_NS_PER_S;

/* A view with `count` GPUs of which nothing is known but the index. Owned by the caller. */
static struct view *make(uint32_t count)
{
	struct view *view = calloc(1, sizeof(*view));
	assert_non_null(view);
	view_init(view);
	view->snapshot.driver_ok = 1;
	view->snapshot.gpu_count = count;
	view->node.sample_ns = now_ns - CLOCK_NS_PER_S;
	view->node.has_queue = true;
	for (uint32_t i = 0; i < count; i++) {
		view->snapshot.gpu[i].index = i;
		(void)snprintf(view->snapshot.gpu[i].uuid, SNAPSHOT_TEXT_MAX, "GPU-%u", i);
	}
	return view;
}

static void render(const struct view *view, struct buf *out)
{
	struct err err = {0};
	buf_clear(out);
	assert_int_equal(page_render(view, now_ns, out, &err), 0);
}

/* What differs from view to view: between the static parts. Borrowed from `out`. */
static const char *plain_of(struct buf *out)
{
	char *start = out->data ? strstr(out->data, "<div id=\"plain\">") : NULL;
	char *end = start ? strstr(start, "<form id=\"token\"") : NULL;
	assert_non_null(end);
	*end = '\0';
	return start;
}

static unsigned count_of(const char *text, const char *what)
{
	unsigned count = 0;
	for (const char *at = strstr(text, what); at; at = strstr(at + strlen(what), what))
		count++;
	return count;
}

#define SET(field, text) (void)snprintf((field), sizeof(field), "%s", (text))

/* Nothing that somebody wrote comes out as markup, wherever it stands. */
static void test_escapes_everything(void **state)
{
	static const char evil[] = "<b a='1' b=\"2\">&\x01\xff\xe2\x80\xae";
	static const char good[] = "<bdi>&lt;b a=&#39;1&#39; b=&quot;2&quot;&gt;&amp;"
				   "\xef\xbf\xbd\xef\xbf\xbd\xe2\x80\xae</bdi>";
	struct view *view = make(1);
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	view->snapshot.driver_ok = 0;
	view->holder_count = view->job_count = view->event_count = view->adapter_count = 1;
	view->snapshot.gpu[0].mig_count = 1;
	view->gpu[0].reason_count = 1;
	struct {
		char *text;
		size_t size;
	} all[] = {
#define FIELD(name) {view->name, sizeof(view->name)}
	    FIELD(node.host),
	    FIELD(node.version),
	    FIELD(node.problem),
	    FIELD(node.config_error),
	    FIELD(node.kubelet_error),
	    FIELD(snapshot.driver_version),
	    FIELD(snapshot.driver_text),
	    FIELD(snapshot.gpu[0].name),
	    FIELD(snapshot.gpu[0].mig[0].uuid),
	    FIELD(snapshot.gpu[0].mig[0].profile),
	    FIELD(gpu[0].reason[0].text),
	    FIELD(gpu[0].reason[0].advice),
	    FIELD(holder[0].user),
	    FIELD(job[0].name),
	    FIELD(job[0].user),
	    FIELD(job[0].state),
	    FIELD(job[0].reason),
	    FIELD(event[0].uuid),
	    FIELD(event[0].text),
	    FIELD(event[0].advice),
	    FIELD(event[0].source),
	    FIELD(adapter[0].name),
	    FIELD(adapter[0].net),
	    FIELD(adapter[0].layer),
	    FIELD(adapter[0].state),
	    FIELD(adapter[0].resource),
	    FIELD(adapter[0].reason),
#undef FIELD
	};
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char kept[SNAPSHOT_REASON_MAX * 2];
		assert_true(all[i].size <= sizeof(kept));
		memcpy(kept, all[i].text, all[i].size);
		(void)snprintf(all[i].text, all[i].size, "%s",
			       all[i].size >= sizeof(evil) ? evil : "<b>");
		render(view, &out);
		const char *plain = plain_of(&out);
		assert_non_null(
		    strstr(plain, all[i].size >= sizeof(evil) ? good : "<bdi>&lt;b&gt;</bdi>"));
		assert_null(strstr(plain, "<b "));
		assert_null(strstr(plain, "<b>"));
		memcpy(all[i].text, kept, all[i].size);
	}
	free(view);
}

/* The names of who holds a GPU, in each of their forms. */
static void test_holders(void **state)
{
	struct view *view = make(2);
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	view->holder_count = 3;
	view->holder[0].gpu = 1;
	SET(view->holder[0].name_space, "ml<");
	SET(view->holder[0].pod, "train\"");
	SET(view->holder[0].container, "main&");
	view->holder[0].memory_bytes = UINT64_C(3) << 30;
	view->holder[1].gpu = 1;
	view->holder[1].job = 17;
	SET(view->holder[1].job_name, "<i>");
	view->holder[1].allocated = true;
	view->holder[1].memory_bytes = SNAPSHOT_U64_ABSENT;
	view->holder[2].gpu = 0;
	SET(view->holder[2].runtime, "podman");
	SET(view->holder[2].id, "0123456789ab");
	render(view, &out);
	const char *plain = plain_of(&out);
	assert_int_equal(
	    count_of(plain, "<bdi>ml&lt;</bdi>/<bdi>train&quot;</bdi> <bdi>main&amp;</bdi>"), 2);
	assert_int_equal(count_of(plain, "job 17 <bdi>&lt;i&gt;</bdi>"), 2);
	assert_int_equal(count_of(plain, "<bdi>podman</bdi> <bdi>0123456789ab</bdi>"), 2);
	assert_int_equal(count_of(plain, "(was not given it)"), 2);
	assert_non_null(strstr(plain, "<td class=n>3.0 GiB</td>"));
	free(view);
}

static void test_a_gpu_in_use_is_not_free(void **state)
{
	struct view *view = make(1);
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	view->holder_count = 0;
	view->process_count = 0;
	render(view, &out);
	assert_int_equal(count_of(plain_of(&out), "free</td>"), 1);

	view->gpu[0].drained = true;
	strcpy(view->gpu[0].claim, "drained: <fan>");
	_cleanup_buf_ struct buf drained;
	buf_init(&drained, DOCUMENT_MAX);
	render(view, &drained);
	assert_int_equal(
	    count_of(plain_of(&drained), "nobody<br><bdi>drained: &lt;fan&gt;</bdi></td>"), 1);

	view->gpu[0].drained = false;
	view->gpu[0].claim[0] = '\0';
	view->process_count = 1;
	view->process[0] = (struct view_process){.mig = SNAPSHOT_U32_ABSENT,
						 .pid = 7,
						 .type = SNAPSHOT_PROCESS_COMPUTE,
						 .holder = SNAPSHOT_U32_ABSENT,
						 .name = "py<thon",
						 .user = "ca&rol"};
	_cleanup_buf_ struct buf again;
	buf_init(&again, DOCUMENT_MAX);
	render(view, &again);
	const char *plain = plain_of(&again);
	assert_int_equal(count_of(plain, "free</td>"), 0);
	assert_int_equal(count_of(plain, "outside the queue: <bdi>ca&amp;rol</bdi>, pid 7 "
					 "<bdi>py&lt;thon</bdi></td>"),
			 1);
	free(view);
}

/* What is not known is "-" and never 0. */
static void test_absent(void **state)
{
	struct view *view = make(1);
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	render(view, &out);
	const char *plain = plain_of(&out);
	assert_non_null(strstr(plain, "<td class=n>-</td>"));
	assert_non_null(strstr(plain, "- / - GiB"));
	assert_non_null(strstr(plain, "- / - W"));
	assert_null(strstr(plain, "<td class=n>0"));
	assert_null(strstr(plain, "SIMULATED"));
	assert_null(strstr(plain, "CUDA"));

	snapshot_put(&view->snapshot.gpu[0], SNAPSHOT_UTIL_GPU, 0);
	snapshot_put(&view->snapshot.gpu[0], SNAPSHOT_THROTTLE, 0x4 | 0x40);
	snapshot_put(&view->snapshot.gpu[0], SNAPSHOT_POWER, 287600);
	snapshot_put(&view->snapshot.gpu[0], SNAPSHOT_POWER_LIMIT, 400000);
	view->snapshot.cuda_version = 12040;
	view->snapshot.simulated = 1;
	render(view, &out);
	plain = plain_of(&out);
	assert_non_null(strstr(plain, "<td class=n>0 %</td>"));
	assert_non_null(strstr(plain, "288 / 400 W"));
	assert_non_null(strstr(plain, "power limit, heat (hardware)"));
	assert_non_null(strstr(plain, "CUDA 12.4"));
	assert_non_null(strstr(plain, "SIMULATED"));
	free(view);
}

/* 64 GPUs, and lists that are cut say by how much. */
static void test_many(void **state)
{
	struct view *view = make(SNAPSHOT_GPU_MAX);
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	view->holder_count = VIEW_HOLDER_MAX;
	view->job_count = VIEW_JOB_MAX;
	view->event_count = VIEW_EVENT_MAX;
	for (uint32_t i = 0; i < VIEW_HOLDER_MAX; i++) {
		view->holder[i].gpu = i % SNAPSHOT_GPU_MAX;
		memset(view->holder[i].pod, '<', sizeof(view->holder[i].pod) - 1);
	}
	for (uint32_t i = 0; i < VIEW_EVENT_MAX; i++)
		(void)snprintf(view->event[i].text, sizeof(view->event[i].text), "event %u.", i);
	render(view, &out);
	const char *plain = plain_of(&out);
	assert_non_null(strstr(plain, "<th scope=row>63</th>"));
	assert_non_null(strstr(plain, "... and 1800 more."));
	assert_non_null(strstr(plain, "... and 192 more."));
	assert_non_null(strstr(plain, "event 255."));
	assert_null(strstr(plain, "event 191."));
	assert_true(out.length < 1 << 20);
	free(view);
}

static void test_stale(void **state)
{
	struct view *view = make(1);
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	render(view, &out);
	assert_null(strstr(plain_of(&out), "Stale"));
	view->node.sample_ns = now_ns - 90 * CLOCK_NS_PER_S;
	render(view, &out);
	assert_non_null(strstr(plain_of(&out), "Stale: the last readings are 1 min old"));
	view->node.sample_ns = 0;
	render(view, &out);
	assert_non_null(strstr(plain_of(&out), "No GPU has been read yet"));
	/* From a clock that is behind the view's. */
	view->node.sample_ns = view->node.started_ns = UINT64_MAX;
	render(view, &out);
	assert_null(strstr(plain_of(&out), "Stale"));
	free(view);
}

/* For somebody without the token nothing of the machine is in it. */
static void test_nobody(void **state)
{
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	render(NULL, &out);
	assert_null(strstr(buf_text(&out), "<td"));
	assert_non_null(strstr(buf_text(&out), "</html>"));
	assert_non_null(strstr(page_policy(), "default-src 'none'; script-src 'sha256-"));
	assert_null(strstr(page_policy(), "unsafe"));
}

static int no_memory(void *context)
{
	struct err err = {0};
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	return page_render(context, now_ns, &out, &err);
}

static void test_no_room(void **state)
{
	struct view *view = make(8);
	struct err err = {0};
	_cleanup_buf_ struct buf out;
	buf_init(&out, DOCUMENT_MAX);
	render(view, &out);
	size_t whole = out.length;
	for (size_t max = 0; max < whole; max += 997) {
		_cleanup_buf_ struct buf small;
		buf_init(&small, max);
		assert_int_equal(page_render(view, now_ns, &small, &err), -ENOSPC);
	}
	assert_true(failmalloc_each(no_memory, view) > 0);
	free(view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_escapes_everything),
	    cmocka_unit_test(test_holders),
	    cmocka_unit_test(test_a_gpu_in_use_is_not_free),
	    cmocka_unit_test(test_absent),
	    cmocka_unit_test(test_many),
	    cmocka_unit_test(test_stale),
	    cmocka_unit_test(test_nobody),
	    cmocka_unit_test(test_no_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
