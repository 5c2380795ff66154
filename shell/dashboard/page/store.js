// The newest state and what led to it, kept up to date by server-sent events.

const POINTS_MAX = 7200;
const DECISIONS_MAX = 64;
const SAMPLES_MAX = 600;
// Milliseconds before a lost server is tried again, at first and at most, and without a message before it counts as lost.
const RETRY_MS = 500;
const RETRY_MS_MAX = 8000;
const SILENCE_MS = 6000;
// Milliseconds between two drawings at least: a slow machine draws less often and never falls behind.
const DRAW_MS = 300;

export class Store {
  constructor() {
    this.state = null;
    this.history = [];
    this.run = null;
    this.updates = 0;
    this.listeners = [];
    this.link = "waiting";
    this.linkListeners = [];
    this.patience = RETRY_MS;
    this.draw = null;
    this.drawn = 0;
  }

  onUpdate(listener) {
    this.listeners.push(listener);
  }

  onLink(listener) {
    this.linkListeners.push(listener);
  }

  // A hidden page listens to nothing: a browser keeps few connections to one server.
  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.close() : this.open()));
    if (!document.hidden) this.open();
  }

  open() {
    if (this.events) return;
    clearTimeout(this.retry);
    this.events = new EventSource("/v1/events");
    this.events.addEventListener("state", (event) => {
      this.setLink("live");
      this.patience = RETRY_MS;
      this.watchSilence();
      this.take(JSON.parse(event.data));
    });
    this.events.addEventListener("error", () => this.lost());
    this.watchSilence();
  }

  close() {
    clearTimeout(this.retry);
    clearTimeout(this.silence);
    this.events?.close();
    this.events = null;
  }

  lost() {
    this.close();
    this.setLink("lost");
    this.retry = setTimeout(() => this.open(), this.patience);
    this.patience = Math.min(this.patience * 2, RETRY_MS_MAX);
  }

  watchSilence() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.lost(), SILENCE_MS);
  }

  setLink(link) {
    if (this.link === link) return;
    this.link = link;
    for (const listener of this.linkListeners) listener(link);
  }

  take(message) {
    if (message.complete || message.run !== this.run) {
      this.run = message.run;
      this.history = message.history;
    } else {
      this.history = [...this.history, ...message.history].slice(-SAMPLES_MAX);
      message.state.stacks.forEach((stack, index) => {
        const before = this.state.stacks[index];
        stack.points = [...before.points, ...stack.points].slice(-POINTS_MAX);
        stack.decisions = [...before.decisions, ...stack.decisions].slice(-DECISIONS_MAX);
      });
    }
    this.state = message.state;
    this.updates += 1;
    this.draw ??= setTimeout(() => this.tell(), Math.max(0, this.drawn + DRAW_MS - performance.now()));
  }

  tell() {
    this.draw = null;
    for (const listener of this.listeners) listener(this);
    this.drawn = performance.now();
  }

  // The span of time that charts show, in seconds.
  span() {
    const { duration_s, elapsed_s } = this.state;
    if (duration_s) return [0, duration_s];
    const first = this.history[0]?.seconds ?? 0;
    return [first, Math.max(elapsed_s, first + 30)];
  }
}

// What a command came to: an empty text, or why it was refused.
export async function command(action, body) {
  try {
    const answer = await fetch(`/v1/${action}`, { method: "POST", body: JSON.stringify(body ?? {}) });
    if (answer.ok) return "";
    return (await answer.json()).error;
  } catch {
    return "the server does not answer";
  }
}
