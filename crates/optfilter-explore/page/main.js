// The page: what the user chooses goes to the program, what it answers is drawn.
import { Controls } from "./controls.js";
import { colour, make, swatch, the } from "./elements.js";
import { LeaderBoard } from "./leader-board.js";
import { ModelEditor } from "./model-editor.js";
import { drawStep } from "./opened-step.js";
import { ScoreMap } from "./score-map.js";
import { showScores } from "./scores.js";
import { ask, askRun, askStart, Fault, frozen, sendTable } from "./server.js";
import { Store } from "./settings.js";
import { TakeAway } from "./take-away.js";
import { Timeline } from "./timeline.js";

const TABS = ["step", "map", "board", "model", "take"];
const MANY = 4000; // rows beyond which the error bars of an implicit filter come second
const store = new Store();
/** The number of the newest answer that is drawn, of each filter. @type {Record<string, number>} */
const newest = { asked: 0, a: 0, b: 0, step: 0 };
/** What the program last said of the subject, and of each filter. @type {any} */
const known = { about: null, a: null, b: null, opened: null, gallery: [] };
const controls = new Controls(the("settings"), store);
const timeline = new Timeline(the("timeline"), (row) => store.change({ row }, { quiet: true }),
  (from, to) => store.change({ from, to }, { quiet: true }), (text, aloud) => {
    // Those who walk by keys hear it; a pointer would talk without end.
    the("hover").setAttribute("aria-live", aloud ? "polite" : "off");
    the("hover").textContent = text;
  });
const editor = new ModelEditor((text) => store.change({ subject: { ...store.now.subject, model: text } }));
const map = new ScoreMap(store, complain);
const board = new LeaderBoard(store, complain);
/** @type {TakeAway} */
let takeAway;

/** Says what went wrong, where it belongs. @param {any} fault */
function complain(fault) {
  const told = fault instanceof Fault ? fault.told : { kind: "page", message: String(fault) };
  if (told.kind === "stopped") return;
  if (told.kind === "model") {
    editor.complain(told);
    if (store.now.tab === "model") return;
  }
  if (told.kind === "filter" && controls.complain(told)) return;
  the("fault").textContent = told.text || told.message;
  the("fault").hidden = false;
}

function content() {
  the("fault").hidden = true;
  editor.complain(null);
}

/** How many questions are on their way, for those who wait for the page. @param {number} by */
function busy(by) {
  const root = document.documentElement.dataset;
  root.busy = String(Number(root.busy || 0) + by);
}

/** One question at a time: while one is on its way the newest waits; one that takes long is overtaken, and the program ends it. */
class Lane {
  /** @param {() => Promise<void>} act */
  constructor(act) {
    this.act = act;
    this.busy = 0;
    this.begun = 0;
    this.waiting = false;
    this.number = 0;
  }

  async go() {
    if (this.busy > 0 && performance.now() - this.begun < 200) {
      if (!this.waiting) setTimeout(() => this.waiting && this.again(), 210);
      this.waiting = true;
      return;
    }
    this.waiting = false;
    this.busy += 1;
    busy(1);
    this.begun = performance.now();
    try {
      await this.act();
    } catch (fault) {
      complain(fault);
    }
    this.busy -= 1;
    followUp();
    if (this.waiting) this.again();
    busy(-1);
  }

  again() {
    this.waiting = false;
    this.go();
  }
}

/** Runs a filter and shows it. @param {string} side */
async function runSide(side) {
  const now = /** @type {any} */ (store.now);
  if (!known.about || !now[side]) return;
  const { about } = known;
  const begun = performance.now();
  const number = ++newest.asked;
  const body = (/** @type {boolean} */ bars) => ({
    from: { lane: side }, subject: now.subject, filter: now[side], bars, chosen: now.chosen,
    view: { from: now.from, to: now.to, states: now.states, observations: now.observations },
    smooth: now.smooth && side === "a" && bars, ahead: side === "a" && bars ? now.ahead : 0,
  });
  const quick = about.rows > MANY && now[side].method === "imap" && !now[side].carry;
  for (const bars of quick ? [false, true] : [true]) {
    const { head, drawn } = await askRun(body(bars));
    // While a slider moves, every answer that is newer than what is drawn is worth drawing.
    if (known.about !== about || !(/** @type {any} */ (store.now)[side]) || number < newest[side]) return;
    newest[side] = number;
    content();
    known[side] = head;
    timeline.drawn[side] = drawn;
    redraw();
    followUp();
    document.documentElement.dataset.drawnMs = (performance.now() - begun).toFixed(1);
    document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn || 0) + 1);
    if (now[side] !== /** @type {any} */ (store.now)[side]) return;
  }
}

