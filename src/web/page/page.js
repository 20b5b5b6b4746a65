/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page: what the server says, shown. Names in it are other people's: they become text nodes in
 * <bdi> elements and never markup.
 */

const GIB = 1 << 30;
const HOLDERS_ON_CARD = 4, EVENTS_MAX = 256, CARDS_DENSE = 17;
const HEALTH_MARKS = { healthy: "✓", degraded: "!", unhealthy: "✕", unknown: "?" };
const SOURCE_WORDS = { nvml: "driver", kmsg: "kernel log", poll: "sluice" };
const THROTTLE_WORDS = {
  sw_power_cap: "power limit", hw_slowdown: "hardware slowdown", sync_boost: "sync boost",
  sw_thermal: "heat", hw_thermal: "heat (hardware)", hw_power_brake: "power brake",
};

const page = { state: null, gpus: new Map(), cards: new Map(), picked: new Set(), range: RANGES[0], connected: false, read: 0 };

function $(id) {
  return document.getElementById(id);
}

/* An element; children are nodes or text. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  node.append(...children);
  return node;
}

/* Somebody else's text. */
function foreign(text) {
  return el("bdi", {}, String(text));
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/* A piece of a cell: our own words, { t: somebody else's }, { n: a number }, { h: health }, { a: advice }. */
function pieceNode(piece) {
  if (typeof piece === "string") return document.createTextNode(piece);
  if ("t" in piece) return foreign(piece.t);
  if ("h" in piece) return el("span", { class: "health " + piece.h }, (HEALTH_MARKS[piece.h] || "?") + " " + piece.h);
  if ("a" in piece) return el("span", { class: "advice" }, foreign(piece.a));
  return document.createTextNode(piece.n);
}

function isNumber(pieces) {
  return pieces.some((piece) => typeof piece === "object" && "n" in piece);
}

/* A table whose cells are changed only where something is different. */
class Table {
  constructor(parent, title, heads, how) {
    this.head = el("tr", {});
    this.body = el("tbody", {});
    this.empty = el("p", { class: "quiet" }, (how && how.empty) || "");
    this.box = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      el("table", { class: how && how.narrow ? "narrow" : "" }, el("thead", {}, this.head), this.body));
    parent.append(this.box, this.empty);
    this.written = [];
    this.heads(heads);
  }

  heads(words) {
    if (this.words === words.join("\n")) return;
    this.words = words.join("\n");
    this.head.replaceChildren(...words.map((word) => el("th", { scope: "col" }, word)));
    this.aligned = undefined;
  }

  /* `rows`: of cells: of pieces. The first cell is the row's head. */
  rows(rows) {
    this.box.hidden = rows.length === 0 && this.empty.textContent !== "";
    this.empty.hidden = rows.length > 0;
    while (this.body.rows.length > rows.length) this.body.deleteRow(-1);
    this.written.length = Math.min(this.written.length, rows.length);
    rows.forEach((cells, i) => {
      const row = this.body.rows[i] || this.body.insertRow();
      const written = this.written[i] = this.written[i] || [];
      while (row.cells.length > cells.length) row.deleteCell(-1);
      cells.forEach((pieces, k) => {
        const now = JSON.stringify(pieces);
        if (written[k] === now && row.cells[k]) return;
        written[k] = now;
        const cell = row.cells[k] || row.appendChild(k === 0 ? el("th", { scope: "row" }) : el("td", {}));
        cell.className = isNumber(pieces) ? "n" : "";
        cell.replaceChildren(...pieces.map(pieceNode));
      });
    });
    if (rows.length > 0 && this.aligned === undefined) {
      this.aligned = true;
      [...this.head.cells].forEach((cell, k) => cell.classList.toggle("n", isNumber(rows[0][k])));
    }
  }
}

/* --- words ---------------------------------------------------------------------------------- */

function fixed(value, scale, digits, unit) {
  return value === undefined || value === null ? "-" : (value / scale).toFixed(digits) + unit;
}

function ratio(value, total, scale, digits, unit) {
  return fixed(value, scale, digits, "") + " / " + fixed(total, scale, digits, "") + unit;
}

function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s / 60 % 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s / 3600 % 24) + " h";
}

