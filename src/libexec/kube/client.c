/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/kube/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "libexec/kube/answer.h"
#include "libexec/kube/object.h"

enum {
	CLIENT_URL_MAX = ACCESS_SERVER_MAX + 2048,
	CLIENT_BUFFER = 16 << 10,
	CLIENT_PROBES = 3,
	CLIENT_KEPT = 2, /* connections */
	CLIENT_WAIT_MAX_MS = 60000,
	CLIENT_TOKEN_MIN = 8, /* a shorter one is in many words, and no secret */
	CLIENT_TOKEN_MARK = 16,
};

/* A call is free when its handle is NULL. */
struct client_call {
	struct client *client;	    /* borrowed */
	CURL *easy;		    /* owned; NULL: free */
	bool is_added;		    /* to the client's handle */
	struct curl_slist *headers; /* owned */
	struct access access;
	struct client_request request;
	struct buf refusal; /* the body of an answer that is no success */
	struct err err;	    /* why it could not be begun */
	bool is_refused;    /* by data() */
	int64_t date_s;	    /* of the answer; 0: not told */
	char why[CURL_ERROR_SIZE];
};

struct client {
	const struct access_options *options; /* borrowed */
	CURLM *multi;			      /* owned */
	struct client_call calls[CLIENT_CALLS_MAX];
};

struct client *client_new(const struct access_options *options, struct err *err)
{
	struct client *client = calloc(1, sizeof(*client));
	bool has_curl = client && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	if (has_curl)
		client->multi = curl_multi_init();

	if (!client || !client->multi) {
		if (has_curl)
			curl_global_cleanup();
		free(client);
		(void)err_set(err, -ENOMEM, "out of memory for libcurl");
		return NULL;
	}

	client->options = options;
	if (!(curl_version_info(CURLVERSION_NOW)->features & CURL_VERSION_SSL)) {
		(void)err_set(err, -ENOSYS, "the libcurl of this machine knows no TLS");
		return client_free(client);
	}

	/* One for the watch, the others for what is short: more would be memory for nothing. */
	(void)curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, (long)CLIENT_KEPT);
	return client;
}

static void client_clear(struct client_call *call)
{
	if (call->is_added)
		(void)curl_multi_remove_handle(call->client->multi, call->easy);
	curl_easy_cleanup(call->easy);
	curl_slist_free_all(call->headers);
	access_done(&call->access);
	buf_done(&call->refusal);
	free(call->request.body);
	*call = (struct client_call){.easy = NULL};
}

struct client *client_free(struct client *client)
{
	if (!client)
		return NULL;

	for (size_t i = 0; i < CLIENT_CALLS_MAX; i++)
		if (client->calls[i].client)
			client_clear(&client->calls[i]);

	(void)curl_multi_cleanup(client->multi);
	curl_global_cleanup();
	free(client);

	return NULL;
}

/* --- a request -------------------------------------------------------------------------------- */

static size_t client_on_data(char *data, size_t size, size_t count, void *context)
{
	struct client_call *call = context;
	size_t length = size * count; /* size is 1 */
	uint32_t status = client_status(call);
	if (status != ANSWER_OK && status != ANSWER_CREATED) {
		size_t room = CLIENT_BODY_MAX - call->refusal.length;
		/* Without memory there is less to say. */
		(void)buf_add(&call->refusal, data, length < room ? length : room);
		return length;
	}

	if (!call->request.data || call->request.data(data, length, call->request.context) >= 0)
		return length;

	call->is_refused = true;
	return 0;
}

static size_t client_on_header(char *line, size_t size, size_t count, void *context)
{
	static const char name[] = "Date:";

	enum { DATE_MAX = 64 };
	struct client_call *call = context;
	size_t length = size * count; /* size is 1 */
	char date[DATE_MAX];

	if (length < sizeof(date) && length > sizeof(name) &&
	    strncasecmp(line, name, sizeof(name) - 1) == 0) {
		(void)snprintf(date, sizeof(date), "%.*s", (int)(length - sizeof(name) + 1),
			       line + sizeof(name) - 1);
		int64_t date_s = curl_getdate(date, NULL);
		call->date_s = date_s > 0 ? date_s : 0;
	}

	return length;
}

