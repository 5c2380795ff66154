// One chart over time as SVG: axes, areas or lines, shaded spans, a rule, names at the ends, and a time that all charts share.

import { el, svg } from "/dom.js";
import { seconds } from "/format.js";

const LEFT = 46;
const BOTTOM = 22;
const TOP = 10;
const NAME_GAP = 15;
// Pixels of a chart from which on names stand at the ends of what they name.
const WIDE = 430;

const all = new Set();
let time = null;

// Shows one moment in all charts; `null`: none.
export function setTime(next, from) {
  time = next;
  for (const chart of all) chart.point(chart === from);
}

const round = (value) => Math.round(value * 10) / 10;

// Steps that people count in, about `count` of them up to `top`.
export function ticks(top, count) {
  const rough = top / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= rough);
  const list = [];
  for (let value = 0; value <= top * 1.0001; value += step) list.push(value);
  return list;
}

export class Chart {
  // `pick(time)` gives the lines of the readout: name, slot and text.
  constructor(host, { label, height, pick }) {
    this.label = label;
    this.height = height;
    this.pick = pick;
    this.frame = svg("svg", { role: "img", height });
    this.picture = svg("g");
    this.pointer = svg("line", { class: "pointer", visibility: "hidden" });
    this.frame.append(this.picture, this.pointer);
    this.readout = el("div", { class: "readout", "aria-live": "polite", hidden: true });
    const box = { class: "chart", tabindex: 0, role: "group", "aria-label": `${label}: arrow keys move the time` };
    this.box = el("div", box, this.frame, this.readout);
    host.append(this.box);
    this.listen();
    this.model = null;
    this.width = 0;
    new ResizeObserver(() => this.draw()).observe(this.box);
    all.add(this);
  }