/* The day as well if it is not today. */
function when(unix) {
  if (!unix) return "-";
  const then = new Date(unix * 1000), today = new Date().toDateString() === then.toDateString();
  return (today ? "" : then.toLocaleDateString("sv-SE") + " ") + clockText(unix, true);
}

/* Which GPU a UUID is, as people call it. */
function gpuPieces(uuid) {
  const gpu = page.gpus.get(uuid);
  return gpu ? ["GPU " + gpu.index] : uuid ? [{ t: uuid }] : ["-"];
}

function holderPieces(holder) {
  if (holder.pod) {
    const pieces = [{ t: holder.namespace || "" }, "/", { t: holder.pod }];
    return holder.container ? pieces.concat([" ", { t: holder.container }]) : pieces;
  }
  if (holder.job) return ["job " + holder.job + " ", { t: holder.job_name || "" }];
  if (holder.id) return [{ t: holder.runtime || "container" }, " ", { t: holder.id }];
  return [holder.container ? { t: holder.container } : "somebody"];
}

function throttleText(gpu) {
  if (!gpu.throttle) return "";
  const words = gpu.throttle.map((word) => THROTTLE_WORDS[word]).filter(Boolean);
  return words.length ? "slowed by " + words.join(", ") : "not slowed down";
}

/* --- cards ---------------------------------------------------------------------------------- */

/* "outside the queue: carol pid 4711 (python3)": processes that compute there and belong to no holder. */
function outsidePieces(gpu, migUuid) {
  return (gpu.outside || []).filter((one) => one.id === undefined && (!migUuid || one.mig_uuid === migUuid)).map((one) =>
    ["outside the queue: ", { t: one.user || "somebody" }, " pid " + one.pid + " (", { t: one.name || "?" }, ")"]);
}

class Card {
  constructor() {
    this.title = el("h3", {});
    this.name = el("p", { class: "quiet name" });
    this.health = el("p", {});
    this.list = el("dl", {});
    this.rows = {};
    for (const [key, label, bar] of [["busy", "Busy", true], ["memory", "Memory", true], ["power", "Power", true],
      ["heat", "Temperature", false], ["clocks", "Clocks", false]]) {
      const row = { value: el("dd", {}), bar: bar ? el("span", { class: "fill" }) : null };
      this.list.append(el("div", { class: key }, el("dt", {}, label), row.value,
        ...(bar ? [el("dd", { class: "meter", "aria-hidden": "true" }, row.bar)] : [])));
      this.rows[key] = row;
    }
    this.throttle = el("p", { class: "throttle" });
    this.why = el("p", { class: "why" });
    this.holders = el("p", { class: "holders" });
    this.node = el("li", { class: "card" }, el("div", { class: "top" }, this.title, this.health), this.name,
      this.list, this.throttle, this.why, this.holders);
  }

  set(key, text, part) {
    const row = this.rows[key];
    setText(row.value, text);
    if (row.bar) row.bar.style.width = part >= 0 ? Math.min(100, part * 100).toFixed(1) + "%" : "0";
  }

  update(gpu, place, holders) {
    const v = gpu.values;
    setText(this.title, "GPU " + gpu.index);
    setText(this.name, gpu.name || "");
    this.node.classList.toggle("picked", page.picked.has(gpu.uuid));
    const health = gpu.health || "unknown";
    if (this.shownHealth !== health) this.health.replaceChildren(pieceNode({ h: this.shownHealth = health }));
    this.set("busy", fixed(v.utilization_gpu_percent, 1, 0, " %"), v.utilization_gpu_percent / 100);
    this.set("memory", ratio(v.memory_used_bytes, v.memory_total_bytes, GIB, 1, " GiB"), v.memory_used_bytes / v.memory_total_bytes);
    this.set("power", ratio(v.power_mw, v.power_limit_mw, 1000, 0, " W"), v.power_mw / v.power_limit_mw);
    this.set("heat", fixed(v.temperature_celsius, 1, 0, " °C") + (v.temperature_memory_celsius === undefined ? ""
      : " · mem " + v.temperature_memory_celsius + " °C"));
    this.set("clocks", fixed(v.clock_sm_mhz, 1, 0, "") + " · mem " + fixed(v.clock_memory_mhz, 1, 0, " MHz"));
    const throttle = throttleText(gpu);
    setText(this.throttle, throttle);
    this.throttle.classList.toggle("slow", throttle.startsWith("slowed"));
    const reason = (gpu.reasons || [])[0];
    setText(this.why, reason ? reason.text : gpu.state && gpu.state !== "ok" ? gpu.state_reason || gpu.state : "");
    this.hold(holders, gpu);
  }

