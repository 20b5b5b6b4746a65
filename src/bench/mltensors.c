/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/mltensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* --- the lists ---------------------------------------------------------------------------------
 */

/* {a,b} is one of these; {1..3} a number. */
struct mltensors_row {
	const char *benchmark, *pattern;
};

static const struct mltensors_row mltensors_rows[] = {
    {"bert", "bert/embeddings/{word,position,token_type}_embeddings"},
    {"bert", "bert/embeddings/LayerNorm/{gamma,beta}"},
    {"bert", "bert/encoder/layer_{0..23}/attention/self/{query,key,value}/{kernel,bias}"},
    {"bert",
     "bert/encoder/layer_{0..23}/{attention/output,intermediate,output}/dense/{kernel,bias}"},
    {"bert", "bert/encoder/layer_{0..23}/{attention/output,output}/LayerNorm/{gamma,beta}"},
    {"bert", "bert/pooler/dense/{kernel,bias}"},
    {"bert", "cls/predictions/output_bias"},
    {"bert", "cls/predictions/transform/dense/{kernel,bias}"},
    {"bert", "cls/predictions/transform/LayerNorm/{gamma,beta}"},
    {"bert", "cls/seq_relationship/output_{weights,bias}"},
    {"dlrm", "embeddings"},
    {"dlrm", "bottom_mlp_dense{1..3}"},
    {"dlrm", "top_mlp_dense{1..5}"},
    {"maskrcnn", "FPN_{inner,layer}_block{1..4}"},
    {"maskrcnn", "RPNHead_{conv,cls,bbox}"},
    {"maskrcnn", "ROI_BOX_FEATURE_EXTRACTOR_fc{6..7}"},
    {"maskrcnn", "ROI_BOX_PREDICTOR_{cls,bbox}"},
    {"maskrcnn", "ROI_MASK_FEATURE_EXTRACTOR_fcn{1..4}"},
    {"maskrcnn", "ROI_MASK_PREDICTOR_fcn{5,_logits}"},
    {"minigo", "conv2d/kernel"},
    {"minigo", "conv2d_{1..14}/kernel"},
    {"minigo", "batch_normalization/{gamma,beta}"},
    {"minigo", "batch_normalization_{1..12}/{gamma,beta}"},
    {"minigo", "dense/{kernel,bias}"},
    {"minigo", "dense_{1..2}/{kernel,bias}"},
    {"minigo", "global_step"},
    {"resnet", "bn0_{beta,gamma}"},
    {"resnet", "conv0_weight"},
    {"resnet", "fc1_{bias,weight}"},
    {"resnet", "stage{1..4}_unit1_bnsc_{beta,gamma}"},
    {"resnet", "stage{1..4}_unit1_conv1sc_weight"},
    {"resnet", "stage{1..4}_unit{1..3}_bn{1..3}_{beta,gamma}"},
    {"resnet", "stage{1..4}_unit{1..3}_conv{1..3}_weight"},
    {"resnet", "stage{2..3}_unit4_bn{1..3}_{beta,gamma}"},
    {"resnet", "stage{2..3}_unit4_conv{1..3}_weight"},
    {"resnet", "stage3_unit{5..6}_bn{1..3}_{beta,gamma}"},
    {"resnet", "stage3_unit{5..6}_conv{1..3}_weight"},
    {"rnnt", "{pre_rnn,post_rnn,pred_embed,dec_rnn,joint_pred,joint_enc,joint_net}"},
    {"ssd", "ssd0_resnetmlperf0_conv0_weight"},
    {"ssd", "ssd0_resnetmlperf0_batchnorm0_{gamma,beta}"},
    {"ssd", "ssd0_resnetmlperf0_stage1_conv{0..5}_weight"},
    {"ssd", "ssd0_resnetmlperf0_stage1_batchnorm{0..5}_{gamma,beta}"},
    {"ssd", "ssd0_resnetmlperf0_stage2_conv{0..8}_weight"},
    {"ssd", "ssd0_resnetmlperf0_stage2_batchnorm{0..8}_{gamma,beta}"},
    {"ssd", "ssd0_resnetmlperf0_stage3_conv{0..12}_weight"},
    {"ssd", "ssd0_resnetmlperf0_stage3_batchnorm{0..12}_{gamma,beta}"},
    {"ssd", "ssd0_expand_{trans_conv,conv}{0..4}_{weight,bias}"},
    {"ssd", "ssd0_convpredictor{0..5}_conv0_{weight,bias}"},
    {"unet3d", "input_block_{0..1}_{conv,instancenorm}"},
    {"unet3d", "down{0..4}_block_{0..1}_{conv,instancenorm}"},
    {"unet3d", "up{0..4}_deconv"},
    {"unet3d", "up{0..4}_block_{0..1}_{conv,instancenorm}"},
    {"unet3d", "output_conv"},
};

