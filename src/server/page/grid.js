// The canvas as a grid: every position keeps its cell, whatever is written elsewhere.
import { make } from "./dom.js";
import { colourOf } from "./palette.js";
import { shareOf } from "./replay.js";

export const MASK_GLYPH = "░";
export const END_GLYPH = "·";
const COLUMN_COUNTS = [64, 48, 32, 24, 20, 16, 12, 10, 8, 6, 4];
const LEAST_CELL_WIDTHS = { narrow: 56, wide: 62 };  // CSS pixels: seven characters, or eight
const NARROW = 480;                                   // CSS pixels of all columns
const LABEL_WIDTH = 34;
const MAX_LETTERS = 40;   // of a token: none of its cell shows more
const MAX_TOKENS = 8192;  // shown by the grid: the map and the text have all, and more elements make browsers slow
const MARKS = ["given", "masked", "noise", "locked", "kept", "guided", "changed"];

/// Text of a cell, in one line.
export function faceOf(cell, run) {
  if (cell.masked) return MASK_GLYPH;
  if (run.ends.has(cell.id)) return END_GLYPH;
  const piece = run.pieceOf(cell.id).slice(0, MAX_LETTERS);
  const line = piece.replaceAll("\n", "↵");
  return piece.trim() === "" ? line.replaceAll("\t", "⇥").replaceAll(" ", "␣") : line;
}

/// Where a token's colour lies on its ramp; null: it has none.
///   all  tokens that are written in the end
export function rampShare(cell, ramp, all) {
  if (cell.order === null) return null;
  if (ramp === "confidence") return cell.confidence === null ? null : shareOf(cell.confidence);
  return cell.order / Math.max(all - 1, 1);
}

export class Grid {
  /// `onChoose` hears of the position that the pointer or the keys are on.
  constructor(element, onChoose) {
    this.element = element;
    this.labels = make("div", { className: "labels", ariaHidden: "true" });
    element.append(this.labels);
    this.onChoose = onChoose;
    this.tokens = [];
    this.places = new WeakMap();  // of the tokens in their list
    this.first = 0;      // position of the first token that is shown
    this.chosen = null;  // position
    this.columns = 4;
    element.addEventListener("keydown", (event) => this.moveByKey(event));
    element.addEventListener("pointerover", (event) => this.point(event));
    element.addEventListener("click", (event) => this.point(event));
    new ResizeObserver(() => this.layOut()).observe(element);
  }

  /// Draws the cells from `first` on.
  ///   look  {run, ramp, scheme, all, block}
  draw(cells, first, look) {
    this.first = first;
    const count = Math.min(Math.max(cells.length - first, 0), MAX_TOKENS);
    while (this.tokens.length < count) {
      const token = make("span", { className: "token" });
      this.places.set(token, this.tokens.length);
      this.tokens.push(token);
      this.element.append(token);
    }
    while (this.tokens.length > count) this.tokens.pop().remove();
    for (const [index, token] of this.tokens.entries()) this.drawToken(token, cells[first + index], first + index, look);
    this.label();
  }

  drawToken(token, cell, position, { run, ramp, scheme, all, block }) {
    const share = rampShare(cell, ramp, all);
    const marks = MARKS.filter((mark) => cell[mark]);
    if (share !== null) marks.push("written");
    if (run.ends.has(cell.id)) marks.push("end");
    if (block[0] <= position && position < block[1]) marks.push("block");
    if (position === this.chosen) marks.push("chosen");
    const names = ["token", ...marks].join(" ");
    if (token.className !== names) token.className = names;
    const face = faceOf(cell, run);
    if (token.textContent !== face) token.textContent = face;
    token.style.backgroundColor = share === null ? "" : colourOf(scheme, ramp, share);
  }

  /// Chooses as many columns as fit, where there is a choice of numbers that blocks are multiples of.
  layOut() {
    const width = this.element.clientWidth - LABEL_WIDTH;
    const least = width < NARROW ? LEAST_CELL_WIDTHS.narrow : LEAST_CELL_WIDTHS.wide;
    const columns = COLUMN_COUNTS.find((count) => count * least <= width) ?? 4;
    if (columns === this.columns) return;
    this.columns = columns;
    this.element.style.setProperty("--columns", columns);
    this.label();
  }

  /// Each row begins with the position of its first cell.
  label() {
    const count = Math.ceil(this.tokens.length / this.columns);
    const key = [this.first, this.columns, count].join();
    if (this.labels.dataset.key === key) return;
    this.labels.dataset.key = key;
    const positions = Array.from({ length: count }, (_, row) => this.first + row * this.columns);
    this.labels.replaceChildren(...positions.map((position) => make("span", {}, String(position))));
  }

  point(event) {
    const index = this.places.get(event.target);
    if (index !== undefined) this.onChoose(this.first + index);
  }

  moveByKey(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const last = this.first + this.tokens.length - 1;
    const at = this.chosen ?? this.first - 1;
    const down = this.chosen === null ? this.first : at + this.columns;
    const sideways = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: this.first, End: last };
    const target = { ...sideways, ArrowDown: down, ArrowUp: at - this.columns }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    this.onChoose(Math.min(Math.max(target, this.first), last));
    this.tokenAt(this.chosen)?.scrollIntoView({ block: "nearest" });
  }

  tokenAt(position) {
    return position === null ? undefined : this.tokens[position - this.first];
  }

  choose(position) {
    this.tokenAt(this.chosen)?.classList.remove("chosen");
    this.chosen = position;
    this.tokenAt(position)?.classList.add("chosen");
  }
}
