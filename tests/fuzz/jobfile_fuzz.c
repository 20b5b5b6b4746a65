/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a job file: never a crash; what is accepted can be shown, and what is converted is
 * not changed again. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/yaml.h"
#include "base/yaml_write.h"
#include "job/file/convert.h"
#include "job/file/jobfile.h"
#include "job/file/jobfile_arena.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int told(uint32_t line, const char *text, bool is_unknown, void *context)
{
	(void)line;
	(void)text;
	(void)is_unknown;
	(void)context;
	return 0;
}

/* The first document as it is written, converted where that is needed; 0 when it could be. */
static int written(const char *text, size_t length, struct buf *out)
{
	struct yaml *yaml = NULL;
	struct jobfile_arena arena = {0};
	int rc = yaml_parse_stream(text, length, "fuzz", &yaml, NULL);
	const struct yaml_node *document =
	    rc == 0 && yaml_document_count(yaml) > 0 ? yaml_document(yaml, 0) : NULL;
	if (rc == 0 && document && convert_is_needed(document))
		rc = convert_document(document, "fuzz", &arena, told, NULL, &document, NULL);
	rc = rc == 0 && document ? yaml_write(document, out, NULL) : -1;
	jobfile_arena_done(&arena);
	(void)yaml_free(yaml);
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct jobfile_place places[] = {
	    {.name = "adas-static", .name_length = 11, .path = "/data"}};
	const struct jobfile_options options = {.places = places,
						.place_count = 1,
						.privileged = size % 2,
						.worker_command = JOBFILE_WORKER_SKIP};
	struct jobfile *file = NULL;
	struct err err = {0};
	if (jobfile_parse((const char *)data, size, "fuzz", &options, &file, &err) == 0) {
		for (size_t i = 0; i < jobfile_count(file); i++)
			if (strlen(jobfile_at(file, i)->name) == 0)
				abort();
	} else if (!err.text[0]) {
		abort();
	}
	(void)jobfile_free(file);
	struct buf once, twice;
	buf_init(&once, 1 << 19);
	buf_init(&twice, 1 << 19);
	if (written((const char *)data, size, &once) == 0 &&
	    (written(once.data, once.length, &twice) != 0 ||
	     strcmp(buf_text(&once), buf_text(&twice)) != 0))
		abort();
	buf_done(&once);
	buf_done(&twice);
	return 0;
}