/* A server that is gone without a word is noticed within a minute: what curl sets of this leaves
 * the number of questions to the kernel, which asks nine times. */
static int client_on_socket(void *context, curl_socket_t fd, curlsocktype purpose)
{
	int probes = CLIENT_PROBES;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	return CURL_SOCKOPT_OK;
}

static bool client_add_header(struct client_call *call, const char *name, const char *value)
{
	_cleanup_free_ char *line = NULL;
	struct curl_slist *longer = NULL;

	if (asprintf(&line, "%s: %s", name, value) < 0)
		line = NULL;
	else
		longer = curl_slist_append(call->headers, line);

	if (line)
		explicit_bzero(line, strlen(line));
	if (longer)
		call->headers = longer;

	return longer != NULL;
}

static bool client_set_headers(struct client_call *call)
{
	const struct client_request *request = &call->request;
	_cleanup_free_ char *bearer = NULL;
	bool ok = client_add_header(call, "Accept", request->accept);
	if (ok && request->content_type)
		ok = client_add_header(call, "Content-Type", request->content_type);

	if (ok && call->access.token) {
		ok = asprintf(&bearer, "Bearer %s", call->access.token) >= 0;
		if (!ok)
			bearer = NULL;
		else
			ok = client_add_header(call, "Authorization", bearer);

		if (bearer)
			explicit_bzero(bearer, strlen(bearer));
	}

	/* Else it waits for a "100 Continue" that nobody sends. */
	if (ok && request->body) {
		struct curl_slist *longer = curl_slist_append(call->headers, "Expect:");
		ok = longer != NULL;
		if (ok)
			call->headers = longer;
	}

	return ok;
}

#define client_set(call, option, value) (curl_easy_setopt((call)->easy, option, value) == CURLE_OK)

