// The series over time: measurements, estimates with bands, truth, flags, two filters over one another.
import { around, place, ticks, tickText, timeText, value } from "./axes.js";
import { colour, ready } from "./elements.js";
import { short } from "./numbers.js";

const LEFT = 64;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 26;

export class Timeline {
  /** @param {HTMLCanvasElement} canvas @param {(row: number) => void} pick @param {(from: number|null, to: number|null) => void} look
   * @param {(text: string, aloud: boolean) => void} say */
  constructor(canvas, pick, look, say) {
    this.canvas = canvas;
    this.pick = pick;
    this.look = look;
    this.say = say;
    /** @type {any} */
    this.about = null;
    /** @type {Record<string, import("./numbers.js").Drawn[]>} */
    this.drawn = { a: [], b: [] };
    /** @type {any} */
    this.chosen = null;
    /** @type {number|null} */
    this.pointer = null;
    /** @type {any[]} */
    this.panels = [];
    this.x = { low: 0, high: 1, from: LEFT, to: 100 };
    this.listen();
  }

  /** @param {any} about what the program has said of the subject */
  describe(about) {
    this.about = about;
    this.drawn = { a: [], b: [] };
  }

  /** The row at a time. @param {number} t */
  rowAt(t) {
    const { rows, times, row_times: all } = this.about;
    if (!all) return Math.round(((t - times[0]) / (times[1] - times[0] || 1)) * (rows - 1));
    let [low, high] = [0, all.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (all[middle] <= t) low = middle;
      else high = middle;
    }
    return Math.abs(all[low] - t) <= Math.abs(all[high] - t) ? low : high;
  }

  /** The time of a row. @param {number} row */
  timeOf(row) {
    const { rows, times, row_times: all } = this.about;
    if (all) return all[Math.min(Math.max(row, 0), all.length - 1)];
    return times[0] + ((times[1] - times[0]) * row) / Math.max(rows - 1, 1);
  }

  /** @param {string} of @param {number} index @param {string} what @param {string} kind @param {string} side */
  find(of, index, what, kind, side) {
    const found = this.drawn[side].find((d) => d.of === of && d.index === index && d.what === what && d.kind === kind);
    return found ? found.values : null;
  }

  /** Draws everything. @param {any} chosen */
  draw(chosen) {
    if (!this.about) return;
    this.chosen = chosen;
    const { pen, width, height } = ready(this.canvas);
    const ahead = Math.max(0, ...["a", "b"].flatMap((side) => this.drawn[side].filter((d) => d.what === "forecast" && d.kind === "line")
      .map((d) => d.values[d.values.length - 2])).filter(Number.isFinite), this.about.times[1]);
    this.x = {
      low: chosen.from ?? this.about.times[0], high: chosen.to ?? Math.max(this.about.times[1], ahead), from: LEFT, to: width - RIGHT,
    };
    if (!(this.x.high > this.x.low)) this.x.high = this.x.low + 1;
    const names = [
      ...chosen.states.map((/** @type {number} */ i) => ({ of: "state", index: i, name: this.about.states[i] })),
      ...chosen.observations.map((/** @type {number} */ i) => ({ of: "observation", index: i, name: this.about.observations[i] })),
    ];
    const room = (height - TOP - BOTTOM) / Math.max(names.length, 1);
    this.panels = names.map((panel, k) => this.drawPanel(pen, panel, TOP + k * room, TOP + (k + 1) * room - 10));
    this.drawTimes(pen, height);
    this.drawMark(pen, this.timeOf(chosen.row), height, colour("green"));
    if (this.pointer !== null) this.drawMark(pen, value(this.x, this.pointer), height, colour("quiet"));
  }

