// The watermark against the clock on the wall, and how late records come.

import uPlot from "/vendor/uPlot.esm.js";
import { color, element } from "/format.js";

const KEPT = 600;

export class Strip {
  constructor(place, note, page) {
    this.place = place;
    this.note = note;
    this.page = page;
    this.wall = [];
    this.newest = [];
    this.watermark = [];
    new ResizeObserver(() => {
      if (this.plot && place.clientWidth) this.plot.setSize({ width: place.clientWidth, height: 170 });
    }).observe(place);
  }

  build() {
    this.plot?.destroy();
    const axis = { stroke: () => color("ink-2"), grid: { stroke: () => color("grid"), width: 1 },
      ticks: { stroke: () => color("grid"), width: 1 }, font: "11px system-ui, sans-serif" };
    const { times } = this.page;
    this.plot = new uPlot({
      width: Math.max(200, this.place.clientWidth), height: 170, legend: { show: false },
      scales: { x: { time: true }, y: { range: (u, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) } },
      axes: [{ ...axis, size: 34, space: 76, values: (u, splits) => splits.map((one) => new Date(one * 1000).toTimeString().slice(0, 8)) }, { ...axis, size: 66, values: (u, splits) => splits.map((one) => times.text(one, 60e9 / (times.unit ?? 1))) }],
      series: [{},
        { label: "newest record", stroke: () => color("line-0"), width: 1.5, points: { show: false } },
        { label: "watermark", stroke: () => color("watermark"), width: 1.5, dash: [5, 3], points: { show: false } },
        { label: "lateness horizon", stroke: () => color("retracted"), width: 1, dash: [2, 3], points: { show: false } }],
    }, this.data(), this.place);
  }

  data() {
    const behind = this.page.lateness;
    return [this.wall, this.newest, this.watermark, this.watermark.map((one) => (one === null || behind === null ? null : one - behind))];
  }

  reset(arrays) {
    const plain = (values) => Array.from(values, (one) => (Number.isNaN(one) ? null : one));
    [this.wall, this.newest, this.watermark] = ["strip_wall", "strip_newest", "strip_watermark"].map((n) => plain(arrays[n] ?? []));
    this.build();
  }

  extend(state) {
    if (state.newest === null || state.newest === undefined) return;
    this.wall.push(state.wall);
    this.newest.push(state.newest);
    this.watermark.push(state.watermark ?? null);
    for (const kept of [this.wall, this.newest, this.watermark]) if (kept.length > KEPT) kept.shift();
    this.plot?.setData(this.data());
    const lag = state.watermark === null ? null : state.newest - state.watermark;
    const { times } = this.page;
    this.note.textContent = state.ended ? "The stream has ended." :
      `Event time over the clock: newest ${times.text(state.newest)}, watermark ${lag === null ? "not set" : `${times.duration(lag)} behind`}` +
      (this.page.lateness ? `, records count for ${times.duration(this.page.lateness)} more.` : ".");
  }
}

export class Histogram {
  constructor(place, note, page) {
    this.place = place;
    this.note = note;
    this.page = page;
    this.at = null; // the bucket that is pointed at
    this.last = null;
  }

  set(lateness) {
    this.last = lateness;
    if (this.place.matches(":hover") || this.place.contains(document.activeElement)) return; // somebody reads it
    const { times } = this.page;
    const buckets = lateness.buckets ?? [];
    const most = Math.max(...buckets.map((one) => one.share), 1e-9);
    const first = buckets.findIndex((one, place) => place > 0 && one.share > 0);
    const rows = buckets.filter((one, place) => place === 0 || (first > 0 && place >= first))
      .map((one) => element("div", {
        class: "bucket", tabindex: "0", title: this.said(one),
        onpointerenter: () => this.point(one), onfocus: () => this.point(one),
      }, element("span", { class: "upto" }, one.upto === 0 ? "in order" : `≤ ${times.duration(one.upto)}`),
      this.bar(one.share / most), element("span", { class: "share" }, percent(one.share))));
    this.place.replaceChildren(...rows);
    this.note.textContent = !lateness.seen ? "No record was looked at yet."
      : this.at ? this.said(this.at)
        : `Of a sample of ${lateness.seen.toLocaleString("en")} records; the latest came ${times.duration(lateness.largest)} behind.`;
  }

  bar(share) {
    const meter = element("span", { class: "fill" });
    const inner = element("i");
    inner.style.width = `${Math.max(share > 0 ? 1 : 0, share * 100)}%`;
    meter.append(inner);
    return meter;
  }

  said(bucket) {
    return `At a delay of ${this.page.times.duration(bucket.upto)}, ${percent(bucket.beyond)} of the records would be late.`;
  }

  point(bucket) {
    this.at = bucket;
    this.note.textContent = this.said(bucket);
  }
}

function percent(share) {
  const value = share * 100;
  return `${value === 0 ? 0 : value < 0.1 ? value.toPrecision(1) : value.toFixed(1)} %`;
}