const lanes = { a: new Lane(() => runSide("a")), b: new Lane(() => runSide("b")), step: new Lane(openStep) };

/** Whether the opened step and the texts to take away are of older settings. */
let behind = false;

/** What comes after the series is drawn, so that it does not wait for it. */
function followUp() {
  if (!behind) return;
  behind = false;
  lanes.step.go();
  if (store.now.tab === "take") takeAway.show();
}

async function openStep() {
  const now = store.now;
  if (!known.about || now.tab !== "step" || frozen) return;
  const number = ++newest.asked;
  const opened = await ask("api/step", { from: { lane: "step" }, subject: now.subject, filter: /** @type {any} */ (now)[now.side] || now.a, row: now.row, along: now.along });
  if (number < newest.step || now.subject !== store.now.subject) return;
  newest.step = number;
  const side = /** @type {any} */ (now)[now.side] ? now.side : "a";
  known.opened = [opened, known.about, now.along, side, /** @type {any} */ (now)[side].method];
  drawStep(.../** @type {[any, any, number[], string, string]} */ (known.opened));
  document.documentElement.dataset.opened = String(opened.row);
}

function redraw() {
  const now = store.now;
  timeline.draw(now);
  showScores(the("scores"), known.about, known.a, now.b ? known.b : null, now.chosen);
  controls.show(known[now.side] || known.a);
  showLegend(now);
  map.offer(known.about, /** @type {any} */ (now)[now.side] || now.a, (o) => controls.usualRate(o));
}

/** @param {import("./settings.js").Chosen} now */
function showLegend(now) {
  const flags = (/** @type {any} */ head) => (head ? head.flags.replace("--method ", "").replace(/--/g, "") : "");
  const has = (/** @type {string} */ what) => timeline.drawn.a.some((d) => d.what === what);
  const bars = known.a && known.a.has_bars ? " with two standard deviations" : "";
  the("legend").replaceChildren(
    swatch(colour("a"), `A: ${flags(known.a)}${bars}`),
    ...(now.b ? [swatch(colour("b"), `B: ${flags(known.b)}, difference shaded`)] : []),
    swatch(colour("measured"), "measured"),
    ...(has("truth") ? [swatch(colour("truth"), "truth (dashed)")] : []),
    ...(has("smoothed") ? [swatch(colour("green"), "smoothed")] : []),
    ...(has("outlier") ? [swatch(colour("bad"), "outliers")] : []),
  );
}

/** Asks the program about a model and a table. @param {boolean} fresh whether the filter and the view are the subject's own */
async function describe(fresh) {
  const subject = store.now.subject;
  const filter = fresh && !store.now.a.method ? null : store.now.a;
  const about = await ask("api/describe", { subject, filter });
  if (subject !== store.now.subject) return;
  content();
  const first = known.about === null || fresh || about.states.join() !== known.about.states.join() ||
    about.observations.join() !== known.about.observations.join();
  known.about = about;
  known.a = known.b = null;
  timeline.describe(about);
  controls.describe(about);
  if (first) {
    const upTo = (/** @type {string[]} */ names, /** @type {number} */ count) => names.slice(0, count).map((_, i) => i);
    store.change({
      a: filter && filter.method ? store.now.a : about.filter, states: upTo(about.states, 3), observations: upTo(about.observations, about.states.length > 2 ? 1 : 2),
      from: null, to: null, chosen: null, row: Math.min(Math.floor(about.rows / 2), about.rows - 1), along: [0],
    }, { quiet: true });
  }
  the("about").textContent = `${about.title}: ${about.rows} rows of ${about.table}`;
  showNames();
  editor.show(subject.model);
  lanes.a.go();
  if (store.now.b) lanes.b.go();
  lanes.step.go();
  if (store.now.tab === "take") takeAway.show();
}

