/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking the server: JSON, and the stream of what changes. Server-sent events are read by fetch()
 * and not by EventSource, which cannot send a token. Knows nothing of what it transports.
 */

const SILENCE_MS = 20000; /* the server says something each 15 s at the least */
const RETRY_MS = [1000, 2000, 4000, 8000];
const BLOCK_MAX = 32 << 20; /* characters of one event */

const token = {
  get() {
    try {
      return sessionStorage.getItem("sluice.token") || "";
    } catch { /* storage may be forbidden */
      return this.kept || "";
    }
  },
  set(text) {
    this.kept = text;
    try {
      sessionStorage.setItem("sluice.token", text);
    } catch { /* then it is kept as long as the page is */ }
  },
};

/* Headers are bytes: whatever else was typed cannot be the token. */
function authorization() {
  const text = token.get().replace(/[^\x21-\x7e]/g, "");
  return text ? { Authorization: "Bearer " + text } : {};
}

async function ask(path) {
  const answer = await fetch(path, { headers: authorization(), cache: "no-store" });
  if (!answer.ok) throw new Error(path + ": status " + answer.status);
  return answer.json();
}

/* Hands each whole event of `text` to `take`; returns what is left. */
function splitEvents(text, take) {
  const blocks = text.replace(/\r\n?/g, "\n").split("\n\n");
  const rest = blocks.pop();
  for (const block of blocks) {
    const event = { name: "message", id: null, data: [] };
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      if (colon <= 0) continue; /* a comment: the server is alive */
      const field = line.slice(0, colon), value = line.slice(colon + 1).replace(/^ /, "");
      if (field === "event") event.name = value;
      else if (field === "id") event.id = value;
      else if (field === "data") event.data.push(value);
    }
    if (event.data.length > 0) take(event);
  }
  return rest;
}

/*
 * A connection that comes back. `on` has event(name, object), up(), down() and unauthorized(wrong);
 * after the last one nothing happens until start() is called again.
 */
class Stream {
  constructor(on) {
    this.on = on;
    this.failures = 0;
    this.lastId = null;
  }

  start() {
    clearTimeout(this.retry);
    if (this.abort) this.abort.abort();
    this.run(this.abort = new AbortController());
  }

  /* The next answer is to be everything there is. */
  startAnew() {
    this.lastId = null;
    this.start();
  }

  async run(abort) {
    try {
      await this.read(abort);
      throw new Error("the stream has ended");
    } catch {
      clearTimeout(this.silence);
      if (abort !== this.abort) return; /* there is a newer one */
      this.on.down();
      this.retry = setTimeout(() => this.start(),
        RETRY_MS[Math.min(this.failures++, RETRY_MS.length - 1)]);
    }
  }

  listen(abort) {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => abort.abort(), SILENCE_MS);
  }

  async read(abort) {
    const headers = authorization();
    if (this.lastId !== null) headers["Last-Event-ID"] = this.lastId;
    this.listen(abort);
    const answer = await fetch("api/v1/stream", { headers, cache: "no-store", signal: abort.signal });
    if (answer.status === 401) {
      clearTimeout(this.silence);
      this.on.unauthorized(Boolean(headers.Authorization));
      await new Promise(() => {}); /* until start() */
    }
    if (!answer.ok) throw new Error("status " + answer.status);
    const reader = answer.body.getReader(), decoder = new TextDecoder();
    for (let text = ""; ;) {
      const { done, value } = await reader.read();
      if (done || abort !== this.abort) return;
      this.listen(abort);
      text = splitEvents(text + decoder.decode(value, { stream: true }), (event) => {
        this.failures = 0;
        this.on.up();
        this.on.event(event.name, JSON.parse(event.data.join("\n")));
        if (event.id !== null) this.lastId = event.id;
      });
      if (text.length > BLOCK_MAX) throw new Error("an event without an end");
    }
  }
}
