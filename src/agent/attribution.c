/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/attribution.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "web/view.h"

struct attribution {
	struct attribution_options options;
};

int attribution_new(const struct attribution_options *options, struct attribution **out,
		    struct err *err)
{
	struct attribution *attribution = calloc(1, sizeof(*attribution));
	if (!attribution)
		return err_set(err, -ENOMEM, "no memory for who uses the GPUs");
	attribution->options = *options;
	*out = attribution;
	return 0;
}

void attribution_stop(struct attribution *attribution)
{
	(void)attribution;
}

struct attribution *attribution_free(struct attribution *attribution)
{
	free(attribution);
	return NULL;
}

void attribution_fill(struct attribution *attribution, uint32_t max_holders, struct view *view)
{
	(void)attribution;
	(void)max_holders;
	view->holder_count = view->process_count = 0;
	view->node.unattributed = view->node.holders_lost = 0;
}
