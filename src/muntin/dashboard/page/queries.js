// Queries that a person adds and removes, in SQL or by a form that writes it.

import { element } from "/format.js";

const WINDOWS = {
  tumbling: (stream, time, length) => `TUMBLE(${stream}, ${time}, ${length})`,
  sliding: (stream, time, length, every) => `HOP(${stream}, ${time}, ${every}, ${length})`,
  cumulating: (stream, time, length, every) => `CUMULATE(${stream}, ${time}, ${every}, ${length})`,
  session: (stream, time, length) => `SESSION(${stream}, ${time}, ${length})`,
};
const AGGREGATES = ["AVG", "MAX", "MIN", "SUM", "COUNT", "STDDEV", "MEDIAN"];
const UNITS = { ms: "milliseconds", s: "seconds", m: "minutes", min: "minutes", h: "hours", d: "days" };

// "10s" as SQL says it; plain numbers stay.
export function duration(text) {
  const found = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)?\s*$/.exec(text);
  if (!found) throw new Error(`${text || "nothing"} is no length: write 10s, 500ms, 5m, 2h or 1d.`);
  return found[2] ? `'${found[1]} ${UNITS[found[2]]}'` : found[1];
}

export class Queries {
  constructor(page) {
    this.page = page;
    const find = (name) => document.getElementById(name);
    this.form = find("sql-form");
    this.sql = find("sql");
    this.name = find("sql-name");
    this.said = find("sql-said");
    this.window = find("form-window");
    this.aggregate = find("form-aggregate");
    for (const name of Object.keys(WINDOWS)) this.window.append(element("option", { value: name }, name));
    for (const name of AGGREGATES) this.aggregate.append(element("option", { value: name }, name));
    this.window.addEventListener("change", () => this.shape());
    this.shape();
    find("form-write").addEventListener("click", () => this.write(find("form-length").value, find("form-every").value, find("form-column").value));
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.add(); });
    this.sql.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.add(); }
    });
  }

  shape() {
    document.getElementById("form-every-label").hidden = !["sliding", "cumulating"].includes(this.window.value);
  }

  // Let the form be used only where the server takes queries.
  allow(allowed) {
    this.form.hidden = !allowed;
  }

  write(length, every, column) {
    try {
      const time = this.page.timeColumn ?? "ts", keys = this.page.keyColumns.map(name);
      const place = WINDOWS[this.window.value]("stream", name(time), duration(length), duration(every));
      const what = this.aggregate.value === "COUNT" && !column ? "COUNT(*)" : `${this.aggregate.value}(${name(column || "value")})`;
      const listed = [...keys, "window_start"].join(", ");
      this.sql.value = `SELECT ${listed}, ${what} AS ${name(this.aggregate.value.toLowerCase())}\nFROM ${place}\nGROUP BY ${listed}`;
      this.said.textContent = "";
      this.sql.focus();
    } catch (error) {
      this.said.textContent = error.message;
    }
  }

  async add() {
    const sql = this.sql.value.trim();
    if (!sql) { this.said.textContent = "There is nothing to add yet."; return; }
    try {
      const { header } = await this.page.connection.ask({ type: "add", sql, name: this.name.value.trim() });
      this.said.textContent = `${header.name} was added; it reports windows that it sees whole.`;
      this.sql.value = "";
      this.name.value = "";
    } catch (error) {
      this.said.textContent = error.message;
    }
  }

  async remove(query) {
    try {
      await this.page.connection.ask({ type: "remove", name: query });
      this.said.textContent = `${query} was removed.`;
    } catch (error) {
      this.said.textContent = error.message;
    }
  }
}

function name(text) {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(text) ? text : `"${text.replaceAll('"', '""')}"`;
}
