/* SPDX-License-Identifier: Apache-2.0 */
/* The page in a real browser, against a server that says what each case wants. */
"use strict";

const assert = require("assert");
const { launch, open, close, judge, until, noSidewaysScroll, run } = require("./browser.js");
const { Standin } = require("./standin.js");
const { makeState, xidEvent, hostileName, XID_ADVICE } = require("./state.js");

const BUILD = process.argv[2];
let browser;

/* A page over a state of its own; `body(page, server)`. */
function over(options, body, how) {
  return async () => {
    const server = new Standin(BUILD, makeState({ gpus: 8, holders: 12, ...options }));
    await server.start();
    try {
      const page = await open(browser, server.url, how && how.context);
      if (!how || !how.early) await until(page, () => document.querySelectorAll("#cards .card").length > 0);
      await body(page, server);
      await close(page, server.url, how && how.expected);
    } finally {
      await server.stop();
    }
  };
}

function text(page, selector) {
  return page.locator(selector).innerText();
}

/* Which GPUs have a line in the first chart. */
function drawn(page) {
  return page.$$eval("#charts > figure:first-child path.line:not(.away)", (paths) => paths.map((path) => Number(path.dataset.gpu)).sort((a, b) => a - b));
}

const live = over({}, async (page) => {
  const before = await text(page, ".card:nth-child(1) .busy dd:not(.meter)");
  await until(page, (was) => document.querySelector(".card:nth-child(1) .busy dd:not(.meter)").textContent !== was, before, 3000);
  assert.strictEqual(await text(page, "#link"), "live");
  assert.match(await text(page, "h1"), /node-a/);
  assert.match(await text(page, "#simulated"), /SIMULATED/);
  assert.match(await text(page, "#facts"), /driver 535\.230\.02.*CUDA 12\.2.*up 3 h 20 min/);
});

const mouse = over({}, async (page) => {
  assert.deepStrictEqual(await drawn(page), [0, 1, 2, 3, 4, 5, 6, 7]);
  await page.click("#legend button:nth-child(4)");
  assert.deepStrictEqual(await drawn(page), [3]);
  assert.strictEqual(await page.getAttribute("#legend button:nth-child(4)", "aria-pressed"), "true");
  await page.click("#legend button:nth-child(6)", { modifiers: ["Shift"] });
  assert.deepStrictEqual(await drawn(page), [3, 5]);
  assert.match(await text(page, "#shown"), /Only GPUs 3, 5/);
  await page.click("#legend button:nth-child(1)");
  assert.deepStrictEqual(await drawn(page), [0]);
  await page.click("#legend button:nth-child(1)");
  assert.strictEqual((await drawn(page)).length, 8);
});

/* Nothing but the keyboard: Tab to the legend, Enter, Shift+Enter, Esc. */
const keyboard = over({}, async (page) => {
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement.textContent === "GPU 2" && document.activeElement.tagName === "BUTTON")) break;
  }
  const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.strictEqual(outline, "solid", "the focus is seen");
  await page.keyboard.press("Enter");
  assert.deepStrictEqual(await drawn(page), [2]);
  await page.keyboard.press("Tab");
  await page.keyboard.press("Shift+Enter");
  assert.deepStrictEqual(await drawn(page), [2, 3]);
  await page.keyboard.press("Escape");
  assert.strictEqual((await drawn(page)).length, 8);
  assert.strictEqual(await page.getAttribute("#legend button:nth-child(3)", "aria-pressed"), "false");
});

const ranges = over({}, async (page) => {
  await until(page, () => document.querySelector("#charts path.line").getAttribute("d").length > 2000);
  for (const name of ["1 h", "6 h", "10 min"]) {
    await page.click("#ranges button:text-is('" + name + "')");
    assert.strictEqual(await page.getAttribute("#ranges button:text-is('" + name + "')", "aria-pressed"), "true");
    assert.ok((await page.$$eval("#charts .xs", (axes) => axes.map((axis) => axis.children.length))).every((count) => count >= 3), name);
  }
  await page.click("#charts summary >> nth=1");
  await until(page, () => document.querySelectorAll("#charts > figure:nth-child(2) tbody tr").length === 8);
  assert.match(await text(page, "#charts > figure:nth-child(2) tbody tr:first-child"), /^0\s+[\d.]+\s+[\d.]+\s+[\d.]+/);
  await page.hover("#charts > figure:first-child .plot");
  assert.match(await text(page, "#charts > figure:first-child .tip"), /\d\d:\d\d:\d\d\s+GPU 0/);
});

