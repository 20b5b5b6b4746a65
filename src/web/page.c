/* SPDX-License-Identifier: Apache-2.0 */
#include "web/page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "hardware/snapshot.h"
#include "web/view.h"

/* Made by page/embed.py. */
extern const char page_head[], page_head_end[], page_tail[], page_tail_end[], page_policy_text[];

enum { PAGE_NAMES_MAX = 4 };

/* What is being written, and the first thing that went wrong: then all further writing is skipped.
 */
struct page_sheet {
	struct buf *out;
	int rc;
};

static void put(struct page_sheet *sheet, const char *html)
{
	if (sheet->rc == 0)
		sheet->rc = buf_add_text(sheet->out, html);
}

/* What of a character that is not shown as it is; NULL: as it is. Directional marks stay: <bdi>
 * keeps what they do inside of it. */
static const char *entity_of(uint32_t character)
{
	switch (character) {
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '&':
		return "&amp;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		/* Not UTF-8, a control character, one that is no character in HTML. */
		return character >= TEXT_INVALID || character < 0x20 ||
			       (character >= 0x7f && character < 0xa0) ||
			       (character & 0xfffe) == 0xfffe ||
			       (character >= 0xfdd0 && character <= 0xfdef)
			   ? "\xef\xbf\xbd"
			   : NULL;
	}
}

/* Text from outside, without markup and kept apart from what is around it. */
static void put_text(struct page_sheet *sheet, const char *text)
{
	put(sheet, "<bdi>");

	for (size_t left = strlen(text), size; left > 0 && sheet->rc == 0;
	     text += size, left -= size) {
		const char *entity = entity_of(text_decode(text, left, &size));
		sheet->rc =
		    entity ? buf_add_text(sheet->out, entity) : buf_add(sheet->out, text, size);
	}

	put(sheet, "</bdi>");
}

__attribute__((format(printf, 2, 3))) static void put_format(struct page_sheet *sheet,
							     const char *format, ...)
{
	va_list arguments;
	if (sheet->rc != 0)
		return;
	va_start(arguments, format);
	sheet->rc = buf_vprintf(sheet->out, format, arguments);
	va_end(arguments);
}

static void cell_text(struct page_sheet *sheet, const char *text)
{
	put(sheet, "<td>");
	if (text[0])
		put_text(sheet, text);
	else
		put(sheet, "-");
	put(sheet, "</td>");
}

/* A number in tenths where `scale` is not 1, "-" where it is not known. */
static void cell_number(struct page_sheet *sheet, bool known, int64_t number, int64_t scale,
			const char *unit)
{
	if (!known)
		put(sheet, "<td class=n>-</td>");
	else if (scale == 1)
		put_format(sheet, "<td class=n>%" PRId64 "%s</td>", number, unit);
	else
		put_format(sheet, "<td class=n>%.1f%s</td>", (double)number / (double)scale, unit);
}

static void cell_value(struct page_sheet *sheet, const struct snapshot_gpu *gpu, uint32_t value,
		       int64_t scale, const char *unit)
{
	int64_t number = 0;
	bool known = snapshot_get(gpu, value, &number);
	cell_number(sheet, known, number, scale, unit);
}

/* "12.3 / 40.0 GiB"; what is not known is "-". */
static void cell_of(struct page_sheet *sheet, const struct snapshot_gpu *gpu,
		    const uint32_t value[2], int64_t scale, int digits, const char *unit)
{
	put(sheet, "<td class=n>");

	for (int i = 0; i < 2; i++) {
		int64_t number;

		if (i == 1)
			put(sheet, " / ");
		if (snapshot_get(gpu, value[i], &number))
			put_format(sheet, "%.*f", digits, (double)number / (double)scale);
		else
			put(sheet, "-");
	}

	put(sheet, unit);
	put(sheet, "</td>");
}

