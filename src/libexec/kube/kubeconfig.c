/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/kubeconfig.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "base/text.h"
#include "base/yaml.h"

/* Where things stand, for messages. */
struct kubeconfig_reader {
	const char *name;
	struct kubeconfig *config;
};

static void kubeconfig_free_yaml(struct yaml **yaml)
{
	*yaml = yaml_free(*yaml);
}

static void kubeconfig_free_fn(struct kubeconfig **config)
{
	*config = kubeconfig_free(*config);
}

static int kubeconfig_wrong(const struct kubeconfig_reader *reader, const struct yaml_node *node,
			    int code, const char *text, const char *detail, struct err *err)
{
	return err_set(err, code, "%s:%" PRIu32 ":%" PRIu32 ": %s%s", reader->name, node->line,
		       node->column, text, detail);
}

int kubeconfig_check_token(const char *token, struct err *err)
{
	if (!*token)
		return err_set(err, -EINVAL, "the token is empty");

	for (const char *at = token; *at; at++) {
		if (*at <= ' ' || *at > '~')
			return err_set(err, -EINVAL,
				       "the token holds a byte that none has (at %zu): is it the "
				       "right file?",
				       (size_t)(at - token));
	}

	return 0;
}

int kubeconfig_check_server(const char *server, bool *out_secure, struct err *err)
{
	bool secure = text_starts_with(server, "https://");
	const char *host = secure ? server + 8 : server + 7;

	if (!secure && !text_starts_with(server, "http://"))
		return err_set(err, -EINVAL, "the server '%.200s' is no https:// address", server);
	if (!*host || *host == '/' || *host == ':')
		return err_set(err, -EINVAL, "the server '%.200s' names no host", server);

	for (const char *at = host; *at; at++) {
		if (*at <= ' ' || *at > '~' || strchr("@?#\\\"<>", *at))
			return err_set(err, -EINVAL,
				       "the server '%.200s' is no plain address: scheme, host, "
				       "port and path only",
				       server);
	}

	*out_secure = secure;
	return 0;
}

/* --- what stands in it ------------------------------------------------------------------------ */

/* A text of a map; absent, null and "" leave `out` as it is. */
static int kubeconfig_text(const struct kubeconfig_reader *reader, const struct yaml_node *map,
			   const char *key, size_t max, char **out, struct err *err)
{
	const struct yaml_node *node = yaml_get(map, key);
	if (!node || yaml_is_null(node))
		return 0;
	if (node->kind != YAML_SCALAR)
		return kubeconfig_wrong(reader, node, -EINVAL, "a text is wanted for ", key, err);
	if (node->length >= max)
		return kubeconfig_wrong(reader, node, -E2BIG, "too long: ", key, err);

	if (node->length == 0)
		return 0;

	*out = strdup(node->text);
	return *out ? 0 : err_set(err, -ENOMEM, "out of memory for '%s'", reader->name);
}