  hold(holders, gpu) {
    const pieces = holders.slice(0, HOLDERS_ON_CARD).map((holder) => holderPieces(holder));
    const more = holders.length - pieces.length, mig = (gpu.mig || []).length;
    const isFree = gpu.state === "ok" && gpu.health !== "unhealthy", strangers = gpu.strangers || 0;
    const outside = outsidePieces(gpu), claim = gpu.claim || "", isClaimed = gpu.drained || gpu.reserved;
    const now = JSON.stringify([pieces, more, mig, isFree, strangers, outside, claim, isClaimed]);
    if (now === this.held) return;
    this.held = now;
    const nodes = pieces.map((list) => el("span", { class: "holder" }, ...list.map(pieceNode)));
    if (more > 0) nodes.push(el("span", { class: "holder quiet" }, "and " + more + " more"));
    for (const list of outside) nodes.push(el("span", { class: "holder quiet" }, ...list.map(pieceNode)));
    if (strangers > outside.length) nodes.push(el("span", { class: "holder quiet" }, "and " + (strangers - outside.length) + " more"));
    if (nodes.length === 0 && !isClaimed) nodes.push(el("span", { class: "holder quiet" }, isFree ? "free" : "nobody has it; not handed out"));
    if (claim) nodes.push(el("span", { class: "holder claim" }, foreign(claim)));
    if (mig > 0) nodes.push(el("span", { class: "holder quiet" }, mig + " MIG instances"));
    this.holders.replaceChildren(...nodes);
  }
}

function showCards() {
  const of = new Map();
  for (const holder of page.state.holders || []) {
    if (!of.has(holder.gpu)) of.set(holder.gpu, []);
    of.get(holder.gpu).push(holder);
  }
  const cards = $("cards"), gpus = page.state.gpus;
  cards.classList.toggle("dense", gpus.length >= CARDS_DENSE);
  gpus.forEach((gpu, place) => {
    let card = page.cards.get(gpu.uuid);
    if (!card) page.cards.set(gpu.uuid, card = new Card());
    if (cards.children[place] !== card.node) cards.insertBefore(card.node, cards.children[place] || null);
    card.update(gpu, place, of.get(place) || []);
  });
  while (cards.children.length > gpus.length) cards.lastChild.remove();
  for (const uuid of page.cards.keys()) if (!page.gpus.has(uuid)) page.cards.delete(uuid);
}

/* --- charts and their legend ------------------------------------------------------------------ */

function makeCharts() {
  const parent = $("charts");
  const highest = (name, least) => (gpus) => Math.max(least, ...gpus.map((gpu) => gpu.values[name] || 0));
  const both = el("div", { class: "both" });
  page.charts = [
    new Chart(parent, { title: "Utilisation", unit: "% of time", series: "utilization_gpu_percent", scale: 1, digits: 0, top: () => 100 }),
    new Chart(parent, { title: "Memory", unit: "GiB used", series: "memory_used_bytes", scale: GIB, digits: 1, top: highest("memory_total_bytes", GIB) }),
    new Chart(both, { title: "Temperature", unit: "°C", series: "temperature_celsius", scale: 1, digits: 0, top: () => 100 }),
    new Chart(both, { title: "Power", unit: "W", series: "power_mw", scale: 1000, digits: 0, top: highest("power_limit_mw", 100000) }),
  ];
  parent.append(both);
  page.memories = new Map([[1, new Memory(1, 600, page.charts.map((chart) => chart.what.series))],
    [10, new Memory(10, 21600, page.charts.map((chart) => chart.what.series))]]);
  for (const range of RANGES) {
    const button = el("button", { type: "button", "aria-pressed": String(range === page.range) }, range.name);
    button.addEventListener("click", () => {
      page.range = range;
      for (const other of $("ranges").children) other.setAttribute("aria-pressed", String(other === button));
      showCharts();
    });
    $("ranges").append(button);
  }
}