function showNames() {
  const { about } = known;
  const box = (/** @type {"states"|"observations"} */ which, /** @type {number} */ i) => {
    const check = make("input", { type: "checkbox", checked: store.now[which].includes(i) });
    check.addEventListener("change", () => {
      const chosen = new Set(store.now[which]);
      if (check.checked) chosen.add(i);
      else chosen.delete(i);
      store.change({ [which]: [...chosen].sort((a, b) => a - b).slice(0, 24) }, { quiet: true });
    });
    return make("label", {}, check, ` ${about[which][i]}`);
  };
  the("names").replaceChildren(make("legend", {}, "Shown"),
    ...about.states.slice(0, 100).map((/** @type {string} */ _, /** @type {number} */ i) => box("states", i)),
    ...about.observations.slice(0, 100).map((/** @type {string} */ _, /** @type {number} */ i) => box("observations", i)));
  const options = about.states.map((/** @type {string} */ name, /** @type {number} */ i) => make("option", { value: String(i) }, name));
  the("step-first").replaceChildren(...options);
  the("step-second").replaceChildren(make("option", { value: "" }, "nothing else"), ...options.map((/** @type {any} */ o) => o.cloneNode(true)));
  showStepChoice();
}

function showStepChoice() {
  the("step-first").value = String(store.now.along[0]);
  the("step-second").value = store.now.along.length > 1 ? String(store.now.along[1]) : "";
  the("step-row").value = String(store.now.row + 1);
}

store.listeners.push((now, before) => {
  the("undo").disabled = store.past.length === 0;
  the("redo").disabled = store.future.length === 0;
  the("side-a").setAttribute("aria-pressed", String(now.side === "a"));
  the("side-b").setAttribute("aria-pressed", String(now.side === "b"));
  the("drop-b").hidden = now.b === null;
  the("smooth").checked = now.smooth;
  the("ahead").value = String(now.ahead);
  if (now.tab !== before.tab) showTab();
  if (now.subject !== before.subject) {
    const known_gallery = known.gallery.some((/** @type {any} */ g) => g.id === now.subject.table && g.model === now.subject.model);
    the("gallery").value = known_gallery ? now.subject.table : "";
    busy(1);
    describe(now.subject.table !== before.subject.table).catch(complain).finally(() => busy(-1));
    return;
  }
  if (!known.about) return;
  const changed = (/** @type {string[]} */ keys) => keys.some((key) => /** @type {any} */ (now)[key] !== /** @type {any} */ (before)[key]);
  const seen = changed(["states", "observations", "from", "to", "chosen", "smooth", "ahead"]);
  const [runsA, runsB] = [changed(["a"]) || seen, now.b !== null && (changed(["b"]) || seen)];
  const opens = changed(["row", "along", "a", "b", "side"]);
  behind ||= opens || now.tab === "take";
  if (runsA) lanes.a.go();
  if (runsB) lanes.b.go();
  if (opens) showStepChoice();
  if (changed(["from", "to", "row", "b", "side", "states", "observations"])) redraw();
  if (!runsA && !runsB) followUp();
});

function showTab() {
  for (const tab of TABS) {
    const chosen = tab === store.now.tab;
    the(`tab-${tab}`).setAttribute("aria-selected", String(chosen));
    the(`tab-${tab}`).tabIndex = chosen ? 0 : -1;
    the(`panel-${tab}`).hidden = !chosen;
  }
  if (!known.about) return;
  if (store.now.tab === "step") lanes.step.go();
  if (store.now.tab === "map") map.draw();
  if (store.now.tab === "take") takeAway.show();
}

/** Opens a series of the gallery. @param {string} id */
function openPiece(id) {
  const piece = known.gallery.find((/** @type {any} */ g) => g.id === id);
  if (piece) store.change({ subject: { model: piece.model, name: piece.name, table: piece.id }, a: piece.filter || {}, b: null, side: "a", smooth: false, ahead: 0 });
}

