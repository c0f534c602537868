// Questions to the program, which computes everything; in an exported page the answers are inside of it.
import { fromBase64, unpack } from "./numbers.js";

/** What an exported page holds instead of a server. @type {any} */
export const frozen = (() => {
  const found = document.getElementById("frozen");
  return found ? JSON.parse(found.textContent || "null") : null;
})();

const page = Math.random().toString(36).slice(2) + Date.now().toString(36);
let count = 0;

/** A fault that the program has told. */
export class Fault extends Error {
  /** @param {any} told */
  constructor(told) {
    super(told.message);
    this.told = told;
  }
}

/** @param {Response} response */
async function checked(response) {
  const json = response.headers.get("content-type") === "application/json";
  if (response.ok && !json) return response;
  const told = json ? await response.clone().json() : {};
  if (told.error) throw new Fault(told.error);
  if (!response.ok) throw new Fault({ kind: "request", message: `the program answered ${response.status}` });
  return response;
}

/** @param {string} path @param {any} body */
async function post(path, body) {
  const lane = body.from ? body.from.lane : "";
  if (body.from) body.from = { page, lane, number: ++count };
  let response;
  try {
    response = await fetch(path, { method: "POST", body: JSON.stringify(body) });
  } catch {
    throw new Fault({ kind: "gone", message: "the program has ended; start it again and reload the page" });
  }
  return checked(response);
}

/** @param {string} path @param {any} body @returns {Promise<any>} */
export async function ask(path, body) {
  if (frozen) return frozenAnswer(path, body);
  return (await post(path, body)).json();
}

/** @param {any} body */
export async function askRun(body) {
  if (frozen) {
    const packed = body.from.lane === "b" ? frozen.b : frozen.a;
    return unpack(fromBase64(packed));
  }
  return unpack(await (await post("api/run", body)).arrayBuffer());
}

/** @param {any} body @returns {Promise<Blob>} */
export async function askFile(body) {
  return (await post("api/take", body)).blob();
}

export async function askStart() {
  if (frozen) return { gallery: [], opening: { ...frozen.subject, filter: frozen.filter }, save: null, version: frozen.version };
  return (await checked(await fetch("api/start"))).json();
}

/** @param {File} file */
export async function sendTable(file) {
  const response = await fetch(`api/table?${encodeURIComponent(file.name)}`, { method: "POST", body: file });
  return (await checked(response)).json();
}

/** Lines of an answer as they come; aborting the signal ends the work. @param {string} path @param {any} body
 * @param {AbortSignal} signal @param {(line: any) => void} take */
export async function askLines(path, body, signal, take) {
  body.from = { page, lane: path, number: ++count };
  const response = await checked(await fetch(path, { method: "POST", body: JSON.stringify(body), signal }));
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value: bytes } = await reader.read();
    if (done) return;
    text += decoder.decode(bytes, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() || "";
    for (const line of lines) {
      const told = JSON.parse(line);
      if (told.error) throw new Fault(told.error);
      take(told);
    }
  }
}

/** @param {string} path @param {any} body */
function frozenAnswer(path, body) {
  if (path === "api/describe") return frozen.describe;
  if (path === "api/take" && body.what === "texts") return frozen.texts;
  throw new Fault({ kind: "frozen", message: "this page was saved; run the command under Take away to go on" });
}
