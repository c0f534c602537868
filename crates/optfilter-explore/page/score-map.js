// The map: prediction error over two settings, coarse first, the best and all that cannot be told from it marked.
import { tickText } from "./axes.js";
import { colour, make, ready, the } from "./elements.js";
import { plain, short } from "./numbers.js";
import { askLines } from "./server.js";

const STEPS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 25, 30, 35, 40, 50, 65, 80];

/** @param {number} low @param {number} high @param {number} count */
function logarithmic(low, high, count) {
  return Array.from({ length: count }, (_, k) => Number((low * (high / low) ** (k / (count - 1))).toPrecision(3)));
}

export class ScoreMap {
  /** @param {import("./settings.js").Store} store @param {(fault: any) => void} complain */
  constructor(store, complain) {
    this.store = store;
    this.complain = complain;
    /** @type {any} */
    this.about = null;
    /** @type {any} */
    this.map = null;
    /** @type {AbortController|null} */
    this.running = null;
    this.cursor = 0;
    /** @type {any} */
    this.box = null;
    the("map-start").addEventListener("click", () => this.start());
    the("map-stop").addEventListener("click", () => this.stop());
    const canvas = the("map-canvas");
    canvas.addEventListener("click", (/** @type {MouseEvent} */ e) => {
      const cell = this.cellAt(e);
      if (cell !== null) this.take(cell);
    });
    canvas.addEventListener("pointermove", (/** @type {PointerEvent} */ e) => {
      const cell = this.cellAt(e);
      if (cell !== null) this.say(cell);
    });
    canvas.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => this.key(e));
  }

  /** Which maps there are for a filter. @param {any} filter @param {any} units @param {(optimizer: string) => number} usualRate */
  choices(filter, units, usualRate) {
    const optimizes = filter.method === "imap" || filter.method === "vkf";
    const scales = logarithmic(0.01, 100, 20);
    const out = [];
    if (optimizes && filter.optimizer !== "cg") {
      const usual = usualRate(filter.optimizer || "adam");
      out.push({ name: "learning rate × steps K", x: ["lr", logarithmic(usual * 0.01, usual * 10, 20)], y: ["steps", STEPS] });
    }
    if (filter.method === "imap") {
      out.push({ name: "window L × steps K", x: ["window", [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80]], y: ["steps", STEPS.slice(0, 12)] });
    } else out.push({ name: "factor on Q × factor on R", x: ["process_scale", scales], y: ["measurement_scale", scales] });
    return out;
  }

  /** @param {any} about @param {any} filter @param {(optimizer: string) => number} usualRate */
  offer(about, filter, usualRate) {
    if (about !== this.about) {
      this.stop();
      this.map = null;
    }
    this.about = about;
    this.offers = this.choices(filter, about.units, usualRate);
    const names = this.offers.map((o) => o.name);
    const select = the("map-over");
    if (select.dataset.names !== names.join()) {
      select.dataset.names = names.join();
      select.replaceChildren(...names.map((name, k) => make("option", { value: String(k) }, name)));
    }
    this.draw();
  }

  async start() {
    this.stop();
    const now = /** @type {any} */ (this.store.now);
    const filter = now[now.side];
    const offer = (this.offers || [])[Number(the("map-over").value)] || (this.offers || [])[0];
    if (!offer) return;
    const running = new AbortController();
    this.running = running;
    this.map = { ...offer, cells: [], best: null, ties: [], done: 0, of: 1, rows: null };
    this.cursor = 0;
    the("map-stop").disabled = false;
    try {
      await askLines("api/map", { subject: now.subject, filter, map: { x: offer.x, y: offer.y } }, running.signal, (line) => {
        if (this.running !== running) return;
        for (const [cell, v] of line.cells || []) this.map.cells[cell] = v;
        Object.assign(this.map, { best: line.best, ties: line.ties || [], done: line.done ?? this.map.done, of: line.of ?? this.map.of, rows: line.rows || this.map.rows });
        if (line.finished) this.cursor = line.best ?? 0;
        the("map-progress").value = this.map.done / this.map.of;
        this.draw();
        this.say(this.map.best);
      });
    } catch (fault) {
      if (!running.signal.aborted) this.complain(fault);
    }
    if (this.running === running) this.finish();
  }

  stop() {
    if (this.running) this.running.abort();
    this.finish();
  }

  finish() {
    this.running = null;
    the("map-stop").disabled = true;
  }

  draw() {
    const canvas = the("map-canvas");
    if (canvas.clientWidth === 0) return;
    const { pen, width, height } = ready(canvas);
    const { map } = this;
    if (!map) {
      pen.fillStyle = colour("quiet");
      pen.fillText("Each cell will be a whole run of the filter with those two settings.", 16, 30);
      return;
    }
    const [nx, ny] = [map.x[1].length, map.y[1].length];
    this.box = { left: 64, top: 8, dx: (width - 76) / nx, dy: (height - 52) / ny, nx, ny };
    const { left, top, dx, dy } = this.box;
    const seen = map.cells.filter(Number.isFinite);
    const [least, most] = [Math.min(...seen), Math.min(Math.max(...seen), 1.5)];
    for (let cell = 0; cell < nx * ny; cell++) {
      const v = map.cells[cell];
      const [px, py] = [left + (cell % nx) * dx, top + (ny - 1 - Math.floor(cell / nx)) * dy];
      if (v === undefined) {
        pen.fillStyle = colour("raised");
        pen.fillRect(px, py, dx, dy);
      } else if (v === null) {
        pen.strokeStyle = colour("line");
        pen.beginPath();
        pen.moveTo(px + 2, py + dy - 2);
        pen.lineTo(px + dx - 2, py + 2);
        pen.stroke();
      } else {
        pen.fillStyle = v <= 1 ? colour("a") : colour("b");
        const share = v <= 1 ? (1 - v) / (1 - Math.min(least, 0.999)) : (v - 1) / Math.max(most - 1, 0.01);
        pen.globalAlpha = 0.08 + 0.85 * Math.min(share, 1);
        pen.fillRect(Math.round(px), Math.round(py), Math.round(px + dx) - Math.round(px), Math.round(py + dy) - Math.round(py));
        pen.globalAlpha = 1;
      }
    }
    pen.fillStyle = colour("text");
    const middle = (/** @type {number} */ cell) => [left + ((cell % nx) + 0.5) * dx, top + (ny - 0.5 - Math.floor(cell / nx)) * dy];
    for (const cell of map.ties) {
      const [px, py] = middle(cell);
      pen.fillRect(px - 1.5, py - 1.5, 3, 3);
    }
    pen.strokeStyle = colour("text");
    if (map.best !== null && map.best !== undefined) {
      const [px, py] = middle(map.best);
      pen.lineWidth = 2.5;
      pen.strokeRect(px - dx / 2, py - dy / 2, dx, dy);
    }
    if (document.activeElement === canvas) {
      const [px, py] = middle(this.cursor);
      pen.strokeStyle = colour("focus");
      pen.lineWidth = 2;
      pen.strokeRect(px - dx / 2 + 2, py - dy / 2 + 2, dx - 4, dy - 4);
    }
    pen.fillStyle = colour("quiet");
    pen.textAlign = "center";
    const every = Math.ceil(52 / dx);
    map.x[1].forEach((/** @type {number} */ v, /** @type {number} */ k) => {
      if (k % every === 0) pen.fillText(v >= 1000 || v < 0.01 ? v.toExponential(0).replace("e+", "e") : plain(Number(v.toPrecision(2))), left + (k + 0.5) * dx, height - 28);
    });
    pen.textAlign = "right";
    const each = Math.ceil(14 / dy);
    map.y[1].forEach((/** @type {number} */ v, /** @type {number} */ k) => {
      if (k % each === 0) pen.fillText(v >= 1 ? plain(Number(v.toPrecision(2))) : tickText(v, [0, v]), left - 6, top + (ny - 0.5 - k) * dy + 4);
    });
    pen.fillStyle = colour("text");
    pen.fillText(map.name, width - 12, height - 8);
  }

  /** @param {MouseEvent} e */
  cellAt(e) {
    if (!this.map || !this.box) return null;
    const at = the("map-canvas").getBoundingClientRect();
    const x = Math.floor((e.clientX - at.left - this.box.left) / this.box.dx);
    const y = this.box.ny - 1 - Math.floor((e.clientY - at.top - this.box.top) / this.box.dy);
    return x >= 0 && x < this.box.nx && y >= 0 && y < this.box.ny ? y * this.box.nx + x : null;
  }

  /** @param {number|null} cell */
  say(cell) {
    if (cell === null || cell === undefined) return;
    const { map } = this;
    const v = map.cells[cell];
    const [x, y] = [map.x[1][cell % map.x[1].length], map.y[1][Math.floor(cell / map.x[1].length)]];
    const what = v === undefined ? "not yet" : v === null ? "the filter fails" : `prediction error ${short(v)} of repeating the last value`;
    const best = cell === map.best ? ", the best" : map.ties.includes(cell) ? ", cannot be told from the best" : "";
    const rows = map.rows ? ` Rows ${map.rows[0]} to ${map.rows[1]}.` : "";
    the("map-text").textContent = `${map.x[0]} ${plain(x)}, ${map.y[0]} ${plain(y)}: ${what}${best}.${rows} ` +
      (map.ties.length ? `${map.ties.length} cells (dots) cannot be told from the best.` : `${map.done} of ${map.of} cells.`);
  }

  /** Sets the sliders. @param {number} cell */
  take(cell) {
    this.cursor = cell;
    this.store.set({
      [this.map.x[0]]: this.map.x[1][cell % this.map.x[1].length], [this.map.y[0]]: this.map.y[1][Math.floor(cell / this.map.x[1].length)],
    });
    this.say(cell);
    this.draw();
  }

  /** @param {KeyboardEvent} e */
  key(e) {
    if (!this.map || !this.box) return;
    const { nx, ny } = this.box;
    const [x, y] = [this.cursor % nx, Math.floor(this.cursor / nx)];
    const to = { ArrowLeft: [x - 1, y], ArrowRight: [x + 1, y], ArrowUp: [x, y + 1], ArrowDown: [x, y - 1] }[e.key];
    if (to) {
      this.cursor = Math.min(Math.max(to[1], 0), ny - 1) * nx + Math.min(Math.max(to[0], 0), nx - 1);
      this.say(this.cursor);
      this.draw();
    } else if (e.key === "Enter" || e.key === " ") this.take(this.cursor);
    else return;
    e.preventDefault();
  }
}
