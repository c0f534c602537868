// What a user takes away: texts to copy, files, a link, a page.
import { download, make, the } from "./elements.js";
import { ask, askFile, frozen } from "./server.js";

export class TakeAway {
  /** @param {import("./settings.js").Store} store @param {(fault: any) => void} complain @param {string|null} save */
  constructor(store, complain, save) {
    this.store = store;
    this.complain = complain;
    const files = [["csv", "Results (CSV)", "estimates.csv"], ["data", "Table (CSV)", "table.csv"], ["svg", "Picture (SVG)", "picture.svg"],
      ["png", "Picture (PNG)", "picture.png"], ["page", "Page to send (HTML)", "page.html"]];
    const button = (/** @type {string} */ id, /** @type {string} */ text, /** @type {() => void} */ act) => {
      const made = make("button", { type: "button", id: `take-${id}` }, text);
      made.addEventListener("click", act);
      return made;
    };
    const buttons = [
      button("link", "Copy a link", () => this.copy("link", store.link())),
      button("flags", "Copy the command", () => this.copy("command", the("take-command").textContent)),
      ...(frozen ? [] : files.map(([what, text, name]) => button(what, text, () => this.file(what, name)))),
      ...(save ? [button("save", `Save to ${save}`, () => this.save())] : []),
    ];
    the("take-buttons").replaceChildren(...buttons);
  }

  /** @param {string} what */
  body(what) {
    const { subject, a, states, observations, from, to } = this.store.now;
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    return { what, subject, filter: a, view: { from, to, states, observations }, dark, state: what === "page" ? this.store.now : null };
  }

  async show() {
    try {
      const texts = await ask("api/take", this.body("texts"));
      for (const key of ["command", "toml", "python"]) the(`take-${key}`).textContent = texts[key];
    } catch (fault) {
      this.complain(fault);
    }
  }

  /** @param {string} what @param {string} name */
  async file(what, name) {
    try {
      download(await askFile(this.body(what)), name);
      this.say(`${name} is on its way.`);
    } catch (fault) {
      this.complain(fault);
    }
  }

  async save() {
    try {
      this.say(`Saved to ${(await ask("api/take", this.body("save"))).saved}.`);
    } catch (fault) {
      this.complain(fault);
    }
  }

  /** @param {string} what @param {string} text */
  async copy(what, text) {
    if (what === "link") history.replaceState(null, "", text.slice(text.indexOf("#")));
    try {
      await navigator.clipboard.writeText(text);
      this.say(`The ${what} is copied.`);
    } catch {
      this.say(what === "link" ? "The address of this page is the link." : text);
    }
  }

  /** @param {string} text */
  say(text) {
    the("take-said").textContent = text;
  }
}