static void cell_time(struct page_sheet *sheet, int64_t unix_ns)
{
	struct tm tm;
	char text[32];
	time_t seconds = (time_t)(unix_ns / (int64_t)CLOCK_NS_PER_S);
	if (unix_ns <= 0 || !gmtime_r(&seconds, &tm) ||
	    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
		put(sheet, "<td>-</td>");
	else
		put_format(sheet, "<td>%s</td>", text);
}

static const char *health_word(uint32_t health)
{
	static const char *const words[] = {"unknown", "healthy", "degraded", "unhealthy"};
	return health < 4 ? words[health] : words[0];
}

/* "3 h 20 min" */
static void put_duration(struct page_sheet *sheet, uint64_t seconds)
{
	if (seconds < 60)
		put_format(sheet, "%" PRIu64 " s", seconds);
	else if (seconds < 3600)
		put_format(sheet, "%" PRIu64 " min", seconds / 60);
	else if (seconds < 86400)
		put_format(sheet, "%" PRIu64 " h %" PRIu64 " min", seconds / 3600,
			   seconds / 60 % 60);
	else
		put_format(sheet, "%" PRIu64 " d %" PRIu64 " h", seconds / 86400,
			   seconds / 3600 % 24);
}

static void begin_table(struct page_sheet *sheet, const char *title, const char *const heads[])
{
	put_format(sheet,
		   "<h2>%s</h2><div class=scroll tabindex=0 role=region aria-label=\"%s\">"
		   "<table><thead><tr>",
		   title, title);
	for (size_t i = 0; heads[i]; i++)
		put_format(sheet, "<th scope=col>%s</th>", heads[i]);
	put(sheet, "</tr></thead><tbody>\n");
}

static void end_table(struct page_sheet *sheet, uint64_t left_out)
{
	put(sheet, "</tbody></table></div>\n");
	if (left_out > 0)
		put_format(sheet, "<p>... and %" PRIu64 " more.</p>\n", left_out);
}

static void put_warning(struct page_sheet *sheet, const char *what, const char *text)
{
	if (!text[0])
		return;
	put_format(sheet, "<p class=warning>%s", what);
	put_text(sheet, text);
	put(sheet, "</p>\n");
}

static void put_node(struct page_sheet *sheet, const struct view *view, uint64_t now_ns)
{
	const struct view_node *node = &view->node;
	uint32_t cuda = view->snapshot.cuda_version;

	put(sheet, "<p>");
	put_text(sheet, node->host);
	put(sheet, " · driver ");

	if (view->snapshot.driver_version[0])
		put_text(sheet, view->snapshot.driver_version);
	else
		put(sheet, "-");

	if (cuda > 0)
		put_format(sheet, " · CUDA %u.%u", cuda / 1000, cuda % 1000 / 10);
	put(sheet, " · sluice ");
	put_text(sheet, node->version);

	if (node->started_ns > 0 && node->started_ns <= now_ns) {
		put(sheet, " up ");
		put_duration(sheet, (now_ns - node->started_ns) / CLOCK_NS_PER_S);
	}

	put(sheet, "</p>\n");
	if (node->simulated || view->snapshot.simulated)
		put(sheet,
		    "<p class=simulated><strong>SIMULATED</strong> These GPUs do not exist.</p>\n");

	if (node->sample_ns == 0)
		put(sheet, "<p class=warning>No GPU has been read yet.</p>\n");
	else if (now_ns > node->sample_ns && now_ns - node->sample_ns > VIEW_STALE_NS) {
		put(sheet, "<p class=warning>Stale: the last readings are ");
		put_duration(sheet, (now_ns - node->sample_ns) / CLOCK_NS_PER_S);
		put(sheet, " old.</p>\n");
	}

	put_warning(sheet, "", node->problem);
	put_warning(sheet, "The configuration is not in force: ", node->config_error);
	put_warning(sheet, "Which pod holds what is not known: ", node->kubelet_error);

	if (!view->snapshot.driver_ok)
		put_warning(sheet, "No driver: ", view->snapshot.driver_text);
}

/* What slows the GPU down: nvmlClocksEventReasons, without idle (0x1), clocks that somebody set
 * (0x2) and a display (0x100), which are no trouble. */
static void cell_throttle(struct page_sheet *sheet, const struct snapshot_gpu *gpu)
{
	static const struct {
		int64_t bit;
		const char *word;
	} words[] = {
	    {0x4, "power limit"}, {0x8, "hardware slowdown"}, {0x10, "sync boost"},
	    {0x20, "heat"},	  {0x40, "heat (hardware)"},  {0x80, "power brake"},
	};
	int64_t bits;
	const char *between = "";

	if (!snapshot_get(gpu, SNAPSHOT_THROTTLE, &bits)) {
		put(sheet, "<td>-</td>");
		return;
	}

	put(sheet, "<td>");

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (bits & words[i].bit) {
			put_format(sheet, "%s%s", between, words[i].word);
			between = ", ";
		}
	}

	put(sheet, between[0] ? "</td>" : "none</td>");
}

