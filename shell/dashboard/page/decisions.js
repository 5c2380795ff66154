// The decisions of the controllers, newest first: what moved, who got and who gave, and why. Holds for one reason are one entry.

import { el, mark, say } from "/dom.js";
import { bytes, ms, percent, signedBytes } from "/format.js";

const SHOWN = 16;
const CHIPS = 2;

export class Decisions {
  constructor(host, note, choice) {
    this.host = host;
    this.choice = choice;
    this.entries = new Map();
    this.note = note;
    this.run = null;
  }

  update(store) {
    if (store.run !== this.run) {
      this.run = store.run;
      this.entries.clear();
      this.newest = undefined;
    }
    const stacks = store.state.stacks.filter((stack) => stack.control);
    this.host.closest("section").hidden = stacks.length === 0;
    const groups = stacks.flatMap((stack) => grouped(stack, stacks.length > 1));
    groups.sort((a, b) => b.newest.seconds - a.newest.seconds);
    const shown = groups.slice(0, SHOWN);
    if (this.isRead(groups)) return;
    const known = new Set(shown.map((group) => group.key));
    for (const key of [...this.entries.keys()]) if (!known.has(key)) this.entries.delete(key);
    const nodes = shown.map((group) => this.entry(group));
    if (nodes.length === 0) nodes.push((this.none ??= el("p", { class: "quiet" }, "No control period is over yet.")));
    if (nodes.length !== this.host.children.length || nodes.some((node, i) => node !== this.host.children[i])) {
      this.host.replaceChildren(...nodes);
    }
  }

  // Whether somebody reads the list: it then stays as it is, and a note says what waits.
  isRead(groups) {
    const isRead = this.newest !== undefined && (this.host.matches(":hover") || this.host.contains(document.activeElement));
    const waiting = isRead ? groups.filter((group) => group.newest.seconds > this.newest).length : 0;
    say(this.note, waiting > 0 ? `${waiting} newer come when you leave the list` : "why did these bytes move?");
    if (!isRead) this.newest = groups[0]?.newest.seconds;
    return isRead;
  }

  entry(group) {
    let entry = this.entries.get(group.key);
    if (!entry) {
      entry = group.newest.hold ? hold() : this.move(group.newest);
      this.entries.set(group.key, entry);
    }
    if (group.newest.hold) {
      const { count, newest } = group;
      say(entry.time, `${newest.seconds.toFixed(1)} s`);
      say(entry.verdict, `${group.prefix}held${count > 1 ? ` for ${count} periods` : ""}`);
      say(entry.why, newest.hold);
    } else {
      say(entry.verdict, `${group.prefix}${verb(group.newest)} ${bytes(group.newest.moved_bytes)}`);
    }
    return entry.node;
  }

  move(decision) {
    const time = el("time", {}, `${decision.seconds.toFixed(1)} s`);
    const verdict = el("b");
    const size = (change) => change.to_bytes - change.from_bytes;
    const up = decision.changes.filter((change) => size(change) > 0).slice(0, CHIPS);
    const down = decision.changes.filter((change) => size(change) < 0).slice(0, CHIPS);
    const chip = (change) => el("span", { class: size(change) > 0 ? "gets" : "gives" },
      el("i", { class: `swatch s-${this.choice.slot(change.backend)}` }), `${change.backend} ${signedBytes(size(change))}`);
    // The cause; what follows from it stands inside.
    const cause = up.length > 0 ? `${up[0].backend} ${up[0].reason.split(":")[0]}` : "";
    const because = el("span", { class: "quiet because" }, cause);
    const summary = el("summary", {}, time, verdict, ...[...up, ...down].map(chip), because);
    const node = el("details", {}, summary);
    // What is inside is made when it is opened first.
    node.addEventListener("toggle", () => node.children.length === 1 && node.append(inside(decision)), { once: true });
    mark(node, "kind", "move");
    return { node, verdict };
  }
}

const verb = (decision) => (decision.mode === "active" ? "moved" : "would move");

function hold() {
  const [time, verdict, why] = [el("time"), el("b"), el("span", { class: "quiet" })];
  const node = el("p", {}, time, verdict, why);
  mark(node, "kind", "hold");
  return { node, time, verdict, why };
}

// Decisions in the order of time, with holds in a row for one reason (but for its numbers) as one.
function grouped(stack, isNamed) {
  const groups = [];
  for (const decision of stack.decisions) {
    const kind = decision.hold?.replace(/[\d.]+/g, "#");
    const last = groups.at(-1);
    if (kind && last?.kind === kind) {
      last.count += 1;
      last.newest = decision;
    } else {
      groups.push({ kind, count: 1, newest: decision, key: `${stack.name}/${decision.period}`, prefix: isNamed ? `${stack.name}: ` : "" });
    }
  }
  return groups;
}

function inside(decision) {
  const heads = ["Backend", "Change", "Limit before", "after", "Holds", "Blocks", "Why"];
  const rows = decision.changes.map((change) => el("tr", {},
    el("th", { scope: "row" }, change.backend),
    el("td", {}, signedBytes(change.to_bytes - change.from_bytes)),
    el("td", {}, bytes(change.from_bytes)),
    el("td", {}, bytes(change.to_bytes)),
    el("td", {}, bytes(change.used_bytes)),
    el("td", {}, percent(change.rbc_share, 1)),
    el("td", { class: "why" }, change.reason)));
  const table = el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col" }, head)))), el("tbody", {}, ...rows));
  const more = decision.more_changes > 0 ? `${decision.more_changes} smaller changes are not listed. ` : "";
  const basis = `Seen: P99 ${ms(decision.p99_ms)}, ${decision.requests_in_band.toFixed(1)} requests in the tail band; step ${percent(decision.step, 2)}.`;
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Changes" }, table, el("p", { class: "quiet" }, more + basis));
}