/** Opens a table of the user's: under the present model if it has its columns, else under one for its last column of numbers. @param {File} file */
async function openTable(file) {
  if (file.size > 64 * 2 ** 20) return complain(new Fault({ kind: "limit", message: `${file.name} is longer than 64 MiB` }));
  try {
    const { table, name } = await sendTable(file);
    const subject = { ...store.now.subject, table };
    try {
      await ask("api/describe", { subject });
      store.change({ subject, b: null, side: "a" });
    } catch (fault) {
      if (!(fault instanceof Fault) || fault.told.kind !== "data") throw fault;
      const head = (await file.slice(0, 65536).text()).split(/\r?\n/);
      const model = modelFor(head);
      if (!model) throw fault;
      store.change({ subject: { model, name: name.replace(/\.[^.]*$/, "") + ".toml", table }, a: {}, b: null, side: "a", tab: "model" });
    }
  } catch (fault) {
    complain(fault);
  }
}

/** A level that wanders, for the last column that holds a number: something to begin with. @param {string[]} lines */
function modelFor(lines) {
  const cells = (/** @type {string} */ line) => line.split(/[,\t;]/).map((c) => c.trim().replace(/^"|"$/g, ""));
  const names = cells(lines[0] || "");
  const rows = lines.slice(1, 200).filter(Boolean).map(cells);
  const numbers = (/** @type {number} */ k) => rows.map((r) => r[k]).filter((c) => c !== undefined && c !== "").map(Number);
  const column = names.map((_, k) => k).reverse().find((k) => numbers(k).length > 2 && numbers(k).every(Number.isFinite));
  if (column === undefined) return null;
  const ys = numbers(column);
  const steps = ys.slice(1).map((y, k) => y - ys[k]);
  const std = Number((Math.sqrt(steps.reduce((s, d) => s + d * d, 0) / Math.max(steps.length, 1)) || 1).toPrecision(2));
  const quote = (/** @type {string} */ text) => JSON.stringify(text);
  return `# Something to begin with: a level that wanders and is seen with noise. Change anything.\nname = ${quote(names[column])}\n` +
    `states = ["level"]\n\n[dynamics]\nlevel = "level"\n\n[observation]\ny = "level"\n\n[columns]\ny = ${quote(names[column])}\n\n` +
    `[process_noise]\nstd = ${Number((std / 2).toPrecision(2))}\n\n[measurement_noise]\nstd = ${std}\n\n[initial]\nmean = ${ys[0]}\nstd = ${Number((10 * std).toPrecision(2))}\n`;
}

