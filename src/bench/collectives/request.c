/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/collectives/request.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/suggest.h"

enum {
	REQUEST_DEFAULT_BYTES = 32 << 20,
	REQUEST_DEFAULT_STEP = 1 << 20,
	REQUEST_WORDS_SIZE = 256,
	REQUEST_BINARY_DIGITS = 32,
	REQUEST_MIN_BW_MAX = 1000000, /* GB/s */
};

/* --- sizes and splits ------------------------------------------------------------------------- */

int request_size_parse(const char *text, uint64_t *out)
{
	static const char units[] = "KMGT";
	char number[REQUEST_TEXT_MAX];
	size_t length = strspn(text, "0123456789.");
	const char *unit = text + length;

	if (length == 0 || length >= sizeof(number) || strlen(unit) > 3)
		return -EINVAL;

	unsigned shift = 0;

	if (*unit) {
		const char *at = strchr(units, toupper((unsigned char)*unit));
		if (!at || (unit[1] != '\0' && strcasecmp(unit + 1, "B") != 0 &&
			    strcasecmp(unit + 1, "iB") != 0 && strcasecmp(unit + 1, "i") != 0))
			return -EINVAL;
		shift = 10 * (unsigned)(at - units + 1);
	}

	memcpy(number, text, length);
	number[length] = '\0';

	const uint64_t limit = UINT64_C(1) << COLLECTIVE_BYTES_BITS;

	if (!strchr(number, '.')) { /* exact beyond 2^53, too */
		uint64_t whole;
		int rc = parse_u64(number, 0, (limit - 1) >> shift, &whole);
		if (rc == 0)
			*out = whole << shift;
		return rc;
	}

	double value;
	int rc = parse_fraction(number, 0, (double)((limit - 1) >> shift), &value);
	if (rc == 0)
		*out = (uint64_t)(value * (double)(UINT64_C(1) << shift));

	return rc;
}

static int request_split_number(const char *text, uint32_t *out)
{
	uint64_t value = 0;
	size_t length = strlen(text);

	if (strncasecmp(text, "0b", 2) == 0) {
		if (length < 3 || length > 2 + REQUEST_BINARY_DIGITS ||
		    strspn(text + 2, "01") != length - 2)
			return -EINVAL;

		for (text += 2; *text; text++)
			value = value << 1 | (uint64_t)(*text == '1');
	} else if (strncasecmp(text, "0x", 2) == 0) {
		if (parse_hex(text + 2, UINT32_MAX, &value) < 0)
			return -EINVAL;
	} else if (parse_u64(text, 0, UINT32_MAX, &value) < 0) {
		return -EINVAL;
	}

	*out = (uint32_t)value;
	return 0;
}

int request_split_parse(const char *text, struct request_split *out)
{
	static const struct {
		const char *word;
		enum request_split_kind kind;
	} kinds[] = {
	    {"AND", REQUEST_SPLIT_AND}, {"&", REQUEST_SPLIT_AND},   {"OR", REQUEST_SPLIT_OR},
	    {"|", REQUEST_SPLIT_OR},	{"MOD", REQUEST_SPLIT_MOD}, {"%", REQUEST_SPLIT_MOD},
	    {"DIV", REQUEST_SPLIT_DIV}, {"/", REQUEST_SPLIT_DIV},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t length = strlen(kinds[i].word);
		if (strncasecmp(text, kinds[i].word, length) != 0)
			continue;

		struct request_split split = {.kind = kinds[i].kind};

		text += length;
		text += strspn(text, " \t");

		bool divides = split.kind == REQUEST_SPLIT_MOD || split.kind == REQUEST_SPLIT_DIV;
		if (request_split_number(text, &split.value) < 0 || (divides && split.value == 0))
			return -EINVAL;

		*out = split;
		return 0;
	}

	return -EINVAL;
}

uint32_t request_split_color(const struct request_split *split, uint32_t rank)
{
	switch (split->kind) {
	case REQUEST_SPLIT_AND:
		return rank & split->value;
	case REQUEST_SPLIT_OR:
		return rank | split->value;
	case REQUEST_SPLIT_MOD:
		return rank % split->value;
	case REQUEST_SPLIT_DIV:
		return rank / split->value;
	case REQUEST_SPLIT_NONE:
		break;
	}

	return 0;
}

