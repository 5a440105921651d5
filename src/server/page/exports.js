// Exports of a run: images, an animation, the trace, a link, and the text.
import { showText } from "./dialogs.js";
import { copyText, saveFile } from "./dom.js";
import { inSeconds } from "./costs.js";
import { linkOf } from "./link.js";
import { animationOf, imageOf, pngBlob, svgBlob } from "./image.js";
import { traceOf } from "./trace.js";

const LINK_NOTE = "It opens on any page of lacuna serve. Nothing of the run is sent to the server.";

const ACTIONS = {
  svg: (view) => saveFile("lacuna.svg", svgBlob(imageOf(lookOf(view), view.at))),
  png: async (view) => saveFile("lacuna.png", await pngBlob(imageOf(lookOf(view), view.at))),
  animation: (view) => saveFile("lacuna-animated.svg", svgBlob(animationOf(lookOf(view)))),
  trace: (view) => saveFile("lacuna.jsonl", new Blob([traceOf(view.run)], { type: "application/jsonl" })),
  link: async (view) => showText("A link that replays this run", LINK_NOTE, await linkOf(traceOf(view.run))),
  text: (view, button) => copyText(view.text, button),
};

/// Makes the buttons of a view's menu work.
export function offerExports(view) {
  const menu = view.part(".menu");
  for (const button of menu.querySelectorAll("[data-export]")) {
    button.addEventListener("click", async () => {
      view.part(".export-error").textContent = "";
      menu.open = button.dataset.export === "text";  // its button shows whether copying worked
      try {
        if (view.run.start === null) throw new Error("there is no run yet");
        await ACTIONS[button.dataset.export](view, button);
      } catch (error) {
        view.part(".export-error").textContent = error.message;
        menu.open = true;
      }
    });
  }
}

function lookOf(view) {
  const cost = view.run.cost(view.at);
  const share = cost.rowsBaseline ? `, ${((100 * cost.rows) / cost.rowsBaseline).toFixed(0)}% of the uncached baseline` : "";
  const foot = [`pass ${view.at} of ${view.count}`, `${cost.rows} rows${share}`, inSeconds(cost.milliseconds)];
  return { ...view.look(), foot: foot.join(" · ") };
}
