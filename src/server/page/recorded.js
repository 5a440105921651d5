// Runs that were recorded: files that are opened or dropped on the page, and links.
import { by } from "./dom.js";
import { traceOfFragment } from "./link.js";
import { RunView } from "./run_view.js";
import { eventsOfTrace } from "./trace.js";

export function watchForTraces(app) {
  by("trace").addEventListener("change", async () => {
    const [file] = by("trace").files;
    if (file) show(app, file.name, () => file.text());
    by("trace").value = "";
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(name, (event) => {
      if (![...(event.dataTransfer?.types ?? [])].includes("Files")) return;
      event.preventDefault();
      document.body.classList.toggle("dropping", name === "dragover");
      const file = name === "drop" ? event.dataTransfer.files[0] : null;
      if (file) show(app, file.name, () => file.text());
    });
  }
  addEventListener("hashchange", () => openFragment(app));
}

/// Shows the run of a link that replays.
export async function openFragment(app) {
  if (location.hash.startsWith("#run=")) await show(app, "Run from a link", () => traceOfFragment(location.hash));
}

async function show(app, title, read) {
  const runs = (app.tab.runs ? app.tab : app.tabs[0]).runs;
  if (!app.tab.runs) by(`tab-${app.tabs[0].name}`).click();
  const run = runs.newRun();
  const view = new RunView(run, title);
  runs.show([view]);
  try {
    for (const event of eventsOfTrace(await read(), app.props?.mask_id ?? -1)) run.add(event);
    view.draw();
    if (run.pieces.size === 0) await nameTokens(run, app);
    view.addText(view.parts().map(({ text }) => text).join(""));
    view.finish("recorded run");
  } catch (error) {
    view.fail(error.message);
  }
}

/// A trace of an older version has ids alone; the texts are those of this server's model.
async function nameTokens(run, app) {
  const tokens = new Set(run.start.canvas);
  for (const step of run.steps) for (const [, id] of [...step.set, ...step.edit]) tokens.add(id);
  const reply = await app.ask("detokenize", { body: { ...app.models.field, tokens: [...tokens], with_pieces: true } });
  for (const { id, piece } of (await reply.json()).tokens) run.pieces.set(id, piece);
}