static void put_holder_name(struct page_sheet *sheet, const struct view_holder *holder)
{
	if (holder->pod[0]) {
		put_text(sheet, holder->name_space);
		put(sheet, "/");
		put_text(sheet, holder->pod);

		if (holder->container[0]) {
			put(sheet, " ");
			put_text(sheet, holder->container);
		}
	} else if (holder->job > 0) {
		put_format(sheet, "job %" PRIu64 " ", holder->job);
		put_text(sheet, holder->job_name);
	} else if (holder->id[0]) {
		put_text(sheet, holder->runtime);

		put(sheet, " ");
		put_text(sheet, holder->id);
	} else if (holder->container[0]) {
		put_text(sheet, holder->container);
	} else {
		put(sheet, "-");
	}
}

/* "outside the queue: carol, pid 4711 (python3)": processes that no holder explains; how many. */
static uint32_t put_outside(struct page_sheet *sheet, const struct view *view, uint32_t gpu,
			    const char *before)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < view->process_count; i++) {
		const struct view_process *process = &view->process[i];
		if (process->gpu != gpu || process->holder != SNAPSHOT_U32_ABSENT ||
		    !view_is_outside(view, process) || ++count > PAGE_NAMES_MAX)
			continue;

		put(sheet, count > 1 ? ", " : before);
		put(sheet, count > 1 ? "" : "outside the queue: ");
		put_text(sheet, process->user[0] ? process->user : "somebody");
		put_format(sheet, ", pid %u ", process->pid);
		put_text(sheet, process->name);
	}

	if (count > PAGE_NAMES_MAX)
		put_format(sheet, " and %u more", count - PAGE_NAMES_MAX);
	return count;
}

static void cell_holders(struct page_sheet *sheet, const struct view *view, uint32_t gpu)
{
	uint32_t seen = 0;

	put(sheet, "<td>");

	for (uint32_t i = 0; i < view->holder_count; i++) {
		if (view->holder[i].gpu != gpu || ++seen > PAGE_NAMES_MAX)
			continue;
		put(sheet, seen > 1 ? ", " : "");
		put_holder_name(sheet, &view->holder[i]);
	}

	if (seen > PAGE_NAMES_MAX)
		put_format(sheet, " and %u more", seen - PAGE_NAMES_MAX);

	const struct view_gpu *about = &view->gpu[gpu];

	if (put_outside(sheet, view, gpu, seen > 0 ? ", " : "") == 0 && seen == 0)
		put(sheet, about->drained || about->reserved ? "nobody" : "free");

	if (about->claim[0]) {
		put(sheet, "<br>");
		put_text(sheet, about->claim);
	}

	put(sheet, "</td>");
}

static void cell_health(struct page_sheet *sheet, const struct view_gpu *gpu)
{
	put_format(sheet, "<td><strong>%s</strong>", health_word(gpu->health));

	for (uint32_t i = 0; i < gpu->reason_count && i < VIEW_REASON_MAX; i++) {
		put(sheet, "<br>");
		put_text(sheet, gpu->reason[i].text);

		if (gpu->reason[i].advice[0]) {
			put(sheet, " → ");
			put_text(sheet, gpu->reason[i].advice);
		}
	}

	put(sheet, "</td>");
}

