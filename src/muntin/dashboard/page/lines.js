// M4 lines: at most four points for each column of pixels and key, asked of the server for each view.

import uPlot from "/vendor/uPlot.esm.js";
import { color, gutter, number } from "/format.js";

export const COLORS = 8;
const AGAIN = 4000; // ms after which a view that follows the stream is asked for anew

export class Lines {
  constructor(place, page) {
    this.place = place;
    this.page = page; // connection, times, view, what is chosen
    this.points = new Map(); // by key: {time, value}
    this.exact = true;
    this.step = 1;
    this.plot = null;
    this.asking = false;
    this.again = false;
    this.asked = 0;
    new ResizeObserver(() => this.resize()).observe(place);
  }

  get height() {
    return Math.max(180, Math.min(360, Math.round(window.innerHeight * 0.36)));
  }

  build() {
    this.plot?.destroy();
    const page = this.page, lines = this;
    const axis = { stroke: () => color("ink-2"), grid: { stroke: () => color("grid"), width: 1 },
      ticks: { stroke: () => color("grid"), width: 1 }, font: "11px system-ui, sans-serif" };
    const options = {
      width: Math.max(200, this.place.clientWidth), height: this.height, legend: { show: false },
      scales: {
        x: { time: !page.times.plain, range: () => page.view.map((ticks) => page.times.toX(ticks)) },
        y: { range: () => lines.range() },
      },
      tzDate: (ts) => uPlot.tzDate(new Date(ts * 1000), "Etc/UTC"),
      padding: [8, 0, 0, 0],
      axes: [{ ...axis, space: 80, size: 34, values: (u, splits) => splits.map((one) => page.times.text(page.times.fromX(one), page.view[1] - page.view[0])) },
        { ...axis, size: gutter, values: (u, splits) => splits.map(number) }],
      series: [{}, { show: true, stroke: "transparent", points: { show: false } }],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      hooks: {
        draw: [(u) => lines.draw(u)],
        setSelect: [(u) => lines.selected(u)],
        setCursor: [(u) => lines.hovered(u)],
      },
    };
    this.plot = new uPlot(options, [[0, 1], [null, null]], this.place);
    this.plot.over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.plot.over.addEventListener("mousedown", (event) => { this.shift = event.shiftKey; });
    this.touches();
  }

  resize() {
    if (this.plot && this.place.clientWidth) {
      this.plot.setSize({ width: this.place.clientWidth, height: this.height });
      this.ask();
    }
  }

  // The least and greatest value in view, with some room.
  range() {
    const [low, high] = this.page.view;
    let least = Infinity, greatest = -Infinity;
    for (const { time, value } of this.points.values()) {
      for (let i = 0; i < time.length; i++) {
        if (time[i] >= low && time[i] <= high) {
          if (value[i] < least) least = value[i];
          if (value[i] > greatest) greatest = value[i];
        }
      }
    }
    if (least > greatest) return [0, 1];
    const room = (greatest - least || Math.abs(greatest) || 1) * 0.06;
    return [least - room, greatest + room];
  }

  draw(u) {
    const { ctx } = u, { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.lineWidth = Math.max(1, devicePixelRatio);
    ctx.lineJoin = "round";
    this.page.keys.forEach((code, place) => {
      const points = this.points.get(code);
      if (!points) return;
      ctx.strokeStyle = color(`line-${place % COLORS}`);
      ctx.beginPath();
      for (let i = 0; i < points.time.length; i++) {
        const x = u.valToPos(this.page.times.toX(points.time[i]), "x", true);
        const y = u.valToPos(points.value[i], "y", true);
        if (i) ctx.lineTo(x, y); else ctx.moveTo(x, y);
      }
      ctx.stroke();
    });
    const mark = this.page.watermark;
    if (mark !== null) {
      const x = u.valToPos(this.page.times.toX(mark), "x", true);
      ctx.strokeStyle = color("watermark");
      ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, top + height);
      ctx.stroke();
    }
    ctx.restore();
  }

  redraw() {
    if (!this.plot) return;
    this.plot.setData([this.page.view.map((ticks) => this.page.times.toX(ticks)), [null, null]]);
  }

  // ---- the server's answers ----

  async ask() {
    if (!this.page.line || !this.page.keys.length || !this.plot) return;
    if (this.asking) { this.again = true; return; }
    this.asking = true;
    this.asked = performance.now();
    const [start, end] = this.page.view;
    const width = Math.max(1, Math.min(8192, Math.round(this.plot.bbox.width)));
    const [query, column] = this.page.line;
    const question = { type: "view", query, column, keys: this.page.keys, start, end, width };
    try {
      const { header, arrays } = await this.page.connection.ask(question, (...part) => this.take(...part));
      this.take(header, arrays);
    } catch (error) {
      this.page.note(error.message);
    } finally {
      this.asking = false;
      if (this.again) { this.again = false; this.ask(); }
    }
  }