const alert = over({}, async (page, server) => {
  const event = xidEvent(server.state, 3);
  server.state.events.push(event);
  server.state.gpus[3].health = "unhealthy";
  server.state.gpus[3].reasons = [{ cause: "xid", health: "unhealthy", xid: 79, text: event.text, advice: event.advice }];
  server.tellAll("alert", event);
  server.tellAll("sample", { ...server.state, gpus: [{ uuid: event.uuid, health: "unhealthy", reasons: server.state.gpus[3].reasons, values: {} }] });
  await until(page, (advice) => document.querySelector("#events tbody tr").textContent.includes(advice), XID_ADVICE);
  assert.match(await text(page, "#events tbody tr:first-child"), /GPU 3.*XID 79: The GPU has fallen off the bus/s);
  assert.match(await text(page, "#announce"), /GPU 3: The GPU has fallen/);
  assert.match(await text(page, "#health"), /GPU 3.*unhealthy.*Take the machine out of use/s);
  assert.match(await text(page, "#alerts"), /1 unhealthy of 8 GPUs/);
  assert.match(await page.title(), /1 unhealthy/);
});

const absent = over({ sick: true, holders: 0 }, async (page) => {
  const card = await text(page, ".card:nth-child(4)");
  assert.match(card, /unknown/);
  assert.match(card, /- \/ - GiB/);
  assert.doesNotMatch(card, /NaN|undefined|\b0 %/);
  assert.match(card, /nobody has it; not handed out/);
});

/* A value that is null has gone, a member that is null as well. */
const gone = over({}, async (page, server) => {
  server.frozen = true;
  server.tellAll("sample", { sequence: 9, time_unix: server.state.time_unix + 1, stale: true, age_seconds: 14,
    gpus: [{ uuid: server.state.gpus[0].uuid, values: { utilization_gpu_percent: null } }] });
  await until(page, () => document.querySelector(".card .busy dd").textContent === "-");
  assert.strictEqual(await text(page, "#link"), "stale: the readings are 14 s old");
});

/* Readings that are told again, only older, are drawn once. */
const again = over({}, async (page, server) => {
  const length = "page.memories.get(1).end";
  server.frozen = true;
  await until(page, "page.loaded && !page.loading && page.state.sequence === " + server.state.sequence);
  const now = server.state.time_unix, before = await page.evaluate(length);
  for (let second = 1; second <= 5; second++)
    server.tellAll("sample", { sequence: 9, time_unix: now + second, age_seconds: server.state.age_seconds + second, stale: second > 4 });
  await until(page, () => /^stale/.test(document.querySelector("#link").textContent));
  assert.strictEqual(await page.evaluate(length), before);
});

const many = over({ gpus: 64, holders: 200 }, async (page, server) => {
  assert.strictEqual(await page.locator(".card").count(), 64);
  assert.strictEqual((await drawn(page)).length, 64);
  const styles = await page.$$eval("#legend path", (paths) => paths.map((path) => {
    const style = getComputedStyle(path);
    return style.stroke + style.strokeDasharray;
  }));
  assert.strictEqual(new Set(styles).size, 64, "colour and dashes tell 64 lines apart");
  await noSidewaysScroll(page, "64 GPUs");
  await judge(page, "64 GPUs");
  /* The main thread stays free. */
  const late = await page.evaluate(() => new Promise((done) => {
    let worst = 0, last = performance.now();
    const timer = setInterval(() => {
      worst = Math.max(worst, performance.now() - last - 50);
      last = performance.now();
    }, 50);
    setTimeout(() => {
      clearInterval(timer);
      done(worst);
    }, 9000);
  }));
  console.log("        64 GPUs: the longest that the page did not answer: " + Math.round(late) + " ms");
});

const hostile = over({ holders: 1000, name: hostileName, host: "<b>" + hostileName(0), sick: true, problem: hostileName(1) }, async (page, server) => {
  await until(page, () => document.querySelectorAll("#holders tbody tr").length === 1000);
  const shown = await page.$$eval("#holders tbody tr", (rows) => rows.map((row) => row.cells[1].textContent));
  server.state.holders.forEach((holder, i) => {
    const want = holder.pod ? holder.namespace + "/" + holder.pod + " " + holder.container : "job " + holder.job + " " + holder.job_name;
    assert.ok(shown[i].startsWith(i % 2 ? want || "somebody" : want), i + ": " + shown[i] + " is not " + want);
  });
  assert.match(await text(page, "h1"), /<b><script>/);
  const made = await page.evaluate(() => ["main script", "main img", "main b", "main svg[onload]", "main h1", "header b", "body > script + *"]
    .map((selector) => document.querySelectorAll(selector).length));
  assert.deepStrictEqual(made, [0, 0, 0, 0, 0, 0, 0]);
  assert.doesNotMatch(await page.title(), /^taken/);
  const apart = await page.$$eval("#holders tbody bdi", (all) => all.length);
  assert.ok(apart >= 1000, "names are kept apart");
  await noSidewaysScroll(page, "hostile names");
  await judge(page, "hostile names");
  await page.setViewportSize({ width: 360, height: 740 });
  await noSidewaysScroll(page, "hostile names on a phone");
});

