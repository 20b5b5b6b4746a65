/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/buildneeds.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"

/* A release that is longer names no kernel. */
enum { BUILDNEEDS_RELEASE_MAX = 128 };

const char *buildneeds_deb_arch(const char *machine)
{
	if (strcmp(machine, "x86_64") == 0)
		return "amd64";
	if (strcmp(machine, "aarch64") == 0)
		return "arm64";
	if (strcmp(machine, "ppc64le") == 0)
		return "ppc64el";
	return machine;
}

const char *const *buildneeds_patterns(enum buildneeds_system system)
{
	static const char *const rpm[] = {
	    "kernel-headers", "kernel", "kernel-core",	   "kernel-devel",	    "kernel-*-core",
	    "kernel-*-devel", "gcc",	"elfutils-libelf", "elfutils-libelf-devel", NULL};
	static const char *const deb[] = {
	    "linux-headers-*", "linux-image-*", "linux-modules-*", "gcc", "gcc-[0-9]*", NULL};
	return system == BUILDNEEDS_RHEL ? rpm : deb;
}

/* --- /proc/version ---------------------------------------------------------------------------- */

/* "11.4.1" at the front: digits, a dot, digits. */
static bool buildneeds_version_at(const char *text, size_t length, struct buildneeds_compiler *out)
{
	size_t digits = 0, end;
	uint64_t major;

	while (digits < length && isdigit((unsigned char)text[digits]))
		digits++;

	if (digits == 0 || digits + 1 >= length || text[digits] != '.' ||
	    !isdigit((unsigned char)text[digits + 1]) ||
	    parse_u64_span(text, digits, 1, 999, &major) < 0)
		return false;

	for (end = digits; end < length && (text[end] == '.' || isdigit((unsigned char)text[end]));)
		end++;

	if (end >= sizeof(out->version))
		return false;

	memcpy(out->version, text, end);
	out->version[end] = '\0';
	out->major = (uint32_t)major;

	return true;
}

/* The name of a compiler: behind '(' or as "x86_64-linux-gnu-gcc". */
static const char *buildneeds_find_compiler(const char *text, size_t length, const char *name)
{
	const char *at = text, *end = text + length;
	while ((at = memmem(at, (size_t)(end - at), name, strlen(name)))) {
		if (at > text && (at[-1] == '(' || at[-1] == '-'))
			return at;
		at++;
	}
	return NULL;
}

int buildneeds_compiler_parse(const char *text, size_t length, struct buildneeds_compiler *out)
{
	/* Before the compiler stands who built it and where: "(mockbuild@gcc.example)". */
	const char *end = text + length, *at = buildneeds_find_compiler(text, length, "gcc");
	struct buildneeds_compiler compiler = {.is_gcc = at != NULL};

	if (!at)
		at = buildneeds_find_compiler(text, length, "clang");
	if (!at)
		return -EINVAL;

	for (; at < end; at++) {
		bool is_first = at[-1] == ' ' || at[-1] == '(';

		if (*at == '#')
			break; /* the build's own number: no compiler stands behind it */
		if (is_first && buildneeds_version_at(at, (size_t)(end - at), &compiler)) {
			*out = compiler;
			return 0;
		}
	}

	return -EINVAL;
}

/* --- what sluice-packages prints -------------------------------------------------------------- */

void buildneeds_list_done(struct buildneeds_list *list)
{
	free(list->text);
	free(list->packages);
	*list = (struct buildneeds_list){.text = NULL};
}

/* Cuts a line into its three fields. */
static bool buildneeds_cut(char *line, char *fields[3])
{
	char *rest = line;
	for (size_t i = 0; i < 3; i++) {
		fields[i] = strsep(&rest, "\t");
		if (!fields[i] || !*fields[i])
			return false;
	}
	return !rest;
}

int buildneeds_list_parse(const char *text, size_t length, struct buildneeds_list *out,
			  struct err *err)
{
	size_t lines = 0, capacity;

	*out = (struct buildneeds_list){.text = NULL};
	if (length > BUILDNEEDS_TEXT_MAX || memchr(text, '\0', length))
		return err_set(err, -EBADMSG, "the list of packages is too long, or none");

	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';

	if (lines > BUILDNEEDS_PACKAGES_MAX)
		return err_set(err, -E2BIG, "more than %d packages match", BUILDNEEDS_PACKAGES_MAX);