/* Whom we talk to. */
static bool client_set_tls(struct client_call *call)
{
	const struct access *access = &call->access;
	bool ok = client_set(call, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
		  client_set(call, CURLOPT_SSL_VERIFYPEER, access->insecure ? 0L : 1L) &&
		  client_set(call, CURLOPT_SSL_VERIFYHOST, access->insecure ? 0L : 2L);
	/* This authority and no other: not those of the operating system. */
	if (ok && *access->ca)
		ok = client_set(call, CURLOPT_CAINFO, access->ca);
	if (ok && *access->ca)
		(void)client_set(call, CURLOPT_CAPATH, NULL); /* not every library has it */

	if (ok && *access->certificate)
		ok = client_set(call, CURLOPT_SSLCERT, access->certificate) &&
		     client_set(call, CURLOPT_SSLKEY, access->key);
#if LIBCURL_VERSION_NUM >= 0x075700
	/* An authority that was replaced shall count with the next connection. */
	if (ok)
		(void)client_set(call, CURLOPT_CA_CACHE_TIMEOUT, 0L);
#endif
	return ok;
}

/* How the connection is. */
static bool client_set_connection(struct client_call *call)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	bool ok = client_set(call, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	bool ok = client_set(call, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	return ok && client_set(call, CURLOPT_NOSIGNAL, 1L) &&
	       client_set(call, CURLOPT_PROXY, "") && /* nor what the environment says */
	       client_set(call, CURLOPT_FOLLOWLOCATION, 0L) &&
	       client_set(call, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       client_set(call, CURLOPT_BUFFERSIZE, (long)CLIENT_BUFFER) &&
	       client_set(call, CURLOPT_CONNECTTIMEOUT_MS, (long)CLIENT_CONNECT_MS) &&
	       client_set(call, CURLOPT_TCP_KEEPALIVE, 1L) &&
	       client_set(call, CURLOPT_TCP_KEEPIDLE, (long)CLIENT_IDLE_S) &&
	       client_set(call, CURLOPT_TCP_KEEPINTVL, (long)CLIENT_PROBE_S) &&
	       client_set(call, CURLOPT_SOCKOPTFUNCTION, client_on_socket);
}

static bool client_set_request(struct client_call *call)
{
	const struct client_request *request = &call->request;
	char url[CLIENT_URL_MAX];
	uint64_t timeout_ms = request->timeout_ns / CLOCK_NS_PER_MS + 1;

	if (snprintf(url, sizeof(url), "%s%s", call->access.server, request->path) >=
	    (int)sizeof(url))
		return false;

	bool ok = client_set(call, CURLOPT_URL, url) &&
		  client_set(call, CURLOPT_TIMEOUT_MS,
			     timeout_ms < LONG_MAX ? (long)timeout_ms : LONG_MAX) &&
		  client_set(call, CURLOPT_HTTPHEADER, call->headers) &&
		  client_set(call, CURLOPT_ERRORBUFFER, call->why) &&
		  client_set(call, CURLOPT_WRITEFUNCTION, client_on_data) &&
		  client_set(call, CURLOPT_WRITEDATA, call) &&
		  client_set(call, CURLOPT_HEADERFUNCTION, client_on_header) &&
		  client_set(call, CURLOPT_HEADERDATA, call) &&
		  client_set(call, CURLOPT_PRIVATE, call);
	if (ok && request->body)
		ok = client_set(call, CURLOPT_POSTFIELDS, request->body);
	if (ok && strcmp(request->method, "GET") != 0)
		ok = client_set(call, CURLOPT_CUSTOMREQUEST, request->method);

	return ok;
}

static int client_begin(struct client_call *call, struct err *err)
{
	int rc = access_load(call->client->options, &call->access, err);
	if (rc < 0)
		return rc;

	call->easy = curl_easy_init();
	if (!call->easy || !client_set_headers(call) || !client_set_tls(call) ||
	    !client_set_connection(call) || !client_set_request(call) ||
	    curl_multi_add_handle(call->client->multi, call->easy) != CURLM_OK)
		return err_set(err, -ENOMEM,
			       "this libcurl (%s) cannot be prepared for a request, or there is no "
			       "memory",
			       curl_version_info(CURLVERSION_NOW)->version);

	call->is_added = true;
	return 0;
}

struct client_call *client_start(struct client *client, const struct client_request *request)
{
	struct client_call *call = client->calls;
	while (call < client->calls + CLIENT_CALLS_MAX && call->client)
		call++;

	if (call == client->calls + CLIENT_CALLS_MAX) {
		free(request->body);
		return NULL;
	}

	*call = (struct client_call){.client = client, .request = *request};
	buf_init(&call->refusal, CLIENT_BODY_MAX);
	(void)client_begin(call, &call->err); /* told by end() */

	return call;
}

uint32_t client_status(const struct client_call *call)
{
	long status = 0;
	if (call->easy)
		(void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
	return status > 0 ? (uint32_t)status : 0;
}

/* --- its end ---------------------------------------------------------------------------------- */

static const char *client_advice(CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_CONNECT:
	case CURLE_OPERATION_TIMEDOUT:
		return ": is it there, and does this node reach it?";
	case CURLE_COULDNT_RESOLVE_HOST:
		return ": is the name right, and does this node's DNS know it?";
	case CURLE_PEER_FAILED_VERIFICATION:
		return ": is the certificate authority the one of this cluster?";
	case CURLE_SSL_CERTPROBLEM:
		return ": is the client's certificate readable, and its key the right one?";
	case CURLE_SSL_CACERT_BADFILE:
		return ": is the certificate authority a PEM file?";
	default:
		return "";
	}
}

/* Whether a server repeats our token, or a part of it where it was cut: the text is for logs. */
static bool client_has_token(const struct client_call *call, const char *text)
{
	char mark[CLIENT_TOKEN_MARK + 1];
	const char *token = call->access.token;
	if (!token || strlen(token) < CLIENT_TOKEN_MIN)
		return false;
	(void)snprintf(mark, sizeof(mark), "%s", token);
	return strstr(text, mark) != NULL;
}

static void client_read_refusal(const struct client_call *call, struct kube_answer *answer)
{
	struct object_status status;
	struct err err = {0};

	/* What is no Status is a page of something in between: the number says enough. */
	if (call->refusal.length > 0 &&
	    object_status_parse(call->refusal.data, call->refusal.length, &status, &err) == 0)
		(void)snprintf(answer->text, sizeof(answer->text), "%s",
			       client_has_token(call, status.message)
				   ? "(its message repeats our token, and is not shown)"
				   : status.message);
}

static bool client_token_is_another(const struct client_call *call)
{
	struct access now;
	struct err err = {0};

	if (access_load(call->client->options, &now, &err) < 0)
		return false;

	bool is_another =
	    now.token && call->access.token && strcmp(now.token, call->access.token) != 0;
	access_done(&now);
	return is_another;
}

static void client_read_answer(struct client_call *call, CURLcode code, struct kube_answer *answer)
{
	answer->status = client_status(call);
	answer->date_s = call->date_s;

	if (code != CURLE_OK) {
		answer->code = call->is_refused			  ? -ECANCELED
			       : code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT
								  : -EIO;
		(void)snprintf(
		    answer->text, sizeof(answer->text), "%.120s: %.60s%.70s", call->access.server,
		    *call->why ? call->why : curl_easy_strerror(code), client_advice(code));
		return;
	}

	if (answer_is_good(answer))
		return;
#if LIBCURL_VERSION_NUM >= 0x074200
	curl_off_t after_s = 0;
	if (curl_easy_getinfo(call->easy, CURLINFO_RETRY_AFTER, &after_s) == CURLE_OK &&
	    after_s > 0 && after_s < INT32_MAX)
		answer->retry_after_ns = (uint64_t)after_s * CLOCK_NS_PER_S;
#endif
	answer->token_changed =
	    answer->status == ANSWER_UNAUTHORIZED && client_token_is_another(call);
	client_read_refusal(call, answer);
}

static void client_finish(struct client_call *call, const struct kube_answer *answer)
{
	void (*end)(const struct kube_answer *answer, void *context) = call->request.end;
	void *context = call->request.context;
	client_clear(call);
	end(answer, context);
}

/* True: something has ended. */
static bool client_finish_all(struct client *client)
{
	bool has_ended = false;
	int left = 0;
	CURLMsg *message;

	for (size_t i = 0; i < CLIENT_CALLS_MAX; i++) {
		struct client_call *call = &client->calls[i];
		struct kube_answer answer = {.code = call->err.code, .is_ours = true};

		if (!call->client || call->is_added)
			continue;

		(void)snprintf(answer.text, sizeof(answer.text), "%.*s", ANSWER_TEXT_MAX - 1,
			       call->err.text);
		client_finish(call, &answer);
		has_ended = true;
	}

	while ((message = curl_multi_info_read(client->multi, &left))) {
		struct client_call *call = NULL;
		struct kube_answer answer = {.code = 0};

		if (message->msg != CURLMSG_DONE ||
		    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &call) != CURLE_OK ||
		    !call)
			continue;

		client_read_answer(call, message->data.result, &answer);
		client_finish(call, &answer);
		has_ended = true;
	}

	return has_ended;
}

int client_run(struct client *client, int fd, short events, uint64_t wait_ns, short *out_ready,
	       struct err *err)
{
	/* The same numbers as poll(2)'s. */
	struct curl_waitfd wait = {.fd = fd, .events = events};
	uint64_t wait_ms = (wait_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
	int running = 0;

	*out_ready = 0;
	CURLMcode code = curl_multi_perform(client->multi, &running);
	/* What has ended is nothing that could be waited for. */
	if (code == CURLM_OK && client_finish_all(client))
		return 0;
	if (code == CURLM_OK)
		code = curl_multi_wait(
		    client->multi, &wait, 1,
		    wait_ms < CLIENT_WAIT_MAX_MS ? (int)wait_ms : CLIENT_WAIT_MAX_MS, NULL);

	if (code != CURLM_OK)
		return err_set(err, code == CURLM_OUT_OF_MEMORY ? -ENOMEM : -EIO, "libcurl: %s",
			       curl_multi_strerror(code));

	*out_ready = wait.revents;
	return 0;
}