uint32_t request_split_groups(const struct request_split *split, uint32_t ranks)
{
	uint32_t groups = 0;

	for (uint32_t rank = 0; rank < ranks; rank++) {
		bool is_first = true;
		for (uint32_t i = 0; i < rank && is_first; i++)
			is_first =
			    request_split_color(split, i) != request_split_color(split, rank);
		groups += is_first;
	}

	return groups;
}

/* --- options ---------------------------------------------------------------------------------- */

struct request_names {
	const char *(*to_string)(unsigned value);
	unsigned count;
};

static const char *request_op_name(unsigned value)
{
	return collective_op_to_string(value);
}

static const char *request_type_name(unsigned value)
{
	return collective_type_to_string(value);
}

static const char *request_redop_name(unsigned value)
{
	return collective_redop_to_string(value);
}

/* -EINVAL with all names that there are. */
static int request_refuse(const struct request_names *names, const char *what, const char *text,
			  struct err *err)
{
	char words[REQUEST_WORDS_SIZE] = "";
	size_t length = 0;
	struct suggest suggest;

	suggest_init(&suggest, text);

	for (unsigned i = 0; i < names->count && length < sizeof(words); i++) {
		length += (size_t)snprintf(words + length, sizeof(words) - length, "%s, ",
					   names->to_string(i));
		suggest_offer(&suggest, names->to_string(i));
	}

	const char *best = suggest_best(&suggest);
	return err_set(err, -EINVAL, "%s '%s' is unknown%s%s%s (%sall)", what, text,
		       best ? "; did you mean '" : "", best ? best : "", best ? "'?" : "", words);
}

static void request_mark_all(bool *marks, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		marks[i] = true;
}

static int request_ops(char *const *words, size_t count, bool has_unknown, struct request *out,
		       struct err *err)
{
	static const struct request_names names = {request_op_name, COLLECTIVE_OP_COUNT};
	bool is_any = false;

	for (size_t i = 0; i < count; i++) {
		enum collective_op op;

		if (strcmp(words[i], "all") == 0)
			request_mark_all(out->ops, COLLECTIVE_OP_COUNT);
		else if (collective_op_parse(words[i], &op) == 0)
			out->ops[op] = true;
		else if (has_unknown && isdigit((unsigned char)words[i][0]))
			continue; /* the value of an option that was left out */
		else
			return request_refuse(&names, "operation", words[i], err);

		is_any = true;
	}

	out->ops[COLLECTIVE_ALL_REDUCE] |= !is_any;
	return 0;
}

static int request_kinds(const struct request_options *options, struct request *out,
			 struct err *err)
{
	static const struct request_names types = {request_type_name, COLLECTIVE_TYPE_COUNT};
	static const struct request_names redops = {request_redop_name, COLLECTIVE_REDOP_COUNT};
	enum collective_type type;
	enum collective_redop redop;

	if (strcmp(options->type, "all") == 0)
		request_mark_all(out->types, COLLECTIVE_TYPE_COUNT);
	else if (collective_type_parse(options->type, &type) == 0)
		out->types[type] = true;
	else
		return request_refuse(&types, "-d: type", options->type, err);

	if (strcmp(options->redop, "all") == 0)
		request_mark_all(out->redops, COLLECTIVE_REDOP_COUNT);
	else if (collective_redop_parse(options->redop, &redop) == 0)
		out->redops[redop] = true;
	else
		return request_refuse(&redops, "-o: reduction", options->redop, err);

	uint64_t root = 0;
	out->all_roots = strcmp(options->root, "all") == 0 || strcmp(options->root, "-1") == 0;
	if (!out->all_roots && parse_u64(options->root, 0, COLLECTIVE_RANKS_MAX - 1, &root) < 0)
		return err_set(err, -EINVAL, "-r takes a rank from 0 to %d, or all, not '%s'",
			       COLLECTIVE_RANKS_MAX - 1, options->root);

