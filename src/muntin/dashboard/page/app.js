// The page: what is chosen and seen, and what its parts are told.

import { bytes, element, number, save, seconds, Times } from "/format.js";
import { COLORS, Lines } from "/lines.js";
import { Connection } from "/socket.js";
import { Graph } from "/graph.js";
import { Histogram, Strip } from "/strip.js";
import { Queries } from "/queries.js";
import { Timeline } from "/timeline.js";

const find = (name) => document.getElementById(name);
const SPAN = 60e9; // nanoseconds that a page follows at first

class Page {
  constructor() {
    this.times = new Times(0, null);
    this.view = [0, 1];
    this.follows = true;
    this.paused = false;
    this.looksUp = false;
    this.line = null; // [query, column]
    this.keys = []; // numbers of the chosen keys, in the order of their colours
    this.watermark = null;
    this.lateness = null;
    this.state = {};
    this.known = { queries: [], keys: [], key: [] };
    this.wanted = new URLSearchParams(location.hash.slice(1)); // a link holds the view
    this.ready = false;
    this.lines = new Lines(find("chart"), this);
    this.timeline = new Timeline(find("timeline"), find("tip"), this);
    this.strip = new Strip(find("strip"), find("strip-note"), this);
    this.histogram = new Histogram(find("histogram"), find("histogram-note"), this);
    this.graph = new Graph(find("graph"), find("table"), this);
    this.queries = new Queries(this);
    this.bind();
    this.dress(localStorage.getItem("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    this.connection = new Connection({
      status: (text) => this.status(text),
      hello: (header, arrays) => this.hello(header, arrays),
      changed: (header) => this.changed(header),
      update: (header, arrays) => this.update(header, arrays),
      error: (header) => this.note(header.message),
    }, this.wanted.get("stream"));
  }

  // ---- what the server says ----

  hello(header, arrays) {
    this.status("live");
    this.allowed = header.allow_queries;
    this.queries.allow(header.allow_queries);
    this.limits = header.limits;
    this.stream = header.stream;
    find("streams-label").hidden = header.streams.length < 2;
    find("streams").replaceChildren(...header.streams.map((name) => element("option", {
      value: name, ...(name === header.stream ? { selected: "" } : {}),
    }, name)));
    this.timeline.forget();
    this.learn(header);
    this.strip.reset(arrays);
    if (header.span && !this.ready) this.begin(header.span);
    if (header.state.latency) this.apply(header.state);
    this.watch();
    if (this.ready) this.lines.ask();
  }

  changed(header) {
    this.learn(header);
    if (header.span && !this.ready) this.begin(header.span);
    this.watch();
    if (this.ready) this.lines.ask();
  }

  learn(header) {
    const base = header.base ?? "0";
    if (this.times.absolute(0) !== base || this.times.unit !== header.unit) {
      const moved = this.ready ? this.view.map((ticks) => this.times.absolute(ticks)) : null;
      this.times = new Times(base, header.unit);
      if (moved) this.view = moved.map((text) => this.times.relative(text));
      this.lines.build();
      this.strip.build();
    }
    const chosen = this.keys.map((code) => this.known.keys[code]);
    this.known = { queries: header.queries, keys: header.keys, key: header.key };
    this.timeColumn = header.time;
    this.keys = chosen.map((text) => header.keys.indexOf(text)).filter((code) => code >= 0);
    document.title = header.title;
    find("title").textContent = header.title;
    this.lateness = ticksOf(header.graph?.stream.lateness, header.unit);
    this.graph.set(header.graph);
    this.choices();
  }

  begin(span) {
    const from = this.wanted.get("from"), to = this.wanted.get("to");
    if (from && to && /^-?\d+$/.test(from) && /^-?\d+$/.test(to)) {
      this.follows = this.wanted.get("live") === "1";
      this.view = [this.times.relative(from), this.times.relative(to)];
    } else {
      const length = this.times.plain ? Math.max(1, span[1] - span[0]) : SPAN / this.times.unit;
      this.view = [span[1] - length, span[1]];
    }
    this.ready = true;
    this.pressed();
    this.lines.build();
  }