	capacity = lines + 1;
	out->text = strndup(text, length);
	out->packages = calloc(capacity, sizeof(*out->packages));
	if (!out->text || !out->packages)
		return err_set(err, -ENOMEM, "out of memory for a list of packages");

	char *rest = out->text, *line;

	while ((line = strsep(&rest, "\n"))) {
		char *fields[3];
		if (!rest || !buildneeds_cut(line, fields))
			break; /* the last line ends in one as well */

		if (strcmp(fields[0], "end") == 0) {
			(void)snprintf(out->kind, sizeof(out->kind), "%s", fields[1]);
			if (parse_u64(fields[2], 0, UINT64_MAX, &out->total) < 0 || *rest)
				break;
			return 0;
		}

		out->packages[out->count++] =
		    (struct buildneeds_package){fields[0], fields[1], fields[2]};
	}

	return err_set(err, -EBADMSG, "the list of packages has no end, or a line that is none");
}

/* --- the judgement ---------------------------------------------------------------------------- */

/* One question to all lists. A version is asked for as `version`, or as a major number, or not. */
struct buildneeds_question {
	const struct buildneeds_kernel *kernel;
	const struct buildneeds_list *lists;
	size_t list_count;
	struct buildneeds_result *out; /* the next */
	uint32_t count;
};

static bool buildneeds_fits_arch(const struct buildneeds_question *question,
				 const struct buildneeds_package *package)
{
	const char *machine = question->kernel->machine;
	if (question->kernel->system != BUILDNEEDS_RHEL)
		machine = buildneeds_deb_arch(machine);
	return strcmp(package->arch, machine) == 0 || strcmp(package->arch, "noarch") == 0 ||
	       strcmp(package->arch, "all") == 0;
}

/* The next package of any list for which `fits`; `at` counts on. */
static const struct buildneeds_package *buildneeds_next(const struct buildneeds_question *question,
							size_t *at)
{
	size_t left = *at;

	for (size_t i = 0; i < question->list_count; i++) {
		const struct buildneeds_list *list = &question->lists[i];
		for (; left < list->count; left++) {
			++*at;
			if (buildneeds_fits_arch(question, &list->packages[left]))
				return &list->packages[left];
		}

		left -= list->count;
	}

	return NULL;
}

static const char *buildneeds_without_epoch(const char *version)
{
	const char *colon = strchr(version, ':');
	return colon ? colon + 1 : version;
}

static bool buildneeds_has_major(const char *version, uint32_t major)
{
	uint64_t number;
	version = buildneeds_without_epoch(version);
	size_t digits = strspn(version, "0123456789");
	return parse_u64_span(version, digits, 0, UINT32_MAX, &number) == 0 && number == major;
}