  /** @param {CanvasRenderingContext2D} pen @param {any} panel @param {number} top @param {number} bottom */
  drawPanel(pen, panel, top, bottom) {
    const { of, index } = panel;
    const state = of === "state";
    const find = (/** @type {string} */ what, /** @type {string} */ kind, side = "a") => this.find(of, index, what, kind, side);
    const main = state ? "estimate" : "predicted";
    // Lines and points decide what is seen; bands only a little more, so that a wide one does not flatten the rest.
    const lines = [find("measured", "points"), find("truth", "line"), find(main, "line"), find("smoothed", "line"), find("forecast", "line"),
      this.chosen.b ? find(main, "line", "b") : null];
    const bands = [find(main, "band"), find("smoothed", "band"), find("forecast", "band")];
    const [low, high] = around(finite(lines, this.x), extent(bands, this.x));
    const y = { low, high, from: bottom, to: top + 14 };
    const all = ticks(low, high, Math.max(2, (bottom - top) / 32));
    pen.strokeStyle = colour("grid");
    pen.fillStyle = colour("quiet");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    for (const tick of all) {
      const at = Math.round(place(y, tick)) + 0.5;
      pen.beginPath();
      pen.moveTo(LEFT, at);
      pen.lineTo(this.x.to, at);
      pen.stroke();
      pen.fillText(tickText(tick, all), LEFT - 6, at + 4);
    }
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, top, this.x.to - LEFT, bottom - top);
    pen.clip();
    const line = (/** @type {Float64Array|null} */ array, /** @type {string} */ css, width = 1.6, dash = /** @type {number[]} */ ([])) => {
      if (array) strokeLine(pen, array, this.x, y, css, width, dash);
    };
    const band = (/** @type {Float64Array|null} */ array, /** @type {string} */ css, alpha = 0.18) => {
      if (array) fillBand(pen, array, this.x, y, css, alpha);
    };
    band(find("forecast", "band"), colour("a"), 0.12);
    band(find(main, "band"), colour("a"));
    band(find("smoothed", "band"), colour("green"), 0.2);
    if (this.chosen.b) {
      const [one, two] = [find(main, "line"), find(main, "line", "b")];
      if (one && two) fillBetween(pen, one, two, this.x, y, colour("b"));
    }
    const measured = find("measured", "points");
    if (measured) dots(pen, measured, this.x, y, colour("measured"), this.drawn.a.length ? 1.7 : 2);
    line(find("truth", "line"), colour("truth"), 1.3, [5, 3]);
    if (this.chosen.b) line(find(main, "line", "b"), colour("b"));
    line(find("smoothed", "line"), colour("green"), 1.4);
    line(find("forecast", "line"), colour("a"), 1.4, [6, 4]);
    line(find(main, "line"), colour("a"), 1.8);
    for (const what of ["outlier", "runaway"]) {
      const flagged = find(what, "points");
      if (flagged) crosses(pen, flagged, this.x, y, colour("bad"));
    }
    pen.restore();
    pen.textAlign = "left";
    pen.fillStyle = colour("text");
    pen.fillText(state ? panel.name : this.x.to > 500 ? `${panel.name}, measured and predicted one row ahead` : `${panel.name}, predicted`, LEFT + 6, top + 11);
    return { ...panel, y, top, bottom };
  }

  /** @param {CanvasRenderingContext2D} pen @param {number} height */
  drawTimes(pen, height) {
    const { seconds_per_unit: unit } = this.about;
    const span = this.x.high - this.x.low;
    const all = ticks(this.x.low, this.x.high, Math.max(2, (this.x.to - LEFT) / 110));
    pen.fillStyle = colour("quiet");
    pen.textAlign = "center";
    for (const tick of all) {
      const text = unit === null ? tickText(tick, all) : timeText(tick, unit, span);
      pen.fillText(text, place(this.x, tick), height - 8);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {number} t @param {number} height @param {string} css */
  drawMark(pen, t, height, css) {
    const at = place(this.x, t);
    if (!(at >= LEFT && at <= this.x.to)) return;
    pen.strokeStyle = css;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(at, TOP);
    pen.lineTo(at, height - BOTTOM);
    pen.stroke();
  }

  /** What is at a time, in words. @param {number} t */
  wordsAt(t) {
    const row = this.rowAt(t);
    if (this.about.row_times && t <= this.about.times[1]) t = this.timeOf(row);
    const parts = [`${timeText(t, this.about.seconds_per_unit, (this.x.high - this.x.low) / 50)} (row ${row + 1})`];
    for (const { of, index, name } of this.panels) {
      const near = (/** @type {string} */ what, /** @type {string} */ kind, side = "a") => nearest(this.find(of, index, what, kind, side), kind, t, this.x);
      const main = of === "state" ? "estimate" : "predicted";
      const words = [];
      const mean = near(main, "line");
      const band = near(main, "band");
      if (mean) words.push(`${main} ${short(mean[1])}${band ? ` ± ${short((band[2] - band[1]) / 4)}` : ""}`);
      const other = this.chosen.b ? near(main, "line", "b") : null;
      if (other) words.push(`B ${short(other[1])}`);
      for (const [what, kind] of [["measured", "points"], ["truth", "line"], ["smoothed", "line"], ["forecast", "line"]]) {
        const found = near(what, kind);
        if (found) words.push(`${what} ${short(found[1])}`);
      }
      if (words.length) parts.push(`${name}: ${words.join(", ")}`);
    }
    return parts.join(" · ");
  }

  /** Shows another stretch of time. @param {number} factor @param {number} shift in shares of what is shown @param {number} [about] */
  move(factor, shift, about) {
    const span = this.x.high - this.x.low;
    const middle = about ?? (this.x.low + this.x.high) / 2;
    const low = middle - (middle - this.x.low) * factor + shift * span;
    const high = middle + (this.x.high - middle) * factor + shift * span;
    const [first, last] = this.about.times;
    const whole = last - first || 1;
    if (high - low >= whole * 1.4) return this.look(null, null);
    if (high - low < whole * 1e-6 || high < first || low > last + whole) return;
    this.look(low, high);
  }

  listen() {
    const { canvas } = this;
    /** @type {{x: number, low: number, high: number, moved: boolean}|null} */
    let held = null;
    const at = (/** @type {PointerEvent|WheelEvent|MouseEvent} */ e) => e.clientX - canvas.getBoundingClientRect().left;
    canvas.addEventListener("wheel", (e) => {
      if (!this.about) return;
      e.preventDefault();
      this.move(e.deltaY > 0 ? 1.25 : 0.8, 0, value(this.x, at(e)));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (e) => {
      held = { x: at(e), low: this.x.low, high: this.x.high, moved: false };
      canvas.setPointerCapture(e.pointerId);
    });
    canvas.addEventListener("pointermove", (e) => {
      if (!this.about) return;
      this.pointer = at(e);
      if (held && (held.moved || Math.abs(this.pointer - held.x) > 4)) {
        held.moved = true;
        const shift = ((held.x - this.pointer) / (this.x.to - LEFT)) * (held.high - held.low);
        const whole = held.high - held.low >= this.about.times[1] - this.about.times[0];
        if (!whole) this.look(held.low + shift, held.high + shift);
      }
      this.draw(this.chosen);
      this.say(this.wordsAt(value(this.x, this.pointer)), false);
    });
    canvas.addEventListener("pointerup", (e) => {
      if (held && !held.moved && this.about) this.pick(this.clamp(this.rowAt(value(this.x, at(e)))));
      held = null;
    });
    canvas.addEventListener("pointerleave", () => {
      this.pointer = null;
      if (this.about) this.draw(this.chosen);
    });
    canvas.addEventListener("dblclick", () => this.look(null, null));
    canvas.addEventListener("keydown", (e) => {
      if (!this.about) return;
      const step = e.key === "ArrowLeft" ? -1 : e.key === "ArrowRight" ? 1 : 0;
      if (step && e.shiftKey) this.move(1, 0.2 * step);
      else if (step) this.walk(step);
      else if (e.key === "PageUp") this.walk(-10);
      else if (e.key === "PageDown") this.walk(10);
      else if (e.key === "+" || e.key === "=") this.move(0.7, 0, this.timeOf(this.chosen.row));
      else if (e.key === "-") this.move(1.4, 0, this.timeOf(this.chosen.row));
      else if (e.key === "Home" || e.key === "0") this.look(null, null);
      else return;
      e.preventDefault();
    });
  }

  /** @param {number} rows */
  walk(rows) {
    const row = this.clamp(this.chosen.row + rows);
    this.pick(row);
    this.say(this.wordsAt(this.timeOf(row)), true);
  }

  /** @param {number} row */
  clamp(row) {
    return Math.min(Math.max(row, 0), this.about.rows - 1);
  }
}

/** The finite values of lines within what is shown. @param {(Float64Array|null)[]} lines @param {any} x */
function finite(lines, x) {
  const found = new Float64Array(lines.reduce((sum, array) => sum + (array ? array.length / 2 : 0), 0));
  let count = 0;
  for (const array of lines) {
    for (let k = 0; array && k < array.length; k += 2) {
      if (array[k] >= x.low && array[k] <= x.high && Number.isFinite(array[k + 1])) found[count++] = array[k + 1];
    }
  }
  return found.subarray(0, count);
}

/** The lowest and the highest of bands within what is shown. @param {(Float64Array|null)[]} bands @param {any} x @returns {[number, number]} */
function extent(bands, x) {
  let [low, high] = [Infinity, -Infinity];
  for (const array of bands) {
    for (let k = 0; array && k < array.length; k += 3) {
      if (!(array[k] >= x.low && array[k] <= x.high)) continue;
      if (array[k + 1] < low) low = array[k + 1];
      if (array[k + 2] > high) high = array[k + 2];
    }
  }
  return [low, high];
}

/** Whether points lie about as close as pixels: nobody sees dashes or corners then, and a browser without a graphics card takes ten times as
 * long over them as over columns of pixels. @param {number} points @param {any} x */
function isDense(points, x) {
  return points > 0.7 * (x.to - x.from);
}

/** @param {CanvasRenderingContext2D} pen @param {Float64Array} array @param {any} x @param {any} y @param {string} css @param {number} width
 * @param {number[]} dash */
function strokeLine(pen, array, x, y, css, width, dash) {
  if (isDense(array.length / 2, x)) {
    strokeColumns(pen, array, x, y, css, width);
    return;
  }
  pen.strokeStyle = css;
  pen.lineWidth = width;
  pen.lineJoin = "round";
  pen.setLineDash(dash);
  pen.beginPath();
  let drawn = 0;
  for (let k = 0; k < array.length; k += 2) {
    if (!Number.isFinite(array[k + 1])) {
      drawn = 0;
      continue;
    }
    const px = place(x, array[k]);
    const py = limited(place(y, array[k + 1]));
    if (drawn === 0) pen.moveTo(px, py);
    else pen.lineTo(px, py);
    drawn += 1;
  }
  pen.stroke();
  pen.setLineDash([]);
}

/** A line of about as many points as pixels: each column of pixels from its lowest to its highest, and from where the column before ended.
 * @param {CanvasRenderingContext2D} pen @param {Float64Array} array @param {any} x @param {any} y @param {string} css @param {number} width */
function strokeColumns(pen, array, x, y, css, width) {
  pen.fillStyle = css;
  /** @type {[number, number]|null} */
  let before = null;
  columns(array, 2, x, (/** @type {number} */ k) => [limited(place(y, array[k + 1])), limited(place(y, array[k + 1]))], (left, wide, top, bottom, begins) => {
    // What joins it to the column before.
    const [low, high] = before && !begins ? [Math.min(top, before[1]), Math.max(bottom, before[0])] : [top, bottom];
    pen.fillRect(left, low - width / 2, wide, high - low + width);
    before = [top, bottom];
  });
}

/** Goes through points by columns of pixels: the highest and the lowest place of each, by the line between points where a column has none.
 * @param {Float64Array} array @param {number} stride numbers of a point, the first of which is its time, and the second not finite where there is none
 * @param {any} x @param {(k: number) => [number, number]} reach from top to bottom, in pixels, of the point at k
 * @param {(left: number, width: number, top: number, bottom: number, begins: boolean) => void} draw */
function columns(array, stride, x, reach, draw) {
  const ratio = window.devicePixelRatio || 1;
  let [column, top, bottom, begins] = [NaN, 0, 0, true];
  const flush = () => {
    if (Number.isNaN(column)) return;
    draw(column / ratio, 1 / ratio, top, bottom, begins);
    begins = false;
  };
  for (let k = 0; k < array.length; k += stride) {
    if (!Number.isFinite(array[k + 1])) {
      flush();
      [column, begins] = [NaN, true];
      continue;
    }
    const at = Math.floor(Math.min(Math.max(place(x, array[k]), x.from - 2), x.to + 2) * ratio);
    const [high, low] = reach(k);
    if (at === column) {
      [top, bottom] = [Math.min(top, high), Math.max(bottom, low)];
      continue;
    }
    flush();
    const [from, fromTop, fromBottom] = [column, top, bottom];
    for (let c = from + 1; c < at; c++) {
      const share = (c - from) / (at - from);
      [column, top, bottom] = [c, fromTop + share * (high - fromTop), fromBottom + share * (low - fromBottom)];
      flush();
    }
    [column, top, bottom] = [at, high, low];
  }
  flush();
}

/** Pixels that a canvas can take. @param {number} p */
function limited(p) {
  return Math.min(Math.max(p, -1e5), 1e5);
}

/** @param {CanvasRenderingContext2D} pen @param {Float64Array} array @param {any} x @param {any} y @param {string} css @param {number} alpha */
function fillBand(pen, array, x, y, css, alpha) {
  pen.fillStyle = css;
  pen.globalAlpha = alpha;
  if (isDense(array.length / 3, x)) fillColumns(pen, array, x, y);
  else fillOutline(pen, array, x, y);
  pen.globalAlpha = 1;
}

/** A band whose corners can be told apart. @param {CanvasRenderingContext2D} pen @param {Float64Array} array @param {any} x @param {any} y */
function fillOutline(pen, array, x, y) {
  let begin = 0;
  const flush = (/** @type {number} */ end) => {
    if (end - begin >= 3) {
      pen.beginPath();
      for (let k = begin; k < end; k += 3) pen.lineTo(place(x, array[k]), limited(place(y, array[k + 2])));
      for (let k = end - 3; k >= begin; k -= 3) pen.lineTo(place(x, array[k]), limited(place(y, array[k + 1])));
      pen.closePath();
      pen.fill();
    }
    begin = end + 3;
  };
  for (let k = 0; k < array.length; k += 3) if (!Number.isFinite(array[k + 1])) flush(k);
  flush(array.length);
}

/** A band of about as many points as pixels, column by column. @param {CanvasRenderingContext2D} pen @param {Float64Array} array @param {any} x
 * @param {any} y */
function fillColumns(pen, array, x, y) {
  columns(array, 3, x, (/** @type {number} */ k) => [limited(place(y, array[k + 2])), limited(place(y, array[k + 1]))],
    (left, wide, top, bottom) => pen.fillRect(left, top, wide, bottom - top));
}

/** The area between two lines. @param {CanvasRenderingContext2D} pen @param {Float64Array} one @param {Float64Array} two @param {any} x
 * @param {any} y @param {string} css */
function fillBetween(pen, one, two, x, y, css) {
  pen.fillStyle = css;
  pen.globalAlpha = 0.22;
  pen.beginPath();
  for (let k = 0; k < one.length; k += 2) if (Number.isFinite(one[k + 1])) pen.lineTo(place(x, one[k]), limited(place(y, one[k + 1])));
  for (let k = two.length - 2; k >= 0; k -= 2) if (Number.isFinite(two[k + 1])) pen.lineTo(place(x, two[k]), limited(place(y, two[k + 1])));
  pen.closePath();
  pen.fill("evenodd");
  pen.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} pen @param {Float64Array} array @param {any} x @param {any} y @param {string} css @param {number} size */
function dots(pen, array, x, y, css, size) {
  pen.fillStyle = css;
  for (let k = 0; k < array.length; k += 2) {
    const [px, py] = [place(x, array[k]), place(y, array[k + 1])];
    if (px >= x.from && px <= x.to) pen.fillRect(px - size, py - size, 2 * size, 2 * size);
  }
}

/** @param {CanvasRenderingContext2D} pen @param {Float64Array} array @param {any} x @param {any} y @param {string} css */
function crosses(pen, array, x, y, css) {
  pen.strokeStyle = css;
  pen.lineWidth = 1.6;
  pen.beginPath();
  for (let k = 0; k < array.length; k += 2) {
    const px = place(x, array[k]);
    // What lies outside is marked at the edge.
    const py = Math.min(Math.max(place(y, array[k + 1]), y.to), y.from);
    pen.moveTo(px - 4, py - 4);
    pen.lineTo(px + 4, py + 4);
    pen.moveTo(px + 4, py - 4);
    pen.lineTo(px - 4, py + 4);
  }
  pen.stroke();
}

/** The drawn values next to a time; none if there are none within a few pixels. @param {Float64Array|null} array @param {string} kind
 * @param {number} t @param {any} x */
function nearest(array, kind, t, x) {
  if (!array || array.length === 0) return null;
  const width = kind === "band" ? 3 : 2;
  let [low, high] = [0, array.length / width - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (array[middle * width] <= t) low = middle;
    else high = middle;
  }
  const at = Math.abs(array[low * width] - t) <= Math.abs(array[high * width] - t) ? low : high;
  const found = array.slice(at * width, at * width + width);
  const near = Math.abs(place(x, found[0]) - place(x, t)) < 12;
  return near && Number.isFinite(found[1]) ? found : null;
}
