// Scales and ticks: linear, logarithmic, and of the calendar.

/** Round numbers between two values. @param {number} low @param {number} high @param {number} count */
export function ticks(low, high, count) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= rough) || 10 * power;
  const out = [];
  for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) out.push(k * step);
  return out;
}

/** A tick as text, with as many digits as its neighbours need. @param {number} v @param {number[]} all */
export function tickText(v, all) {
  const step = all.length > 1 ? Math.abs(all[1] - all[0]) : Math.abs(v) || 1;
  const largest = Math.max(...all.map(Math.abs));
  if (largest >= 1e6 || step < 1e-5) return v.toExponential(2).replace("e+", "e");
  return v.toFixed(Math.max(0, -Math.floor(Math.log10(step) + 1e-9)));
}

/** Times as text: dates where the table has them. @param {number} t @param {number|null} unit @param {number} span */
export function timeText(t, unit, span) {
  if (unit === null) return String(Number(t.toPrecision(8)));
  const date = new Date(t * unit * 1000);
  if (Number.isNaN(date.getTime())) return String(t);
  const text = date.toISOString();
  const seconds = span * unit;
  if (seconds > 4 * 366 * 86400) return text.slice(0, 7);
  if (seconds > 5 * 86400) return text.slice(0, 10);
  return seconds > 600 ? text.slice(5, 16).replace("T", " ") : text.slice(11, 23);
}

/** @typedef {{low: number, high: number, from: number, to: number, log?: boolean}} Scale */

/** Where a value lies. @param {Scale} s @param {number} v */
export function place(s, v) {
  const f = s.log ? (Math.log(v) - Math.log(s.low)) / (Math.log(s.high) - Math.log(s.low)) : (v - s.low) / (s.high - s.low);
  return s.from + f * (s.to - s.from);
}

/** Which value lies there. @param {Scale} s @param {number} p */
export function value(s, p) {
  const f = (p - s.from) / (s.to - s.from);
  return s.log ? s.low * (s.high / s.low) ** f : s.low + f * (s.high - s.low);
}

/** A range around values, with a margin; most of the mass decides, so that one runaway does not flatten the rest. What is
 * loose, given as its lowest and highest, widens it by at most half of it to each side. @param {Float64Array} values finite ones
 * @param {[number, number]} loose */
export function around(values, loose) {
  if (values.length === 0) return [0, 1];
  const sorted = values.sort();
  const at = (/** @type {number} */ share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const [inner, outer] = [at(0.01), at(0.99)];
  const reach = 3 * (outer - inner) || Math.abs(outer) || 1;
  let low = Math.max(sorted[0], inner - reach);
  let high = Math.min(sorted[sorted.length - 1], outer + reach);
  const more = 0.5 * (high - low) || Math.abs(high) || 1;
  const [floor, ceiling] = [low - more, high + more];
  if (loose[0] < low) low = Math.max(loose[0], floor);
  if (loose[1] > high) high = Math.min(loose[1], ceiling);
  const margin = 0.06 * (high - low) || 0.5 * Math.abs(high) || 1;
  return [low - margin, high + margin];
}
