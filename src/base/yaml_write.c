/* SPDX-License-Identifier: Apache-2.0 */
#include "base/yaml_write.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <yaml.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/text.h"
#include "base/yaml.h"

enum { YAML_WRITE_INDENT = 2 };

struct writer {
	yaml_emitter_t emitter;
	struct buf *out;
	int rc; /* of the buffer */
};

static int writer_add(void *context, unsigned char *bytes, size_t length)
{
	struct writer *writer = context;
	writer->rc = buf_add(writer->out, bytes, length);
	return writer->rc == 0;
}

/* The event is given to the emitter, which also frees it. */
static int writer_emit(struct writer *writer, yaml_event_t *event, int was_made)
{
	if (was_made && yaml_emitter_emit(&writer->emitter, event))
		return 0;
	return writer->rc == -ENOSPC ? -E2BIG : -ENOMEM;
}

/* Whether it means itself without quotation marks, wherever it stands. What is a number or a truth
 * value without them is not asked: who wrote it so meant that. */
static bool writer_is_plain(const char *text, size_t length)
{
	static const char first[] = "-?:,[]{}#&*!|>'\"%@`= \t";
	if (length == 0 || strchr("-?:=", text[0]) ? length < 2 || strchr(" -", text[1]) != NULL
						   : strchr(first, text[0]) != NULL)
		return false;

	for (size_t i = 0; i < length; i++) {
		unsigned char c = (unsigned char)text[i];
		bool is_last = i + 1 == length;

		if (c < ' ' || c > '~' || strchr(",[]{}", c) || (c == ' ' && is_last) ||
		    (c == ':' && (is_last || text[i + 1] == ' ')) ||
		    (c == ' ' && text[i + 1] == '#'))
			return false;
	}

	return !text_starts_with(text, "...") && !text_starts_with(text, "---");
}

/* Its style depends on the text alone, so that what was written is written in the same way again.
 */
static int writer_scalar(struct writer *writer, const struct yaml_node *node)
{
	yaml_event_t event;
	bool is_null = yaml_is_null(node);
	const char *text = is_null ? "null" : node->text;
	size_t length = is_null ? 4 : node->length;
	bool is_plain = !node->quoted && writer_is_plain(text, length);
	yaml_scalar_style_t style = is_plain			 ? YAML_PLAIN_SCALAR_STYLE
				    : memchr(text, '\n', length) ? YAML_LITERAL_SCALAR_STYLE
								 : YAML_DOUBLE_QUOTED_SCALAR_STYLE;

	return writer_emit(writer, &event,
			   yaml_scalar_event_initialize(&event, NULL, NULL,
							(const yaml_char_t *)text, (int)length,
							is_plain, 1, style));
}

static int writer_node(struct writer *writer, const struct yaml_node *node, unsigned depth)
{
	yaml_event_t event;

	if (depth == YAML_WRITE_DEPTH_MAX)
		return -E2BIG;
	if (node->kind == YAML_SCALAR)
		return writer_scalar(writer, node);

	bool is_map = node->kind == YAML_MAP;
	int rc = writer_emit(writer, &event,
			     is_map ? yaml_mapping_start_event_initialize(&event, NULL, NULL, 1,
									  YAML_BLOCK_MAPPING_STYLE)
				    : yaml_sequence_start_event_initialize(
					  &event, NULL, NULL, 1, YAML_BLOCK_SEQUENCE_STYLE));
	for (size_t i = 0; rc == 0 && i < node->entry_count; i++) {
		if (is_map)
			rc = writer_scalar(writer, node->entries[i].key);
		if (rc == 0)
			rc = writer_node(writer, node->entries[i].value, depth + 1);
	}

	if (rc == 0)
		rc = writer_emit(writer, &event,
				 is_map ? yaml_mapping_end_event_initialize(&event)
					: yaml_sequence_end_event_initialize(&event));

	return rc;
}

static int writer_run(struct writer *writer, const struct yaml_node *root)
{
	yaml_event_t event;
	int rc = writer_emit(writer, &event,
			     yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING));
	if (rc == 0)
		rc = writer_emit(writer, &event,
				 yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1));
	if (rc == 0)
		rc = writer_node(writer, root, 0);

	if (rc == 0)
		rc = writer_emit(writer, &event, yaml_document_end_event_initialize(&event, 1));
	if (rc == 0)
		rc = writer_emit(writer, &event, yaml_stream_end_event_initialize(&event));

	return rc;
}

int yaml_write(const struct yaml_node *root, struct buf *out, struct err *err)
{
	struct writer writer = {.out = out};
	if (!yaml_emitter_initialize(&writer.emitter))
		return err_set(err, -ENOMEM, "no memory for YAML");

	yaml_emitter_set_output(&writer.emitter, writer_add, &writer);
	yaml_emitter_set_indent(&writer.emitter, YAML_WRITE_INDENT);
	yaml_emitter_set_width(&writer.emitter, -1);
	yaml_emitter_set_unicode(&writer.emitter, 1);

	int rc = writer_run(&writer, root);

	yaml_emitter_delete(&writer.emitter);
	if (rc < 0)
		return err_set(err, rc,
			       rc == -E2BIG ? "the YAML becomes too large or too deep"
					    : "no memory for YAML");

	return 0;
}