static int kubeconfig_digit(char byte)
{
	if (byte >= 'A' && byte <= 'Z')
		return byte - 'A';
	if (byte >= 'a' && byte <= 'z')
		return byte - 'a' + 26;
	if (byte >= '0' && byte <= '9')
		return byte - '0' + 52;
	return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/* RFC 4648 section 4, over lines as well. False: it is none. `out` has room for 3/4 of it. */
static bool kubeconfig_decode(const char *text, size_t length, char *out, size_t *out_length)
{
	uint32_t bits = 0;
	size_t digits = 0, pads = 0, size = 0;

	for (size_t i = 0; i < length; i++) {
		int digit = kubeconfig_digit(text[i]);

		if (text[i] == '\n' || text[i] == '\r' || text[i] == ' ')
			continue;

		pads += text[i] == '=';
		if ((digit < 0 && text[i] != '=') || (digit >= 0 && pads > 0))
			return false;
		if (digit < 0)
			continue;

		bits = bits << 6 | (uint32_t)digit;
		if (++digits % 4 != 1)
			out[size++] = (char)(bits >> (6 - 2 * ((digits - 1) % 4)) & 0xff);
	}

	*out_length = size;
	return digits % 4 != 1 && pads <= 2 && (digits + pads) % 4 == 0;
}

static int kubeconfig_read_data(const struct kubeconfig_reader *reader, const struct yaml_node *map,
				const char *key, struct kubeconfig_data *out, struct err *err)
{
	const struct yaml_node *node = yaml_get(map, key);
	if (!node || yaml_is_null(node) || (node->kind == YAML_SCALAR && node->length == 0))
		return 0;
	if (node->kind != YAML_SCALAR)
		return kubeconfig_wrong(reader, node, -EINVAL, "base64 is wanted for ", key, err);

	out->data = malloc(node->length + 1);
	if (!out->data)
		return err_set(err, -ENOMEM, "out of memory for '%s'", reader->name);
	if (!kubeconfig_decode(node->text, node->length, out->data, &out->length))
		return kubeconfig_wrong(reader, node, -EINVAL, "no base64: ", key, err);

	out->data[out->length] = '\0';
	return 0;
}

/* What a file may say and is not done here. */
static int kubeconfig_refuse(const struct kubeconfig_reader *reader, const struct yaml_node *map,
			     const char *const rows[][2], struct err *err)
{
	for (size_t i = 0; rows[i][0]; i++) {
		const struct yaml_node *node = yaml_get(map, rows[i][0]);
		if (!node || yaml_is_null(node) || (node->kind == YAML_SCALAR && !node->length))
			continue;

		return err_set(err, -ENOTSUP,
			       "%s:%" PRIu32 ":%" PRIu32
			       ": '%s' is not supported here (%s): give a token, a tokenFile or a "
			       "client certificate, or use the pod's service account",
			       reader->name, node->line, node->column, rows[i][0], rows[i][1]);
	}

	return 0;
}

static int kubeconfig_read_cluster(const struct kubeconfig_reader *reader,
				   const struct yaml_node *map, struct err *err)
{
	static const char *const refused[][2] = {
	    {"proxy-url", "requests go straight to the server"},
	    {"tls-server-name", "the certificate has to be for the server's address"},
	    {NULL, NULL},
	};
	struct kubeconfig *config = reader->config;
	const struct yaml_node *insecure = yaml_get(map, "insecure-skip-tls-verify");
	int rc = kubeconfig_refuse(reader, map, refused, err);
	if (rc == 0)
		rc = kubeconfig_text(reader, map, "server", KUBECONFIG_TEXT_MAX, &config->server,
				     err);

	if (rc == 0)
		rc = kubeconfig_text(reader, map, "certificate-authority", KUBECONFIG_TEXT_MAX,
				     &config->ca_file, err);
	if (rc == 0)
		rc = kubeconfig_read_data(reader, map, "certificate-authority-data", &config->ca,
					  err);
	if (rc < 0)
		return rc;
	if (insecure && !yaml_is_null(insecure) &&
	    (insecure->kind != YAML_SCALAR || parse_bool(insecure->text, &config->insecure) < 0))
		return kubeconfig_wrong(reader, insecure, -EINVAL, "true or false is wanted for ",
					"insecure-skip-tls-verify", err);

	if (config->insecure && (config->ca_file || config->ca.data))
		return kubeconfig_wrong(reader, insecure, -EINVAL, "a certificate authority and ",
					"insecure-skip-tls-verify contradict each other", err);

	return config->server
		   ? 0
		   : kubeconfig_wrong(reader, map, -EINVAL, "the cluster has no server", "", err);
}

static int kubeconfig_read_user(const struct kubeconfig_reader *reader, const struct yaml_node *map,
				struct err *err)
{
	static const char *const refused[][2] = {
	    {"exec", "no program is started for a token"},
	    {"auth-provider", "nobody else is asked for a token"},
	    {"username", "servers since 1.19 know no passwords"},
	    {"password", "servers since 1.19 know no passwords"},
	    {"as", "nobody is impersonated"},
	    {"as-uid", "nobody is impersonated"},
	    {"as-groups", "nobody is impersonated"},
	    {"as-user-extra", "nobody is impersonated"},
	    {NULL, NULL},
	};
	struct kubeconfig *config = reader->config;
	int rc = kubeconfig_refuse(reader, map, refused, err);
	if (rc == 0)
		rc = kubeconfig_text(reader, map, "token", KUBECONFIG_TOKEN_MAX, &config->token,
				     err);

	if (rc == 0)
		rc = kubeconfig_text(reader, map, "tokenFile", KUBECONFIG_TEXT_MAX,
				     &config->token_file, err);
	if (rc == 0)
		rc = kubeconfig_text(reader, map, "client-certificate", KUBECONFIG_TEXT_MAX,
				     &config->certificate_file, err);
	if (rc == 0)
		rc = kubeconfig_text(reader, map, "client-key", KUBECONFIG_TEXT_MAX,
				     &config->key_file, err);
	if (rc == 0)
		rc = kubeconfig_read_data(reader, map, "client-certificate-data",
					  &config->certificate, err);

	if (rc == 0)
		rc = kubeconfig_read_data(reader, map, "client-key-data", &config->key, err);
	if (rc < 0)
		return rc;

	bool has_certificate = config->certificate_file || config->certificate.data;
	bool has_key = config->key_file || config->key.data;

	if (has_certificate != has_key)
		return kubeconfig_wrong(reader, map, -EINVAL,
					has_key ? "a client key without its certificate"
						: "a client certificate without its key",
					"", err);

	return 0;
}

/* The map `field` of the entry of this name in the list `section`. */
static int kubeconfig_find(const struct kubeconfig_reader *reader, const struct yaml_node *root,
			   const char *section, const char *field, const char *wanted,
			   const struct yaml_node **out, struct err *err)
{
	const struct yaml_node *list = yaml_get(root, section);

	for (size_t i = 0; list && list->kind == YAML_LIST && i < list->entry_count; i++) {
		const struct yaml_node *entry = list->entries[i].value;
		const struct yaml_node *name = yaml_get(entry, "name");
		if (!name || name->kind != YAML_SCALAR || strcmp(name->text, wanted) != 0)
			continue;

		*out = yaml_get(entry, field);
		if (*out && (*out)->kind == YAML_MAP)
			return 0;

		return kubeconfig_wrong(reader, entry, -EINVAL, "this entry has no ", field, err);
	}

	return err_set(err, -EINVAL, "%s: no entry '%.200s' in %s: see current-context",
		       reader->name, wanted, section);
}

static int kubeconfig_read(const struct kubeconfig_reader *reader, const struct yaml_node *root,
			   struct err *err)
{
	_cleanup_free_ char *context = NULL, *cluster = NULL, *user = NULL;
	const struct yaml_node *map = NULL;

	if (root->kind != YAML_MAP)
		return kubeconfig_wrong(reader, root, -EINVAL,
					"this is no kubeconfig: ", "a map is wanted", err);

	int rc =
	    kubeconfig_text(reader, root, "current-context", KUBECONFIG_TEXT_MAX, &context, err);
	if (rc == 0 && !context)
		return err_set(err, -EINVAL,
			       "%s: no current-context is set: 'kubectl config use-context' does "
			       "that",
			       reader->name);

	if (rc == 0)
		rc = kubeconfig_find(reader, root, "contexts", "context", context, &map, err);
	if (rc == 0)
		rc = kubeconfig_text(reader, map, "cluster", KUBECONFIG_TEXT_MAX, &cluster, err);
	if (rc == 0)
		rc = kubeconfig_text(reader, map, "user", KUBECONFIG_TEXT_MAX, &user, err);
	if (rc == 0 && !cluster)
		return kubeconfig_wrong(reader, map, -EINVAL, "the context names no cluster", "",
					err);

	if (rc == 0)
		rc = kubeconfig_find(reader, root, "clusters", "cluster", cluster, &map, err);
	if (rc == 0)
		rc = kubeconfig_read_cluster(reader, map, err);
	if (rc == 0 && user)
		rc = kubeconfig_find(reader, root, "users", "user", user, &map, err);
	if (rc == 0 && user)
		rc = kubeconfig_read_user(reader, map, err);

	return rc;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int kubeconfig_check(const struct kubeconfig_reader *reader, struct err *err)
{
	struct kubeconfig *config = reader->config;
	bool secure = false;
	size_t length = strlen(config->server);

	while (length > 0 && config->server[length - 1] == '/')
		config->server[--length] = '\0';

	int rc = kubeconfig_check_server(config->server, &secure, err);
	if (rc == 0 && config->token)
		rc = kubeconfig_check_token(config->token, err);

	if (rc == 0 && !secure && (config->token || config->token_file))
		rc = err_set(err, -EINVAL,
			     "the server '%.200s' is not https: the token would be sent in "
			     "clear",
			     config->server);

	return rc < 0 ? err_wrap(err, "%s", reader->name) : 0;
}

int kubeconfig_parse(const char *text, size_t length, const char *name, struct kubeconfig **out,
		     struct err *err)
{
	_cleanup_(kubeconfig_free_yaml) struct yaml *yaml = NULL;
	_cleanup_(kubeconfig_free_fn) struct kubeconfig *config = calloc(1, sizeof(*config));
	if (!config)
		return err_set(err, -ENOMEM, "out of memory for '%s'", name);

	const struct kubeconfig_reader reader = {.name = name, .config = config};
	int rc = yaml_parse(text, length, name, &yaml, err);
	if (rc == 0)
		rc = kubeconfig_read(&reader, yaml_root(yaml), err);
	if (rc == 0)
		rc = kubeconfig_check(&reader, err);

	if (rc == 0)
		*out = take_ptr(config);

	return rc;
}

/* Keys do not stay in memory that somebody else gets. */
static void kubeconfig_free_secret(char *text, size_t length)
{
	if (text)
		explicit_bzero(text, length);
	free(text);
}

struct kubeconfig *kubeconfig_free(struct kubeconfig *config)
{
	if (!config)
		return NULL;

	free(config->server);
	free(config->ca_file);
	free(config->certificate_file);
	free(config->key_file);
	free(config->token_file);
	free(config->ca.data);
	free(config->certificate.data);
	kubeconfig_free_secret(config->token, config->token ? strlen(config->token) : 0);
	kubeconfig_free_secret(config->key.data, config->key.length);
	free(config);

	return NULL;
}
