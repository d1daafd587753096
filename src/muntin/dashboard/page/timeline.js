// The window timeline: a lane for each query and chosen key, a bar for each window.

import { color, element, gutter, number } from "/format.js";

const ROW = 15, GAP = 3, HEAD = 22, ROWS = 6;
const RETRACT = 2;
const KEPT = 600; // bars of a lane

export class Timeline {
  constructor(place, tip, page) {
    this.page = page;
    this.tip = tip;
    this.place = place;
    this.canvas = element("canvas", { role: "img" });
    place.append(this.canvas);
    this.lanes = []; // {query, key, bars: Map, open: [], rows}
    this.lost = [];
    this.counted = [];
    this.drawn = []; // bars with their places on the canvas
    this.shared = null; // slices of the bar that is pointed at
    this.pointed = null;
    this.dirty = false;
    new ResizeObserver(() => this.redraw()).observe(place);
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
  }

  // Show these lanes; those that are shown already keep their bars.
  async set(lanes) {
    const name = (lane) => JSON.stringify([lane.query, lane.key]);
    const known = new Map(this.lanes.map((lane) => [name(lane), lane]));
    this.lanes = lanes.map((lane) => known.get(name(lane)) ?? { ...lane, bars: new Map(), open: [], rows: 1 });
    this.redraw();
    for (const lane of this.lanes.filter((one) => !one.asked)) {
      lane.asked = true;
      try {
        const { arrays } = await this.page.connection.ask({ type: "lanes", query: lane.query, key: lane.key });
        for (let i = 0; i < arrays.start.length; i++) {
          this.put(lane, barAt(arrays, "", i), arrays.before[i]);
        }
        this.redraw();
      } catch (error) {
        lane.asked = false;
      }
    }
  }

  forget() {
    for (const lane of this.lanes) { lane.bars.clear(); lane.open = []; lane.asked = false; }
  }

  put(lane, bar, before) {
    const id = `${bar.a}:${bar.b}`, old = lane.bars.get(id);
    if (old && old.revision > bar.revision) return;
    bar.before = old && old.revision < bar.revision ? old.value : before;
    bar.since = old ? performance.now() : 0;
    lane.bars.delete(id);
    lane.bars.set(id, bar);
    if (lane.bars.size > KEPT) lane.bars.delete(lane.bars.keys().next().value);
  }

  extend(header, arrays) {
    let at = 0;
    const lanes = header.lanes.map(([query, key]) => this.lanes.find((one) => one.query === query && one.key === key));
    header.lanes.forEach(([, , count], place) => {
      const lane = lanes[place];
      for (let i = at; i < at + count && lane; i++) {
        const bar = barAt(arrays, "bar_", i);
        this.put(lane, bar, NaN);
      }
      at += count;
    });
    for (const lane of this.lanes) lane.open = [];
    for (let i = 0; i < arrays.open_lane.length; i++) {
      lanes[arrays.open_lane[i]]?.open.push({ start: arrays.open_start[i], end: arrays.open_end[i] });
    }
    this.lost = [...this.lost, ...arrays.lost].slice(-500);
    const gone = new Set(this.lost);
    this.counted = [...this.counted, ...Array.from(arrays.late).filter((ticks) => !gone.has(ticks))].slice(-500);
    this.redraw();
  }

  redraw() {
    if (this.dirty) return;
    this.dirty = true;
    requestAnimationFrame(() => { this.dirty = false; this.draw(); });
  }

  // ---- drawing ----

  draw() {
    const width = this.place.clientWidth, label = gutter();
    const [low, high] = this.page.view, span = high - low;
    this.toPixel = (ticks) => label + ((ticks - low) / span) * (width - label);
    const laid = this.lanes.map((lane) => this.lay(lane, low, high));
    const heights = laid.map(({ rows }) => Math.max(1, rows) * (ROW + GAP) + GAP + 6);
    const height = HEAD + heights.reduce((sum, one) => sum + one, 0) + 4;
    const scale = devicePixelRatio, { canvas } = this;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const ctx = canvas.getContext("2d");
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.font = "11px system-ui, sans-serif";
    ctx.textBaseline = "middle";
    this.axis(ctx, width, height, label);
    this.drawn = [];
    let top = HEAD;
    laid.forEach(({ bars }, place) => {
      this.lane(ctx, this.lanes[place], bars, top, heights[place], width, label, place);
      top += heights[place];
    });
    this.ticks(ctx, label, width);
    this.canvas.setAttribute("aria-label", this.said());
  }

  // Give each bar in view a row in which it meets no other.
  lay(lane, low, high) {
    const known = new Set([...lane.bars.values()].map((bar) => `${bar.start}:${bar.end}`)); // closed meanwhile
    const open = lane.open.filter((one) => !known.has(`${one.start}:${one.end}`));
    const bars = [...lane.bars.values(), ...open.map((one) => ({ ...one, open: true, value: NaN }))]
      .filter((bar) => bar.end >= low && bar.start <= high)
      .sort((a, b) => a.start - b.start || a.end - b.end);
    const ends = [];
    for (const bar of bars) {
      let row = ends.findIndex((end) => end <= bar.start);
      if (row < 0) row = ends.length < ROWS ? ends.length : ends.indexOf(Math.min(...ends));
      ends[row] = Math.max(ends[row] ?? -Infinity, bar.end);
      bar.row = row;
    }
    return { bars, rows: ends.length };
  }

