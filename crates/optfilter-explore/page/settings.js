// All that a user has chosen: one object, with undo, and as an address.
import { fromLink, toLink } from "./numbers.js";

/** @typedef {{
 *   subject: {model: string, name: string, table: string}, a: any, b: any, side: string,
 *   states: number[], observations: number[], from: number|null, to: number|null,
 *   smooth: boolean, ahead: number, chosen: number[]|null, row: number, along: number[], tab: string,
 * }} Chosen */

export class Store {
  constructor() {
    /** @type {Chosen} */
    this.now = {
      subject: { model: "", name: "", table: "" }, a: {}, b: null, side: "a", states: [], observations: [],
      from: null, to: null, smooth: false, ahead: 0, chosen: null, row: 0, along: [0], tab: "step",
    };
    /** @type {Chosen[]} */
    this.past = [];
    /** @type {Chosen[]} */
    this.future = [];
    /** @type {((now: Chosen, before: Chosen) => void)[]} */
    this.listeners = [];
    this.holding = false;
  }

  /** Changes something; `quiet` changes (where one looks) cannot be undone. While a slider is held all is one change.
   * @param {Partial<Chosen>} change @param {{quiet?: boolean, holding?: boolean}} [how] */
  change(change, how = {}) {
    const before = this.now;
    this.now = { ...before, ...change };
    if (!how.quiet) {
      if (!this.holding) {
        this.past.push(before);
        if (this.past.length > 200) this.past.shift();
      }
      this.future = [];
      this.holding = how.holding === true;
    }
    this.tell(before);
  }

  /** The next change is one of its own. */
  release() {
    this.holding = false;
  }

  /** Changes settings of the filter that is in hand. @param {any} change @param {{holding?: boolean}} [how] */
  set(change, how) {
    const side = this.now.side;
    const filter = { ...(/** @type {any} */ (this.now)[side]), ...change };
    for (const key of Object.keys(filter)) if (filter[key] === null || filter[key] === undefined) delete filter[key];
    this.change(/** @type {any} */ ({ [side]: filter }), how);
  }

  undo() {
    this.travel(this.past, this.future);
  }

  redo() {
    this.travel(this.future, this.past);
  }

  /** @param {Chosen[]} from @param {Chosen[]} to */
  travel(from, to) {
    const found = from.pop();
    if (!found) return;
    const before = this.now;
    to.push(before);
    this.now = found;
    this.holding = false;
    this.tell(before);
  }

  /** @param {Chosen} before */
  tell(before) {
    for (const listener of this.listeners) listener(this.now, before);
  }

  /** The state as an address of this page. */
  link() {
    return `${location.href.split("#")[0]}#${toLink(JSON.stringify(this.now))}`;
  }

  /** The state of an address; null if it has none. @param {string} hash @returns {Chosen|null} */
  static fromLink(hash) {
    try {
      const state = JSON.parse(fromLink(hash.replace(/^#/, "")));
      return state && state.subject && typeof state.subject.model === "string" ? state : null;
    } catch {
      return null;
    }
  }
}
