// Numbers and times as people read them.

export class Times {
  // Ticks since `base`, a whole number as a text; `unit` is nanoseconds in a tick, or null for plain numbers.
  constructor(base, unit) {
    this.base = BigInt(base ?? 0);
    this.unit = unit;
  }

  get plain() {
    return this.unit === null;
  }

  // What charts take: seconds since 1970, or plain numbers.
  toX(ticks) {
    if (this.plain) return Number(this.base) + ticks;
    return (Number(this.base) * this.unit) / 1e9 + (ticks * this.unit) / 1e9;
  }

  fromX(x) {
    if (this.plain) return x - Number(this.base);
    return ((x - (Number(this.base) * this.unit) / 1e9) * 1e9) / this.unit;
  }

  absolute(ticks) {
    return (this.base + BigInt(Math.round(ticks))).toString();
  }

  relative(text) {
    return Number(BigInt(text) - this.base);
  }

  // The moment of some ticks; with `span`, as exact as a picture of so many ticks is.
  text(ticks, span = 0) {
    if (ticks === null || ticks === undefined || Number.isNaN(ticks)) return "–";
    if (this.plain) return String(Math.round((Number(this.base) + ticks) * 1000) / 1000);
    const iso = new Date(this.toX(ticks) * 1000).toISOString();
    const day = iso.slice(0, 10), time = iso.slice(11, 23);
    const seconds = (span * this.unit) / 1e9;
    if (seconds > 2 * 86400) return `${day} ${time.slice(0, 5)}`;
    return seconds > 20 ? time.slice(0, 8) : time;
  }

  // Round moments between two times, about so many.
  marks(low, high, count) {
    const [from, to] = [this.toX(low), this.toX(high)], rough = (to - from) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const decimal = [1, 2, 5, 10].map((one) => one * power);
    const steps = this.plain || rough < 10 ? decimal : [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];
    const step = steps.find((one) => one >= rough) ?? Math.ceil(rough / 86400) * 86400;
    const found = [];
    for (let x = Math.ceil(from / step) * step; x < to; x += step) found.push(this.fromX(x));
    return found;
  }

  duration(ticks) {
    if (ticks === null || ticks === undefined) return "–";
    if (this.plain) return number(ticks);
    return seconds((ticks * this.unit) / 1e9);
  }
}

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0 s";
  if (size < 1e-6) return `${number(value * 1e9)} ns`;
  if (size < 1e-3) return `${number(value * 1e6)} µs`;
  if (size < 1) return `${number(value * 1e3)} ms`;
  if (size < 120) return `${number(value)} s`;
  if (size < 7200) return `${number(value / 60)} min`;
  return size < 172800 ? `${number(value / 3600)} h` : `${number(value / 86400)} d`;
}

export function number(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${(value / 1e9).toPrecision(3)} G`;
  if (size >= 1e6) return `${(value / 1e6).toPrecision(3)} M`;
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  if (Number.isInteger(value)) return String(value);
  return size >= 100 ? value.toFixed(1) : String(Number(value.toPrecision(3)));
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= size) return `${(value / size).toPrecision(3)} ${unit}`;
  }
  return `${value} B`;
}

// The width left of all pictures over event time, so that their times lie below one another.
export function gutter() {
  return window.innerWidth < 700 ? 84 : 128;
}

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "class") made.className = value;
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function save(name, data, kind) {
  const url = URL.createObjectURL(data instanceof Blob ? data : new Blob([data], { type: kind }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
