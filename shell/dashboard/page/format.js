// Numbers as people read them, in the same words as the terminal and the tables of `robinhood`.

const UNITS = ["B", "KiB", "MiB", "GiB"];

// Between a number and its unit: no line ends there.
const GAP = "\u00a0";
const fixed = (value, digits) => value.toFixed(digits).replace("-", "\u2212");

export function ms(value) {
  if (value === null || value === undefined) return "\u2013";
  return value >= 10_000 ? `${fixed(value / 1000, 1)}${GAP}s` : `${fixed(value, 1)}${GAP}ms`;
}

// 0 to 1, as percent.
export function percent(ratio, digits = 0) {
  return ratio === null || ratio === undefined ? "\u2013" : `${fixed(ratio * 100, digits)}${GAP}%`;
}

export function bytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = value >= 100 || value === 0 ? 0 : value >= 10 ? 1 : 2;
  return `${fixed(value, digits)}${GAP}${UNITS[unit]}`;
}

export const signedBytes = (value) => (value < 0 ? "\u2212" : "+") + bytes(Math.abs(value));

export function seconds(value) {
  if (value < 600) return `${fixed(value, 0)}${GAP}s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 120) return `${minutes}${GAP}min`;
  return `${Math.floor(minutes / 60)}${GAP}h ${minutes % 60}${GAP}min`;
}

export const times = (value) => `${fixed(value, value < 10 ? 1 : 0)}${GAP}\u00d7`;
