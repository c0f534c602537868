// Numbers as the command line writes them, and arrays from the server's answers.

/** Four significant digits, as `optfilter` prints. @param {number|null|undefined} v @returns {string} */
export function short(v) {
  if (v === null || v === undefined || Number.isNaN(v)) return "n/a";
  if (v === 0) return "0";
  if (!Number.isFinite(v)) return v > 0 ? "inf" : "-inf";
  const size = Math.floor(Math.log10(Math.abs(v)));
  if (size >= -4 && size < 7) return v.toFixed(Math.max(3 - size, 0));
  return v.toExponential(3).replace("e+", "e");
}

/** A value for a number field: what was typed or chosen, without a tail of digits. @param {number} v */
export function plain(v) {
  return String(Number(v.toPrecision(6)));
}

/** @typedef {{of: string, index: number, what: string, kind: string, values: Float64Array}} Drawn */

/** The head and the arrays of a packed answer. @param {ArrayBuffer} buffer @returns {{head: any, drawn: Drawn[]}} */
export function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const drawn = head.arrays.map((/** @type {any} */ a) => ({
    ...a, values: new Float64Array(buffer, 4 + size + 8 * a.at, a.len),
  }));
  return { head, drawn };
}

/** @param {string} text @returns {ArrayBuffer} */
export function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes.buffer;
}

/** Text for an address, that any text survives. @param {string} text */
export function toLink(text) {
  let raw = "";
  for (const byte of new TextEncoder().encode(text)) raw += String.fromCharCode(byte);
  return btoa(raw).replace(/\+/g, "-").replace(/\//g, "_").replace(/=/g, "");
}

/** @param {string} text */
export function fromLink(text) {
  const buffer = fromBase64(text.replace(/-/g, "+").replace(/_/g, "/"));
  return new TextDecoder().decode(new Uint8Array(buffer));
}
