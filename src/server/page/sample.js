// A small canvas that is half filled, where nothing has run yet.
import { by, make } from "./dom.js";
import { MASK_GLYPH } from "./grid.js";
import { colourOf, currentScheme } from "./palette.js";

/// [text, share of the time at which it was written]; null: still masked.
const TOKENS = [
  ["A", 0.1], null, ["is", 0.6], ["the", 0.5], null, ["in", 0.2], null, ["text", 0],
  null, ["a", 0.9], ["gap", 0.8], null, ["fill", 1], null, [".", 0.1], null,
];

export function drawSample() {
  by("sample").replaceChildren(...TOKENS.map((token) => {
    const cell = make("span", { className: token ? "token" : "token masked" }, token?.[0] ?? MASK_GLYPH);
    if (token) cell.style.backgroundColor = colourOf(currentScheme(), "age", token[1]);
    return cell;
  }));
}