static const char *const mltensors_benchmarks[MLTENSORS_LISTS] = {
    "bert", "dlrm", "maskrcnn", "minigo", "resnet", "rnnt", "ssd", "unet3d"};

/* --- patterns ----------------------------------------------------------------------------------
 */

/* One {...} of a pattern, whose text begins behind the brace. */
struct mltensors_group {
	const char *text;
	size_t span; /* without the braces */
	unsigned count, first;
	bool is_range;
};

static unsigned mltensors_digits(const char *text, size_t *out_span)
{
	unsigned number = 0;
	size_t span = 0;
	for (; text[span] >= '0' && text[span] <= '9' && span < 3; span++)
		number = 10 * number + (unsigned)(text[span] - '0');
	*out_span = span;
	return number;
}

static struct mltensors_group mltensors_group_at(const char *text)
{
	struct mltensors_group group = {.text = text, .span = strcspn(text, "}"), .count = 1};
	size_t span, unused;
	unsigned first = mltensors_digits(text, &span);

	if (span > 0 && text_starts_with(text + span, "..")) {
		group.is_range = true;
		group.first = first;
		group.count = mltensors_digits(text + span + 2, &unused) - first + 1;
		return group;
	}

	for (size_t i = 0; i < group.span; i++)
		group.count += text[i] == ',';

	return group;
}

/* The i-th choice of a group, in `out`. */
static void mltensors_choice(const struct mltensors_group *group, unsigned i,
			     char out[MLTENSORS_NAME_MAX])
{
	const char *at = group->text;

	if (group->is_range) {
		(void)snprintf(out, MLTENSORS_NAME_MAX, "%u", group->first + i); /* fits */
		return;
	}

	while (i-- > 0)
		at += strcspn(at, ",") + 1;

	(void)snprintf(out, MLTENSORS_NAME_MAX, "%.*s", (int)strcspn(at, ",}"), at); /* fits */
}

static size_t mltensors_size(const char *pattern)
{
	size_t size = 1;
	for (const char *at = pattern; (at = strchr(at, '{')); at++)
		size *= mltensors_group_at(at + 1).count;
	return size;
}

/* The i-th name of a pattern; cut to `size`. */
static void mltensors_expand(const char *pattern, size_t i, char *out, size_t size)
{
	size_t filled = 0, left = mltensors_size(pattern);

	while (*pattern && filled < size) {
		char choice[MLTENSORS_NAME_MAX];
		size_t span = strcspn(pattern, "{");

		(void)snprintf(out + filled, size - filled, "%.*s", (int)span, pattern); /* cut */
		filled += span;
		pattern += span;
		if (*pattern == '\0' || filled >= size)
			break;

		struct mltensors_group group = mltensors_group_at(pattern + 1);
		left /= group.count;
		mltensors_choice(&group, (unsigned)(i / left % group.count), choice);
		(void)snprintf(out + filled, size - filled, "%s", choice); /* cut */
		filled += strlen(choice);
		pattern += group.span + 2;
	}
}

bool mltensors_name(const char *benchmark, size_t i, char *out, size_t size)
{
	for (size_t row = 0; row < array_length(mltensors_rows); row++) {
		if (strcmp(mltensors_rows[row].benchmark, benchmark) != 0)
			continue;

		size_t count = mltensors_size(mltensors_rows[row].pattern);
		if (i < count) {
			mltensors_expand(mltensors_rows[row].pattern, i, out, size);
			return true;
		}

		i -= count;
	}

	return false;
}

size_t mltensors_count(const char *benchmark)
{
	size_t count = 0;
	for (size_t row = 0; row < array_length(mltensors_rows); row++)
		if (strcmp(mltensors_rows[row].benchmark, benchmark) == 0)
			count += mltensors_size(mltensors_rows[row].pattern);
	return count;
}