  axis(ctx, width, height, label) {
    const [low, high] = this.page.view, span = high - low;
    const count = Math.max(2, Math.floor((width - label) / 110));
    ctx.textAlign = "center";
    for (const ticks of this.page.times.marks(low, high, count)) {
      const x = Math.round(this.toPixel(ticks)) + 0.5;
      ctx.strokeStyle = color("grid");
      ctx.beginPath();
      ctx.moveTo(x, HEAD - 5);
      ctx.lineTo(x, height);
      ctx.stroke();
      if (x < label + 24 || x > width - 24) continue;
      ctx.fillStyle = color("ink-2");
      ctx.fillText(this.page.times.text(ticks, span), x, 8);
    }
    const mark = this.page.watermark;
    if (mark !== null && mark >= low && mark <= high) {
      const x = this.toPixel(mark);
      ctx.strokeStyle = color("watermark");
      ctx.setLineDash([4, 3]);
      ctx.beginPath();
      ctx.moveTo(x, HEAD - 5);
      ctx.lineTo(x, height);
      ctx.stroke();
      ctx.setLineDash([]);
    }
  }

  lane(ctx, lane, bars, top, height, width, label, place) {
    ctx.fillStyle = place % 2 ? "transparent" : color("stripe");
    ctx.fillRect(0, top, width, height);
    ctx.save();
    ctx.beginPath();
    ctx.rect(label, top, width - label, height);
    ctx.clip();
    for (const bar of bars) {
      const x = this.toPixel(bar.start), w = Math.max(2, this.toPixel(bar.end) - x - 1);
      const y = top + GAP + 2 + bar.row * (ROW + GAP);
      this.drawn.push({ lane, bar, x, y, w, h: ROW });
      this.bar(ctx, lane, bar, x, y, w);
    }
    if (this.pointed && this.shared && this.pointed.lane === lane) this.slices(ctx, top + height - 4);
    ctx.restore();
    ctx.textAlign = "left";
    ctx.fillStyle = color("ink");
    fit(ctx, lane.query, 6, top + height / 2 - (height > 26 ? 6 : 0), label - 12);
    if (height > 26) {
      ctx.fillStyle = color("ink-2");
      fit(ctx, this.page.keyName(lane.key), 6, top + height / 2 + 7, label - 12);
    }
  }

  bar(ctx, lane, bar, x, y, w) {
    const kind = kindOf(bar), fresh = bar.since && performance.now() - bar.since < 2500;
    ctx.globalAlpha = this.shared && !this.shares(lane, bar) ? 0.3 : 1;
    ctx.fillStyle = color(`${kind}-fill`);
    ctx.strokeStyle = color(kind);
    ctx.lineWidth = fresh ? 2.5 : 1;
    ctx.setLineDash(kind === "open" ? [3, 3] : []);
    ctx.beginPath();
    ctx.roundRect(x + 0.5, y + 0.5, Math.max(1, w - 1), ROW - 1, 2);
    ctx.fill();
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.lineWidth = 1;
    if (kind === "retracted") {
      ctx.beginPath();
      ctx.moveTo(x, y + ROW / 2);
      ctx.lineTo(x + w, y + ROW / 2);
      ctx.stroke();
    } else if (w > 34 && !Number.isNaN(bar.value) && bar.value !== undefined) {
      ctx.fillStyle = color("ink");
      ctx.textAlign = "left";
      const left = Math.max(x, gutter());
      fit(ctx, textOf(bar), left + 4, y + ROW / 2 + 0.5, x + w - left - 7);
    }
    ctx.globalAlpha = 1;
  }

  slices(ctx, y) {
    ctx.lineWidth = 3;
    this.shared.forEach((slice, place) => {
      ctx.strokeStyle = color(place % 2 ? "slice-b" : "slice-a");
      const x = this.toPixel(slice.start);
      const next = this.shared[place + 1]?.start ?? Math.max(slice.last, this.pointed.bar.end);
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(Math.max(x + 2, this.toPixel(next) - 1), y);
      ctx.stroke();
    });
    ctx.lineWidth = 1;
  }

  ticks(ctx, label, width) {
    for (const [times, name, y] of [[this.lost, "lost", 15], [this.counted, "corrected", 18]]) {
      ctx.strokeStyle = color(name);
      for (const ticks of times) {
        const x = this.toPixel(ticks);
        if (x < label || x > width) continue;
        ctx.beginPath();
        ctx.moveTo(x, y - 3);
        ctx.lineTo(x, y + 3);
        ctx.stroke();
      }
    }
  }