async function loadHistory() {
  if (page.loading) return;
  page.loading = true;
  try {
    await Promise.all([...page.memories.values()].map((memory) => memory.load(page.state.time_unix)));
    page.loaded = Date.now();
    showCharts();
  } catch { /* the lines then begin now */ }
  page.loading = false;
}

function shown(uuid) {
  return page.picked.size === 0 || page.picked.has(uuid);
}

/* `due`: which of the charts, all without it. */
function showCharts(due) {
  const view = {
    memory: page.memories.get(page.range.step), range: page.range, gpus: page.state.gpus, shown,
    events: (page.state.events || []).filter((event) => event.kind === "xid"),
  };
  page.charts.forEach((chart, place) => {
    if (!due || due(place)) chart.draw(view);
  });
}

/* Only this GPU, or with shift this one too. */
function pick(uuid, add) {
  const only = page.picked.size === 1 && page.picked.has(uuid);
  if (!add) page.picked.clear();
  if (add && page.picked.has(uuid)) page.picked.delete(uuid);
  else if (add || !only) page.picked.add(uuid);
  showPicked();
}

function showPicked() {
  for (const button of $("legend").children) button.setAttribute("aria-pressed", String(page.picked.has(button.gpu)));
  const count = page.picked.size;
  setText($("shown"), count === 0 ? "All GPUs are shown. Click or Enter: only that one; with shift: that one too."
    : (count === 1 ? "Only GPU " : "Only GPUs ") + page.state.gpus.filter((gpu) => page.picked.has(gpu.uuid))
      .map((gpu) => gpu.index).join(", ") + ". Esc: all.");
  showCards();
  showCharts();
}

function showLegend() {
  const legend = $("legend"), now = page.state.gpus.map((gpu) => gpu.index + " " + gpu.uuid).join("\n");
  if (page.legend === now) return;
  page.legend = now;
  for (const uuid of page.picked) if (!page.gpus.has(uuid)) page.picked.delete(uuid);
  legend.replaceChildren(...page.state.gpus.map((gpu) => {
    const sample = svg("svg", { viewBox: "0 0 28 8", "aria-hidden": "true", class: "sample" });
    sample.append(svg("path", { d: "M0 4H28", class: lineClass(gpu.index) }));
    const button = el("button", { type: "button", "aria-pressed": "false" }, sample, "GPU " + gpu.index);
    button.gpu = gpu.uuid;
    button.addEventListener("click", (event) => pick(gpu.uuid, event.shiftKey));
    return button;
  }));
  showPicked();
}

/* --- lists ------------------------------------------------------------------------------------ */

function makeTables() {
  page.tables = {
    holders: new Table($("holders"), "Who is on them", ["GPU", "Who", "User", "Mode", "Busy now", "Busy", "Memory", "Processes", "Since"],
      { empty: "Nobody uses a GPU." }),
    jobs: new Table($("jobs"), "Jobs", ["Job", "Name", "User", "State", "GPUs", "Submitted", "Started", "Why"], { empty: "No job waits or runs." }),
    health: new Table($("health"), "Health", ["GPU", "Health", "Why", "What to do"], { empty: "All GPUs are healthy." }),
    events: new Table($("events"), "Events", ["When", "GPU", "How grave", "What", "What to do", "Heard from"], { empty: "Nothing has happened." }),
    resources: new Table($("resources"), "What is handed out", ["Resource", "Units", "Healthy", "Held", "Given so far", "Refused", "Registered"]),
    adapters: new Table($("adapters"), "RDMA adapters", ["Adapter", "Port", "Network", "Layer", "State", "Rate", "Health", "Resource", "Why"]),
  };
}

const MODE_WORDS = { exclusive: "whole GPU", timeslice: "time slice", mps: "MPS share", mig: "MIG instance" };

function showHolders() {
  page.tables.holders.rows((page.state.holders || []).map((holder) => {
    const gpu = page.state.gpus[holder.gpu] || {};
    return [["GPU " + (gpu.index === undefined ? "?" : gpu.index)],
      holderPieces(holder).concat(holder.allocated === false ? [" (was not given it)"] : []),
      [holder.user ? { t: holder.user } : "-"],
      [(MODE_WORDS[holder.mode] || "-") + (holder.slot === undefined ? "" : " " + holder.slot)],
      [{ n: fixed(holder.busy_ratio, 0.01, 0, " %") }],
      [{ n: holder.busy_seconds === undefined ? "-" : duration(holder.busy_seconds) }],
      [{ n: fixed(holder.memory_bytes, GIB, 1, " GiB") }],
      [{ n: String(holder.processes === undefined ? "-" : holder.processes) }],
      [when(holder.since_unix)]];
  }));
}

