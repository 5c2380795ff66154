// Pause or resume the controllers, and let them act or only advise. Keys: p and a.

import { byId, el, say } from "/dom.js";
import { command } from "/store.js";

export class Controls {
  constructor(store) {
    this.store = store;
    this.host = byId("controls");
    this.pause = el("button", { type: "button", "aria-keyshortcuts": "p", onclick: () => this.send(this.isPaused() ? "resume" : "pause") });
    this.mode = el("button", { type: "button", "aria-keyshortcuts": "a", onclick: () => this.send(this.isActive() ? "advise" : "active") });
    this.answer = el("p", { class: "answer", role: "alert" });
    this.host.append(this.pause, this.mode, this.answer);
    document.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea")) return;
    if (event.key === "/" && !byId("backends-tools").hidden) {
      event.preventDefault();
      byId("filter").focus();
    }
    if (this.host.hidden) return;
    if (event.key === "p") this.pause.click();
    if (event.key === "a") this.mode.click();
  }

  controllers() {
    return this.store.state.stacks.flatMap((stack) => (stack.control ? [stack.control] : []));
  }

  isPaused() {
    return this.controllers().every((control) => control.paused !== null);
  }

  isActive() {
    return this.controllers().some((control) => control.mode === "active");
  }

  update() {
    const { takes_commands, phase } = this.store.state;
    this.host.hidden = !takes_commands || this.controllers().length === 0;
    say(byId("keys"), this.host.hidden ? "" : " \u00b7 p pauses, a switches between acting and advising");
    if (this.host.hidden) return;
    say(this.pause, this.isPaused() ? "Resume" : "Pause");
    say(this.mode, this.isActive() ? "Only advise" : "Act");
    this.pause.title = this.isPaused() ? "Move cache space again (p)" : "Keep all limits as they are (p)";
    this.mode.title = this.isActive() ? "Record what would be moved, move nothing (a)" : "Carry decisions out (a)";
    const isOff = phase === "done" || this.store.link !== "live";
    this.pause.disabled = isOff;
    this.mode.disabled = isOff;
  }

  async send(action) {
    say(this.answer, await command(action));
  }
}
