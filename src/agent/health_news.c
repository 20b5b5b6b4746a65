/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/health_news.h"

#include <inttypes.h>
#include <stddef.h>

#include "agent/cluster/cluster.h"
#include "agent/web/door_web_events.h"
#include "base/clock.h"
#include "base/log.h"

static enum log_level health_news_level(const struct health_news *news)
{
	if (news->after == HEALTH_UNHEALTHY)
		return LOG_LEVEL_ERROR;
	bool is_worse = news->after == HEALTH_DEGRADED && news->before != HEALTH_UNHEALTHY;
	return is_worse ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE;
}

static void health_news_log(struct health_news_told *told, const struct health_news *news,
			    struct log *log)
{
	static const struct clock monotonic = {.fake_ns = NULL};
	const struct log_field fields[] = {{"GPU_UUID", news->uuid}, {NULL, NULL}};
	char more[REPEATS_TEXT_MAX];

	if (!repeats_may_tell_of(&told->lines, clock_now_ns(&monotonic), more, "%" PRIu32 " %s %d",
				 news->index, news->uuid, (int)news->after))
		return;

	log_write(log, health_news_level(news), fields, "GPU %" PRIu32 " is %s (was %s)%s%s%s",
		  news->index, health_state_to_string(news->after),
		  health_state_to_string(news->before), *news->why ? ": " : "", news->why, more);
}

void health_news_tell(struct health_news_told *told, const struct health_news *news,
		      struct log *log, struct cluster *cluster, struct web_events *events,
		      const struct vitals *vitals)
{
	health_news_log(told, news, log);
	cluster_verdict(cluster, news->uuid, news->index, news->before, news->after, news->why);
	web_events_verdict(events, news->uuid, news->index, news->before, news->after, news->why,
			   vitals);
}
