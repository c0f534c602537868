// Small helpers around the document.

/** An element that the page has. @param {string} id @returns {any} */
export function the(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/** A new element. @param {string} tag @param {Record<string, any>} [attributes] @param {...(Node|string)} children @returns {any} */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key in element && key !== "list" && typeof value !== "string") /** @type {any} */ (element)[key] = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

/** Colours that were looked up; the style sheet has others in the dark. @type {Map<string, string>} */
const colours = new Map();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => colours.clear());

/** A colour of the style sheet. @param {string} name @returns {string} */
export function colour(name) {
  const found = colours.get(name) ?? getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  colours.set(name, found);
  return found;
}

/** A canvas made ready for drawing in units of the page. @param {HTMLCanvasElement} canvas */
export function ready(canvas) {
  const width = Math.max(canvas.clientWidth, 50);
  const height = Math.max(canvas.clientHeight, 50);
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px system-ui, sans-serif";
  pen.lineJoin = "round";
  return { pen, width, height };
}

/** Gives a file to the user. @param {Blob} blob @param {string} name */
export function download(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A colour swatch with a word. @param {string} css @param {string} word */
export function swatch(css, word) {
  const mark = make("i");
  mark.style.background = css;
  return make("span", {}, mark, word);
}
