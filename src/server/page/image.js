// A run as an image: SVG as it is after a pass, SVG that plays all passes, and PNG.
import { faceOf, rampShare } from "./grid.js";
import { colourOf, SHADES } from "./palette.js";
import { Replay } from "./replay.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const CELL = { width: 74, height: 26, gap: 2 };
const MARGIN = 16;
const TITLE_HEIGHT = 30;
const FOOT_HEIGHT = 26;
const MOST_LETTERS = 10;  // letters that fit a cell
const PNG_SCALE = 2;
const MAX_STATES = 1 << 22;  // positions of all passes together that an animation goes through
const SECONDS = { pass: 0.15, least: 2, most: 12, rest: 1.5 };

/// An <svg> element of the canvas after `at` passes.
///   look  {run, ramp, scheme, all, first, columns, title, foot}
export function imageOf(look, at) {
  const replay = new Replay(look.run);
  replay.goTo(at);
  const cells = replay.cells.slice(look.first);
  const svg = frameOf(look, cells.length);
  for (const [index, cell] of cells.entries()) svg.append(cellOf(look, stateOf(look, cell), index));
  return svg;
}

/// The same with every pass, over and over.
export function animationOf(look) {
  const { steps } = look.run;
  const states = steps.length * look.length;
  if (states > MAX_STATES) throw new Error(`the run has ${states} positions in all its passes; an animation may have ${MAX_STATES}`);
  const playing = Math.min(Math.max(steps.length * SECONDS.pass, SECONDS.least), SECONDS.most);
  const duration = playing + SECONDS.rest;
  const histories = historiesOf(look);
  const svg = frameOf(look, histories.length);
  for (const [index, states] of histories.entries()) {
    for (const [number, state] of states.entries()) {
      const group = cellOf(look, state, index);
      const shareOfTime = (pass) => ((pass / Math.max(steps.length, 1)) * playing) / duration;
      const next = states[number + 1];
      addTimes(group, shareOfTime(state.pass), next ? shareOfTime(next.pass) : null, duration);
      svg.append(group);
    }
  }
  return svg;
}

/// For each cell the states that it has, each with the pass from which it has it.
function historiesOf(look) {
  const replay = new Replay(look.run);
  const histories = [];
  for (let pass = 0; pass <= look.run.steps.length; ++pass) {
    replay.goTo(pass);
    for (const [index, cell] of replay.cells.slice(look.first).entries()) {
      histories[index] ??= [];
      const state = { ...stateOf(look, cell), pass };
      const last = histories[index].at(-1);
      if (last?.face !== state.face || last.fill !== state.fill) histories[index].push(state);
    }
  }
  return histories;
}

function stateOf(look, cell) {
  const shades = SHADES[look.scheme];
  const share = rampShare(cell, look.ramp, look.all);
  const letters = [...faceOf(cell, look.run)];
  return {
    face: letters.length > MOST_LETTERS ? `${letters.slice(0, MOST_LETTERS - 1).join("")}…` : letters.join(""),
    fill: share !== null ? colourOf(look.scheme, look.ramp, share) : cell.masked ? shades.hole : shades.paper,
    ink: share === null ? shades.soft : shades.ink,
  };
}

/// Shows an element from one share of the time on, up to another (null: to the end).
function addTimes(group, from, to, duration) {
  if (from === 0 && to === null) return;
  const times = [[0, from === 0 ? 1 : 0], ...(from > 0 ? [[from, 1]] : []), ...(to === null ? [] : [[to, 0]])];
  group.append(shape("animate", {
    attributeName: "opacity", calcMode: "discrete", dur: `${duration.toFixed(2)}s`, repeatCount: "indefinite",
    keyTimes: times.map(([time]) => time.toFixed(4)).join(";"), values: times.map(([, value]) => value).join(";"),
  }));
}

function frameOf(look, count) {
  const { columns, scheme, title, foot } = look;
  const width = 2 * MARGIN + columns * (CELL.width + CELL.gap) - CELL.gap;
  const height = 2 * MARGIN + TITLE_HEIGHT + FOOT_HEIGHT + Math.ceil(count / columns) * (CELL.height + CELL.gap);
  const shades = SHADES[scheme];
  const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "system-ui, sans-serif" });
  svg.append(shape("rect", { width, height, fill: shades.paper }),
             label(title, { x: MARGIN, y: MARGIN + 14, "font-size": 15, "font-weight": 600, fill: shades.ink }),
             label(foot, { x: MARGIN, y: height - MARGIN, "font-size": 12, fill: shades.soft }));
  return svg;
}

function cellOf({ columns }, { face, fill, ink }, index) {
  const x = MARGIN + (index % columns) * (CELL.width + CELL.gap);
  const y = MARGIN + TITLE_HEIGHT + Math.floor(index / columns) * (CELL.height + CELL.gap);
  const group = shape("g", {});
  group.append(shape("rect", { x, y, width: CELL.width, height: CELL.height, rx: 4, fill }),
               label(face, { x: x + CELL.width / 2, y: y + 17, "font-size": 12.5, "text-anchor": "middle", fill: ink }));
  return group;
}

function shape(name, attributes) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function label(text, attributes) {
  const element = shape("text", attributes);
  element.textContent = text.replace(/[\u0000-\u001f\ufffe\uffff]/g, "");  // XML has no control characters
  return element;
}

export function svgBlob(svg) {
  return new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
}

export async function pngBlob(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = PNG_SCALE * Number(svg.getAttribute("width"));
  canvas.height = PNG_SCALE * Number(svg.getAttribute("height"));
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
  if (blob === null) throw new Error("the image is too large for this browser; export it as SVG");
  return blob;
}