function themed(colorScheme) {
  return over({ sick: true, mig: true }, async (page) => {
    await judge(page, colorScheme);
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const before = await ground();
    const other = colorScheme === "dark" ? "light" : "dark";
    await page.selectOption("#theme", other);
    assert.notStrictEqual(await ground(), before);
    await judge(page, other + " by hand");
    await page.reload();
    await until(page, () => document.querySelector(".card"));
    assert.notStrictEqual(await ground(), before, "the choice is remembered");
    await page.click("#legend button:nth-child(2)");
    for (let i = 0; i < 4; i++) await page.click("#charts summary >> nth=" + i);
    await judge(page, "one GPU, tables open");
  }, { context: { colorScheme } });
}

const phone = over({ sick: true, mig: true }, async (page) => {
  await noSidewaysScroll(page, "phone");
  await judge(page, "phone");
  for (let i = 0; i < 4; i++) await page.click("#charts summary >> nth=" + i);
  await noSidewaysScroll(page, "phone with open tables");
}, { context: { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true } });

/* 300 % on a screen of 1280 pixels. */
const zoom = over({}, async (page) => {
  await noSidewaysScroll(page, "zoomed");
  await page.click("#legend button:nth-child(4)");
  assert.deepStrictEqual(await drawn(page), [3]);
}, { context: { viewport: { width: 426, height: 300 }, deviceScaleFactor: 3 } });

const calm = over({}, async (page) => {
  const moving = await page.evaluate(() => document.getAnimations().length);
  assert.strictEqual(moving, 0);
}, { context: { reducedMotion: "reduce" } });

const askToken = over({}, async (page, server) => {
  server.token = "correct horse";
  for (const stream of server.streams) stream.destroy();
  await page.waitForSelector("#token:not([hidden])");
  assert.strictEqual(await page.locator("#live").isVisible(), false);
  await judge(page, "token form");
  await page.keyboard.type("wrong");
  await page.keyboard.press("Enter");
  await until(page, () => document.querySelector("#token-wrong").textContent !== "");
  server.token = "correct-horse";
  await page.fill("#token-text", "correct-horse");
  await page.click("#token button");
  await until(page, () => !document.querySelector("#live").hidden && document.querySelector("#link").textContent === "live");
  assert.strictEqual(await page.locator("#token").isVisible(), false);
  await page.reload();
  await until(page, () => document.querySelector(".card") && document.querySelector("#link").textContent === "live");
  assert.ok(!page.asked.some((url) => url.includes("horse")), "the token is in no address");
}, { expected: /401|ERR_/ });

const restarted = over({}, async (page, server) => {
  await server.stop();
  await until(page, () => /^connection lost, data from \d\d:\d\d:\d\d$/.test(document.querySelector("#link").textContent));
  await judge(page, "connection lost");
  server.state = makeState({ gpus: 4, holders: 2, host: "node-b" });
  await server.start();
  await until(page, () => document.querySelector("#link").textContent === "live" && document.querySelectorAll(".card").length === 4);
  assert.match(await text(page, "h1"), /node-b/);
  assert.strictEqual(await page.locator("#legend button").count(), 4);
}, { expected: /ERR_|Failed to load/ });

/* A server that is there and silent is as good as gone, after 20 s. */
const newGpus = over({}, async (page, server) => {
  server.state.gpus = makeState({ gpus: 2, holders: 0 }).gpus;
  server.state.gpus[1].uuid = "GPU-new";
  server.tellAll("sample", { sequence: 7, time_unix: server.state.time_unix, stale: false, gpus: [{ uuid: "GPU-new", values: {} }] });
  await until(page, () => document.querySelectorAll(".card").length === 2);
}, { expected: /ERR_/ });

const nothing = over({ gpus: 0, holders: 0, problem: "no driver" }, async (page) => {
  await until(page, () => !document.querySelector("#live").hidden);
  assert.match(await text(page, "#warnings"), /no driver/);
  assert.match(await text(page, "#alerts"), /no GPU/);
  await judge(page, "no GPU");
}, { early: true });

async function main() {
  browser = await launch();
  const failed = await run([
    ["values change within 3 s without a reload", live],
    ["one GPU by mouse", mouse],
    ["one GPU by the keyboard alone", keyboard],
    ["10 minutes, an hour, six hours, and their tables", ranges],
    ["an event appears with its advice", alert],
    ["what is not known is -", absent],
    ["what goes is gone, and stale readings are called so", gone],
    ["stale readings are not drawn as new ones", again],
    ["1,000 hostile names are text", hostile],
    ["light, and dark by hand", themed("light")],
    ["dark, and light by hand", themed("dark")],
    ["a phone", phone],
    ["300 % zoom", zoom],
    ["reduced motion", calm],
    ["a token is asked for", askToken],
    ["a server that is restarted", restarted],
    ["other GPUs", newGpus],
    ["no GPU", nothing],
    ["64 GPUs", many],
  ], process.argv[3]);
  await browser.close();
  process.exitCode = failed ? 1 : 0;
}

main();
