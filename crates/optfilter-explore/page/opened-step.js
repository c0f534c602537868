// One step of the filter, opened up: the loss, the way of the optimizer, the priors and posteriors.
import { place, ticks, tickText } from "./axes.js";
import { colour, ready, swatch, the } from "./elements.js";
import { short } from "./numbers.js";

/** Whose step is shown: the side of the page, and its filter. */
const whose = { side: "a", method: "" };

/** The colour of a Gaussian: that of the filter in hand, or of the Kalman filter beside it. @param {string} who */
function shade(who) {
  return colour(who === "implied" || who === whose.method ? whose.side : "kalman");
}

/** @param {any} opened @param {any} about @param {number[]} along @param {string} side @param {string} method */
export function drawStep(opened, about, along, side, method) {
  Object.assign(whose, { side, method });
  const canvas = the("step-canvas");
  if (canvas.clientWidth === 0) return;
  const { pen, width, height } = ready(canvas);
  if (along.length === 2) drawPlane(pen, width, height, opened, about, along);
  else drawLine(pen, width, height, opened, about, along[0]);
  const names = { implied: `what ${opened.steps[opened.steps.length - 1]} steps imply` };
  const words = opened.bells.map((/** @type {any} */ b) =>
    swatch(shade(b.who), `${b.when} of ${names[/** @type {"implied"} */ (b.who)] || b.who}${b.when === "prior" ? " (dashed)" : ""}`));
  the("step-legend").replaceChildren(swatch(colour("quiet"), "loss"), swatch(colour("green"), "steps from the prediction to the estimate"), ...words);
  const first = opened.path[0];
  const last = opened.path[opened.path.length - 1];
  const moved = along.map((i) => `${about.states[i]} ${short(first[i])} → ${short(last[i])}`).join(", ");
  the("step-text").textContent = [
    `Row ${opened.row + 1}: measured ${opened.y.map((/** @type {number|null} */ v) => (v === null ? "nothing" : short(v))).join(", ")}; ` +
      `${opened.steps[opened.steps.length - 1]} step(s): ${moved}; loss ${short(opened.losses[0])} → ${short(opened.losses[opened.losses.length - 1])}.`,
    ...opened.notes,
  ].join(" ");
}

/** @param {CanvasRenderingContext2D} pen @param {any} x @param {any} y @param {string} name @param {string} [other] */
function frame(pen, x, y, name, other) {
  pen.strokeStyle = colour("grid");
  pen.fillStyle = colour("quiet");
  pen.lineWidth = 1;
  const across = ticks(x.low, x.high, (x.to - x.from) / 90);
  pen.textAlign = "center";
  for (const tick of across) {
    const at = place(x, tick);
    pen.beginPath();
    pen.moveTo(at, y.from);
    pen.lineTo(at, y.to);
    pen.stroke();
    pen.fillText(tickText(tick, across), at, y.from + 15);
  }
  const up = ticks(y.low, y.high, (y.from - y.to) / 50);
  pen.textAlign = "right";
  for (const tick of up) {
    const at = place(y, tick);
    pen.beginPath();
    pen.moveTo(x.from, at);
    pen.lineTo(x.to, at);
    pen.stroke();
    pen.fillText(tickText(tick, up), x.from - 6, at + 4);
  }
  pen.fillStyle = colour("text");
  pen.fillText(name, x.to, y.from + 30);
  pen.textAlign = "left";
  if (other) pen.fillText(other, x.from + 6, y.to + 12);
}

/** @param {CanvasRenderingContext2D} pen @param {number} width @param {number} height @param {any} opened @param {any} about @param {number} i */
function drawLine(pen, width, height, opened, about, i) {
  const [low, high] = opened.ranges[0];
  const x = { low, high, from: 64, to: width - 12 };
  const finite = opened.loss.filter(Number.isFinite);
  const sorted = [...finite].sort((a, b) => a - b);
  const [least, most] = [sorted[0] ?? 0, sorted[Math.floor(0.8 * (sorted.length - 1))] ?? 1];
  const top = Math.max(most, ...opened.losses.filter(Number.isFinite).map((/** @type {number} */ v) => least + 1.2 * (v - least)));
  const y = { low: least - 0.05 * (top - least), high: top > least ? top : least + 1, from: height - 38, to: 8 };
  frame(pen, x, y, about.states[i], "loss");
  pen.save();
  pen.beginPath();
  pen.rect(x.from, y.to, x.to - x.from, y.from - y.to);
  pen.clip();
  // Densities, each as high as a share of the room that tells narrow from wide.
  const at = (/** @type {number} */ k) => low + ((high - low) * k) / 300;
  const stds = opened.bells.map((/** @type {any} */ b) => Math.sqrt(b.cov[0]));
  const narrowest = Math.min(...stds.filter((/** @type {number} */ s) => s > 0));
  opened.bells.forEach((/** @type {any} */ bell, /** @type {number} */ n) => {
    if (!(stds[n] > 0)) return;
    const peak = 0.85 * (y.from - y.to) * Math.sqrt(narrowest / stds[n]);
    pen.strokeStyle = shade(bell.who);
    pen.fillStyle = shade(bell.who);
    pen.lineWidth = 1.8;
    pen.setLineDash(bell.when === "prior" ? [6, 4] : []);
    pen.beginPath();
    for (let k = 0; k <= 300; k++) {
      const z = (at(k) - bell.mean[0]) / stds[n];
      pen.lineTo(place(x, at(k)), y.from - peak * Math.exp(-0.5 * z * z));
    }
    pen.stroke();
    if (bell.when === "posterior") {
      pen.globalAlpha = 0.08;
      pen.fill();
      pen.globalAlpha = 1;
    }
  });
  pen.setLineDash([]);
  pen.strokeStyle = colour("quiet");
  pen.lineWidth = 1.8;
  pen.beginPath();
  opened.loss.forEach((/** @type {number} */ v, /** @type {number} */ k) => {
    if (Number.isFinite(v)) pen.lineTo(place(x, low + ((high - low) * k) / (opened.loss.length - 1)), place(y, v));
  });
  pen.stroke();
  walk(pen, opened.path.map((/** @type {number[]} */ p, /** @type {number} */ k) => [place(x, p[i]), place(y, opened.losses[k])]));
  pen.restore();
}