function showJobs() {
  const state = page.state;
  $("s-jobs").hidden = !state.node.has_queue;
  setText($("queue"), (state.jobs_pending || 0) + " wait, " + (state.jobs_running || 0) + " run, " + (state.jobs_ended || 0) + " have ended.");
  page.tables.jobs.rows((state.jobs || []).map((job) => [[String(job.id)], [{ t: job.name || "" }], [{ t: job.user || "" }],
    [{ t: job.state || "" }], [{ n: String(job.gpus) }], [when(job.submitted_unix)], [when(job.started_unix)],
    [job.reason ? { t: job.reason } : ""]]));
}

function showHealth() {
  const rows = [];
  for (const gpu of page.state.gpus) {
    const reasons = gpu.reasons && gpu.reasons.length ? gpu.reasons
      : gpu.health === "healthy" ? [] : [{ health: gpu.health, text: gpu.state_reason || (gpu.state === "ok" ? "" : gpu.state) || "" }];
    for (const reason of reasons)
      rows.push([["GPU " + gpu.index], [{ h: reason.health || "unknown" }], [{ t: reason.text || "" }], reason.advice ? [{ a: reason.advice }] : ["-"]]);
  }
  setText(page.tables.health.empty, page.state.gpus.length ? "All GPUs are healthy." : "There is no GPU.");
  page.tables.health.rows(rows);
}

function showEvents() {
  page.tables.events.rows((page.state.events || []).slice().reverse().map((event) => [[when(event.time_unix)],
    gpuPieces(event.uuid), [{ h: event.health || "unknown" }],
    (event.xid && !/^XID /.test(event.text) ? ["XID " + event.xid + ": "] : []).concat([{ t: event.text || "" }]), event.advice ? [{ a: event.advice }] : ["-"], [{ t: SOURCE_WORDS[event.source] || event.source || "" }]]));
}

function showResources() {
  const list = page.state.resources || [], number = (value) => [{ n: value === undefined ? "-" : String(value) }];
  $("s-resources").hidden = list.length === 0;
  page.tables.resources.rows(list.map((resource) => [[{ t: resource.name }], number(resource.units), number(resource.healthy),
    number(resource.allocated), number(resource.allocations), number(resource.refused), [resource.registered === undefined ? "-" : resource.registered ? "yes" : "no"]]));
}

function showAdapters() {
  const list = page.state.adapters || [];
  $("s-adapters").hidden = list.length === 0;
  page.tables.adapters.rows(list.map((adapter) => [[{ t: adapter.name }], [{ n: String(adapter.port) }], [{ t: adapter.net || "" }],
    [{ t: adapter.layer || "" }], [{ t: adapter.state || "" }], [{ n: fixed(adapter.rate_bits, 1e9, 0, " Gbit/s") }],
    [{ h: adapter.health || "unknown" }], [{ t: adapter.resource || "" }], [{ t: adapter.reason || "" }]]));
}

/* GPUs, and below each its instances. */
function showMig() {
  const gpus = page.state.gpus.filter((gpu) => (gpu.mig || []).length > 0);
  $("s-mig").hidden = gpus.length === 0;
  const now = JSON.stringify([gpus.map((gpu) => [gpu.index, gpu.name, gpu.mig]), gpus.length > 0 && page.state.holders]);
  if (now === page.mig) return;
  page.mig = now;
  $("mig").replaceChildren(el("ul", { class: "tree" }, ...gpus.map((gpu) => el("li", {}, "GPU " + gpu.index + " ", foreign(gpu.name || ""),
    el("ul", {}, ...gpu.mig.map((mig) => {
      const holders = (page.state.holders || []).filter((holder) => holder.mig_uuid && holder.mig_uuid === mig.uuid);
      const activity = mig.activity && mig.activity.gr_engine;
      return el("li", {}, el("strong", {}, foreign(mig.profile || "")), " instance " + mig.gi + ", compute " + mig.ci + " · " +
        ratio(mig.memory_used_bytes, mig.memory_total_bytes, GIB, 1, " GiB") +
        (activity === undefined ? "" : " · " + fixed(activity, 0.01, 0, " % active")) + " · ",
      ...(holders.length ? holders.flatMap((holder, i) => (i ? [", "] : []).concat(holderPieces(holder)))
        : mig.strangers ? outsidePieces(gpu, mig.uuid).flatMap((list, i) => (i ? [", "] : []).concat(list)) : ["free"]).map(pieceNode),
      el("br"), el("span", { class: "quiet" }, foreign(mig.uuid)));
    }))))));
}

