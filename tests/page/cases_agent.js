/* SPDX-License-Identifier: Apache-2.0 */
/* The page in a real browser, of the real service, on a simulated DGX A100 that works. */
"use strict";

const assert = require("assert");
const { spawn } = require("child_process");
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const { launch, open, close, judge, until, noSidewaysScroll, run } = require("./browser.js");

const PICTURE_POINTS = Number(process.env.PICTURE_POINTS || 480); /* seconds of history in a picture */
const TOKEN = "open-sesame";
const [BUILD, ONLY, PICTURES] = process.argv.slice(2);
let browser, machine, url;

/* machine.py, which says what it can be told. */
class Machine {
  constructor() {
    this.process = spawn(process.env.PYTHON || "/usr/bin/python3", [path.join(__dirname, "machine.py")],
      { env: { ...process.env, MESON_BUILD_ROOT: BUILD }, stdio: ["pipe", "pipe", "inherit"] });
    this.answers = readline.createInterface({ input: this.process.stdout })[Symbol.asyncIterator]();
  }

  async tell(...words) {
    this.process.stdin.write(JSON.stringify(words) + "\n");
    const line = await this.answers.next();
    if (line.done) throw new Error("the machine is gone");
    const answer = JSON.parse(line.value);
    if (answer.error) throw new Error(answer.error);
    return answer.ok;
  }

  stop() {
    this.process.stdin.end();
    return new Promise((done) => this.process.on("close", done));
  }
}

/* A page of the service; `how` as open(), and what may be complained of. */
function seen(body, how) {
  return async () => {
    const page = await open(browser, url, how && how.context);
    await body(page);
    await close(page, url, how && how.expected);
  };
}

async function ready(page) {
  await until(page, () => !document.querySelector("#token").hidden || !document.querySelector("#live").hidden);
  if (await page.locator("#token").isVisible()) {
    await page.fill("#token-text", TOKEN);
    await page.keyboard.press("Enter");
  }
  await until(page, () => document.querySelectorAll(".card").length === 8 && document.querySelector("#link").textContent === "live");
}

function tokenFile() {
  return path.join(BUILD, "page", "token");
}

function texts(page, selector) {
  return page.$$eval(selector, (nodes) => nodes.map((node) => node.innerText));
}

/* What the page shows of each GPU is what the simulator says of it. */
const truth = seen(async (page) => {
  await ready(page);
  const show = await machine.tell("show");
  const memory = show.gpus.map((gpu) => (gpu.memory.used / 2 ** 30).toFixed(1));
  await until(page, (want) => [...document.querySelectorAll(".card .memory dd:not(.meter)")].every((node, i) =>
    Math.abs(parseFloat(node.textContent) - want[i]) < 0.6), memory);
  assert.match((await texts(page, "#simulated"))[0], /SIMULATED/);
  assert.deepStrictEqual(await texts(page, ".card h3"), show.gpus.map((gpu, i) => "GPU " + i));
});

const lives = seen(async (page) => {
  await ready(page);
  const row = ".card:nth-child(1) .power dd:not(.meter)";
  const before = await page.textContent(row);
  await machine.tell("load", 0, "--util", "0.97", "--mem", "3GiB");
  await until(page, ([selector, was]) => document.querySelector(selector).textContent !== was, [row, before], 5000);
});

const holders = seen(async (page) => {
  await ready(page);
  await until(page, () => document.querySelectorAll("#holders tbody tr").length >= 7);
  assert.match((await texts(page, "#holders tbody tr"))[0], /GPU 0\s+job 1/);
  assert.match((await texts(page, ".card:nth-child(3) .holders"))[0], /job 2/);
  assert.match((await texts(page, "#queue"))[0], /1 wait, 4 run/);
  assert.match(await page.innerText("#jobs"), /Pending[\s\S]*WaitingForGPU/);
  assert.doesNotMatch(await page.innerText("body"), /train-vision/, "without a token names of jobs are nobody's business");
});

/* What the service remembers is there at once. */
const history = seen(async (page) => {
  await ready(page);
  await until(page, () => (document.querySelector("#charts path.line").getAttribute("d") || "").split("L").length > 5);
  await page.click("#legend button:nth-child(3)");
  assert.strictEqual(await page.locator("#charts > figure:first-child path.line:not(.away)").count(), 1);
  await judge(page, "the real one");
});

const phone = seen(async (page) => {
  await ready(page);
  await noSidewaysScroll(page, "phone");
  await judge(page, "phone");
}, { context: { viewport: { width: 360, height: 740 } } });

const plain = seen(async (page) => {
  const rows = await texts(page, "#plain table:first-of-type tbody tr");
  assert.ok(rows.length >= 8, rows.join("\n"));
  assert.match(await page.innerText("#plain"), /SIMULATED/);
  assert.match(await page.innerText("#plain"), /job 1[\s\S]*Pending/);
  assert.strictEqual(await page.locator("#live").isVisible(), false);
  assert.strictEqual(await page.getAttribute("noscript meta", "content"), "5");
  await noSidewaysScroll(page, "without JavaScript");
}, { context: { javaScriptEnabled: false } });

const plainJudged = seen(async (page) => {
  await page.waitForSelector("#plain table");
  await page.setViewportSize({ width: 360, height: 740 });
  await noSidewaysScroll(page, "phone without JavaScript");
}, { context: { javaScriptEnabled: false } });