  update(header, arrays) {
    if (!this.ready) { this.apply(header.state); return; } // there is no window to show yet
    if (this.paused) { this.missed = true; return; }
    this.apply(header.state);
    if (this.follows && header.state.newest !== null && header.state.newest !== undefined) this.follow(header.state.newest);
    if (header.line && this.line && header.line.query === this.line[0] && header.line.column === this.line[1]) {
      this.lines.extend(header.line, arrays);
    }
    this.timeline.extend(header, arrays);
    this.lines.redraw();
    this.strip.extend(header.state);
  }

  apply(state) {
    this.state = state;
    this.watermark = state.watermark ?? null;
    find("rate").textContent = number(state.records_per_second);
    find("cost").textContent = number(state.ns_per_record);
    find("latency").textContent = `${seconds(state.latency.p50)} / ${seconds(state.latency.p99)}`;
    find("slices").textContent = number(state.metrics?.slices);
    find("state").textContent = bytes(state.metrics?.state_bytes);
    find("dropped").textContent = `${number(state.changes?.update ?? 0)}, ${number(state.metrics?.late_dropped ?? state.lost)}`;
    this.histogram.set(state.lateness);
    this.graph.numbers(state, this.known.queries, this.allowed, (name) => this.queries.remove(name));
    if (state.ended && !this.paused) this.status("ended");
  }

  // ---- choices ----

  choices() {
    const lines = this.known.queries.flatMap((query) => Object.entries(query.columns)
      .map(([column, kind]) => ({ query: query.name, column, kind })));
    const wanted = this.line ?? (this.wanted.get("line") ? JSON.parse(this.wanted.get("line")) : null);
    const same = (one) => wanted && one.query === wanted[0] && one.column === wanted[1];
    const chosen = lines.find(same) ?? lines.find((one) => one.kind === "m4") ?? lines[0];
    this.line = chosen ? [chosen.query, chosen.column] : null;
    find("line").replaceChildren(...lines.map((one) => element("option", {
      value: JSON.stringify([one.query, one.column]), ...(one === chosen ? { selected: "" } : {}),
    }, `${one.query}: ${one.column}${one.kind === "m4" ? " (M4)" : ""}`)));
    if (!this.keys.length) {
      const texts = this.wanted.get("keys") ? JSON.parse(this.wanted.get("keys")) : null;
      this.keys = texts ? texts.map((text) => this.known.keys.indexOf(text)).filter((code) => code >= 0)
        : this.known.keys.slice(0, 3).map((_, code) => code);
      if (!this.keys.length && this.known.keys.length) this.keys = [0];
    }
    const shown = this.known.keys.slice(0, 2000);
    find("keys").replaceChildren(element("option", { value: "" }, "choose…"), ...shown.map((text, code) =>
      element("option", { value: String(code) }, text)));
    const names = ["", ...this.known.queries.map((query) => query.name)], before = find("export-query").value;
    find("export-query").replaceChildren(...names.map((name) => element("option", {
      value: name, ...(name === before ? { selected: "" } : {}),
    }, name || "all queries")));
    this.chips();
  }

  chips() {
    find("chosen").replaceChildren(...this.keys.map((code, place) => element("button", {
      type: "button", class: `chip color-${place % COLORS}`, title: "Leave out", onclick: () => this.choose(code),
    }, this.keyName(code), element("span", { class: "value", "data-key": String(code) }))));
  }

  choose(code) {
    const at = this.keys.indexOf(code);
    if (at >= 0 && this.keys.length > 1) this.keys.splice(at, 1);
    else if (at < 0 && this.keys.length < (this.limits?.keys ?? 8)) this.keys.push(code);
    this.chips();
    this.watch();
    this.lines.ask();
    this.remember();
  }

  // Tell the server what to tell us: lanes of all queries for the first keys, and one line.
  watch() {
    const most = this.limits?.lanes ?? 24, queries = this.known.queries.map((query) => query.name);
    const per = Math.max(1, Math.min(this.keys.length, Math.floor(most / Math.max(1, queries.length)), 2));
    const lanes = queries.flatMap((query) => this.keys.slice(0, per).map((key) => ({ query, key }))).slice(0, most);
    const line = this.line && this.keys.length ? { query: this.line[0], column: this.line[1], keys: this.keys } : null;
    this.connection.say({ type: "watch", lanes, line });
    this.timeline.set(lanes);
  }

