// The search of `optfilter tune`, live: the best so far, and a button that ends it.
import { make, the } from "./elements.js";
import { short } from "./numbers.js";
import { askLines } from "./server.js";

export class LeaderBoard {
  /** @param {import("./settings.js").Store} store @param {(fault: any) => void} complain */
  constructor(store, complain) {
    this.store = store;
    this.complain = complain;
    /** @type {AbortController|null} */
    this.running = null;
    the("board-start").addEventListener("click", () => this.start());
    the("board-stop").addEventListener("click", () => this.stop());
  }

  async start() {
    this.stop();
    const running = new AbortController();
    this.running = running;
    the("board-stop").disabled = false;
    the("board-text").textContent = "Searching.";
    const budget = Number(the("board-budget").value) || 100;
    try {
      await askLines("api/tune", { subject: this.store.now.subject, budget }, running.signal, (line) => {
        the("board-progress").value = line.finished ? 1 : line.done / Math.max(line.of, 1);
        this.show(line);
      });
    } catch (fault) {
      if (!running.signal.aborted) this.complain(fault);
    }
    if (this.running === running) this.finish();
  }

  stop() {
    if (this.running) {
      this.running.abort();
      the("board-text").textContent = "Stopped.";
    }
    this.finish();
  }

  finish() {
    this.running = null;
    the("board-stop").disabled = true;
  }

  /** @param {any} line */
  show(line) {
    the("board-text").textContent = line.finished
      ? `${line.tried} settings tried, ${line.diverged} diverged; chosen on rows ${line.rows[0]} to ${line.rows[1]}.`
      : `${line.done} of ${line.of} runs.`;
    const head = make("tr", {}, ...["", "log score", "prediction error", "against the best", "settings", ""].map((t) => make("th", { scope: "col" }, t)));
    const rows = line.leaders.map((/** @type {any} */ entry, /** @type {number} */ k) => {
      const use = make("button", { type: "button" }, "Use");
      use.addEventListener("click", () => {
        const side = this.store.now.side;
        this.store.change(/** @type {any} */ ({ [side]: entry.filter.settings }));
      });
      const verdict = !line.finished ? "" : k === 0 ? "the best" : entry.clearly_worse ? "worse" : "within noise";
      return make("tr", {}, make("td", {}, String(k + 1)), make("td", { class: "number" }, short(entry.log_score)),
        make("td", { class: "number" }, entry.prediction === undefined ? "" : short(entry.prediction)), make("td", {}, verdict),
        make("td", {}, make("code", {}, entry.filter.flags)), make("td", {}, use));
    });
    the("board").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  }
}
