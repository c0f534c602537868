// The settings of a filter: a slider and a field for each, of those that it reads.
import { make } from "./elements.js";
import { plain } from "./numbers.js";

export class Controls {
  /** @param {HTMLFormElement} form @param {import("./settings.js").Store} store */
  constructor(form, store) {
    this.form = form;
    this.store = store;
    /** @type {Record<string, any>} */
    this.made = {};
    /** @type {any} */
    this.about = null;
    form.addEventListener("submit", (e) => e.preventDefault());
  }

  /** Builds the controls for a subject. @param {any} about */
  describe(about) {
    this.about = about;
    this.made = {};
    this.form.replaceChildren(...about.settings.map((/** @type {any} */ setting) => this.build(setting)));
  }

  /** The usual learning rate of an optimizer, in the units of the model. @param {string} optimizer */
  usualRate(optimizer) {
    const { gradient, adaptive } = this.about.units;
    const plainSteps = ["gd", "momentum", "nesterov"].includes(optimizer);
    return Number((plainSteps ? 0.2 * gradient : optimizer === "adadelta" ? 1 : 0.1 * adaptive).toPrecision(2));
  }

  /** Lowest and highest value of a slider. @param {any} setting */
  range(setting) {
    if (setting.key !== "lr") return [setting.low, setting.high];
    const usual = this.usualRate(this.filter().optimizer || "adam");
    return [usual * 1e-3, usual * 50];
  }

  filter() {
    const now = /** @type {any} */ (this.store.now);
    return now[now.side] || now.a;
  }

  /** @param {any} setting */
  build(setting) {
    const id = `set-${setting.key}`;
    const label = make("label", { for: id }, setting.label);
    const wrong = make("span", { class: "wrong", id: `${id}-wrong`, role: "alert" });
    const box = make("div", { class: `setting${setting.check ? " check" : ""}`, "data-key": setting.key });
    if (setting.choices) {
      const choices = setting.key === "method" ? this.about.methods : setting.choices.map((/** @type {string} */ name) => ({ name }));
      const select = make("select", { id }, ...choices.map((/** @type {any} */ c) =>
        make("option", { value: c.name, disabled: Boolean(c.why_not), title: c.why_not || "" }, c.name)));
      select.addEventListener("change", () => this.choose(setting.key, select.value));
      this.made[setting.key] = { box, setting, select, wrong };
      box.append(label, select, wrong);
    } else if (setting.check) {
      const check = make("input", { id, type: "checkbox" });
      check.addEventListener("change", () => this.store.set({ [setting.key]: check.checked ? true : null }));
      this.made[setting.key] = { box, setting, check, wrong };
      box.append(check, label, wrong);
    } else {
      const field = make("input", { id, type: "number", step: "any", "aria-describedby": `${id}-wrong`, min: setting.most && "0", max: setting.most && String(setting.most) });
      const slider = make("input", { type: "range", min: "0", max: "1000", step: "1", "aria-label": `${setting.label}, slider` });
      slider.addEventListener("input", () => this.slide(setting, Number(slider.value) / 1000, true));
      slider.addEventListener("change", () => this.store.release());
      field.addEventListener("change", () => {
        const typed = Number(field.value);
        if (setting.most && typed > setting.most) wrong.textContent = `at most ${setting.most}`;
        else if (field.value !== "" && Number.isFinite(typed)) this.store.set({ [setting.key]: setting.whole ? Math.round(typed) : typed });
      });
      this.made[setting.key] = { box, setting, field, slider, wrong };
      box.append(label, field, slider, wrong);
    }
    return box;
  }

  /** @param {string} key @param {string} chosen */
  choose(key, chosen) {
    /** @type {any} */
    const change = { [key]: chosen };
    if (key === "method") {
      const optimizes = chosen === "imap" || chosen === "vkf";
      const filter = this.filter();
      if (optimizes && !filter.lr) Object.assign(change, { optimizer: "gd", steps: filter.steps || 3, lr: this.usualRate("gd") });
    }
    if (key === "optimizer") {
      change.lr = chosen === "cg" ? null : this.usualRate(chosen);
      if (chosen === "cg") Object.assign(change, { carry: null, steps: 3 });
      const decays = !["gd", "adagrad", "cg"].includes(chosen);
      change.decay = decays ? (this.filter().decay ?? 0.9) : null;
    }
    if (key === "constraint" && chosen === "strong") change.constraint = null;
    this.store.set(change);
  }

  /** @param {any} setting @param {number} share @param {boolean} holding */
  slide(setting, share, holding) {
    const [low, high] = this.range(setting);
    let v = setting.log ? low * (high / low) ** share : low + share * (high - low);
    v = setting.whole ? Math.round(v) : Number(v.toPrecision(3));
    this.store.set({ [setting.key]: v }, { holding });
  }

  /** Shows the settings that hold. @param {any} result the program's answer to the filter in hand */
  show(result) {
    const filter = this.filter();
    for (const [key, made] of Object.entries(this.made)) {
      const { setting } = made;
      made.box.hidden = !(result ? result.shown.includes(key) : key === "method");
      made.wrong.textContent = "";
      const v = filter[key] ?? (result && result.filled[key]) ?? setting.fallback;
      if (made.select) made.select.value = v ?? "";
      else if (made.check) made.check.checked = v === true;
      else if (v === undefined || v === null) made.field.value = "";
      else {
        if (document.activeElement !== made.field) made.field.value = plain(Number(v));
        const [low, high] = this.range(setting);
        const share = setting.log ? Math.log(Math.max(v, 1e-300) / low) / Math.log(high / low) : (v - low) / (high - low);
        if (document.activeElement !== made.slider || !this.store.holding) made.slider.value = String(Math.round(1000 * Math.min(Math.max(share, 0), 1)));
        made.slider.setAttribute("aria-valuetext", plain(Number(v)));
      }
    }
  }

  /** Says what is wrong beside the setting at fault; false if there is none. @param {any} told */
  complain(told) {
    const made = this.made[told.key];
    if (!made) return false;
    made.box.hidden = false;
    made.wrong.textContent = told.message;
    return true;
  }
}
