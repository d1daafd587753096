// The explain graph: stream, slices, fields and queries, with what each field serves.

import { bytes, color, element, number, seconds } from "/format.js";

const SVG = "http://www.w3.org/2000/svg";

export class Graph {
  constructor(place, table, page) {
    this.place = place;
    this.table = table;
    this.page = page;
    this.boxes = new Map();
    new ResizeObserver(() => this.wires()).observe(place);
  }

  set(graph) {
    this.graph = graph;
    this.boxes.clear();
    if (!graph) {
      this.place.replaceChildren(element("p", { class: "note" }, "This stream runs elsewhere: there is nothing to explain here."));
      return;
    }
    this.place.replaceChildren(...graph.lanes.map((lane, place) => this.lane(graph, lane, place)));
    this.wires();
  }

  lane(graph, lane, place) {
    const stream = graph.stream;
    const columns = element("div", { class: "graph-columns" },
      this.column("Stream", [this.box(`${place}:stream`, stream.in_order ? "in order" : "out of order",
        [`watermark ${stream.watermark}`, `lateness ${stream.lateness}`, lane.where ? `where ${lane.where}` : null])]),
      this.column("Slices", [this.box(`${place}:slices`, "cut once", [...lane.slices, ...lane.memory], lane.decisions)]),
      this.column("Fields", lane.fields.map((field) => this.box(`${place}:f:${field.name}`, field.name,
        [field.shared > 1 ? `shared by ${field.shared} queries` : "for one query"], null, field.shared > 1 ? "shared" : ""))),
      this.column("Queries", lane.queries.map((query) => this.box(`${place}:q:${query.name}`, query.name,
        [query.window, ...query.aggregates, ...query.conditions],
        Object.entries(query.decisions).map(([name, because]) => ({ name: name.replaceAll("_", " "), because }))))));
    const wires = document.createElementNS(SVG, "svg");
    wires.setAttribute("class", "wires");
    wires.setAttribute("aria-hidden", "true");
    return element("div", { class: "graph-lane" }, wires, columns);
  }

  column(title, boxes) {
    return element("div", { class: "graph-column" }, element("h3", {}, title), ...boxes);
  }

  box(name, title, lines, decisions = null, kind = "") {
    const box = element("div", { class: `box ${kind}`, tabindex: "0" }, element("strong", {}, title),
      ...lines.filter(Boolean).map((line) => element("div", {}, line)));
    if (decisions?.length) {
      box.append(element("details", {}, element("summary", {}, "why"),
        ...decisions.map((one) => element("p", {}, `${one.name}${one.decision ? `: ${one.decision}` : ""}. ${one.because}`))));
      box.querySelector("details").addEventListener("toggle", () => this.wires());
    }
    this.boxes.set(name, box);
    for (const event of ["pointerenter", "focus"]) box.addEventListener(event, () => this.wires(name));
    for (const event of ["pointerleave", "blur"]) box.addEventListener(event, () => this.wires());
    return box;
  }

  // Draw lines between boxes; those of one box stand out.
  wires(chosen = null) {
    if (!this.graph) return;
    this.graph.lanes.forEach((lane, place) => {
      const holder = this.place.children[place], svg = holder.querySelector("svg");
      const area = holder.getBoundingClientRect();
      svg.setAttribute("width", area.width);
      svg.setAttribute("height", area.height);
      svg.replaceChildren();
      const pairs = [[`${place}:stream`, `${place}:slices`]];
      for (const field of lane.fields) pairs.push([`${place}:slices`, `${place}:f:${field.name}`]);
      for (const query of lane.queries) {
        for (const field of query.fields) pairs.push([`${place}:f:${field}`, `${place}:q:${query.name}`]);
      }
      for (const [from, to] of pairs) this.wire(svg, area, from, to, chosen);
    });
  }

  wire(svg, area, from, to, chosen) {
    const one = this.boxes.get(from)?.getBoundingClientRect(), other = this.boxes.get(to)?.getBoundingClientRect();
    if (!one || !other || other.left < one.right) return; // stacked, as on a phone
    const x1 = one.right - area.left, y1 = one.top + one.height / 2 - area.top;
    const x2 = other.left - area.left, y2 = other.top + other.height / 2 - area.top;
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("d", `M${x1},${y1}C${(x1 + x2) / 2},${y1} ${(x1 + x2) / 2},${y2} ${x2},${y2}`);
    const stands = chosen && (chosen === from || chosen === to);
    path.setAttribute("stroke", stands ? color("accent") : color("wire"));
    path.setAttribute("stroke-width", stands ? "2.2" : "1.2");
    path.setAttribute("fill", "none");
    svg.append(path);
  }

  // Numbers of each query, and of all of them.
  numbers(state, queries, removable, remove) {
    const head = ["query", "window", "rows out", "windows come after their end by (p50 / p99)", "slices", "state", "combines", ""];
    const rows = queries.map((query) => {
      const delay = state.delays?.[query.name];
      const own = state.query_metrics?.[query.name];
      const button = removable && queries.length > 1
        ? element("button", { type: "button", "data-remove": query.name, onclick: () => remove(query.name) }, "Remove") : "";
      return [query.name, query.window, number(state.rows?.[query.name] ?? 0),
        delay ? `${this.page.times.duration(delay.p50)} / ${this.page.times.duration(delay.p99)}` : "–",
        own ? number(own.slices) : "–", own ? bytes(own.state_bytes) : "–", own ? number(own.combines) : "–", button];
    });
    const cell = (name) => (content) => element(name, {}, content);
    const made = [element("tr", {}, ...head.map(cell("th"))), ...rows.map((row) => element("tr", {}, ...row.map(cell("td"))))];
    const metrics = state.metrics;
    if (metrics) {
      const all = `All: ${number(metrics.windows_emitted)} windows, ${number(metrics.combines)} combines ` +
        `(${number(metrics.update_combines)} to update slices, ${number(metrics.final_combines)} to fold windows), ` +
        `${number(metrics.slices)} slices of ${number(metrics.keys)} keys, ${number(metrics.records_kept)} records kept, ` +
        `${bytes(metrics.state_bytes)}, calls ${seconds(state.latency.p50)} / ${seconds(state.latency.p99)}`;
      made.push(element("tr", {}, element("td", { colspan: String(head.length), class: "note" }, all)));
    }
    for (const [name, value] of Object.entries(state.micro_batch ?? {})) {
      made.push(element("tr", {}, element("td", {}, name), element("td", { colspan: String(head.length - 1) }, typeof value === "number" ? number(value) : String(value))));
    }
    const shape = JSON.stringify([queries.map((query) => query.name), removable, made.length]);
    if (shape === this.shape) this.refresh(made);
    else this.table.replaceChildren(...made);
    this.shape = shape;
  }

  // Put new texts into the rows that are there, so that buttons stay under the pointer.
  refresh(made) {
    made.forEach((row, place) => {
      const shown = this.table.rows[place];
      Array.from(row.cells).forEach((cell, at) => {
        const before = shown.cells[at];
        if (!cell.firstElementChild && before.textContent !== cell.textContent) before.textContent = cell.textContent;
      });
    });
  }
}
