/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/top/top.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/err.h"

static void top_headline(struct top_page *page, const struct top_scene *scene)
{
	const Sluice__V1__Machine *machine = scene->machine;
	uint32_t whole = 0, migs = 0;
	for (size_t i = 0; machine && i < machine->n_gpus; i++)
		machine->gpus[i]->is_mig ? migs++ : whole++;

	if (!machine) {
		top_page_add(page, TOP_BOLD, "sluice");
	} else if (machine->driver_error[0] != '\0' && machine->n_gpus == 0) {
		top_page_add(page, TOP_BOLD, "No GPU: ");
		top_page_add(page, TOP_RED, machine->driver_error);
	} else {
		top_page_addf(page, TOP_BOLD, "%u%s GPU%s", whole,
			      machine->simulated ? " simulated" : "", whole == 1 ? "" : "s");
		if (migs > 0)
			top_page_addf(page, TOP_BOLD, ", %u MIG device%s", migs,
				      migs == 1 ? "" : "s");

		top_page_add(page, TOP_PLAIN, ", driver ");
		top_page_add(page, TOP_PLAIN, machine->driver[0] ? machine->driver : "unknown");
	}

	if (scene->clock[0] != '\0')
		top_page_addf(page, TOP_DIM, "  %s", scene->clock);
	top_page_end(page);

	if (machine && machine->driver_error[0] != '\0' && machine->n_gpus > 0) {
		top_page_add(page, TOP_RED, machine->driver_error);
		top_page_end(page);
	}

	if (machine && machine->stale) {
		top_page_addf(page, TOP_RED,
			      "the driver has not answered for %" PRIu64
			      " s: below is how it was then",
			      machine->age_ns / CLOCK_NS_PER_S);
		top_page_end(page);
	}

	if (scene->notice[0] != '\0') {
		top_page_add(page, TOP_YELLOW, scene->notice);
		top_page_end(page);
	}

	top_page_end(page);
}

/* What is out of sight, and the keys. */
static void view_status(struct top_page *page, size_t above, size_t below)
{
	top_page_add(page, TOP_BOLD, "q");
	top_page_add(page, TOP_PLAIN, " quit");
	if (above + below == 0)
		return;
	top_page_add(page, TOP_BOLD, "  up, down");
	top_page_addf(page, TOP_PLAIN, " scroll: %zu lines above, %zu below", above, below);
}

static int view_copy(const struct top_page *page, size_t first, size_t last, struct buf *out)
{
	size_t from = page->line[first], to = page->line[last];
	return to > from ? buf_add(out, page->text.data + from, to - from) : 0;
}

/* The pages put together: the head stays, the body is seen through a window. */
static int view_compose(const struct top_scene *scene, const struct top_page *head,
			const struct top_page *body, struct top_page *status, struct buf *out,
			size_t *out_first)
{
	size_t lines = body->line_count, shown = lines, first = 0;
	size_t head_lines = head->line_count;

	if (scene->height > 0) {
		size_t room = scene->height > 1 ? scene->height - 1 : 1;
		head_lines = head_lines < room ? head_lines : room;
		shown = lines < room - head_lines ? lines : room - head_lines;
		first = scene->first < lines - shown ? scene->first : lines - shown;
	}

	int rc = view_copy(head, 0, head_lines, out);
	if (rc == 0)
		rc = view_copy(body, first, first + shown, out);
	*out_first = first;

	if (rc < 0 || scene->height < 2)
		return rc;

	view_status(status, first, lines - first - shown);
	top_page_end(status);
	return status->error < 0 ? status->error
				 : buf_add(out, status->text.data, status->text.length);
}

int top_draw(const struct top_scene *scene, struct buf *out, size_t *out_first, struct err *err)
{
	struct top_page head, body, status;
	size_t width = scene->width && scene->width < TOP_WIDTH_MIN ? TOP_WIDTH_MIN : scene->width;

	top_page_init(&head, width, scene->colour);
	top_page_init(&body, width, scene->colour);
	top_page_init(&status, width, scene->colour);
	top_headline(&head, scene);

	if (scene->machine) {
		top_gpus(&body, scene);
		top_jobs(&body, scene);
	}

	int rc = head.error < 0 ? head.error : body.error;
	if (rc == 0)
		rc = view_compose(scene, &head, &body, &status, out, out_first);
	top_page_done(&head);
	top_page_done(&body);
	top_page_done(&status);

	return rc < 0 ? err_set(err, rc, "no room for the picture of the machine") : 0;
}