static struct buildneeds_result *buildneeds_ask(struct buildneeds_question *question,
						const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static struct buildneeds_result *buildneeds_ask(struct buildneeds_question *question,
						const char *format, ...)
{
	struct buildneeds_result *result = &question->out[question->count++];
	va_list arguments;
	*result = (struct buildneeds_result){.is_there = false};
	va_start(arguments, format);
	(void)vsnprintf(result->wanted, sizeof(result->wanted), format, arguments);
	va_end(arguments);
	return result;
}

static void buildneeds_found(struct buildneeds_result *result,
			     const struct buildneeds_package *package, bool is_there)
{
	result->is_there = is_there;
	(void)snprintf(result->there, sizeof(result->there), "%.128s-%.128s", package->name,
		       package->version);
}

/* The highest versions of what was seen instead, the highest first. */
struct buildneeds_others {
	const struct buildneeds_package *best[BUILDNEEDS_SHOWN_MAX];
	size_t count; /* of all, of which some may be equal */
};

static int buildneeds_compare(const struct buildneeds_package *a,
			      const struct buildneeds_package *b)
{
	int order = strverscmp(a->name, b->name);
	return order != 0 ? order : strverscmp(a->version, b->version);
}

static void buildneeds_add_other(struct buildneeds_others *others,
				 const struct buildneeds_package *package)
{
	size_t at = 0;

	while (at < BUILDNEEDS_SHOWN_MAX && others->best[at]) {
		int order = buildneeds_compare(package, others->best[at]);
		if (order == 0)
			return; /* the same in another repository */
		if (order > 0)
			break;

		at++;
	}

	others->count++;

	for (size_t i = BUILDNEEDS_SHOWN_MAX - 1; i > at && at < BUILDNEEDS_SHOWN_MAX; i--)
		others->best[i] = others->best[i - 1];

	if (at < BUILDNEEDS_SHOWN_MAX)
		others->best[at] = package;
}

static void buildneeds_show_others(const struct buildneeds_others *others, bool with_version,
				   struct buildneeds_result *result)
{
	size_t length = 0, shown = 0;

	for (; shown < BUILDNEEDS_SHOWN_MAX && others->best[shown]; shown++) {
		const struct buildneeds_package *package = others->best[shown];
		length +=
		    (size_t)snprintf(result->there + length, sizeof(result->there) - length,
				     "%s%.60s%s%.36s", shown > 0 ? ", " : "", package->name,
				     with_version ? "-" : "", with_version ? package->version : "");
	}

	if (others->count > shown)
		(void)snprintf(result->there + length, sizeof(result->there) - length,
			       " and %zu more", others->count - shown);
}

/* A package with exactly this version. */
static void buildneeds_want_version(struct buildneeds_question *question, const char *name,
				    const char *other_name, const char *version)
{
	struct buildneeds_result *result = buildneeds_ask(question, "%s-%s", name, version);
	struct buildneeds_others others = {.count = 0};
	const struct buildneeds_package *package;

	for (size_t at = 0; (package = buildneeds_next(question, &at));) {
		if (strcmp(package->name, name) != 0 &&
		    (!other_name || strcmp(package->name, other_name) != 0))
			continue;
		if (strcmp(buildneeds_without_epoch(package->version), version) == 0) {
			buildneeds_found(result, package, true);
			return;
		}

		buildneeds_add_other(&others, package);
	}

	buildneeds_show_others(&others, true, result);
}

/* gcc of a major version; `is_suffixed`: Debian's have it in their names. */
static void buildneeds_want_gcc(struct buildneeds_question *question, bool is_suffixed)
{
	const struct buildneeds_compiler *compiler = &question->kernel->compiler;
	struct buildneeds_others others = {.count = 0};
	const struct buildneeds_package *package;
	char suffixed[32];

	if (compiler->major != 0 && !compiler->is_gcc)
		return; /* built by clang: what a module needs then is not known here */

	(void)snprintf(suffixed, sizeof(suffixed), "gcc-%u", compiler->major);
	struct buildneeds_result *result =
	    compiler->major == 0
		? buildneeds_ask(question, "gcc")
		: buildneeds_ask(question, is_suffixed ? "gcc-%u" : "gcc %u", compiler->major);
	result->is_optional = is_suffixed;

	for (size_t at = 0; (package = buildneeds_next(question, &at));) {
		bool is_plain = strcmp(package->name, "gcc") == 0;
		if (!is_plain && (!is_suffixed || strspn(package->name + 4, "0123456789") !=
						      strlen(package->name + 4)))
			continue; /* gcc-12-base */

		if (compiler->major == 0 || strcmp(package->name, suffixed) == 0 ||
		    (is_plain && buildneeds_has_major(package->version, compiler->major))) {
			buildneeds_found(result, package, true);
			return;
		}

		if (is_plain || text_starts_with(package->name, "gcc-"))
			buildneeds_add_other(&others, package);
	}

	buildneeds_show_others(&others, true, result);
}

/* The headers of a library are of use with that very version of it. */
static void buildneeds_want_libelf(struct buildneeds_question *question)
{
	const struct buildneeds_package *library = NULL, *headers = NULL, *a, *b;
	struct buildneeds_result *result = buildneeds_ask(question, "elfutils-libelf");
	struct buildneeds_result *devel = buildneeds_ask(question, "elfutils-libelf-devel");

	for (size_t at = 0; (a = buildneeds_next(question, &at));) {
		if (strcmp(a->name, "elfutils-libelf-devel") == 0 && !headers)
			headers = a;
		if (strcmp(a->name, "elfutils-libelf") != 0 || devel->is_there)
			continue;

		library = a;

		for (size_t other = 0; (b = buildneeds_next(question, &other));)
			if (strcmp(b->name, "elfutils-libelf-devel") == 0 &&
			    strcmp(a->version, b->version) == 0) {
				buildneeds_found(devel, b, true);
				break;
			}
	}

	if (library)
		buildneeds_found(result, library, true);
	if (devel->is_there)
		return;
	if (library)
		(void)snprintf(devel->wanted, sizeof(devel->wanted), "elfutils-libelf-devel-%.128s",
			       library->version);
	if (headers)
		buildneeds_found(devel, headers, false);
}

static void buildneeds_judge_rpm(struct buildneeds_question *question)
{
	char version[BUILDNEEDS_RELEASE_MAX], arch[32], name[80], core[80];
	char flavour[32] = "";

	/* "5.14.0-427.13.1.el9_4.x86_64+rt": version and release, machine, flavour. */
	(void)snprintf(version, sizeof(version), "%s", question->kernel->release);
	char *plus = strrchr(version, '+');
	if (plus) {
		(void)snprintf(flavour, sizeof(flavour), "-%.30s", plus + 1);
		*plus = '\0';
	}

	(void)snprintf(arch, sizeof(arch), ".%.30s", question->kernel->machine);
	size_t length = strlen(version), end = strlen(arch);
	if (length > end && strcmp(version + length - end, arch) == 0)
		version[length - end] = '\0';
	buildneeds_want_version(question, "kernel-headers", NULL, version);
	(void)snprintf(name, sizeof(name), "kernel%s-devel", flavour);
	buildneeds_want_version(question, name, NULL, version);
	(void)snprintf(name, sizeof(name), "kernel%s", flavour);
	(void)snprintf(core, sizeof(core), "kernel%s-core", flavour);
	buildneeds_want_version(question, name, core, version);
	buildneeds_want_gcc(question, false);
	buildneeds_want_libelf(question);
}

/* "generic" of "5.15.0-94-generic", "rt-amd64" of "6.1.0-18-rt-amd64"; "" without one. */
static const char *buildneeds_flavour(const char *release)
{
	const char *dash = strchr(release, '-');
	if (dash && isdigit((unsigned char)dash[1]))
		dash = strchr(dash + 1, '-');
	return dash ? dash + 1 : "";
}

/* A package that has the kernel's release in its name: "linux-headers-5.15.0-94-generic". */
static void buildneeds_want_name(struct buildneeds_question *question, const char *stem,
				 const char *other_stem)
{
	const char *release = question->kernel->release;
	const char *flavour = buildneeds_flavour(release);
	struct buildneeds_result *result = buildneeds_ask(question, "%s%s", stem, release);
	struct buildneeds_others others = {.count = 0};
	const struct buildneeds_package *package;
	char other[BUILDNEEDS_NAME_MAX] = "";

	if (other_stem)
		(void)snprintf(other, sizeof(other), "%s%s", other_stem, release);

	for (size_t at = 0; (package = buildneeds_next(question, &at));) {
		const char *name = package->name;
		if (strcmp(name, result->wanted) == 0 || strcmp(name, other) == 0) {
			buildneeds_found(result, package, true);
			return;
		}

		if (text_starts_with(name, stem) && isdigit((unsigned char)name[strlen(stem)]) &&
		    strcmp(buildneeds_flavour(name + strlen(stem)), flavour) == 0)
			buildneeds_add_other(&others, package);
	}

	buildneeds_show_others(&others, false, result);
}

uint32_t buildneeds_judge(const struct buildneeds_kernel *kernel,
			  const struct buildneeds_list *lists, size_t list_count,
			  struct buildneeds_result out[BUILDNEEDS_MAX])
{
	struct buildneeds_question question = {
	    .kernel = kernel, .lists = lists, .list_count = list_count, .out = out};

	switch (kernel->system) {
	case BUILDNEEDS_RHEL:
		buildneeds_judge_rpm(&question);
		break;
	case BUILDNEEDS_UBUNTU:
		buildneeds_want_name(&question, "linux-headers-", NULL);
		buildneeds_want_name(&question, "linux-image-", "linux-image-unsigned-");
		buildneeds_want_name(&question, "linux-modules-", NULL);
		buildneeds_want_gcc(&question, true);
		break;
	case BUILDNEEDS_DEBIAN:
		buildneeds_want_name(&question, "linux-headers-", NULL);
		buildneeds_want_gcc(&question, true);
		break;
	default:
		break;
	}

	return question.count;
}
