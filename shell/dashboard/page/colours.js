// Which backends are drawn by themselves, and in which colour. The others are drawn together, in grey.
//
// Seven at most: more colours cannot be told apart. A backend keeps its colour for as long as it is drawn.

export const SLOTS = 7;
export const OTHERS = "others";
// Another backend takes a place only when it matters this much more.
const MARGIN = 1.3;

export class Choice {
  constructor() {
    this.names = [];
    this.slots = new Map();
  }

  // Chooses from the stacks and their history, if there are other backends than before or it is time to. Returns whether something
  // changed.
  update(store, isTime) {
    const backends = store.state.stacks[0]?.backends ?? [];
    const names = backends.map((backend) => backend.name);
    const unchanged = names.length === this.names.length && names.every((n, i) => n === this.names[i]);
    this.names = names;
    if (names.length <= SLOTS) {
      if (unchanged) return false;
      this.slots = new Map(names.map((name, index) => [name, index]));
      return true;
    }
    if (unchanged && !isTime) return false;
    const score = scores(store);
    const before = [...this.slots.keys()].join();
    const known = new Set(names);
    for (const name of [...this.slots.keys()]) if (!known.has(name)) this.slots.delete(name);
    const held = (name) => score.get(name) * (this.slots.has(name) ? MARGIN : 1);
    const best = [...names].sort((a, b) => held(b) - held(a) || (a < b ? -1 : 1)).slice(0, SLOTS);
    const chosen = new Set(best);
    for (const name of [...this.slots.keys()]) if (!chosen.has(name)) this.slots.delete(name);
    const taken = new Set(this.slots.values());
    for (const name of best) {
      if (this.slots.has(name)) continue;
      let slot = 0;
      while (taken.has(slot)) slot += 1;
      taken.add(slot);
      this.slots.set(name, slot);
    }
    return before !== [...this.slots.keys()].join();
  }

  slot(name) {
    return this.slots.get(name) ?? OTHERS;
  }

  // What is drawn: name, slot and the places of its backends, in the order of slots, the others last.
  series() {
    const place = new Map(this.names.map((name, index) => [name, index]));
    const series = [...this.slots]
      .sort((a, b) => a[1] - b[1])
      .map(([name, slot]) => ({ name, slot, places: [place.get(name)] }));
    const rest = this.names.filter((name) => !this.slots.has(name));
    if (rest.length > 0) {
      series.push({ name: `${rest.length} others`, slot: OTHERS, places: rest.map((name) => place.get(name)) });
    }
    return series;
  }
}

// How much each backend matters in any stack: the most of the tail that it blocked, and a little for the cache that it has.
function scores(store) {
  const score = new Map();
  store.state.stacks.forEach((stack, index) => {
    stack.backends.forEach((backend, place) => {
      let value = backend.rbc_share;
      for (const sample of store.history) value = Math.max(value, sample.stacks[index].rbc_share[place]);
      value += backend.cache_share / 4;
      score.set(backend.name, Math.max(score.get(backend.name) ?? 0, value));
    });
  });
  return score;
}
