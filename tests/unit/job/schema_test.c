/* SPDX-License-Identifier: Apache-2.0 */
/* The tables against the messages: whoever adds a field and forgets its row fails here. What is
 * read and refused is in the tests of spec, wants and launch. */
#include "job/schema.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "unit/unit.h"

/* As protobuf-c describes a field that a row of this kind can be. */
static bool fits(enum form_kind kind, const ProtobufCFieldDescriptor *field)
{
	switch (kind) {
	case FORM_TEXT:
	case FORM_STRING:
	case FORM_WORD:
		return field->type == PROTOBUF_C_TYPE_STRING;
	case FORM_BYTES:
		return field->type == PROTOBUF_C_TYPE_BYTES &&
		       field->label != PROTOBUF_C_LABEL_REPEATED;
	case FORM_LIST:
		return field->type == PROTOBUF_C_TYPE_BYTES &&
		       field->label == PROTOBUF_C_LABEL_REPEATED;
	case FORM_U32:
		return field->type == PROTOBUF_C_TYPE_UINT32;
	case FORM_I32:
		return field->type == PROTOBUF_C_TYPE_SINT32;
	case FORM_U64:
		return field->type == PROTOBUF_C_TYPE_UINT64;
	case FORM_BOOL:
		return field->type == PROTOBUF_C_TYPE_BOOL;
	}
	return false;
}

/* Each field of the message has one row, of its type, but for messages within it. */
static void check_table(const struct form_field *rows, size_t count,
			const ProtobufCMessageDescriptor *message)
{
	for (unsigned i = 0; i < message->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->fields[i];
		size_t found = 0;

		if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			continue;
		for (size_t k = 0; k < count; k++) {
			if (rows[k].message_at != field->offset)
				continue;
			found++;
			if (!fits(rows[k].kind, field))
				fail_msg("the row of %s has another type", field->name);
		}
		if (found != 1)
			fail_msg("%s has %zu rows", field->name, found);
	}
}

static void each_field_has_its_row(void **state)
{
	check_table(schema_wants, schema_wants_count, &sluice__v1__wants__descriptor);
	check_table(schema_spec, schema_spec_count, &sluice__v1__job_spec__descriptor);
}

static void who_owns_it_is_read_only_where_it_is_asked_for(void **state)
{
	Sluice__V1__JobOwner owner = SLUICE__V1__JOB_OWNER__INIT;
	Sluice__V1__JobSpec message = SLUICE__V1__JOB_SPEC__INIT;
	uint32_t groups[] = {4, 27};
	struct spec spec;

	owner.uid = 1000;
	owner.gid = 100;
	owner.groups = groups;
	owner.n_groups = 2;
	message.owner = &owner;
	assert_int_equal(schema_to_spec(&message, &spec, NULL), 0);
	assert_true(spec.uid == 0 && spec.gid == 0 && spec.group_count == 0);
	spec_done(&spec);
	assert_int_equal(schema_to_owned_spec(&message, &spec, NULL), 0);
	assert_true(spec.uid == 1000 && spec.gid == 100 && spec.groups[1] == 27);
	spec_done(&spec);
	message.owner = NULL;
	assert_int_equal(schema_to_owned_spec(&message, &spec, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_field_has_its_row),
	    cmocka_unit_test(who_owns_it_is_read_only_where_it_is_asked_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