  take(header, arrays) {
    this.points = new Map();
    const { code, time, value } = arrays;
    for (let begin = 0; begin < code.length;) {
      let end = begin;
      while (end < code.length && code[end] === code[begin]) end++;
      this.points.set(code[begin], {
        time: Array.from(time.subarray(begin, end)), value: Array.from(value.subarray(begin, end)),
      });
      begin = end;
    }
    this.exact = header.exact;
    this.step = header.step;
    this.told = header.last;
    this.page.pictured(header);
    this.redraw();
  }

  // Slices that came since: behind those that are drawn, or the view must be asked for again.
  extend(line, arrays) {
    const count = arrays.line_code.length;
    let stale = line.revised && count > 0;
    for (let i = 0; i < count; i++) {
      if (Number.isNaN(arrays.line_first[i])) continue;
      const code = arrays.line_code[i];
      if (!this.points.has(code)) this.points.set(code, { time: [], value: [] });
      const points = this.points.get(code);
      const last = points.time.length ? points.time[points.time.length - 1] : -Infinity;
      if (arrays.line_first_time[i] < last) { stale = true; continue; }
      const four = ["first", "min", "max", "last"].map((n) => [arrays[`line_${n}_time`][i], arrays[`line_${n}`][i]]);
      four.sort((a, b) => a[0] - b[0]);
      for (const [time, value] of four) { points.time.push(time); points.value.push(value); }
    }
    const aged = performance.now() - this.asked;
    if ((stale && aged > 900) || (this.page.follows && aged > AGAIN)) this.ask();
  }

  // ---- what a person does ----

  selected(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    const [start, end] = [left, left + width].map((at) => this.page.times.fromX(u.posToVal(at, "x")));
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (this.shift || this.page.looksUp) this.page.lookUp(start, end);
    else this.page.show(start, end);
  }

  hovered(u) {
    const { left } = u.cursor;
    if (left === null || left === undefined || left < 0) { this.page.hovered(null); return; }
    const at = this.page.times.fromX(u.posToVal(left, "x"));
    const found = this.page.keys.map((code) => [code, nearest(this.points.get(code), at)]);
    this.page.hovered(at, found.filter(([, value]) => value !== null));
  }

  wheel(event) {
    event.preventDefault();
    const [start, end] = this.page.view;
    const at = start + ((end - start) * event.offsetX) / this.plot.over.clientWidth;
    const by = event.deltaY > 0 ? 1.25 : 0.8;
    this.page.show(at - (at - start) * by, at + (end - at) * by);
  }

  // Two fingers zoom; one finger drags a stretch, as a mouse does.
  touches() {
    let before = null;
    const over = this.plot.over;
    const spread = (event) => [event.touches[0], event.touches[1]].map((one) => one.clientX - over.getBoundingClientRect().left);
    over.addEventListener("touchstart", (event) => {
      if (event.touches.length === 2) before = { at: spread(event), view: [...this.page.view] };
    }, { passive: true });
    over.addEventListener("touchmove", (event) => {
      if (!before || event.touches.length !== 2) return;
      event.preventDefault();
      const [a, b] = before.at, [c, d] = spread(event), [start, end] = before.view, width = over.clientWidth;
      if (Math.abs(d - c) < 8) return;
      const scale = (b - a) / (d - c), span = (end - start) * scale;
      const left = start + ((end - start) * (a + b)) / 2 / width - (span * (c + d)) / 2 / width;
      this.page.show(left, left + span);
    }, { passive: false });
    over.addEventListener("touchend", () => { before = null; });
  }

  picture() {
    const from = this.plot.ctx.canvas, made = document.createElement("canvas");
    made.width = from.width;
    made.height = from.height;
    const ctx = made.getContext("2d");
    ctx.fillStyle = color("surface");
    ctx.fillRect(0, 0, made.width, made.height);
    ctx.drawImage(from, 0, 0);
    return new Promise((resolve) => made.toBlob(resolve, "image/png"));
  }
}

function nearest(points, at) {
  if (!points || !points.time.length) return null;
  let low = 0, high = points.time.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points.time[middle] < at) low = middle + 1; else high = middle;
  }
  if (low > 0 && at - points.time[low - 1] < points.time[low] - at) low--;
  return points.value[low];
}