/* GPU 7 is taken by nobody: it is not free then. */
const drained = seen(async (page) => {
  await ready(page);
  await until(page, () => document.querySelector(".card:nth-child(8) .holders").innerText === "free");
  await machine.tell("sluice", "jobs", "drain", "--gpu", "7", "--reason", "the <b>fan</b> is replaced");
  await until(page, () => document.querySelector(".card:nth-child(8) .holders").innerText === "drained: the <b>fan</b> is replaced");
  await judge(page, "a drained GPU");
  if (PICTURES) await page.screenshot({ path: path.join(PICTURES, "drained.png"), fullPage: true });
  await machine.tell("sluice", "jobs", "resume", "--gpu", "7");
  await until(page, () => document.querySelector(".card:nth-child(8) .holders").innerText === "free");
}, { expected: /401/ });

const xid = seen(async (page) => {
  await ready(page);
  await machine.tell("sim", "inject", "xid", "79", "--gpu", "3");
  await until(page, () => /XID 79/.test(document.querySelector("#events").textContent));
  const row = await page.$$eval("#events tbody tr", (rows) => rows.map((one) => [...one.cells].map((cell) => cell.innerText))
    .find((cells) => cells[3].includes("XID 79")));
  assert.strictEqual(row[1], "GPU 3");
  assert.match(row[4], /drain the machine/, "its advice");
  await until(page, () => /unhealthy/.test(document.querySelector(".card:nth-child(4) .health").textContent));
  assert.match(await page.innerText("#health"), /GPU 3[\s\S]*drain this machine/);
  assert.match(await page.innerText("#announce"), /GPU 3/);
  await judge(page, "after an XID");
  await machine.tell("sim", "heal");
}, { expected: /401/ });

const restarted = seen(async (page) => {
  await ready(page);
  await machine.tell("end");
  await until(page, () => /^connection lost, data from \d\d:\d\d:\d\d$/.test(document.querySelector("#link").textContent));
  const address = await machine.tell("agent", "--web-address", new URL(url).host, "--web-token-file", tokenFile());
  assert.ok(url.includes(address), "the same port");
  await ready(page);
}, { expected: /ERR_|Failed to load|401/ });

const askToken = seen(async (page) => {
  await machine.tell("end");
  fs.writeFileSync(tokenFile(), TOKEN + "\n", { mode: 0o600 });
  await machine.tell("agent", "--web-address", new URL(url).host, "--web-token-file", tokenFile());
  await page.goto(url);
  await page.waitForSelector("#token:not([hidden])");
  assert.doesNotMatch(await page.content(), /A100/);
  await ready(page);
  await until(page, () => /job 1 train-vision/.test(document.querySelector("#holders").textContent));
  await until(page, () => /train-language/.test(document.querySelector("#jobs").textContent));
}, { expected: /401|ERR_/ });

/* Pictures for people: light and dark, each as small as PNG gets. */
function picture(theme) {
  return seen(async (page) => {
    await ready(page);
    await until(page, (count) => (document.querySelector("#charts path.line").getAttribute("d") || "").split("L").length > count, PICTURE_POINTS, 900000);
    const bottom = await page.evaluate(() => document.querySelector("#h-jobs").getBoundingClientRect().top + scrollY);
    await page.screenshot({ path: path.join(PICTURES, "page-" + theme + ".png"), fullPage: true,
      clip: { x: 0, y: 0, width: 1200, height: Math.min(Math.round(bottom) - 8, 1500) } });
  }, { context: { colorScheme: theme, viewport: { width: 1200, height: 900 } }, expected: /401/ });
}

async function prepare() {
  machine = new Machine();
  await machine.tell("start", "dgx-a100");
  url = "http://" + await machine.tell("agent", "--web-address", "127.0.0.1:0") + "/";
  const jobs = [
    await machine.tell("submit", 2, "--mem 31GiB", "epochs", "--name", "train-vision"),
    await machine.tell("submit", 1, "--mem 22GiB", "waves", "--name", "fine-tune"),
    await machine.tell("submit", 3, "--mem 37GiB", "steady", "--name", "train-language"),
    await machine.tell("submit", 1, "--mem 6GiB", "now and then", "--name", "notebook"),
  ];
  await machine.tell("running", 7, ...jobs); // before a case puts a load of nobody's on a GPU
  await machine.tell("submit", 4, "", "steady", "--name", "waits-for-four");
}

async function main() {
  browser = await launch();
  await prepare();
  const cases = [
    ["the service: what is shown is what is true", truth],
    ["the service: live", lives],
    ["the service: jobs and who is on the GPUs", holders],
    ["the service: what it remembers", history],
    ["the service: a phone", phone],
    ["the service: without JavaScript", plain],
    ["the service: without JavaScript on a phone", plainJudged],
    ["the service: a token, and names of jobs with it; pictures", askToken],
    ["the service: a drained GPU", drained],
    ["the service: an XID", xid],
    ["the service: ended and started again", restarted],
  ];
  if (PICTURES) cases.splice(8, 0, ["pictures: light", picture("light")], ["pictures: dark", picture("dark")]);
  const failed = await run(cases, ONLY);
  await browser.close();
  await machine.stop();
  process.exitCode = failed ? 1 : 0;
}

main().catch(async (error) => {
  console.log(error.stack);
  console.log("0 passed, 1 failed");
  if (machine) await machine.stop();
  process.exit(1);
});