static void put_gpus(struct page_sheet *sheet, const struct view *view)
{
	static const char *const heads[] = {"GPU",	 "Name",	"Health", "Busy",
					    "Memory",	 "Temperature", "Power",  "SM clock",
					    "Slowed by", "Held by",	NULL};
	static const uint32_t memory[] = {SNAPSHOT_MEMORY_USED, SNAPSHOT_MEMORY_TOTAL};
	static const uint32_t power[] = {SNAPSHOT_POWER, SNAPSHOT_POWER_LIMIT};

	begin_table(sheet, "GPUs", heads);

	for (uint32_t i = 0; i < view->snapshot.gpu_count; i++) {
		const struct snapshot_gpu *gpu = &view->snapshot.gpu[i];
		put_format(sheet, "<tr><th scope=row>%u</th>", gpu->index);
		cell_text(sheet, gpu->name);
		cell_health(sheet, &view->gpu[i]);
		cell_value(sheet, gpu, SNAPSHOT_UTIL_GPU, 1, " %");
		cell_of(sheet, gpu, memory, 1 << 30, 1, " GiB");
		cell_value(sheet, gpu, SNAPSHOT_TEMPERATURE, 1, " °C");
		cell_of(sheet, gpu, power, 1000, 0, " W");
		cell_value(sheet, gpu, SNAPSHOT_CLOCK_SM, 1, " MHz");
		cell_throttle(sheet, gpu);
		cell_holders(sheet, view, i);
		put(sheet, "</tr>\n");

		for (uint32_t m = 0; m < gpu->mig_count && m < SNAPSHOT_MIG_MAX; m++) {
			const struct snapshot_mig *mig = &gpu->mig[m];

			put_format(sheet, "<tr><th scope=row>%u:%u</th>", gpu->index, m);
			cell_text(sheet, mig->profile);
			put(sheet, "<td>-</td><td>-</td>");
			cell_number(sheet, mig->memory_used != SNAPSHOT_U64_ABSENT,
				    (int64_t)mig->memory_used, 1 << 30, " GiB");
			put(sheet, "<td>-</td><td>-</td><td>-</td><td>-</td>");
			cell_text(sheet, mig->uuid);
			put(sheet, "</tr>\n");
		}
	}

	end_table(sheet, 0);
}

static void put_holders(struct page_sheet *sheet, const struct view *view)
{
	static const char *const heads[] = {"GPU",    "Who",	   "User",  "Mode",
					    "Memory", "Processes", "Since", NULL};
	static const char *const modes[] = {"exclusive", "timeslice", "mps", "mig"};

	uint32_t count = view->holder_count,
		 shown = count < PAGE_HOLDER_ROWS ? count : PAGE_HOLDER_ROWS;
	if (count == 0)
		return;

	begin_table(sheet, "Who is on them", heads);

	for (uint32_t i = 0; i < shown; i++) {
		const struct view_holder *holder = &view->holder[i];
		put_format(sheet, "<tr><th scope=row>%u</th><td>",
			   view->snapshot.gpu[holder->gpu].index);
		put_holder_name(sheet, holder);
		put(sheet, holder->allocated ? "</td>" : " (was not given it)</td>");
		cell_text(sheet, holder->user);
		cell_text(sheet, holder->mode < 4 ? modes[holder->mode] : "");
		cell_number(sheet, holder->memory_bytes != SNAPSHOT_U64_ABSENT,
			    (int64_t)holder->memory_bytes, 1 << 30, " GiB");
		cell_number(sheet, true, holder->processes, 1, "");
		cell_time(sheet, holder->since_unix_ns);
		put(sheet, "</tr>\n");
	}

	end_table(sheet, count - shown + view->node.holders_lost);
}

