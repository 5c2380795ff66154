// The legend, which lights up one backend everywhere, and the table of all backends.

import { byId, el, say } from "/dom.js";
import { bytes, ms, percent } from "/format.js";

// Rows of a large system before one asks for all.
const ROWS = 12;

export class Legend {
  constructor(host, choice) {
    this.host = host;
    this.choice = choice;
    this.held = null;
  }

  draw() {
    const chip = ({ name, slot }) =>
      el("button", {
        type: "button", class: "chip", "aria-pressed": "false", "data-slot": slot,
        onclick: () => this.hold(slot),
        onpointerenter: () => this.light(slot),
        onpointerleave: () => this.light(null),
      }, el("i", { class: `swatch s-${slot}` }), name);
    this.held = null;
    this.light(null);
    this.host.replaceChildren(...this.choice.series().map(chip));
  }

  hold(slot) {
    this.held = this.held === slot ? null : slot;
    for (const chip of this.host.children) {
      chip.setAttribute("aria-pressed", String(chip.dataset.slot === String(this.held)));
    }
    this.light(null);
  }

  light(slot) {
    const lit = slot ?? this.held;
    if (lit === null) delete document.body.dataset.lit;
    else document.body.dataset.lit = lit;
  }
}

const COLUMNS = [
  { key: "capacity", title: "Capacity", of: (backend) => backend.capacity, once: true },
  { key: "rbc_share", title: "Blocks the tail", of: (backend) => backend.rbc_share },
  { key: "cache_share", title: "Cache", of: (backend) => backend.cache_share },
  { key: "hit_ratio", title: "Hit ratio", of: (backend) => backend.hit_ratio },
  { key: "in_flight", title: "Waiting", of: (backend) => backend.in_flight, text: waiting },
];

function waiting(backend) {
  return backend.in_flight === 0 ? "0" : `${backend.in_flight}, ${ms(backend.oldest_ms)}`;
}

export class Table {
  constructor(store, choice) {
    this.store = store;
    this.choice = choice;
    this.host = byId("backends-table");
    this.tools = byId("backends-tools");
    this.sort = null;
    this.isDown = true;
    this.showAll = false;
    this.filter = "";
    this.shape = "";
    this.rows = new Map();
  }

  prepare() {
    const { stacks } = this.store.state;
    const shape = stacks.map((stack) => stack.name).join("\n");
    if (shape === this.shape) return;
    this.shape = shape;
    this.rows.clear();
    this.columns = COLUMNS.flatMap((column) =>
      (column.once ? [stacks.length - 1] : [...stacks.keys()]).map((stack) => ({ ...column, stack })));
    const groups = COLUMNS.map((column) =>
      el("th", { scope: "colgroup", colspan: column.once ? 1 : stacks.length }, column.title));
    const heads = this.columns.map((column, index) => this.head(column, index, stacks));
    this.body = el("tbody");
    const name = this.head({ title: "name" }, "name", stacks);
    this.heads = [name, ...heads];
    const head = el("thead", {},
      el("tr", {}, el("th", { scope: "col" }, "Backend"), ...groups), el("tr", {}, ...this.heads));
    this.host.replaceChildren(el("table", {}, head, this.body));
    this.prepareTools();
  }

  head(column, index, stacks) {
    const text = index === "name" ? "name" : column.once ? "now" : stacks[column.stack].name;
    const label = index === "name" ? "Sort by name" : `Sort by ${column.title}, ${text}`;
    const button = el("button", { type: "button", "aria-label": label, onclick: () => this.sortBy(index) }, text);
    return el("th", { scope: "col", "data-index": index }, button);
  }

  prepareTools() {
    this.search = el("input", {
      type: "search", id: "filter", placeholder: "Find a backend", "aria-label": "Find a backend", autocomplete: "off",
      oninput: () => {
        this.filter = this.search.value.trim().toLowerCase();
        this.update();
      },
    });
    this.more = el("button", {
      type: "button",
      onclick: () => {
        this.showAll = !this.showAll;
        this.update();
      },
    });
    this.tools.replaceChildren(this.search, this.more);
  }

  sortBy(index) {
    this.isDown = this.sort === index ? !this.isDown : index !== "name";
    this.sort = index;
    this.update();
  }

  update() {
    this.prepare();
    const { stacks } = this.store.state;
    const backends = stacks[0]?.backends ?? [];
    const isLarge = backends.length > ROWS;
    if (isLarge && this.sort === null) this.sort = stacks.length; // the RBC of the last stack
    for (const head of this.heads) {
      const isSorted = String(this.sort) === head.dataset.index;
      if (isSorted) head.setAttribute("aria-sort", this.isDown ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    const found = this.ordered(backends).filter((place) => backends[place].name.includes(this.filter));
    const shown = this.showAll || this.filter ? found : found.slice(0, ROWS);
    this.tools.hidden = !isLarge;
    this.more.hidden = found.length <= ROWS || this.filter !== "";
    say(this.more, this.showAll ? `Show ${ROWS}` : `Show all ${found.length}`);
    say(byId("backends-note"), isLarge ? `${shown.length} of ${backends.length}` : "");
    const rows = shown.map((place) => this.row(backends[place].name, place));
    if (rows.length !== this.body.children.length || rows.some((row, i) => row !== this.body.children[i])) {
      this.body.replaceChildren(...rows);
    }
  }

  // The places of all backends in the order that was asked for.
  ordered(backends) {
    const places = [...backends.keys()];
    if (this.sort === null) return places;
    const sign = this.isDown ? -1 : 1;
    if (this.sort === "name") {
      return places.sort((a, b) => sign * (backends[a].name < backends[b].name ? -1 : 1));
    }
    const { of, stack } = this.columns[this.sort];
    const value = (place) => of(this.store.state.stacks[stack].backends[place]) ?? -1;
    return places.sort((a, b) => sign * (value(a) - value(b)) || a - b);
  }

  row(name, place) {
    let row = this.rows.get(name);
    if (!row) {
      const swatch = el("i", { class: "swatch" });
      const cells = this.columns.map((column) => {
        const bar = column.text ? null : el("b");
        const text = el("span");
        const last = column.once || column.stack === this.store.state.stacks.length - 1;
        return { bar, text, node: el("td", { class: last ? "last" : "" }, text, bar && el("i", { class: "bar" }, bar)) };
      });
      const head = el("th", { scope: "row" }, swatch, name);
      row = { swatch, cells, node: el("tr", {}, head, ...cells.map((cell) => cell.node)) };
      this.rows.set(name, row);
    }
    const slot = this.choice.slot(name);
    row.swatch.setAttribute("class", `swatch s-${slot}`);
    row.node.setAttribute("class", `series s-${slot}`);
    const { stacks } = this.store.state;
    this.columns.forEach(({ of, text, stack }, index) => {
      const backend = stacks[stack].backends[place];
      const cell = row.cells[index];
      const value = of(backend);
      const digits = stacks[stack].backends.length > ROWS && value < 0.1 ? 1 : 0;
      say(cell.text, text ? text(backend) : percent(value, digits));
      if (!cell.bar) return;
      cell.bar.style.width = `${Math.min((value ?? 0) * 100, 100)}%`;
      if (of !== COLUMNS[2].of) return;
      const limit = backend.limit_bytes === null ? "" : ` of ${bytes(backend.limit_bytes)} allowed`;
      const used = backend.used_bytes === null ? "nobody can say how much is" : bytes(backend.used_bytes);
      cell.node.title = `${used} used${limit}`;
    });
    return row.node;
  }
}
