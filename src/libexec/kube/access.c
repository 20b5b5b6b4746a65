/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/access.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/parse.h"
#include "libexec/kube/kubeconfig.h"

enum { ACCESS_PORT_DEFAULT = 443 };

static void access_free_kubeconfig(struct kubeconfig **config)
{
	*config = kubeconfig_free(*config);
}

void access_done(struct access *access)
{
	for (uint32_t i = 0; i < access->fd_count; i++)
		(void)close(access->fds[i]);
	if (access->token)
		explicit_bzero(access->token, strlen(access->token));
	free(access->token);
	*access = (struct access){.token = NULL};
}

static int access_read_token(const char *path, char **out, struct err *err)
{
	_cleanup_buf_ struct buf text;
	buf_init(&text, KUBECONFIG_TOKEN_MAX);

	int rc = file_read(path, &text, err);
	if (rc < 0)
		return rc;

	while (text.length > 0 && strchr("\r\n \t", text.data[text.length - 1]))
		text.data[--text.length] = '\0';

	rc = strlen(buf_text(&text)) == text.length
		 ? kubeconfig_check_token(buf_text(&text), err)
		 : err_set(err, -EINVAL, "the token holds a NUL byte: is it the right file?");
	if (rc < 0)
		return err_wrap(err, "'%s'", path);

	*out = strdup(buf_text(&text));
	explicit_bzero(text.data, text.length);
	return *out ? 0 : err_set(err, -ENOMEM, "out of memory for '%s'", path);
}

/* The file beside the kubeconfig when it is not absolute, as kubectl has it. */
static int access_path(const char *kubeconfig, const char *named, char out[FILE_PATH_MAX],
		       struct err *err)
{
	const char *slash = strrchr(kubeconfig, '/');
	if (*named == '/' || !slash)
		return file_path(out, err, "%s", named);
	return file_path(out, err, "%.*s/%s", (int)(slash - kubeconfig), kubeconfig, named);
}

/* Only files are understood by every release of the TLS client: this makes one in memory. */
static int access_keep(struct access *access, const struct kubeconfig_data *data,
		       char out[FILE_PATH_MAX], struct err *err)
{
	_cleanup_close_ int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "a memory file for a certificate: %s",
			       err_describe(-errno));

	for (size_t done = 0; done < data->length;) {
		ssize_t wrote = write(fd, data->data + done, data->length - done);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return err_set(err, wrote < 0 ? -errno : -EIO,
				       "a memory file for a certificate: %s", err_describe(-errno));

		done += (size_t)wrote;
	}

	int rc = file_path(out, err, "/proc/self/fd/%d", fd);
	if (rc == 0)
		access->fds[access->fd_count++] = take_fd(&fd);

	return rc;
}

/* `data` wins over `file`; with neither `out` stays as it is. */
static int access_take(struct access *access, const char *kubeconfig, const char *file,
		       const struct kubeconfig_data *data, char out[FILE_PATH_MAX], struct err *err)
{
	if (data->data)
		return access_keep(access, data, out, err);
	if (!file)
		return 0;

	int rc = access_path(kubeconfig, file, out, err);
	if (rc == 0 && faccessat(AT_FDCWD, out, R_OK, AT_EACCESS) < 0)
		rc = err_set(err, -errno, "'%s', which '%s' names: %s", out, kubeconfig,
			     err_describe(-errno));

	return rc;
}

static int access_load_kubeconfig(const char *path, struct access *access, struct err *err)
{
	_cleanup_(access_free_kubeconfig) struct kubeconfig *config = NULL;
	_cleanup_buf_ struct buf text;

	buf_init(&text, KUBECONFIG_MAX);
	int rc = file_read(path, &text, err);
	if (rc == 0)
		rc = kubeconfig_parse(buf_text(&text), text.length, path, &config, err);
	if (text.data)
		explicit_bzero(text.data, text.length);

	if (rc < 0)
		return rc;

	access->insecure = config->insecure;
	(void)snprintf(access->server, sizeof(access->server), "%s", config->server);
	rc = access_take(access, path, config->ca_file, &config->ca, access->ca, err);
	if (rc == 0)
		rc = access_take(access, path, config->certificate_file, &config->certificate,
				 access->certificate, err);

	if (rc == 0)
		rc = access_take(access, path, config->key_file, &config->key, access->key, err);

	char token_file[FILE_PATH_MAX];
	if (rc < 0 || (!config->token_file && !config->token))
		return rc;
	if (!config->token_file) {
		access->token = take_ptr(config->token);
		return 0;
	}

	rc = access_path(path, config->token_file, token_file, err);
	return rc < 0 ? rc : access_read_token(token_file, &access->token, err);
}

static int access_load_pod(const struct access_options *options, struct access *access,
			   struct err *err)
{
	char path[FILE_PATH_MAX];
	uint64_t port = ACCESS_PORT_DEFAULT;

	if (!options->host || !*options->host)
		return err_set(err, -EINVAL,
			       "there is neither a kubeconfig nor $KUBERNETES_SERVICE_HOST: give "
			       "--kubeconfig outside of a pod");

	if (options->port && *options->port && parse_u64(options->port, 1, 65535, &port) < 0)
		return err_set(err, -EINVAL, "$KUBERNETES_SERVICE_PORT '%.40s' is no port",
			       options->port);

	bool is_v6 = strchr(options->host, ':') && options->host[0] != '[';
	bool secure;

	(void)snprintf(access->server, sizeof(access->server), "https://%s%s%s:%u",
		       is_v6 ? "[" : "", options->host, is_v6 ? "]" : "", (unsigned)port);
	int rc = kubeconfig_check_server(access->server, &secure, err);
	if (rc == 0)
		rc = file_path(access->ca, err, "%s/ca.crt", options->directory);

	if (rc == 0 && faccessat(AT_FDCWD, access->ca, R_OK, AT_EACCESS) < 0)
		rc = err_set(err, -errno,
			     "'%s': %s: has the pod a service account "
			     "(automountServiceAccountToken)?",
			     access->ca, err_describe(-errno));

	if (rc == 0)
		rc = file_path(path, err, "%s/token", options->directory);

	return rc < 0 ? rc : access_read_token(path, &access->token, err);
}

int access_load(const struct access_options *options, struct access *out, struct err *err)
{
	struct access access = {.token = NULL};
	int rc = options->kubeconfig && *options->kubeconfig
		     ? access_load_kubeconfig(options->kubeconfig, &access, err)
		     : access_load_pod(options, &access, err);
	if (rc < 0)
		access_done(&access);
	else
		*out = access;

	return rc;
}
