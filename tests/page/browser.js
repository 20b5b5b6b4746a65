/* SPDX-License-Identifier: Apache-2.0 */
/* The distribution's chromium, and what every case wants of a page: that it kept quiet. */
"use strict";

const assert = require("assert");
const fs = require("fs");
const { chromium } = require("playwright-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const CHROMIUM = process.env.CHROMIUM || "/usr/bin/chromium";

async function launch() {
  return chromium.launch({ executablePath: CHROMIUM, args: process.getuid() === 0 ? ["--no-sandbox"] : [] });
}

/* A window of its own at `url`. `options` as Playwright's newContext(). */
async function open(browser, url, options) {
  const context = await browser.newContext({ viewport: { width: 1400, height: 900 }, colorScheme: "light", reducedMotion: "no-preference", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.trouble = [];
  page.asked = [];
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") page.trouble.push(message.text());
  });
  page.on("pageerror", (error) => page.trouble.push(String(error)));
  page.on("dialog", (dialog) => {
    page.trouble.push("a dialog: " + dialog.message());
    dialog.dismiss();
  });
  page.on("request", (request) => page.asked.push(request.url()));
  await page.addInitScript(() => addEventListener("securitypolicyviolation",
    (event) => console.error("policy violated: " + event.violatedDirective + " " + event.blockedURI)));
  await page.goto(url);
  return page;
}

/* Closes it; it must have asked nobody else and complained of nothing but what `expected` matches. */
async function close(page, url, expected) {
  const elsewhere = page.asked.filter((asked) => !asked.startsWith(url) && !asked.startsWith("data:"));
  const trouble = page.trouble.filter((text) => !(expected && expected.test(text)));
  await page.context().close();
  assert.deepStrictEqual(elsewhere, [], "asked somebody else");
  assert.deepStrictEqual(trouble, [], "complained");
}

/* axe-core's serious and critical findings in the page as it is now. Evaluated from outside, so that the page's policy stays. */
async function judge(page, what) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => (await axe.run(document, { resultTypes: ["violations"] })).violations
    .filter((violation) => violation.impact === "serious" || violation.impact === "critical")
    .map((violation) => violation.id + ": " + violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + " " + (node.any[0] ? node.any[0].message : "")).join(" | ")));
  assert.deepStrictEqual(found, [], "axe-core, " + what);
}

/* Waits until `condition` (run in the page) holds. */
function until(page, condition, argument, timeout) {
  return page.waitForFunction(condition, argument, { timeout: timeout || 20000, polling: 50 });
}

async function noSidewaysScroll(page, what) {
  const [content, width] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= width, what + ": " + content + " px of content in " + width + " px");
}

/* Runs cases; prints a line for each. Resolves to how many failed. */
async function run(cases, only) {
  let passed = 0, failed = 0;
  for (const [name, body] of cases) {
    if (only && !name.includes(only)) continue;
    const start = Date.now();
    try {
      await body();
      passed++;
      console.log("ok      " + name + " (" + ((Date.now() - start) / 1000).toFixed(1) + " s)");
    } catch (error) {
      failed++;
      console.log("FAILED  " + name + "\n" + (error.stack || error));
    }
  }
  console.log(passed + " passed, " + failed + " failed");
  return failed;
}

module.exports = { launch, open, close, judge, until, noSidewaysScroll, run };