	out->root = (uint32_t)root;
	return 0;
}

static int request_size_option(const char *name, const char *text, uint64_t *out, struct err *err)
{
	if (!text)
		return 0;

	int rc = request_size_parse(text, out);
	if (rc == -ERANGE)
		return err_set(err, -EINVAL, "%s: %s is too much; sizes below 1024T are possible",
			       name, text);
	if (rc < 0 || *out == 0)
		return err_set(err, -EINVAL,
			       "%s takes a size from 1 up such as 8, 64K, 256M or 1.5G, not '%s'",
			       name, text);

	return 0;
}

static int request_sizes(const struct request_options *options, struct request *out,
			 struct err *err)
{
	out->min_bytes = out->max_bytes = REQUEST_DEFAULT_BYTES;
	out->step_bytes = options->step_factor ? 0 : REQUEST_DEFAULT_STEP;

	if (options->step_bytes && options->step_factor)
		return err_set(err, -EINVAL,
			       "-i and -f: sizes grow by a step or by a factor; give "
			       "one of the two");

	int rc = request_size_option("-b", options->min_bytes, &out->min_bytes, err);
	if (rc == 0)
		rc = request_size_option("-e", options->max_bytes, &out->max_bytes, err);
	if (rc == 0)
		rc = request_size_option("-i", options->step_bytes, &out->step_bytes, err);
	if (rc < 0)
		return rc;

	if (out->min_bytes > out->max_bytes)
		return err_set(err, -EINVAL,
			       "-b %" PRIu64 " is more than -e %" PRIu64 " (bytes; both are 32M "
			       "where they are not given)",
			       out->min_bytes, out->max_bytes);

	if (request_size_count(out) > REQUEST_SIZES_MAX)
		return err_set(err, -EINVAL,
			       "that would be more than %d sizes: give a larger step with -i, or a "
			       "factor with -f",
			       REQUEST_SIZES_MAX);

	return 0;
}

static int request_checks(const struct request_options *options, struct request *out,
			  struct err *err)
{
	uint64_t count = 1;

	out->checks_all = strcmp(options->check, "all") == 0;
	if (!out->checks_all && strcmp(options->check, "once") != 0 &&
	    parse_u64(options->check, 0, REQUEST_ITERATIONS_MAX, &count) < 0)
		return err_set(err, -EINVAL,
			       "-c takes a number of checks from 0 to %d, once, or all, not '%s'",
			       REQUEST_ITERATIONS_MAX, options->check);

	out->checks = (uint32_t)count;
	return 0;
}

static int request_ranks(const struct request_options *options, struct request *out,
			 struct err *err)
{
	uint64_t devices = (uint64_t)options->threads * options->gpus;
	if (devices > COLLECTIVE_RANKS_MAX)
		return err_set(err, -EINVAL, "-t %u times -g %u: at most %d ranks are possible",
			       options->threads, options->gpus, COLLECTIVE_RANKS_MAX);
	if (options->ranks && devices > 1 && devices != options->ranks)
		return err_set(err, -EINVAL,
			       "--ranks %u and -t %u times -g %u contradict each other",
			       options->ranks, options->threads, options->gpus);

	out->ranks = options->ranks ? options->ranks : devices > 1 ? (uint32_t)devices : 0;
	uint32_t ranks = out->ranks ? out->ranks : COLLECTIVE_RANKS_MAX;
	if (!out->all_roots && out->root >= ranks)
		return err_set(err, -EINVAL, "-r %u: there are %u ranks, from 0 to %u", out->root,
			       ranks, ranks - 1);

	return 0;
}

static const char *request_variable(char *const *environment, const char *name)
{
	size_t length = strlen(name);
	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
			return *environment + length + 1;
	return NULL;
}