  // What a screen reader says instead of the picture.
  said() {
    const kinds = { open: 0, closed: 0, corrected: 0, retracted: 0 };
    for (const { bar } of this.drawn) kinds[kindOf(bar)]++;
    const words = Object.entries(kinds).map(([kind, count]) => `${count} ${kind}`).join(", ");
    return `Windows in view: ${words}`;
  }

  // ---- pointing ----

  async point(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const hit = this.drawn.findLast((one) => x >= one.x - 1 && x <= one.x + one.w + 1 && y >= one.y && y <= one.y + one.h);
    if (!hit) { this.leave(); return; }
    this.place_tip(event, box);
    if (this.pointed && this.pointed.lane === hit.lane && same(this.pointed.bar, hit.bar)) return;
    this.pointed = hit;
    this.shared = null;
    this.tell(hit, null, null);
    const { lane, bar } = hit;
    const about = { query: lane.query, key: lane.key };
    const [revisions, slices] = await Promise.allSettled([
      bar.open ? Promise.resolve(null) : this.page.connection.ask({ type: "window", ...about, a: bar.a, b: bar.b }),
      this.page.connection.ask({ type: "slices", ...about, start: bar.start, end: Math.max(bar.end, bar.start + 1) }),
    ]);
    if (this.pointed !== hit) return;
    this.shared = slices.status === "fulfilled" ? slices.value.header.slices : null;
    this.tell(hit, revisions.value?.header.revisions, this.shared);
    this.redraw();
  }

  leave() {
    if (!this.pointed) return;
    this.pointed = null;
    this.shared = null;
    this.tip.hidden = true;
    this.redraw();
  }

  place_tip(event, box) {
    const left = Math.min(event.clientX - box.left + 14, box.width - 290);
    this.tip.style.left = `${Math.max(4, left)}px`;
    this.tip.style.top = `${event.clientY - box.top + this.canvas.offsetTop + 18}px`;
    this.tip.hidden = false;
  }

  // Whether a bar has a slice in common with the one that is pointed at.
  shares(lane, bar) {
    if (lane === this.pointed.lane && same(bar, this.pointed.bar)) return true;
    if (lane.key !== this.pointed.lane.key || this.page.family(lane.query) !== this.page.family(this.pointed.lane.query)) return false;
    return this.shared.some((slice) => slice.first >= bar.start && slice.last < bar.end);
  }

  tell({ lane, bar }, revisions, slices) {
    const { times } = this.page, kind = kindOf(bar);
    const lines = [
      element("strong", {}, `${lane.query} · ${this.page.keyName(lane.key)}`),
      element("div", {}, `${times.text(bar.start)} to ${times.text(bar.end)}`),
      element("div", { class: kind }, kind === "corrected" ? `corrected, revision ${bar.revision}` : kind),
    ];
    if (revisions?.length) {
      const fixed = new Set(["query", "window_start", "window_end", "window_id", "change", ...this.page.keyColumns]);
      for (const row of revisions.slice(-5)) {
        const values = Object.entries(row).filter(([name]) => !fixed.has(name) && name !== "revision");
        const text = values.map(([name, value]) => `${name} ${typeof value === "number" ? number(value) : value}`);
        lines.push(element("div", { class: row.change }, `${row.revision}: ${text.join(", ") || "taken back"}`));
      }
    }
    if (slices) {
      const others = this.drawn.filter((one) => this.shared && this.shares(one.lane, one.bar)).length - 1;
      const records = slices.reduce((sum, slice) => sum + slice.records, 0);
      lines.push(element("div", { class: "slices" }, slices.length
        ? `${slices.length} slices, ${number(records)} records; ${others} other windows in view share them`
        : "its slices are not held any more"));
      if (slices.length) {
        const list = slices.slice(0, 6).map((one) => `${times.text(one.start)} (${number(one.records)})`).join(", ");
        lines.push(element("div", { class: "slices" }, list + (slices.length > 6 ? ", …" : "")));
      }
    }
    this.tip.replaceChildren(...lines);
  }
}

function barAt(arrays, prefix, i) {
  const bar = {};
  for (const name of ["start", "end", "a", "b", "revision", "change", "value"]) bar[name] = arrays[prefix + name][i];
  return bar;
}

function same(one, other) {
  return one.open === other.open && one.start === other.start && one.end === other.end && one.a === other.a && one.b === other.b;
}

export function kindOf(bar) {
  if (bar.open) return "open";
  if (bar.change === RETRACT) return "retracted";
  return bar.revision > 0 ? "corrected" : "closed";
}

function textOf(bar) {
  const old = bar.revision > 0 && !Number.isNaN(bar.before) && number(bar.before) !== number(bar.value);
  return old ? `${number(bar.before)} → ${number(bar.value)}` : number(bar.value);
}

function fit(ctx, text, x, y, width) {
  if (width < 12) return;
  let shown = text;
  while (shown.length > 1 && ctx.measureText(shown).width > width) shown = shown.slice(0, -2);
  ctx.fillText(shown === text ? text : `${shown.slice(0, -1)}…`, x, y);
}
