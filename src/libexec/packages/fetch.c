/* SPDX-License-Identifier: Apache-2.0 */
#include "libexec/packages/fetch.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

enum { FETCH_STATUS_OK = 200, FETCH_SLOW_BYTES = 1024 };

struct fetch {
	CURL *easy; /* owned */
	uint64_t left;
	fetch_sink sink;
	void *context; /* borrowed */
	int result;
	bool is_too_long;
	char why[CURL_ERROR_SIZE];
};

static bool fetch_is_url(const char *text)
{
	return strncasecmp(text, "http://", 7) == 0 || strncasecmp(text, "https://", 8) == 0;
}

static long fetch_status(const struct fetch *fetch)
{
	long status = 0;
	(void)curl_easy_getinfo(fetch->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static size_t fetch_on_data(char *data, size_t size, size_t count, void *context)
{
	struct fetch *fetch = context;
	size_t length = size * count; /* size is 1 */

	if (fetch_status(fetch) != FETCH_STATUS_OK)
		return length; /* the page of an error */
	if (length > fetch->left) {
		fetch->is_too_long = true;
		return 0;
	}

	fetch->left -= length;
	fetch->result = fetch->sink(data, length, fetch->context);
	return fetch->result == 0 ? length : 0;
}

#define fetch_set(fetch, option, value) (curl_easy_setopt((fetch)->easy, option, value) == CURLE_OK)

static bool fetch_set_protocols(const struct fetch *fetch, const char *url)
{
	bool is_secure = strncasecmp(url, "https://", 8) == 0;
#if LIBCURL_VERSION_NUM >= 0x075500
	return fetch_set(fetch, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       fetch_set(fetch, CURLOPT_REDIR_PROTOCOLS_STR, is_secure ? "https" : "http,https");
#else
	return fetch_set(fetch, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) &&
	       fetch_set(fetch, CURLOPT_REDIR_PROTOCOLS,
			 is_secure ? (long)CURLPROTO_HTTPS
				   : (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static bool fetch_prepare(struct fetch *fetch, const char *url, uint64_t timeout_ms)
{
	return fetch->easy && fetch_set_protocols(fetch, url) &&
	       fetch_set(fetch, CURLOPT_URL, url) && fetch_set(fetch, CURLOPT_NOSIGNAL, 1L) &&
	       fetch_set(fetch, CURLOPT_FOLLOWLOCATION, 1L) &&
	       fetch_set(fetch, CURLOPT_MAXREDIRS, (long)FETCH_REDIRECTS_MAX) &&
	       fetch_set(fetch, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) &&
	       fetch_set(fetch, CURLOPT_CONNECTTIMEOUT_MS, (long)FETCH_CONNECT_MS) &&
	       fetch_set(fetch, CURLOPT_LOW_SPEED_LIMIT, (long)FETCH_SLOW_BYTES) &&
	       fetch_set(fetch, CURLOPT_LOW_SPEED_TIME, (long)FETCH_IDLE_S) &&
	       fetch_set(fetch, CURLOPT_TIMEOUT_MS,
			 timeout_ms < LONG_MAX ? (long)timeout_ms : LONG_MAX) &&
	       fetch_set(fetch, CURLOPT_ERRORBUFFER, fetch->why) &&
	       fetch_set(fetch, CURLOPT_USERAGENT, "sluice-packages") &&
	       fetch_set(fetch, CURLOPT_WRITEFUNCTION, fetch_on_data) &&
	       fetch_set(fetch, CURLOPT_WRITEDATA, fetch);
}

static int fetch_end(const struct fetch *fetch, const char *url, CURLcode code, struct err *err)
{
	long status = fetch_status(fetch);

	if (fetch->result != 0)
		return fetch->result;
	if (fetch->is_too_long)
		return err_set(err, -EFBIG, "'%.200s' is longer than is believed", url);
	if (code == CURLE_OPERATION_TIMEDOUT)
		return err_set(err, -ETIMEDOUT, "'%.200s': %.120s", url, fetch->why);
	if (code != CURLE_OK)
		return err_set(err, -EIO, "'%.200s': %.200s", url,
			       *fetch->why ? fetch->why : curl_easy_strerror(code));

	if (status == FETCH_STATUS_OK)
		return 0;

	return err_set(err,
		       status == 404 || status == 410	? -ENOENT
		       : status == 401 || status == 403 ? -EACCES
							: -EIO,
		       "'%.200s': the server answers %ld", url, status);
}

int fetch(const char *url, uint64_t max, uint64_t timeout_ms, fetch_sink sink, void *context,
	  struct err *err)
{
	struct fetch fetch = {.left = max, .sink = sink, .context = context};

	if (!fetch_is_url(url))
		return err_set(err, -EIO, "'%.200s' is no address of HTTP or HTTPS", url);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, -EIO, "libcurl cannot be used");

	fetch.easy = curl_easy_init();
	int rc;

	if (fetch_prepare(&fetch, url, timeout_ms))
		rc = fetch_end(&fetch, url, curl_easy_perform(fetch.easy), err);
	else
		rc = err_set(err, -EIO,
			     "this libcurl (%s) cannot be prepared for a request, or there is "
			     "no memory",
			     curl_version_info(CURLVERSION_NOW)->version);

	curl_easy_cleanup(fetch.easy);
	curl_global_cleanup();
	return rc;
}