static int request_environment(char *const *environment, struct request *out, struct err *err)
{
	const char *split = request_variable(environment, "NCCL_TESTS_SPLIT");
	const char *mask = request_variable(environment, "NCCL_TESTS_SPLIT_MASK");
	const char *least = request_variable(environment, "NCCL_TESTS_MIN_BW");
	uint64_t value;

	if (mask) { /* wins, and is hexadecimal with or without 0x: nccl-tests reads it so */
		if (parse_hex(mask, UINT32_MAX, &value) < 0)
			return err_set(err, -EINVAL,
				       "NCCL_TESTS_SPLIT_MASK takes a hexadecimal number, not '%s'",
				       mask);

		out->split = (struct request_split){REQUEST_SPLIT_AND, (uint32_t)value};
	} else if (split && request_split_parse(split, &out->split) < 0) {
		return err_set(err, -EINVAL,
			       "NCCL_TESTS_SPLIT takes AND, OR, MOD or DIV (or &, |, %%, /) and a "
			       "number such as 8, 0x7 or 0b111, not '%s'",
			       split);
	}

	if (least && parse_fraction(least, 0, REQUEST_MIN_BW_MAX, &out->min_average) < 0)
		return err_set(err, -EINVAL, "NCCL_TESTS_MIN_BW takes GB/s such as 100, not '%s'",
			       least);

	return 0;
}

static int request_contradictions(const struct request_options *options, struct err *err)
{
	if (options->graph && options->per_iteration)
		return err_set(err, -EINVAL,
			       "-G and -I: within a graph single operations cannot "
			       "be timed; give one of the two");

	if (options->graph && options->blocking == 3)
		return err_set(err, -EINVAL,
			       "-G and -z 3: a graph cannot wait after each "
			       "operation; give one of the two");

	if (options->per_iteration && options->timing == REQUEST_TIMING_STREAM)
		return err_set(err, -EINVAL,
			       "-I and --timing stream: single operations are what "
			       "the isolated timing measures");

	return 0;
}

int request_make(const struct request_options *options, char *const *words, size_t word_count,
		 bool has_unknown, char *const *environment, struct request *out, struct err *err)
{
	struct request request = {.options = *options};
	int rc = request_ops(words, word_count, has_unknown, &request, err);
	if (rc == 0)
		rc = request_kinds(options, &request, err);
	if (rc == 0)
		rc = request_sizes(options, &request, err);

	if (rc == 0)
		rc = request_checks(options, &request, err);
	if (rc == 0)
		rc = request_ranks(options, &request, err);
	if (rc == 0)
		rc = request_contradictions(options, err);
	if (rc == 0)
		rc = request_environment(environment, &request, err);

	if (rc < 0)
		return rc;

	bool is_registered = options->memory == REQUEST_MEMORY_AS_USUAL
				 ? options->registers > 0
				 : options->memory == REQUEST_MEMORY_REGISTERED;
	request.memory = is_registered ? BACKEND_REGISTERED : BACKEND_PRIVATE;
	*out = request;

	return 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

uint64_t request_size_count(const struct request *request)
{
	if (request->step_bytes)
		return (request->max_bytes - request->min_bytes) / request->step_bytes + 1;

	uint64_t count = 0;
	for (uint64_t size = request->min_bytes; size <= request->max_bytes;
	     size *= request->options.step_factor) {
		count++;
		if (size > request->max_bytes / request->options.step_factor)
			break;
	}

	return count;
}

uint64_t request_size(const struct request *request, uint64_t index)
{
	if (request->step_bytes)
		return request->min_bytes + index * request->step_bytes;
	uint64_t size = request->min_bytes;
	for (; index > 0; index--)
		size *= request->options.step_factor;
	return size;
}

bool request_skips(const struct request *request, enum collective_op op, uint32_t ranks)
{
	return request->ops[op] && op == COLLECTIVE_HYPERCUBE && (ranks & (ranks - 1)) != 0;
}

static uint64_t request_marked(const bool *marks, unsigned count)
{
	uint64_t marked = 0;
	for (unsigned i = 0; i < count; i++)
		marked += marks[i];
	return marked;
}

/* The `index`th that is marked. */
static unsigned request_pick(const bool *marks, unsigned count, uint64_t index)
{
	for (unsigned i = 0; i < count; i++)
		if (marks[i] && index-- == 0)
			return i;
	return 0;
}

/* How many rows one operation has, by what varies in it. */
struct request_extent {
	uint64_t types, redops, roots, sizes;
};

static struct request_extent request_extent(const struct request *request, enum collective_op op,
					    uint32_t ranks)
{
	bool has_root = collective_op_has_root(op);
	return (struct request_extent){
	    .types = request_marked(request->types, COLLECTIVE_TYPE_COUNT),
	    .redops = collective_op_reduces(op)
			  ? request_marked(request->redops, COLLECTIVE_REDOP_COUNT)
			  : 1,
	    .roots = has_root && request->all_roots ? ranks : 1,
	    .sizes = request_size_count(request),
	};
}

static uint64_t request_op_rows(const struct request *request, enum collective_op op,
				uint32_t ranks)
{
	if (!request->ops[op] || request_skips(request, op, ranks))
		return 0;
	struct request_extent extent = request_extent(request, op, ranks);
	return extent.types * extent.redops * extent.roots * extent.sizes;
}

uint64_t request_row_count(const struct request *request, uint32_t ranks)
{
	uint64_t count = 0;
	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++)
		count += request_op_rows(request, op, ranks);
	return count;
}

