/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readings over time: what the server remembers and what came since, and a line for each GPU in
 * SVG, with a table behind it. Knows GPUs by UUID and index only.
 */

const SVG = "http://www.w3.org/2000/svg";
const POINTS_MAX = 600; /* drawn of one line; more are joined, the highest of them counts */
const RANGES = [
  { name: "10 min", seconds: 600, step: 1, tick: 120 },
  { name: "1 h", seconds: 3600, step: 10, tick: 900 },
  { name: "6 h", seconds: 21600, step: 10, tick: 3600 },
];

/* A line's colour, and its dashes: together different for 64 GPUs. */
function lineClass(index) {
  return "line c" + index % 8 + " d" + (index % 4 + Math.floor(index / 8)) % 8;
}

function clockText(unix, seconds) {
  return new Date(unix * 1000).toLocaleTimeString("en-GB",
    { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined });
}

/* Equally spaced readings of all GPUs, for each series, of one resolution; the last at `end`. */
class Memory {
  constructor(step, seconds, series) {
    this.step = step;
    this.length = seconds / step;
    this.series = series;
    this.end = 0;
    this.of = new Map(); /* series -> UUID -> readings */
  }

  /* `now`: the server's clock. */
  async load(now) {
    const since = Math.floor(now) - this.step * this.length;
    const answers = await Promise.all(this.series.map((name) => ask(
      "api/v1/history?series=" + name + "&since=" + Math.max(0, since) + "&resolution=" + this.step)));
    const end = Math.max(...answers.map((answer) => answer.end_unix || 0));
    const of = new Map();
    for (const answer of answers) {
      const late = end > 0 ? Math.round((end - answer.end_unix) / this.step) : 0;
      of.set(answer.series, new Map(answer.gpus.map((gpu) =>
        [gpu.uuid, gpu.values.concat(new Array(Math.min(late, this.length)).fill(null)).slice(-this.length)])));
    }
    this.end = end;
    this.of = of;
  }

  /* Readings at `time`; false: there was a gap, what is between should be loaded. */
  add(time, gpus) {
    const steps = this.end > 0 ? Math.floor((time - this.end) / this.step + (this.step === 1 ? 0.5 : 0)) : 1;
    if (steps === 0) return true;
    if (steps < 0 || steps > 5) return false;
    this.end = this.end > 0 ? this.end + steps * this.step : time;
    for (const name of this.series) {
      const readings = this.of.get(name) || new Map();
      for (const gpu of gpus) {
        const list = readings.get(gpu.uuid) || [];
        const value = gpu.values[name];
        for (let i = 1; i < steps; i++) list.push(null);
        list.push(value === undefined ? null : value);
        readings.set(gpu.uuid, list.slice(-this.length));
      }
      this.of.set(name, readings);
    }
    return true;
  }

  /* `count` readings of a GPU up to the end; null where there is none. */
  list(name, uuid, count) {
    const readings = (this.of.get(name) || new Map()).get(uuid) || [];
    const tail = readings.slice(-count);
    return new Array(count - tail.length).fill(null).concat(tail);
  }
}

function svg(tag, attributes) {
  const node = document.createElementNS(SVG, tag);
  for (const name in attributes) node.setAttribute(name, attributes[name]);
  return node;
}

/* One plot. `what`: title, unit, series, scale (readings for one unit), digits, top (of all GPUs). */
class Chart {
  constructor(parent, what) {
    this.what = what;
    this.paths = new Map();
    this.id = "chart-" + what.series;
    this.picture = svg("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", role: "img" });
    this.grid = svg("path", { class: "grid" });
    this.marks = svg("path", { class: "marks" });
    this.cursor = svg("path", { class: "cursor" });
    this.picture.append(this.grid, this.marks, this.cursor);
    this.left = el("div", { class: "ys", "aria-hidden": "true" });
    this.below = el("div", { class: "xs", "aria-hidden": "true" });
    this.tip = el("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    this.details = el("details", {}, el("summary", {}, what.title + " as a table"));
    this.table = new Table(this.details, what.title, ["GPU"], { narrow: true });
    this.details.addEventListener("toggle", () => this.draw(this.last));
    const plot = el("div", { class: "plot" }, this.picture, this.tip);
    plot.addEventListener("pointermove", (event) => this.point(event));
    plot.addEventListener("pointerleave", () => this.leave());
    parent.append(el("figure", { class: "chart", "aria-labelledby": this.id },
      el("figcaption", {}, el("h3", { id: this.id }, what.title), el("span", { class: "quiet" }, what.unit)),
      el("div", { class: "frame" }, this.left, plot, this.below), this.details));
  }

  text(value) {
    return value === null || value === undefined ? "-" : (value / this.what.scale).toFixed(this.what.digits);
  }

  /* `view`: memory, range, gpus in order, shown(uuid), events. */
  draw(view) {
    if (!view || !view.memory) return;
    this.last = view;
    const count = view.range.seconds / view.range.step;
    const top = this.what.top(view.gpus, (uuid) => view.memory.list(this.what.series, uuid, count));
    this.lines(view, count, top);
    this.axes(view, count, top);
    if (this.details.open) this.fill(view, count);
    if (this.pointed !== undefined) this.show();
  }

