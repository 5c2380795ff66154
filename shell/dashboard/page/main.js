// The page: takes each new state to its parts.

import { Legend, Table } from "/backends.js";
import { Charts } from "/charts.js";
import { Choice } from "/colours.js";
import { Controls } from "/controls.js";
import { Decisions } from "/decisions.js";
import { byId, mark, say } from "/dom.js";
import { ms, percent, seconds } from "/format.js";
import { Headline } from "/headline.js";
import { Store } from "/store.js";

// Drawings between two looks at which backends matter most.
const CHOOSE_EVERY = 10;
let drawings = 0;

const store = new Store();
const choice = new Choice();
const headline = new Headline(byId("headline"), store, choice);
const charts = new Charts(store, choice, { p99: byId("p99"), rbc: byId("rbc"), cache: byId("cache"), hits: byId("hits") });
const legend = new Legend(byId("legend"), choice);
const table = new Table(store, choice);
const decisions = new Decisions(byId("decisions"), byId("decisions-note"), choice);
const controls = new Controls(store);
const PHASES = { preparing: "preparing", running: "running", draining: "waiting for the last requests", done: "over" };

function header() {
  const { state } = store;
  say(byId("title"), state.title);
  say(byId("details"), state.details);
  const status = state.status && state.phase === "running" ? `: ${state.status}` : "";
  say(byId("phase"), PHASES[state.phase] + status);
  const { duration_s, elapsed_s, health } = state;
  say(byId("clock"), seconds(elapsed_s) + (duration_s ? ` of ${seconds(duration_s)}` : ""));
  const progress = byId("progress");
  progress.hidden = !duration_s;
  if (duration_s) {
    const part = Math.min(Math.max((elapsed_s / duration_s) * 100, 0), 100);
    progress.setAttribute("aria-valuenow", part.toFixed(0));
    progress.firstElementChild.style.width = `${part}%`;
  }
  const trust = health ? `CPU of the process ${percent(health.cpu_share)}, requests sent ${ms(health.lateness_ms_p99)} late at P99` : "";
  say(byId("health"), trust);
  const p99 = state.stacks.at(-1)?.points.at(-1)?.p99_ms;
  document.title = p99 === undefined ? state.title : `${ms(p99)} \u00b7 ${state.title}`;
}

function link() {
  const isOver = store.state?.phase === "done";
  const texts = { waiting: "connecting", live: isOver ? "complete" : "live", lost: isOver ? "the run is over" : "no connection, trying again" };
  mark(byId("link"), "state", isOver ? "over" : store.link);
  say(byId("link"), texts[store.link]);
  mark(document.documentElement, "link", store.link);
}

// What sticks below the header must know how high it is.
const head = document.querySelector("header");
new ResizeObserver(() => document.body.style.setProperty("--head", `${head.offsetHeight}px`)).observe(head);

store.onUpdate(() => {
  const isEmpty = store.state.stacks.length === 0; // nothing runs yet
  byId("main").hidden = isEmpty;
  header();
  link();
  if (isEmpty) return;
  if (choice.update(store, drawings % CHOOSE_EVERY === 0)) legend.draw();
  drawings += 1;
  headline.update();
  charts.update();
  table.update();
  decisions.update(store);
  controls.update();
  mark(document.documentElement, "updates", store.updates);
  mark(document.documentElement, "run", store.run);
});
store.onLink(() => {
  link();
  if (store.state) controls.update();
});
store.start();
