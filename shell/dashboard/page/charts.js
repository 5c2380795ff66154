// The charts of the page: P99 of all stacks, and per stack who blocks the tail, where the cache goes, and hit ratios.

import { Chart, entryAt, ticks } from "/chart.js";
import { el } from "/dom.js";
import { ms, percent } from "/format.js";

const SPANS_MAX = 12;
const SHARES = [0, 0.25, 0.5, 0.75, 1];
const READOUT_MAX = 9;

export class Charts {
  constructor(store, choice, hosts) {
    this.store = store;
    this.choice = choice;
    this.hosts = hosts;
    this.p99 = new Chart(hosts.p99, { label: "Request P99 over time", height: 270, pick: (time) => this.p99At(time) });
    this.names = el("p", { class: "names" }); // where the chart has no room for them
    hosts.p99.append(this.names);
    this.pairs = [];
    this.stacks = "";
  }

  // A chart of each kind for each stack; new ones when other stacks come.
  prepare() {
    const names = this.store.state.stacks.map((stack) => stack.name);
    if (names.join("\n") === this.stacks) return;
    this.stacks = names.join("\n");
    this.names.replaceChildren(...names.map((name, stack) => el("span", {}, el("i", { class: `swatch stack-${stack}` }), name)));
    const kinds = [
      { host: this.hosts.rbc, key: "rbc_share", kind: "area", label: "Share of the tail by backend" },
      { host: this.hosts.cache, key: "cache_share", kind: "area", label: "Share of the cache by backend" },
      { host: this.hosts.hits, key: "hit_ratio", kind: "line", label: "Hit ratio by backend" },
    ];
    this.pairs = kinds.flatMap(({ host, key, kind, label }) => {
      host.replaceChildren();
      return names.map((name, stack) => {
        const figure = el("figure", {}, el("figcaption", {}, el("i", { class: `swatch stack-${stack}` }), name));
        host.append(figure);
        const pick = (time) => this.sharesAt(time, stack, key);
        const chart = new Chart(figure, { label: `${label}, ${name}`, height: kind === "area" ? 190 : 170, pick });
        return { chart, stack, key, kind };
      });
    });
  }

  update() {
    this.prepare();
    this.p99.set(this.p99Model());
    const series = this.choice.series();
    for (const { chart, stack, key, kind } of this.pairs) chart.set(this.shareModel(series, stack, key, kind));
  }

  p99Model() {
    const { stacks, objective_ms, elapsed_s } = this.store.state;
    let top = Math.max(objective_ms ?? 0, 1);
    for (const { points } of stacks) for (const { p99_ms } of points) top = Math.max(top, p99_ms);
    top *= 1.08;
    const series = stacks.map((stack, index) => {
      const last = stack.points.at(-1);
      return {
        kind: "line",
        slot: `stack-${index}`,
        name: stack.name,
        endText: last ? `${stack.name} ${ms(last.p99_ms)}` : stack.name,
        points: stack.points.map((point) => [point.seconds, point.p99_ms]),
      };
    });
    return {
      x: this.store.span(),
      y: [0, top],
      last: elapsed_s,
      yTicks: ticks(top, 4),
      yText: (value) => `${value} ms`,
      nameWidth: 128,
      series,
      spans: this.spans(),
      rule: objective_ms ? { value: objective_ms, label: `objective ${ms(objective_ms)}` } : null,
      summary: stacks.map((stack) => `${stack.name}: ${ms(stack.points.at(-1)?.p99_ms)}`).join(", "),
    };
  }

  // Stretches of time in which a backend has less than its full capacity.
  spans() {
    const { history, state } = this.store;
    const names = state.stacks[0]?.backends.map((backend) => backend.name) ?? [];
    const spans = [];
    names.forEach((name, place) => {
      let open = null;
      for (const { seconds, capacity } of history) {
        const now = capacity[place];
        const isLow = now !== null && now < 0.999;
        if (isLow && !open) spans.push((open = { from: seconds, to: seconds, low: now, name }));
        else if (isLow) Object.assign(open, { to: seconds, low: Math.min(open.low, now) });
        else open = null;
      }
    });
    const named = spans.map((span) => ({ ...span, label: `${span.name} at ${percent(span.low)}` }));
    return named.sort((a, b) => a.low - b.low).slice(0, SPANS_MAX);
  }

  p99At(time) {
    return this.store.state.stacks
      .map((stack, index) => ({ slot: `stack-${index}`, name: stack.name, points: stack.points }))
      .filter(({ points }) => points.length > 0)
      .map(({ slot, name, points }) => ({ slot, name, text: ms(entryAt(points, time).p99_ms) }));
  }

  shareModel(series, stack, key, kind) {
    const { history, state } = this.store;
    const drawn = series.filter(({ slot }) => kind === "area" || slot !== "others");
    const sums = history.map(() => 0);
    const curves = drawn.map(({ name, slot, places }) => {
      const points = [];
      history.forEach((sample, index) => {
        const list = sample.stacks[stack][key];
        if (kind === "line") {
          const value = list[places[0]];
          if (value !== null) points.push([sample.seconds, value]);
          return;
        }
        const below = sums[index];
        for (const place of places) sums[index] += list[place];
        points.push([sample.seconds, sums[index], below]);
      });
      return { kind, slot, name, points };
    });
    const ends = curves.map(({ name, points }) => {
      const last = points.at(-1);
      return last ? `${name} ${percent(last[1] - (last[2] ?? 0))}` : name;
    });
    return {
      x: this.store.span(),
      y: [0, 1],
      last: state.elapsed_s,
      yTicks: SHARES,
      yText: (value) => percent(value),
      series: curves,
      summary: ends.join(", "),
    };
  }

  sharesAt(time, stack, key) {
    const { history } = this.store;
    if (history.length === 0) return [];
    const list = entryAt(history, time).stacks[stack][key];
    const lines = this.choice.series().flatMap(({ name, slot, places }) => {
      if (key === "hit_ratio" && slot === "others") return [];
      const values = places.map((place) => list[place]);
      if (values[0] === null) return [];
      const value = values.reduce((sum, value) => sum + value, 0);
      return [{ slot, name, text: percent(value, 1), value }];
    });
    // As in the picture, from top to bottom.
    if (key === "hit_ratio") lines.sort((a, b) => b.value - a.value);
    else lines.reverse();
    return lines.slice(0, READOUT_MAX);
  }
}