  keyName(code) {
    return this.known.keys[code] ?? "?";
  }

  get keyColumns() {
    return this.known.key;
  }

  family(query) {
    return this.known.queries.find((one) => one.name === query)?.family;
  }

  // ---- the view ----

  follow(newest) {
    const span = this.view[1] - this.view[0];
    this.view = [newest - span, newest];
  }

  show(start, end) {
    const least = this.times.plain ? 4 : Math.max(4, 1e6 / this.times.unit);
    if (end - start < least) { const middle = (start + end) / 2; start = middle - least / 2; end = middle + least / 2; }
    this.view = [start, end];
    this.follows = false;
    this.seen();
  }

  seen() {
    this.pressed();
    this.lines.redraw();
    this.lines.ask();
    this.timeline.redraw();
    this.remember();
  }

  move(by) {
    const [start, end] = this.view, span = end - start;
    this.show(start + span * by, end + span * by);
  }

  zoom(by) {
    const [start, end] = this.view, middle = (start + end) / 2, half = ((end - start) * by) / 2;
    if (this.follows) { this.view = [end - half * 2, end]; this.seen(); } else this.show(middle - half, middle + half);
  }

  live() {
    this.follows = true;
    if (this.state.newest !== undefined && this.state.newest !== null) this.follow(this.state.newest);
    this.seen();
  }

  all() {
    const span = this.state.newest;
    if (span === undefined) return;
    const firsts = [...this.lines.points.values()].map((one) => one.time[0]).filter((one) => one !== undefined);
    this.show(Math.min(0, ...firsts), span);
  }

  pause() {
    this.paused = !this.paused;
    this.status(this.paused ? "paused" : "live");
    if (!this.paused && this.missed) {
      this.missed = false;
      this.timeline.forget();
      this.watch();
      this.lines.ask();
    }
    this.pressed();
  }

  pressed() {
    find("live").setAttribute("aria-pressed", String(this.follows));
    find("pause").setAttribute("aria-pressed", String(this.paused));
    find("pause").textContent = this.paused ? "Go on" : "Pause";
    find("mode").setAttribute("aria-pressed", String(this.looksUp));
  }

  // The address holds what is seen, so that a link shows the same.
  remember() {
    const held = new URLSearchParams({ stream: this.stream });
    if (this.line) held.set("line", JSON.stringify(this.line));
    held.set("keys", JSON.stringify(this.keys.map((code) => this.keyName(code))));
    held.set("from", this.times.absolute(this.view[0]));
    held.set("to", this.times.absolute(this.view[1]));
    held.set("live", this.follows ? "1" : "0");
    history.replaceState(null, "", `#${held}`);
  }

  // ---- what parts ask of the page ----

  pictured(header) {
    const width = this.times.duration(header.step);
    const exact = header.exact ? "exact: the same pixels as all records would give"
      : header.last ? "as fine as slices are kept" : "coarse, the exact one follows";
    this.note(`One column of pixels is ${width}; ${exact}.`);
    find("chart").dataset.exact = String(header.exact);
    find("chart").dataset.pictures = String(Number(find("chart").dataset.pictures ?? 0) + 1);
  }

  note(text) {
    find("chart-note").textContent = text;
  }

  status(text) {
    const shown = this.paused && text === "live" ? "paused" : text;
    find("status").textContent = shown;
    find("status").dataset.kind = shown;
  }

  hovered(at, values = []) {
    for (const place of document.querySelectorAll(".chip .value")) {
      const found = values.find(([code]) => String(code) === place.dataset.key);
      place.textContent = at !== null && found ? ` ${number(found[1])}` : "";
    }
  }

  async lookUp(start, end) {
    const card = find("looked-up"), [query] = this.line ?? [this.known.queries[0]?.name];
    if (!query) return;
    try {
      const rows = [];
      for (const key of this.keys) {
        const { header } = await this.connection.ask({ type: "lookup", query, key, start, end });
        rows.push(...header.rows);
      }
      this.card(card, query, rows, start, end);
    } catch (error) {
      card.replaceChildren(element("p", {}, error.message), this.closing(card));
      card.hidden = false;
    }
  }