/* --- the whole -------------------------------------------------------------------------------- */

function showNode() {
  const state = page.state, node = state.node;
  setText($("host"), node.host || "");
  setText($("facts"), ["driver " + (node.driver || "-"), "CUDA " + (node.cuda || "-"),
    node.started_unix ? "service up " + duration(state.time_unix - node.started_unix) : "",
    node.boot_unix ? "machine up " + duration(state.time_unix - node.boot_unix) : ""].filter(Boolean).join(" · "));
  $("simulated").hidden = !state.simulated;
  $("time").hidden = state.gpus.length === 0;
  const warnings = [[node.problem, ""], [node.driver_problem === node.problem ? "" : node.driver_problem, "No driver: "], [node.config_error, "The configuration is not in force: "],
    [node.kubelet_error, "Which pod holds what is not known: "]].filter(([text]) => text);
  const now = JSON.stringify(warnings);
  if (page.warnings !== now)
    $("warnings").replaceChildren(...warnings.map(([text, before]) => el("p", { class: "warning" }, before, foreign(text))));
  page.warnings = now;
  const counts = { healthy: 0, degraded: 0, unhealthy: 0, unknown: 0 };
  for (const gpu of state.gpus) counts[gpu.health in counts ? gpu.health : "unknown"]++;
  const bad = ["unhealthy", "degraded", "unknown"].filter((word) => counts[word] > 0);
  const worst = bad[0] || (state.gpus.length ? "healthy" : "unknown");
  const text = state.gpus.length === 0 ? "no GPU" : bad.length === 0 ? (counts.healthy === 1 ? "the GPU is healthy" : "all " + counts.healthy + " GPUs healthy")
    : bad.map((word) => counts[word] + " " + word).join(", ") + " of " + state.gpus.length + (state.gpus.length === 1 ? " GPU" : " GPUs");
  if ($("alerts").textContent !== HEALTH_MARKS[worst] + " " + text)
    $("alerts").replaceChildren(el("a", { href: "#h-health", class: "health " + worst }, HEALTH_MARKS[worst] + " " + text));
  document.title = (bad.length ? text + " · " : "") + (node.host || "") + " · sluice";
  setText($("about"), "sluice " + (node.version || "") + (node.nvml ? " · NVML " + node.nvml : "") +
    (node.has_kubelet ? " · a node of Kubernetes" : "") + (node.has_queue ? " · with a queue of jobs" : "") +
    ". Read-only: nothing here changes the machine.");
}

function showLink() {
  const state = page.state, link = $("link");
  let text = "connecting", kind = "wait";
  if (state && !page.connected) [text, kind] = ["connection lost, data from " + clockText(state.time_unix, true), "lost"];
  else if (state && state.stale) [text, kind] = ["stale: the readings are " + duration(state.age_seconds) + " old", "lost"];
  else if (state) [text, kind] = ["live", "live"];
  setText(link, text);
  link.className = kind;
  document.body.classList.toggle("old", kind === "lost");
}

/* What of the state is different: names of its members, or everything. */
function show(changed) {
  const has = (...names) => !changed || names.some((name) => changed.has(name));
  if (has("node", "gpus", "simulated")) showNode();
  if (has("gpus", "holders")) {
    showLegend();
    showCards();
    showMig();
  }
  if (has("gpus")) showHealth();
  if (has("holders", "gpus")) showHolders();
  if (has("jobs", "jobs_pending", "jobs_running", "jobs_ended", "node")) showJobs();
  if (has("events")) showEvents();
  if (has("resources")) showResources();
  if (has("adapters")) showAdapters();
  showLink();
}

