// The scores of A and B, for the chosen rows and for the rest.
import { make } from "./elements.js";
import { short } from "./numbers.js";

/** @param {HTMLElement} place @param {any} about @param {any} a @param {any} b @param {any} chosen */
export function showScores(place, about, a, b, chosen) {
  if (!a) return;
  const columns = [["A", "a", a.scores], ...(a.rest ? [["A, rest", "a", a.rest]] : []), ...(b ? [["B", "b", b.scores]] : []),
    ...(b && b.rest ? [["B, rest", "b", b.rest]] : [])];
  /** @type {HTMLElement[]} */
  const rows = [];
  const row = (/** @type {string} */ name, /** @type {(s: any) => string} */ text, key = "") =>
    rows.push(make("tr", {}, make("th", { scope: "row" }, name),
      ...columns.map(([, side, s]) => make("td", { class: side, ...(key ? { "data-score": `${key}-${side}` } : {}) }, text(s)))));
  about.observations.slice(0, 4).forEach((/** @type {string} */ name, /** @type {number} */ i) => {
    row(`prediction error, ${name}`, (s) => short(s.prediction[i]), `prediction-${i}`);
    row("of repeating the last value", (s) => ratio(s.prediction[i], s.repeat[i]), `ratio-${i}`);
  });
  if (about.known.some(Boolean) && a.scores.truth.length) {
    about.states.slice(0, 4).forEach((/** @type {string} */ name, /** @type {number} */ i) => {
      if (about.known[i]) row(`error against the truth, ${name}`, (s) => short(s.truth[i]), `truth-${i}`);
    });
  }
  row("log-likelihood", (s) => short(s.log_likelihood), "log-likelihood");
  row("mean NIS (1 is consistent)", (s) => short(s.nis), "nis");
  row("its 95 % band", (s) => (s.nis === null ? "n/a" : `${short(s.nis_band[0])} to ${short(s.nis_band[1])}`));
  row("rows, missing, outliers", (s) => `${s.rows}, ${s.missing}, ${s.outliers}`);
  const times = [a, ...(b ? [b] : [])].map((r) => `${Math.round(r.nanoseconds_per_row)} ns per row`).join(", B ");
  const head = make("tr", {}, make("td"), ...columns.map(([name, side]) => make("th", { scope: "col", class: side }, name)));
  const notes = [...(a.notes || []), ...((b && b.notes) || []).map((/** @type {string} */ n) => `B: ${n}`)];
  const which = chosen ? `scores of rows ${chosen[0] + 1} to ${chosen[1]} and of the rest` : "";
  place.replaceChildren(
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)),
    make("p", { class: "note", "data-score": "time" }, [times, which].filter(Boolean).join("; ")),
    ...notes.map((text) => make("p", { class: "note" }, text)),
  );
}

/** @param {number|null} error @param {number|null} repeat */
function ratio(error, repeat) {
  return error === null || repeat === null ? "n/a" : `${((100 * error) / repeat).toFixed(0)} %`;
}
