/* SPDX-License-Identifier: Apache-2.0 */
#include "web/busy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "web/view.h"

enum { RATIO_ONE = 1000 };

struct busy_entry {
	uint64_t key, busy_ns;
};

/* The counters of one moment, in the order of the holders then. */
struct busy_table {
	struct busy_entry *entries; /* owned */
	uint32_t count, capacity;
	uint64_t sample_ns; /* 0: empty */
};

struct busy {
	struct busy_table older, newer; /* at least BUSY_SPAN_S lie between them */
};

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	for (size_t i = 0; i < length; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

/* Who it is and which device it has, whatever its place in the list. */
static uint64_t holder_key(const struct view *view, const struct view_holder *holder)
{
	const struct snapshot_gpu *gpu = &view->snapshot.gpu[holder->gpu];
	const char *const texts[] = {
	    gpu->uuid,
	    holder->mig == SNAPSHOT_U32_ABSENT ? "" : gpu->mig[holder->mig].uuid,
	    holder->name_space,
	    holder->pod,
	    holder->container,
	    holder->id};

	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		hash = mix(hash, texts[i], strlen(texts[i]) + 1);

	hash = mix(hash, &holder->job, sizeof(holder->job));
	hash = mix(hash, &holder->since_unix_ns, sizeof(holder->since_unix_ns));
	return mix(hash, &holder->slot, sizeof(holder->slot));
}

struct busy *busy_new(struct err *err)
{
	struct busy *busy = calloc(1, sizeof(*busy));
	if (!busy)
		(void)err_set(err, -ENOMEM, "out of memory for the holders");
	return busy;
}

struct busy *busy_free(struct busy *busy)
{
	if (!busy)
		return NULL;
	free(busy->older.entries);
	free(busy->newer.entries);
	free(busy);
	return NULL;
}

static void table_fill(struct busy_table *table, const struct view *view)
{
	table->count = 0;
	table->sample_ns = 0;
	if (view->holder_count > table->capacity) {
		struct busy_entry *entries =
		    reallocarray(table->entries, view->holder_count, sizeof(*entries));
		if (!entries)
			return;

		table->entries = entries;
		table->capacity = view->holder_count;
	}

	for (uint32_t i = 0; i < view->holder_count; i++)
		table->entries[i] = (struct busy_entry){holder_key(view, &view->holder[i]),
							view->holder[i].busy_ns};

	table->count = view->holder_count;
	table->sample_ns = view->node.sample_ns;
}

void busy_note(struct busy *busy, const struct view *view)
{
	if (busy->newer.sample_ns != 0 && view->node.sample_ns >= busy->newer.sample_ns &&
	    view->node.sample_ns - busy->newer.sample_ns < BUSY_SPAN_S * CLOCK_NS_PER_S)
		return;
	struct busy_table oldest = busy->older;
	busy->older = busy->newer;
	busy->newer = oldest;
	table_fill(&busy->newer, view);
}

/* Lists seldom change their order: the search begins where it was. */
static const struct busy_entry *table_find(const struct busy_table *table, uint64_t key,
					   uint32_t place)
{
	for (uint32_t i = 0; i < table->count; i++) {
		uint32_t at = (place + i) % table->count;
		if (table->entries[at].key == key)
			return &table->entries[at];
	}
	return NULL;
}

bool busy_ratio(const struct busy *busy, const struct view *view, uint32_t holder,
		uint32_t *out_thousandths)
{
	const struct view_holder *about = &view->holder[holder];
	uint64_t key = holder_key(view, about);
	/* The older one unless the holder is younger than that. */
	const struct busy_table *tables[] = {&busy->older, &busy->newer};

	for (size_t i = 0; i < 2; i++) {
		if (tables[i]->sample_ns == 0 || tables[i]->sample_ns >= view->node.sample_ns)
			continue;

		const struct busy_entry *entry = table_find(tables[i], key, holder);
		if (!entry || entry->busy_ns > about->busy_ns)
			continue;

		uint64_t span = view->node.sample_ns - tables[i]->sample_ns;
		uint64_t busy_ns = about->busy_ns - entry->busy_ns;

		*out_thousandths =
		    busy_ns >= span ? RATIO_ONE : (uint32_t)(busy_ns / (span / RATIO_ONE + 1));
		return true;
	}

	return false;
}