function wire() {
  const on = (/** @type {string} */ id, /** @type {string} */ event, /** @type {(e: any) => void} */ act) => the(id).addEventListener(event, act);
  const quiet = { quiet: true };
  on("undo", "click", () => store.undo());
  on("redo", "click", () => store.redo());
  on("gallery", "change", () => openPiece(the("gallery").value));
  on("drop-file", "change", (e) => e.target.files[0] && openTable(e.target.files[0]));
  on("side-a", "click", () => store.change({ side: "a" }, quiet));
  on("side-b", "click", () => store.change(store.now.b ? { side: "b" } : { side: "b", b: { ...store.now.a } }, store.now.b ? quiet : {}));
  on("drop-b", "click", () => store.change({ side: "a", b: null }));
  on("smooth", "change", () => store.change({ smooth: the("smooth").checked }, quiet));
  on("ahead", "change", () => store.change({ ahead: Math.min(Math.max(0, Math.round(Number(the("ahead").value) || 0)), 10000) }, quiet));
  on("zoom-in", "click", () => timeline.move(0.6, 0));
  on("zoom-out", "click", () => timeline.move(1.6, 0));
  on("pan-left", "click", () => timeline.move(1, -0.3));
  on("pan-right", "click", () => timeline.move(1, 0.3));
  on("zoom-all", "click", () => store.change({ from: null, to: null }, quiet));
  const rows = () => {
    const [from, to] = [Number(the("chosen-from").value) || 1, Number(the("chosen-to").value) || known.about.rows];
    store.change({ chosen: [Math.max(0, from - 1), to] }, quiet);
  };
  on("chosen-from", "change", rows);
  on("chosen-to", "change", rows);
  on("chosen-view", "click", () => {
    const { from, to } = store.now;
    the("chosen-from").value = String(timeline.clamp(timeline.rowAt(from ?? known.about.times[0])) + 1);
    the("chosen-to").value = String(timeline.clamp(timeline.rowAt(to ?? known.about.times[1])) + 1);
    rows();
  });
  on("chosen-all", "click", () => store.change({ chosen: null }, quiet));
  const toRow = (/** @type {number} */ row) => known.about && store.change({ row: timeline.clamp(row) }, quiet);
  on("step-row", "change", () => toRow(Number(the("step-row").value) - 1));
  on("step-back", "click", () => toRow(store.now.row - 1));
  on("step-on", "click", () => toRow(store.now.row + 1));
  on("step-canvas", "keydown", (e) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[/** @type {"ArrowLeft"} */ (e.key)];
    if (by) {
      e.preventDefault();
      toRow(store.now.row + by);
    }
  });
  /** @type {any} */
  let playing = null;
  on("step-play", "click", () => {
    if (playing) clearInterval(playing);
    playing = playing ? null : setInterval(() => {
      if (store.now.row >= known.about.rows - 1 || store.now.tab !== "step") return the("step-play").click();
      if (lanes.step.busy === 0) toRow(store.now.row + 1);
    }, 150);
    the("step-play").setAttribute("aria-pressed", String(playing !== null));
  });
  const along = () => {
    const [first, second] = [Number(the("step-first").value), the("step-second").value];
    store.change({ along: second === "" || Number(second) === first ? [first] : [first, Number(second)] }, quiet);
  };
  on("step-first", "change", along);
  on("step-second", "change", along);
  TABS.forEach((tab, k) => {
    on(`tab-${tab}`, "click", () => store.change({ tab }, quiet));
    on(`tab-${tab}`, "keydown", (e) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[/** @type {"ArrowLeft"} */ (e.key)];
      if (!by) return;
      e.preventDefault();
      const next = TABS[(k + by + TABS.length) % TABS.length];
      store.change({ tab: next }, quiet);
      the(`tab-${next}`).focus();
    });
  });
  document.addEventListener("keydown", (e) => {
    const writing = /** @type {any} */ (e.target).tagName === "TEXTAREA";
    if (!(e.ctrlKey || e.metaKey) || e.key.toLowerCase() !== "z" || writing) return;
    e.preventDefault();
    if (e.shiftKey) store.redo();
    else store.undo();
  });
  let inside = 0;
  document.addEventListener("dragenter", () => (the("dropzone").hidden = ++inside <= 0));
  document.addEventListener("dragleave", () => (the("dropzone").hidden = --inside <= 0));
  document.addEventListener("dragover", (e) => e.preventDefault());
  document.addEventListener("drop", (e) => {
    e.preventDefault();
    inside = 0;
    the("dropzone").hidden = true;
    const file = e.dataTransfer && e.dataTransfer.files[0];
    if (file) openTable(file);
  });
  const again = () => {
    if (!known.about) return;
    redraw();
    if (known.opened) drawStep(.../** @type {[any, any, number[], string, string]} */ (known.opened));
    map.draw();
  };
  window.addEventListener("resize", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

async function begin() {
  wire();
  const start = await askStart();
  takeAway = new TakeAway(store, complain, start.save);
  known.gallery = start.gallery;
  const { opening } = start;
  the("gallery").replaceChildren(make("option", { value: "" }, opening ? opening.name : "your own"),
    ...start.gallery.map((/** @type {any} */ g) => make("option", { value: g.id, title: g.about }, g.title)));
  const linked = frozen ? frozen.state : Store.fromLink(location.hash);
  if (frozen) {
    for (const id of ["gallery", "drop-file", "undo", "redo", "map-start", "board-start", "step-play", "smooth", "ahead", "side-b", "drop-b"]) the(id).disabled = true;
    if (!frozen.state) store.now.tab = "take";
    the("settings").inert = true;
    the("model-text").readOnly = true;
    the("step-text").textContent = the("map-text").textContent = the("board-text").textContent =
      "This page was saved: look, zoom and hover. The command under Take away, with explore in the place of filter, goes on from here.";
  }
  showTab();
  if (linked && linked.subject) {
    store.now = { ...store.now, ...linked };
    const about = await ask("api/describe", { subject: linked.subject, filter: linked.a });
    known.about = about; // what was chosen stays
    await describe(false);
    showTab();
    store.tell(store.now);
  } else if (opening) {
    store.change({ subject: { model: opening.model, name: opening.name, table: opening.table }, a: opening.filter }, { quiet: true });
  } else openPiece(start.gallery[0].id);
  store.past = [];
  the("undo").disabled = true;
}

begin().catch(complain);
