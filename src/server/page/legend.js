// Legend of the colours and marks that a run uses.
import { make } from "./dom.js";
import { END_GLYPH, MASK_GLYPH } from "./grid.js";
import { colourOf } from "./palette.js";

const RAMP_ENDS = { age: ["written first", "last"], confidence: ["unsure", "sure"] };
const RAMP_STOPS = 9;

/// [class of the token that shows it, its face, meaning, whether a cell or the run has it]
const ENTRIES = [
  ["masked", MASK_GLYPH, "not written yet", (cells) => cells.some((cell) => cell.masked)],
  ["end", END_GLYPH, "end of the text", (cells, { run }) => cells.some((cell) => run.ends.has(cell.id) && !cell.given)],
  ["given", "a", "given", (cells, { first }) => cells.slice(first).some((cell) => cell.given)],
  ["noise", "a", "noise, to be replaced", (cells) => cells.some((cell) => cell.noise)],
  ["changed", "a", "written by this pass", (cells) => cells.some((cell) => cell.changed)],
  ["block", "a", "block that is denoised now", (cells, { block }) => block[1] > block[0]],
  ["locked", "a", "locked: never computed again", (cells) => cells.some((cell) => cell.locked)],
  ["kept", "a", "not computed by this pass", (cells, { first }) => cells.slice(first).some((cell) => cell.kept)],
  ["guided", "a", "confirmed", (cells) => cells.some((cell) => cell.guided)],
];

export function showLegend(element, look, cells) {
  const shown = ENTRIES.filter(([, , , has]) => has(cells, look));
  const key = [look.ramp, look.scheme, ...shown.map(([name]) => name)].join();
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(rampOf(look), ...shown.map(([name, face, meaning]) => make(
    "li", {}, make("span", { className: `token ${name}`, ariaHidden: "true" }, face), ` ${meaning}`)));
}

function rampOf({ ramp, scheme }) {
  const bar = make("span", { className: "ramp", ariaHidden: "true" });
  const stops = Array.from({ length: RAMP_STOPS }, (_, i) => colourOf(scheme, ramp, i / (RAMP_STOPS - 1)));
  bar.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return make("li", {}, `${RAMP_ENDS[ramp][0]} `, bar, ` ${RAMP_ENDS[ramp][1]}`);
}
