/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that says what a case wants, with the document of the build: for states that no machine
 * gets into quickly (64 GPUs, 1,000 hostile names, a server that is gone). cases_agent.js has the real one.
 */
"use strict";

const fs = require("fs");
const http = require("http");
const path = require("path");
const { values, unixNow } = require("./state.js");

class Standin {
  constructor(build, state) {
    const web = path.join(build, "src", "web"), read = (name) => fs.readFileSync(path.join(web, name), "utf8");
    this.document = read("page_head.html") + read("page_tail.html");
    this.policy = read("page_asset.S").match(/\.asciz "([^"]*)"/)[1];
    this.state = state;
    this.token = "";
    this.streams = new Set();
    this.seen = [];
    this.port = 0;
  }

  get url() {
    return "http://127.0.0.1:" + this.port + "/";
  }

  start() {
    this.server = http.createServer((request, answer) => this.answer(request, answer));
    this.clock = setInterval(() => this.tick(), 1000);
    return new Promise((done) => this.server.listen(this.port, "127.0.0.1", () => {
      this.port = this.server.address().port;
      done();
    }));
  }

  stop() {
    clearInterval(this.clock);
    for (const stream of this.streams) stream.destroy();
    this.streams.clear();
    this.server.closeAllConnections();
    return new Promise((done) => this.server.close(done));
  }

  say(stream, name, object, id) {
    stream.write((id ? "id: " + id + "\n" : "") + "event: " + name + "\ndata: " + JSON.stringify(object) + "\n\n");
  }

  tellAll(name, object) {
    for (const stream of this.streams) this.say(stream, name, object, this.state.sequence);
  }

  tick() {
    const state = this.state;
    if (this.frozen) return;
    state.sequence++;
    state.time_unix = unixNow();
    const gpus = state.gpus.filter((gpu) => gpu.state === "ok").map((gpu) => {
      Object.assign(gpu.values, values(gpu.index, state.sequence));
      return { uuid: gpu.uuid, values: gpu.values };
    });
    this.tellAll("sample", { sequence: state.sequence, time_unix: state.time_unix, age_seconds: state.age_seconds, stale: state.stale, gpus, ...this.extra });
    this.extra = {};
  }

  history(query) {
    const step = Number(query.get("resolution")), count = step === 1 ? 600 : 2160, series = query.get("series");
    return { series, resolution_seconds: step, end_unix: unixNow(), gpus: this.state.gpus.map((gpu) => ({ uuid: gpu.uuid, index: gpu.index,
      values: Array.from({ length: count }, (_, i) => (i % 97 === 5 ? null : values(gpu.index, Math.floor(i / 20))[series])) })) };
  }

  answer(request, answer) {
    const url = new URL(request.url, this.url), api = url.pathname.startsWith("/api/");
    this.seen.push(url.pathname);
    if (api && this.token && request.headers.authorization !== "Bearer " + this.token) {
      answer.writeHead(401, { "WWW-Authenticate": "Bearer" }).end("401\n");
    } else if (url.pathname === "/") {
      answer.writeHead(200, { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": this.policy, "Cache-Control": "no-store" }).end(this.document);
    } else if (url.pathname === "/api/v1/history") {
      answer.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(this.history(url.searchParams)));
    } else if (url.pathname === "/api/v1/stream") {
      answer.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      this.streams.add(answer);
      request.on("close", () => this.streams.delete(answer));
      answer.write("retry: 2000\n: hello\n\n");
      this.say(answer, "state", this.state, this.state.sequence);
    } else {
      answer.writeHead(404).end("404\n");
    }
  }
}

module.exports = { Standin };