/** @param {CanvasRenderingContext2D} pen @param {number} width @param {number} height @param {any} opened @param {any} about @param {number[]} along */
function drawPlane(pen, width, height, opened, about, along) {
  const [across, up] = opened.ranges;
  const x = { low: across[0], high: across[1], from: 64, to: width - 12 };
  const y = { low: up[0], high: up[1], from: height - 38, to: 8 };
  const side = Math.round(Math.sqrt(opened.loss.length));
  const finite = opened.loss.filter(Number.isFinite).sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
  const [least, most] = [finite[0] ?? 0, finite[Math.floor(0.95 * (finite.length - 1))] ?? 1];
  const [dx, dy] = [(x.to - x.from) / (side - 1), (y.from - y.to) / (side - 1)];
  pen.save();
  pen.beginPath();
  pen.rect(x.from, y.to, x.to - x.from, y.from - y.to);
  pen.clip();
  pen.fillStyle = colour("quiet");
  opened.loss.forEach((/** @type {number} */ v, /** @type {number} */ k) => {
    // Steps of darkness, so that their edges are contours.
    const level = Math.floor(10 * Math.sqrt(Math.min(Math.max((v - least) / (most - least || 1), 0), 1))) / 10;
    pen.globalAlpha = 0.06 + 0.5 * level;
    const [left, top] = [x.from + (k % side) * dx - dx / 2, y.from - Math.floor(k / side) * dy - dy / 2];
    pen.fillRect(Math.round(left), Math.round(top), Math.round(left + dx) - Math.round(left), Math.round(top + dy) - Math.round(top));
  });
  pen.globalAlpha = 1;
  for (const bell of opened.bells) {
    const [a, b, , d] = bell.cov;
    const root = Math.sqrt(Math.max(a, 0));
    const lower = root > 0 ? b / root : 0;
    const rest = Math.sqrt(Math.max(d - lower * lower, 0));
    pen.strokeStyle = shade(bell.who);
    pen.lineWidth = 2;
    pen.setLineDash(bell.when === "prior" ? [6, 4] : []);
    pen.beginPath();
    for (let k = 0; k <= 80; k++) {
      // Two standard deviations: the square root of the covariance, over a circle.
      const [c, s] = [2 * Math.cos((k * Math.PI) / 40), 2 * Math.sin((k * Math.PI) / 40)];
      pen.lineTo(place(x, bell.mean[0] + root * c), place(y, bell.mean[1] + lower * c + rest * s));
    }
    pen.stroke();
  }
  pen.setLineDash([]);
  walk(pen, opened.path.map((/** @type {number[]} */ p) => [place(x, p[along[0]]), place(y, p[along[1]])]));
  pen.restore();
  frame(pen, x, y, about.states[along[0]], about.states[along[1]]);
}

/** The way of the optimizer. @param {CanvasRenderingContext2D} pen @param {number[][]} points */
function walk(pen, points) {
  pen.strokeStyle = colour("green");
  pen.fillStyle = colour("green");
  pen.lineWidth = 1.4;
  pen.beginPath();
  for (const [px, py] of points) pen.lineTo(px, py);
  pen.stroke();
  points.forEach(([px, py], k) => {
    const ends = k === 0 || k === points.length - 1;
    pen.beginPath();
    pen.arc(px, py, ends ? 5 : 2.5, 0, 2 * Math.PI);
    if (k === 0) {
      pen.fillStyle = colour("ground");
      pen.fill();
      pen.stroke();
      pen.fillStyle = colour("green");
    } else pen.fill();
  });
}