  lines(view, count, top) {
    const join = Math.ceil(count / POINTS_MAX), seen = new Set();
    for (const gpu of view.gpus) {
      let path = this.paths.get(gpu.uuid);
      if (!path) {
        this.paths.set(gpu.uuid, path = svg("path", {}));
        this.picture.append(path);
      }
      seen.add(gpu.uuid);
      const shown = view.shown(gpu.uuid);
      path.setAttribute("class", lineClass(gpu.index) + (shown ? "" : " away"));
      path.setAttribute("data-gpu", gpu.index);
      if (shown) path.setAttribute("d", this.path(view.memory.list(this.what.series, gpu.uuid, count), join, top));
    }
    for (const [uuid, path] of this.paths) {
      if (seen.has(uuid)) continue;
      path.remove();
      this.paths.delete(uuid);
    }
  }

  path(list, join, top) {
    const last = list.length - 1;
    let d = "", drawing = false;
    for (let i = 0; i < list.length; i += join) {
      let value = list[i];
      for (let k = i + 1; k < i + join && k < list.length; k++)
        if (list[k] !== null && (value === null || list[k] > value)) value = list[k];
      if (value !== null) {
        const x = (i / last * 100).toFixed(2), y = (100 - Math.min(value / top, 1) * 100).toFixed(1);
        d += drawing ? "L" + x + " " + y : "M" + x + " " + y + "h0";
      }
      drawing = value !== null;
    }
    return d;
  }

  axes(view, count, top) {
    const end = view.memory.end, start = end - (count - 1) * view.range.step;
    const place = (time) => (time - start) / (end - start) * 100;
    let grid = "M0 0H100M0 25H100M0 50H100M0 75H100M0 100H100", marks = "";
    const ticks = [];
    for (let time = Math.ceil(start / view.range.tick) * view.range.tick; time <= end; time += view.range.tick) {
      grid += "M" + place(time).toFixed(2) + " 0V100";
      const label = el("span", {}, clockText(time, false));
      label.style.left = place(time) + "%";
      if (place(time) > 4 && place(time) < 96) ticks.push(label);
    }
    for (const event of view.events)
      if (event.time_unix > start && event.time_unix < end) marks += "M" + place(event.time_unix).toFixed(2) + " 0V100";
    this.grid.setAttribute("d", grid);
    this.marks.setAttribute("d", marks);
    this.below.replaceChildren(...ticks);
    this.left.replaceChildren(...[1, 0.75, 0.5, 0.25, 0].map((part) =>
      el("span", {}, (top * part / this.what.scale).toFixed(top * part / this.what.scale % 1 ? 1 : 0))));
    this.picture.setAttribute("aria-label", this.what.title + " of " + view.gpus.filter((gpu) =>
      view.shown(gpu.uuid)).length + " GPUs, " + clockText(start, false) + " to " + clockText(end, false) +
      "; the table below has the numbers");
  }

  /* For each GPU: now, lowest, mean, highest, and six readings on the way. */
  fill(view, count) {
    const at = [0, 1, 2, 3, 4, 5].map((part) => Math.round(part / 5 * (count - 1)));
    const heads = ["GPU", "Lowest", "Mean", "Highest"].concat(at.map((place) =>
      clockText(view.memory.end - (count - 1 - place) * view.range.step, view.range.step === 1)));
    this.table.heads(heads);
    this.table.rows(view.gpus.filter((gpu) => view.shown(gpu.uuid)).map((gpu) => {
      const list = view.memory.list(this.what.series, gpu.uuid, count);
      const known = list.filter((value) => value !== null);
      const sum = known.reduce((total, value) => total + value, 0);
      return [[String(gpu.index)]].concat([
        known.length ? Math.min(...known) : null, known.length ? sum / known.length : null,
        known.length ? Math.max(...known) : null].concat(at.map((place) => list[place]))
        .map((value) => [{ n: this.text(value) }]));
    }));
  }

  point(event) {
    const box = this.picture.getBoundingClientRect();
    this.pointed = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    this.show();
  }

  leave() {
    this.pointed = undefined;
    this.tip.hidden = true;
    this.cursor.setAttribute("d", "");
  }

  show() {
    const view = this.last;
    if (!view) return;
    const count = view.range.seconds / view.range.step, place = Math.round(this.pointed * (count - 1));
    const shown = view.gpus.filter((gpu) => view.shown(gpu.uuid));
    const rows = shown.slice(0, 16).map((gpu) => el("div", {}, "GPU " + gpu.index + "  " +
      this.text(view.memory.list(this.what.series, gpu.uuid, count)[place])));
    if (shown.length > 16) rows.push(el("div", {}, "and " + (shown.length - 16) + " more"));
    this.tip.replaceChildren(el("strong", {}, clockText(view.memory.end - (count - 1 - place) * view.range.step, true)), ...rows);
    this.tip.hidden = false;
    this.tip.classList.toggle("right", this.pointed < 0.5);
    const x = (place / (count - 1) * 100).toFixed(2);
    this.cursor.setAttribute("d", "M" + x + " 0V100");
  }
}