static void put_jobs(struct page_sheet *sheet, const struct view *view)
{
	static const char *const heads[] = {"Job",  "Name",	 "User", "State",
					    "GPUs", "Submitted", "Why",	 NULL};
	uint32_t count = view->job_count, shown = count < PAGE_JOB_ROWS ? count : PAGE_JOB_ROWS;

	if (!view->node.has_queue)
		return;

	begin_table(sheet, "Jobs", heads);

	for (uint32_t i = 0; i < shown; i++) {
		const struct view_job *job = &view->job[i];
		put_format(sheet, "<tr><th scope=row>%" PRIu64 "</th>", job->id);
		cell_text(sheet, job->name);
		cell_text(sheet, job->user);
		cell_text(sheet, job->state);
		cell_number(sheet, true, job->gpus, 1, "");
		cell_time(sheet, job->submitted_unix_ns);
		cell_text(sheet, job->reason);
		put(sheet, "</tr>\n");
	}

	end_table(sheet, count - shown);
	put_format(sheet, "<p>%" PRIu64 " wait, %" PRIu64 " run, %" PRIu64 " have ended.</p>\n",
		   view->jobs_pending, view->jobs_running, view->jobs_ended);
}

/* Newest first. */
static void put_events(struct page_sheet *sheet, const struct view *view)
{
	static const char *const heads[] = {"When",	  "GPU",	"What",
					    "What to do", "Heard from", NULL};
	uint32_t count = view->event_count,
		 shown = count < PAGE_EVENT_ROWS ? count : PAGE_EVENT_ROWS;
	if (count == 0)
		return;

	begin_table(sheet, "Events", heads);

	for (uint32_t i = 0; i < shown; i++) {
		const struct view_event *event = &view->event[count - 1 - i];
		const struct snapshot_gpu *gpu = snapshot_find(&view->snapshot, event->uuid);

		put(sheet, "<tr>");
		cell_time(sheet, event->unix_ns);

		if (gpu)
			cell_number(sheet, true, gpu->index, 1, "");
		else
			cell_text(sheet, event->uuid);

		cell_text(sheet, event->text);
		cell_text(sheet, event->advice);
		cell_text(sheet, event->source);
		put(sheet, "</tr>\n");
	}

	end_table(sheet, count - shown);
}

static void put_adapters(struct page_sheet *sheet, const struct view *view)
{
	static const char *const heads[] = {"Adapter", "Port",	 "Network",  "Layer", "State",
					    "Rate",    "Health", "Resource", "Why",   NULL};
	if (view->adapter_count == 0)
		return;

	begin_table(sheet, "RDMA adapters", heads);

	for (uint32_t i = 0; i < view->adapter_count; i++) {
		const struct view_adapter *adapter = &view->adapter[i];

		put(sheet, "<tr>");
		cell_text(sheet, adapter->name);
		cell_number(sheet, true, adapter->port, 1, "");
		cell_text(sheet, adapter->net);
		cell_text(sheet, adapter->layer);
		cell_text(sheet, adapter->state);
		cell_number(sheet, adapter->rate_bits > 0,
			    (int64_t)(adapter->rate_bits / 1000000000), 1, " Gbit/s");
		cell_text(sheet, health_word(adapter->health));
		cell_text(sheet, adapter->resource);
		cell_text(sheet, adapter->reason);
		put(sheet, "</tr>\n");
	}

	end_table(sheet, 0);
}

int page_render(const struct view *view, uint64_t now_ns, struct buf *out, struct err *err)
{
	struct page_sheet sheet = {.out = out};
	sheet.rc = buf_add(out, page_head, (size_t)(page_head_end - page_head));

	if (view) {
		put_node(&sheet, view, now_ns);
		put_gpus(&sheet, view);
		put_holders(&sheet, view);
		put_jobs(&sheet, view);
		put_events(&sheet, view);
		put_adapters(&sheet, view);
	} else {
		put(&sheet, "<p>Nothing can be shown: a token is needed, or there is no reading "
			    "yet.</p>\n");
	}

	if (sheet.rc == 0)
		sheet.rc = buf_add(out, page_tail, (size_t)(page_tail_end - page_tail));

	return sheet.rc < 0 ? err_set(err, sheet.rc, "no room for the page") : 0;
}

const char *page_policy(void)
{
	return page_policy_text;
}