  card(card, query, rows, start, end) {
    const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const shown = (value) => (typeof value === "number" ? number(value) : String(value ?? "–"));
    card.replaceChildren(
      element("h3", {}, `${query}, looked up from ${this.times.text(start)} to ${this.times.text(end)}`),
      rows.length ? element("table", {}, element("tr", {}, ...names.map((name) => element("th", {}, name))),
        ...rows.map((row) => element("tr", {}, ...names.map((name) => element("td", {}, shown(row[name]))))))
        : element("p", {}, "No live slice lies in this stretch."), this.closing(card));
    card.hidden = false;
  }

  closing(card) {
    return element("button", { type: "button", onclick: () => { card.hidden = true; } }, "Close");
  }

  async export(format) {
    try {
      const { arrays } = await this.connection.ask({ type: "export", format, query: find("export-query").value });
      save(`windows.${format}`, arrays.file.slice(), format === "csv" ? "text/csv" : "application/vnd.apache.parquet");
    } catch (error) {
      this.note(error.message);
    }
  }

  dress(theme) {
    document.documentElement.dataset.theme = theme;
    find("theme").textContent = theme === "dark" ? "Light" : "Dark";
    localStorage.setItem("theme", theme);
    this.lines.plot?.redraw();
    this.strip.plot?.redraw();
    this.timeline.redraw();
    this.graph.wires();
  }

  // ---- buttons and keys ----

  bind() {
    const actions = {
      pause: () => this.pause(), live: () => this.live(), all: () => this.all(),
      back: () => this.move(-0.4), forth: () => this.move(0.4), in: () => this.zoom(0.5), out: () => this.zoom(2),
      mode: () => { this.looksUp = !this.looksUp; this.pressed(); },
      theme: () => this.dress(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
      help: () => find("keys-help").showModal(),
      png: async () => save("lines.png", await this.lines.picture(), "image/png"),
      csv: () => this.export("csv"), parquet: () => this.export("parquet"),
    };
    for (const [name, action] of Object.entries(actions)) find(name).addEventListener("click", action);
    find("line").addEventListener("change", (event) => {
      this.line = JSON.parse(event.target.value);
      this.lines.points = new Map();
      this.watch();
      this.lines.ask();
      this.remember();
    });
    find("streams").addEventListener("change", (event) => {
      location.hash = new URLSearchParams({ stream: event.target.value });
    });
    find("keys").addEventListener("change", (event) => {
      if (event.target.value !== "") this.choose(Number(event.target.value));
      event.target.value = "";
    });
    const keys = {
      " ": actions.pause, l: actions.live, a: actions.all, u: actions.mode, t: actions.theme, "?": actions.help,
      ArrowLeft: actions.back, ArrowRight: actions.forth, "+": actions.in, "=": actions.in, "-": actions.out,
      q: () => find("sql").focus(),
    };
    document.addEventListener("keydown", (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT|BUTTON|SUMMARY)$/.test(event.target.tagName) || event.target.closest("dialog");
      const plain = !event.ctrlKey && !event.metaKey && !event.altKey;
      const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (action && plain && !typing) { event.preventDefault(); action(); }
    });
    addEventListener("hashchange", () => {
      this.wanted = new URLSearchParams(location.hash.slice(1));
      if ((this.wanted.get("stream") ?? this.stream) !== this.stream) { location.reload(); return; }
      if (this.ready) { this.begin(this.view); this.seen(); }
    });
  }
}

// A duration as explain says it ("1m30s"), in ticks.
function ticksOf(text, unit) {
  if (text === undefined || text === null) return null;
  if (/^\d+$/.test(text)) return Number(text);
  const sizes = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9, d: 86400e9 };
  let total = 0;
  for (const [, count, name] of String(text).matchAll(/(\d+)\s*(ns|us|ms|s|m|h|d)/g)) total += Number(count) * sizes[name];
  return unit ? total / unit : null;
}

window.page = new Page();
