// Details of one token.
import { make } from "./dom.js";

/// Fills `element` with a cell's story.
export function showDetails(element, position, cell, run) {
  const facts = factsOf(position, cell, run);
  const known = alternativesOf(position, cell, run);
  element.replaceChildren(make("p", { className: "facts" }, facts.join(" · ")));
  if (known === null) return;
  element.append(make("ol", { className: "alternatives" }, ...known.tops.map((top) => alternative(top, cell, run))));
}

/// Those of the token that the cell holds; a position that was written again has others.
function alternativesOf(position, cell, run) {
  const known = run.alternatives.get(position);
  return known && known.id === cell.id && !cell.masked && !cell.given ? known : null;
}

function alternative({ text, probability }, cell, run) {
  const bar = make("span", { className: "bar" });
  bar.style.setProperty("--share", probability);
  const isTaken = text === run.pieceOf(cell.id);
  return make("li", { className: isTaken ? "taken" : "" }, make("q", {}, text), bar,
              make("span", { className: "number" }, percent(probability)));
}

export function percent(probability) {
  if (probability > 0 && probability < 0.0005) return "<0.1%";
  if (probability < 1 && probability > 0.9995) return ">99.9%";
  return `${(100 * probability).toFixed(1)}%`;
}

function factsOf(position, cell, run) {
  const says = [`position ${position}`];
  if (cell.masked) says.push("not written yet");
  else says.push(`“${run.pieceOf(cell.id)}”${run.ends.has(cell.id) ? ", an end token" : ""} (id ${cell.id})`);
  if (cell.given) says.push("given");
  if (cell.noise) says.push("noise");
  if (cell.pass !== null) says.push(`written by pass ${cell.pass + 1} of ${run.steps.length}, in step ${cell.step + 1}`);
  if (cell.confidence !== null) says.push(confidenceOf(cell.confidence));
  const entropy = alternativesOf(position, cell, run)?.entropy ?? null;
  if (entropy !== null) says.push(`entropy ${entropy.toFixed(3)} nats`);
  if (cell.edits > 0) says.push(`rewritten ${cell.edits} ${cell.edits === 1 ? "time" : "times"}`);
  if (cell.guided) says.push("confirmed");
  if (cell.locked) says.push("locked");
  if (cell.kept) says.push("not computed in this pass");
  return says;
}

/// Rules that measure entropy give its negative.
function confidenceOf(confidence) {
  return confidence < 0 ? `entropy ${(-confidence).toFixed(3)} nats` : `confidence ${confidence.toFixed(3)}`;
}