  listen() {
    this.box.addEventListener("pointermove", (event) => {
      const x = event.clientX - this.frame.getBoundingClientRect().left;
      setTime(this.timeAt(x), this);
    });
    this.box.addEventListener("pointerleave", () => setTime(null, this));
    this.box.addEventListener("blur", () => setTime(null, this));
    this.box.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
      if (steps && this.model) {
        const [from, to] = this.model.x;
        const start = time ?? this.model.last;
        const next = start + (steps * (to - from)) / 120;
        setTime(Math.min(Math.max(next, from), this.model.last), this);
      } else if (event.key === "Escape") setTime(null, this);
      else return;
      event.preventDefault();
    });
  }

  timeAt(x) {
    if (!this.model) return null;
    const [from, to] = this.model.x;
    const at = from + ((x - LEFT) / this.inner()) * (to - from);
    return at < from || at > this.model.last ? null : at;
  }

  inner() {
    return Math.max(this.width - LEFT - this.right, 20);
  }

  // model: x and y as [from, to], last (newest time), series, and optionally yTicks, yText, rule, spans, summary.
  set(model) {
    this.model = model;
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth;
    if (!this.model || width === 0) return;
    this.width = width;
    this.names = width >= WIDE;
    this.right = this.names ? this.model.nameWidth ?? 84 : 8;
    this.frame.setAttribute("width", width);
    this.frame.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.frame.setAttribute("aria-label", `${this.label}. ${this.model.summary ?? ""}`);
    const parts = [...this.spans(), ...this.axes(), ...this.model.series.map((one) => this.one(one)), ...this.rule()];
    if (this.names) parts.push(...this.endNames());
    this.picture.replaceChildren(...parts);
    this.point(this.readoutShown);
  }

  x(value) {
    const [from, to] = this.model.x;
    return LEFT + ((value - from) / (to - from)) * this.inner();
  }

  y(value) {
    const [from, to] = this.model.y;
    const whole = this.height - TOP - BOTTOM;
    return TOP + whole - ((Math.min(value, to) - from) / (to - from)) * whole;
  }

  axes() {
    const { yTicks, yText, x } = this.model;
    const parts = [];
    for (const value of yTicks) {
      const y = round(this.y(value));
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: LEFT + this.inner(), y1: y, y2: y }));
      parts.push(svg("text", { class: "tick", x: LEFT - 7, y: y + 4, "text-anchor": "end" }, yText(value)));
    }
    const length = x[1] - x[0];
    const steps = ticks(length, Math.max(2, Math.min(6, this.inner() / 90)));
    for (const step of steps) {
      const at = round(this.x(x[0] + step));
      const anchor = step === 0 ? "start" : at > LEFT + this.inner() - 12 ? "end" : "middle";
      parts.push(svg("text", { class: "tick", x: at, y: this.height - 6, "text-anchor": anchor }, seconds(x[0] + step)));
    }
    return parts;
  }

  spans() {
    const parts = [];
    for (const { from, to, label } of this.model.spans ?? []) {
      const [left, right] = [round(this.x(from)), round(this.x(to))];
      const height = this.height - TOP - BOTTOM;
      parts.push(svg("rect", { class: "span", x: left, y: TOP, width: Math.max(right - left, 1), height }));
      if (label && right - left > label.length * 6) {
        parts.push(svg("text", { class: "span-name", x: (left + right) / 2, y: TOP + 13, "text-anchor": "middle" }, label));
      }
    }
    return parts;
  }

  rule() {
    const { rule } = this.model;
    if (!rule) return [];
    const y = round(this.y(rule.value));
    return [
      svg("line", { class: "rule", x1: LEFT, x2: LEFT + this.inner(), y1: y, y2: y }),
      svg("text", { class: "rule-name", x: LEFT + 5, y: y - 5 }, rule.label),
    ];
  }

  one({ kind, slot, points }) {
    const shown = thin(points, this.inner());
    const top = shown.map(([x, y]) => `${round(this.x(x))} ${round(this.y(y))}`);
    if (kind === "line") return svg("path", { class: `line series s-${slot}`, d: top.length ? `M${top.join("L")}` : "" });
    const back = shown.map(([x, , below]) => `${round(this.x(x))} ${round(this.y(below))}`).reverse();
    return svg("path", { class: `area series s-${slot}`, d: top.length ? `M${top.join("L")}L${back.join("L")}Z` : "" });
  }

  // Names right of the newest points, moved apart where they would cover each other.
  endNames() {
    const names = [];
    for (const { kind, slot, name, points, endText } of this.model.series) {
      const last = points.at(-1);
      if (!last) continue;
      const [x, y, below] = last;
      const thick = kind === "line" ? Infinity : this.y(below) - this.y(y);
      if (thick < 11) continue;
      const middle = kind === "line" ? this.y(y) : (this.y(y) + this.y(below)) / 2;
      names.push({ slot, text: endText ?? name, x: this.x(x) + 7, y: middle });
    }
    names.sort((a, b) => a.y - b.y);
    const floor = this.height - BOTTOM - 2;
    for (let i = 1; i < names.length; i += 1) names[i].y = Math.max(names[i].y, names[i - 1].y + NAME_GAP);
    for (let i = names.length - 1; i >= 0; i -= 1) {
      names[i].y = Math.min(names[i].y, floor - (names.length - 1 - i) * NAME_GAP);
    }
    return names.map(({ slot, text, x, y }) =>
      svg("text", { class: `end-name series s-${slot}`, x: round(x), y: round(y + 4) }, svg("tspan", { class: "dot" }, "\u25cf "), text));
  }

  // Moves the pointer to the shared time, and says what was then, if this is the chart that is looked at.
  point(isLookedAt) {
    this.readoutShown = isLookedAt && time !== null;
    if (time === null || !this.model || !this.width) {
      this.pointer.setAttribute("visibility", "hidden");
      this.readout.hidden = true;
      return;
    }
    const x = round(this.x(time));
    for (const [name, value] of Object.entries({ x1: x, x2: x, y1: TOP, y2: this.height - BOTTOM, visibility: "visible" })) {
      this.pointer.setAttribute(name, value);
    }
    const lines = this.readoutShown ? this.pick(time) : [];
    this.readout.hidden = lines.length === 0;
    if (lines.length === 0) return;
    const line = ({ slot, name, text }) => el("p", {}, el("i", { class: `swatch s-${slot}` }), `${name} `, el("b", {}, text));
    this.readout.replaceChildren(el("p", { class: "quiet" }, `at ${time.toFixed(1)} s`), ...lines.map(line));
    const isRight = x > this.width / 2;
    this.readout.style.left = isRight ? "" : `${x + 10}px`;
    this.readout.style.right = isRight ? `${this.width - x + 10}px` : "";
  }
}

// As many points as there are pixels; of those in one pixel the highest and the newest, so that no peak is lost.
function thin(points, width) {
  if (points.length <= width) return points;
  const kept = [];
  const step = points.length / width;
  for (let pixel = 0; pixel < width; pixel += 1) {
    const part = points.slice(Math.floor(pixel * step), Math.floor((pixel + 1) * step));
    if (part.length === 0) continue;
    kept.push(part.reduce((best, point) => (point[1] > best[1] ? point : best)));
  }
  if (kept.at(-1) !== points.at(-1)) kept.push(points.at(-1));
  return kept;
}

// The newest entry of a list that is ordered by time and not later than `time`.
export function entryAt(list, time) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].seconds <= time) low = middle + 1;
    else high = middle;
  }
  return list[Math.max(low - 1, 0)];
}
