// The model file, read as it is written, with the messages of `optfilter model check`.
import { the } from "./elements.js";

export class ModelEditor {
  /** @param {(text: string) => void} changed */
  constructor(changed) {
    this.field = the("model-text");
    /** @type {any} */
    let timer;
    this.field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => changed(this.field.value), 250);
    });
  }

  /** @param {string} text */
  show(text) {
    if (this.field.value !== text) this.field.value = text;
  }

  /** Shows what is wrong, or nothing. @param {any} told */
  complain(told) {
    the("model-fault").textContent = told ? told.text || told.message : "";
    this.field.setAttribute("aria-invalid", told ? "true" : "false");
  }
}
