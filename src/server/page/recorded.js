// Runs that were recorded: files that are opened or dropped on the page, and links. decoder.js reads them apart from the page.
import { by } from "./dom.js";
import { holdsRun } from "./link.js";
import { RunView } from "./run_view.js";

const MAX_BYTES = 1 << 25;  // of a file
const SECONDS = 10;          // in which a run has to be read
const NO_READER = "the recorded run cannot be read: the browser has no memory for it, or the server of the page cannot be reached";

export function watchForTraces(app) {
  by("trace").addEventListener("change", () => {
    const [file] = by("trace").files;
    if (file) show(app, file.name, { file });
    by("trace").value = "";
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault();
      document.body.classList.toggle("dropping", name === "dragover");
      const file = name === "drop" ? event.dataTransfer.files[0] : null;
      if (file) show(app, file.name, { file });
    });
  }
  addEventListener("hashchange", () => openFragment(app));
}

/// Shows the run of a link that replays.
export async function openFragment(app) {
  if (holdsRun(location.hash)) await show(app, "Run from a link", { fragment: location.hash });
}

/// The events of a recorded run. Throws an Error with one sentence where it holds none, or more than the page takes.
///   source   {file} or {fragment}     mask  the model's mask token, for traces that do not tell it
///   seconds  in which it has to be read
export function decode(source, mask, seconds = SECONDS) {
  const { size = 0 } = source.file ?? {};
  if (size > MAX_BYTES) return Promise.reject(new Error(`the file has ${size} bytes; expected at most ${MAX_BYTES}`));
  return new Promise((done, fail) => {
    const worker = new Worker("decoder.js", { type: "module" });
    const end = (settle, value) => {
      clearTimeout(timer);
      worker.terminate();
      settle(value);
    };
    const timer = setTimeout(() => end(fail, new Error(`the recorded run was not read within ${seconds} seconds; expected a smaller one`)), 1e3 * seconds);
    worker.addEventListener("message", ({ data }) => (data.events ? end(done, data.events) : end(fail, new Error(data.sentence))));
    worker.addEventListener("error", () => end(fail, new Error(NO_READER)));
    worker.postMessage({ ...source, mask });
  });
}

async function show(app, title, source) {
  const runs = (app.tab.runs ? app.tab : app.tabs[0]).runs;
  if (!app.tab.runs) by(`tab-${app.tabs[0].name}`).click();
  const run = runs.newRun();
  const view = new RunView(run, title);
  runs.show([view]);
  try {
    for (const event of await decode(source, app.props?.mask_id ?? -1)) run.add(event);
    if (run.pieces.size === 0) await nameTokens(run, app);
    view.draw();
    view.addText(view.parts().map(({ text }) => text).join(""));
    view.finish("recorded run");
  } catch (error) {
    view.fail(error.message);
  }
  view.element.scrollIntoView({ block: "start" });
}

/// A trace of an older version has ids alone; the texts are those of this server's model.
async function nameTokens(run, app) {
  const tokens = new Set(run.start.canvas);
  for (const step of run.steps) for (const [, id] of [...step.set, ...step.edit]) tokens.add(id);
  const reply = await app.ask("detokenize", { body: { ...app.models.field, tokens: [...tokens], with_pieces: true } });
  for (const { id, piece } of (await reply.json()).tokens) run.pieces.set(id, piece);
}