static void request_row_fill(const struct request *request, enum collective_op op, uint32_t ranks,
			     uint64_t index, struct measure_plan *out)
{
	const struct request_options *options = &request->options;
	struct request_extent extent = request_extent(request, op, ranks);
	uint64_t size = index % extent.sizes;
	uint64_t root = index / extent.sizes % extent.roots;
	uint64_t redop = index / extent.sizes / extent.roots % extent.redops;
	uint64_t type = index / extent.sizes / extent.roots / extent.redops;

	*out = (struct measure_plan){
	    .op = op,
	    .type = request_pick(request->types, COLLECTIVE_TYPE_COUNT, type),
	    .memory = request->memory,
	    .warmups = options->warmups,
	    .iterations = options->iterations * options->aggregated,
	    .checks = request->checks,
	    .checks_all = request->checks_all,
	    .is_unaligned = options->unaligned > 0,
	    .has_stream = options->timing != REQUEST_TIMING_ISOLATED,
	    .has_isolated = options->timing != REQUEST_TIMING_STREAM,
	    .average = (enum measure_average)options->average,
	};
	if (collective_op_reduces(op))
		out->redop = request_pick(request->redops, COLLECTIVE_REDOP_COUNT, redop);
	if (collective_op_has_root(op))
		out->root = request->all_roots ? (uint32_t)root : request->root;
	collective_shape(op, out->type, request_size(request, size), ranks, &out->shape);
}

int request_row(const struct request *request, uint32_t ranks, bool dirty, uint64_t index,
		struct measure_plan *out)
{
	uint64_t rows = request_row_count(request, ranks);
	uint32_t cycles = request->options.cycles;

	if (rows == 0 || (cycles != 0 && index / rows >= cycles))
		return 0;

	index %= rows;

	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++) {
		uint64_t count = request_op_rows(request, op, ranks);
		if (index < count) {
			request_row_fill(request, op, ranks, index, out);
			out->is_dirty = request->options.dirty == REQUEST_AS_USUAL
					    ? dirty
					    : request->options.dirty == REQUEST_ON;
			return 1;
		}

		index -= count;
	}

	return 0;
}

uint64_t request_memory_bytes(const struct request *request, uint32_t ranks)
{
	uint64_t most = 0;

	for (int op = 0; op < COLLECTIVE_OP_COUNT; op++) {
		if (request_op_rows(request, op, ranks) == 0)
			continue;

		struct request_extent extent = request_extent(request, op, ranks);

		for (uint64_t type = 0; type < extent.types; type++) {
			struct measure_plan plan;
			uint64_t first = type * extent.redops * extent.roots * extent.sizes;
			request_row_fill(request, op, ranks, first + extent.sizes - 1, &plan);
			uint64_t bytes = measure_memory_bytes(&plan);
			most = bytes > most ? bytes : most;
		}
	}

	return most;
}