/* Which choice of a group `name` begins with, and how long that is. None begins with another. */
static bool mltensors_match_group(const struct mltensors_group *group, const char *name,
				  unsigned *out_choice, size_t *out_span)
{
	if (group->is_range) {
		unsigned number = mltensors_digits(name, out_span);
		*out_choice = number - group->first;
		return *out_span > 0 && !(*name == '0' && *out_span > 1) &&
		       number >= group->first && *out_choice < group->count;
	}

	const char *at = group->text;

	for (unsigned i = 0; i < group->count; i++) {
		size_t span = strcspn(at, ",}");
		if (strncmp(name, at, span) == 0) {
			*out_choice = i;
			*out_span = span;
			return true;
		}

		at += span + 1;
	}

	return false;
}

/* Whether `name` is one of the pattern, and which. */
static bool mltensors_match(const char *pattern, const char *name, size_t *out_i)
{
	size_t i = 0;

	while (*pattern) {
		size_t span = strcspn(pattern, "{");
		if (strncmp(pattern, name, span) != 0)
			return false;

		pattern += span;
		name += span;
		if (*pattern == '\0')
			break;

		struct mltensors_group group = mltensors_group_at(pattern + 1);
		unsigned choice;

		if (!mltensors_match_group(&group, name, &choice, &span))
			return false;

		i = i * group.count + choice;
		name += span;
		pattern += group.span + 2;
	}

	*out_i = i;
	return *name == '\0';
}

/* -1: the benchmark has no such tensor. */
static int mltensors_place(const char *benchmark, const char *name)
{
	size_t first = 0, i;

	for (size_t row = 0; row < array_length(mltensors_rows); row++) {
		if (strcmp(mltensors_rows[row].benchmark, benchmark) != 0)
			continue;
		if (mltensors_match(mltensors_rows[row].pattern, name, &i))
			return (int)(first + i);
		first += mltensors_size(mltensors_rows[row].pattern);
	}

	return -1;
}

/* --- a log -------------------------------------------------------------------------------------
 */

void mltensors_line(struct mltensors *tensors, uint64_t number, const char *name)
{
	tensors->lines++;
	if (!name && tensors->nameless_line == 0)
		tensors->nameless_line = number;

	for (size_t i = 0; name && i < MLTENSORS_LISTS; i++) {
		struct mltensors_list *list = &tensors->lists[i];
		int place = mltensors_place(mltensors_benchmarks[i], name);
		uint64_t *word = place < 0 ? NULL : &list->seen[place / 64];
		uint64_t bit = UINT64_C(1) << (place < 0 ? 0 : place % 64);
		bool is_again = word && (*word & bit);

		if (word)
			*word |= bit;
		if ((!word || is_again) && list->wrong[0] == '\0') {
			(void)snprintf(list->wrong, sizeof(list->wrong), "%s", name); /* cut */
			list->is_again = is_again;
		}
	}
}

bool mltensors_are_wrong(const struct mltensors *tensors, const char *benchmark, char *out,
			 size_t size)
{
	size_t i = 0, count = mltensors_count(benchmark);
	while (i < MLTENSORS_LISTS && strcmp(benchmark, mltensors_benchmarks[i]) != 0)
		i++;

	if (i == MLTENSORS_LISTS)
		return false;

	const struct mltensors_list *list = &tensors->lists[i];

	if (tensors->lines == 0)
		return snprintf(out, size, "'weights_initialization' is missing") > 0;
	if (tensors->nameless_line > 0)
		return snprintf(out, size,
				"line %" PRIu64 ": 'weights_initialization' names no tensor",
				tensors->nameless_line) > 0;

	if (list->wrong[0])
		return snprintf(out, size, "the tensor '%.60s' %s", list->wrong,
				list->is_again ? "was initialised twice"
					       : "is none of the benchmark") > 0;

	for (size_t place = 0; place < count; place++) {
		char name[MLTENSORS_NAME_MAX];
		if (list->seen[place / 64] & UINT64_C(1) << place % 64)
			continue;
		(void)mltensors_name(benchmark, place, name, sizeof(name)); /* it is there */
		return snprintf(out, size, "the tensor '%.60s' was not initialised", name) > 0;
	}

	return false;
}
