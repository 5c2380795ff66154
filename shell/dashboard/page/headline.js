// What to know at a glance: the P99 of each stack against the objective, who blocks the tail, what moved last.

import { el, mark, say } from "/dom.js";
import { bytes, ms, percent, signedBytes, times } from "/format.js";

const BLOCKERS = 3;

export class Headline {
  constructor(host, store, choice) {
    this.host = host;
    this.store = store;
    this.choice = choice;
    this.shape = "";
  }

  prepare() {
    const { stacks } = this.store.state;
    const shape = stacks.map((stack) => `${stack.name}/${stack.policy}/${stack.control !== null}`).join("\n");
    if (shape === this.shape) return;
    this.shape = shape;
    this.stacks = stacks.map((stack, index) => stackCard(stack, index));
    this.blocks = blocksCard(stacks.at(-1));
    this.moves = stacks.some((stack) => stack.control) ? movesCard() : null;
    const cards = [...this.stacks, this.blocks, this.moves].filter(Boolean);
    this.host.replaceChildren(...cards.map((card) => card.node));
  }

  update() {
    this.prepare();
    const { stacks, objective_ms } = this.store.state;
    stacks.forEach((stack, index) => this.updateStack(this.stacks[index], stack, objective_ms));
    this.updateBlocks(stacks.at(-1));
    if (this.moves) this.updateMoves(stacks.filter((stack) => stack.control));
  }

  updateStack(card, stack, objective) {
    const p99 = stack.points.at(-1)?.p99_ms;
    say(card.big, p99 === undefined ? "\u2013" : ms(p99));
    if (p99 === undefined || !objective) {
      mark(card.node, "verdict", "open");
      say(card.verdict, objective ? "no requests yet" : "no objective yet");
    } else if (p99 <= objective) {
      mark(card.node, "verdict", "met");
      say(card.verdict, `\u2713 meets the objective, ${ms(objective)}`);
    } else {
      mark(card.node, "verdict", "missed");
      say(card.verdict, `\u25b2 ${times(p99 / objective)} the objective, ${ms(objective)}`);
    }
    const missed = stack.violation_ratio;
    say(card.missed, missed === null ? "" : `missed in ${percent(missed, 1)} of windows so far`);
    const { failed, timed_out } = stack.requests;
    say(card.errors, failed + timed_out > 0 ? `${failed} errors, ${timed_out} timeouts` : "");
  }

  updateBlocks(stack) {
    const ranked = stack.backends.filter((backend) => backend.rbc_share > 0);
    ranked.sort((a, b) => b.rbc_share - a.rbc_share);
    const [first, ...rest] = ranked;
    say(this.blocks.big, first ? first.name : "nobody");
    const share = first ? `${percent(first.rbc_share)} of ${stack.requests_in_band.toFixed(0)} slow requests` : "";
    say(this.blocks.verdict, share);
    const others = rest.slice(0, BLOCKERS - 1).map((backend) => `${backend.name} ${percent(backend.rbc_share)}`);
    if (stack.own_rbc_share >= 0.005) others.push(`the application itself ${percent(stack.own_rbc_share)}`);
    say(this.blocks.missed, others.length > 0 ? `then ${others.join(", ")}` : "");
    this.blocks.swatch.setAttribute("class", first ? `swatch s-${this.choice.slot(first.name)}` : "swatch");
  }

  updateMoves(stacks) {
    const stack = stacks.at(-1);
    const { mode, paused } = stack.control;
    const isActive = mode === "active";
    say(this.moves.title, isActive ? "Moved so far" : "Would have moved so far");
    say(this.moves.big, bytes(isActive ? stack.moved_bytes : stack.advised_bytes));
    const last = stack.decisions.at(-1);
    const grants = (last?.changes ?? []).filter((change) => change.to_bytes > change.from_bytes);
    const largest = grants.map((change) => `${signedBytes(change.to_bytes - change.from_bytes)} to ${change.backend}`);
    let what = "no decision yet";
    if (paused !== null) what = `paused: ${paused}`;
    else if (last?.hold) what = `holds: ${last.hold}`;
    else if (largest.length > 0) what = `${isActive ? "now" : "advice"}: ${largest.slice(0, 2).join(", ")}`;
    else if (last) what = "limits fit: nothing to move";
    mark(this.moves.node, "verdict", paused === null ? "open" : "paused");
    say(this.moves.verdict, what);
    say(this.moves.missed, isActive ? "" : "advises only: nothing is moved");
  }
}

function card(title, className) {
  const parts = {
    swatch: el("i", { class: `swatch ${className}` }),
    title: el("span", {}, title),
    big: el("p", { class: "big" }),
    verdict: el("p", { class: "verdict" }),
    missed: el("p", { class: "quiet" }),
    errors: el("p", { class: "quiet" }),
  };
  const heading = el("h3", {}, parts.swatch, parts.title);
  const node = el("article", { class: "card" }, heading, parts.big, parts.verdict, parts.missed, parts.errors);
  return { ...parts, node };
}

function stackCard(stack, index) {
  const made = card(`P99 of ${stack.name}`, `stack-${index}`);
  if (stack.policy !== stack.name) made.title.append(el("small", {}, ` policy ${stack.policy}`));
  return made;
}

const blocksCard = (stack) => card(`Blocks the tail of ${stack?.name ?? ""}`, "");
const movesCard = () => {
  const made = card("Moved so far", "none");
  made.swatch.remove();
  return made;
};