/* When the readings were taken, by the server's clock. */
function readAt(state) {
  return state.time_unix - (state.age_seconds || 0);
}

function takeState(state) {
  const first = page.state === null;
  state.gpus = state.gpus || [];
  for (const gpu of state.gpus) gpu.values = gpu.values || {};
  page.state = state;
  page.read = readAt(state);
  page.gpus = new Map(state.gpus.map((gpu) => [gpu.uuid, gpu]));
  if (first) {
    $("plain").remove();
    makeCharts();
    makeTables();
  }
  $("live").hidden = false;
  $("token").hidden = true;
  show(null);
  loadHistory();
}

function takeSample(sample) {
  const state = page.state, changed = new Set();
  if (!state) return;
  for (const name in sample) {
    if (name === "gpus") continue;
    changed.add(name);
    if (sample[name] === null) delete state[name];
    else state[name] = sample[name];
  }
  for (const news of sample.gpus || []) {
    const gpu = page.gpus.get(news.uuid);
    if (!gpu) {
      page.stream.startAnew(); /* another set of GPUs */
      return;
    }
    changed.add("gpus");
    for (const name in news) {
      if (name === "values") mergeValues(gpu.values, news.values);
      else if (news[name] === null) delete gpu[name];
      else gpu[name] = news[name];
    }
  }
  if (!document.hidden) show(changed);
  /* What is told again, only older, is no reading of now. */
  const read = readAt(state);
  if (Math.abs(read - page.read) < 0.2) return;
  page.read = read;
  let whole = true;
  for (const memory of page.memories.values()) whole = memory.add(state.time_unix, state.gpus) && whole;
  if (!whole || Date.now() - page.loaded > 600000) loadHistory();
  /* Many lines cost time: they are then drawn less often, and one chart after the other. */
  const pause = matchMedia("(prefers-reduced-motion: reduce)").matches ? 5 : Math.ceil(state.gpus.length / 16);
  if (!document.hidden) showCharts((place) => (Math.floor(state.time_unix) + place) % pause === 0);
}

function mergeValues(values, news) {
  for (const name in news) {
    if (news[name] === null) delete values[name];
    else values[name] = news[name];
  }
}

function takeAlert(event) {
  const state = page.state;
  if (!state) return;
  state.events = (state.events || []).filter((other) => other.id !== event.id).concat([event]).slice(-EVENTS_MAX);
  showEvents();
  const gpu = page.gpus.get(event.uuid);
  $("announce").replaceChildren(gpu ? "GPU " + gpu.index + ": " : "", foreign(event.text || ""), " ", foreign(event.advice || ""));
}

function askForToken(wrong) {
  setText($("token-wrong"), wrong ? "This was not the token." : "");
  if (page.state) $("live").hidden = true;
  else $("plain").hidden = true;
  $("token").hidden = false;
  $("token-text").focus();
}

function makeTheme() {
  const apply = (theme) => document.documentElement.setAttribute("data-theme", theme);
  let theme = "";
  try {
    theme = localStorage.getItem("sluice.theme") || "";
  } catch { /* storage may be forbidden: as the system */ }
  apply($("theme").value = theme === "light" || theme === "dark" ? theme : "");
  $("theme").hidden = false;
  $("theme").addEventListener("change", () => {
    apply($("theme").value);
    try {
      localStorage.setItem("sluice.theme", $("theme").value);
    } catch { /* then it is not remembered */ }
  });
}

function start() {
  makeTheme();
  page.stream = new Stream({
    up() {
      page.connected = true;
    },
    down() {
      page.connected = false;
      showLink();
    },
    unauthorized: askForToken,
    event(name, object) {
      if (name === "state") takeState(object);
      else if (name === "sample") takeSample(object);
      else if (name === "alert") takeAlert(object);
    },
  });
  $("token").addEventListener("submit", (event) => {
    event.preventDefault();
    token.set($("token-text").value.trim());
    $("token-text").value = "";
    page.stream.start();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || page.picked.size === 0) return;
    page.picked.clear();
    showPicked();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden || !page.state) return;
    show(null);
    showCharts();
  });
  showLink();
  page.stream.start();
}

start();
