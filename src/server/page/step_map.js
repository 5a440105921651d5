// The map of a run: positions from left to right, passes from top to bottom. There is a mark where a pass wrote a position and
// a shade where it computed a row. Bars at the right show the number of rows, over those of the same pass without cache and lock.
import { colourOf, SHADES } from "./palette.js";
import { shareOf } from "./replay.js";

const BARS_SHARE = 0.16;  // fraction of the width
const GAP = 8;            // CSS pixels between the map and its bars

export class StepMap {
  /// `onPoint(position, pass)` hears of the place under the pointer, and `onPick(pass)` of a click.
  constructor(canvas, onPoint, onPick) {
    this.canvas = canvas;
    this.look = null;
    this.base = document.createElement("canvas");  // without the cursor, which alone moves while a run is looked at
    this.key = "";                                    // of what is drawn there
    canvas.addEventListener("pointermove", (event) => this.point(event, onPoint));
    canvas.addEventListener("click", (event) => this.point(event, (_, pass) => onPick(pass)));
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  /// Draws the run.
  ///   look  {run, ramp, scheme, all, first, length, at, chosen}: positions [first, first + length); `at` passes are done
  update(look) {
    this.look = look;
    this.canvas.style.setProperty("--passes", look.run.steps.length);
    this.draw();
  }

  point(event, hear) {
    const { run, first, length } = this.look ?? {};
    if (!run?.steps.length) return;
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor(((event.clientX - box.left) / this.mapWidth) * length);
    const pass = Math.floor(((event.clientY - box.top) / box.height) * run.steps.length);
    const isInside = column < length && pass >= 0 && pass < run.steps.length;
    if (isInside) hear(first + Math.max(column, 0), pass);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!this.look?.run.start || width === 0) return;
    this.mapWidth = width * (1 - BARS_SHARE) - GAP;
    const { run, first, length, scheme, ramp, all } = this.look;
    const scale = { x: this.mapWidth / Math.max(length, 1), y: height / Math.max(run.steps.length, 1), width, height };
    const key = [width, height, window.devicePixelRatio, run.steps.length, first, length, scheme, ramp, all].join();
    if (key !== this.key) {
      const brush = sized(this.base, scale);
      this.drawRows(brush, scale);
      this.drawBars(brush, scale);
      this.drawWrites(brush, scale);
      this.key = key;
    }
    const brush = sized(this.canvas, scale);
    brush.drawImage(this.base, 0, 0, width, height);
    this.drawCursor(brush, scale);
  }

  drawRows(brush, { x, y }) {
    const { run, first, length, scheme } = this.look;
    brush.fillStyle = SHADES[scheme].computed;
    for (const [pass, { computed = [] }] of run.steps.entries()) {
      for (const [begin, end] of computed) {
        const from = Math.max(begin - first, 0);
        const to = Math.min(end - first, length);
        if (from < to) brush.fillRect(from * x, pass * y, (to - from) * x, y);
      }
    }
  }

  drawWrites(brush, { x, y }) {
    const { run, first, length, scheme, ramp, all } = this.look;
    const inset = Math.min(x, y) > 5 ? 0.5 : 0;
    let written = 0;
    for (const [pass, step] of run.steps.entries()) {
      const writes = [...(step.set ?? []), ...(step.edit ?? [])];
      const age = written / Math.max(all - 1, 1);
      for (const [position, , confidence] of writes) {
        if (position < first || position >= first + length) continue;
        const share = ramp === "age" ? age : confidence === null ? null : shareOf(confidence);
        brush.fillStyle = share === null ? SHADES[scheme].soft : strong(colourOf(scheme, ramp, share), scheme);
        brush.fillRect((position - first) * x + inset, pass * y + inset, Math.max(x - 2 * inset, 1), Math.max(y - 2 * inset, 1));
      }
      written += writes.length;
    }
  }

  drawBars(brush, { y, width }) {
    const { run, scheme } = this.look;
    const left = this.mapWidth + GAP;
    const most = Math.max(1, ...run.steps.map((step) => Math.max(step.rows, step.rows_uncached ?? 0)));
    const gap = y > 4 ? 1 : 0;
    for (const [pass, { rows, rows_uncached: uncached = 0 }] of run.steps.entries()) {
      brush.fillStyle = SHADES[scheme].computed;
      brush.fillRect(left, pass * y, (uncached / most) * (width - left), Math.max(y - gap, 1));
      brush.fillStyle = SHADES[scheme].bar;
      brush.fillRect(left, pass * y, (rows / most) * (width - left), Math.max(y - gap, 1));
    }
  }

  drawCursor(brush, { x, y, width, height }) {
    const { run, first, at, chosen, scheme } = this.look;
    brush.strokeStyle = SHADES[scheme].accent;
    brush.lineWidth = 1.5;
    if (chosen !== null && chosen >= first) brush.strokeRect((chosen - first) * x, 0.75, Math.max(x, 2), height - 1.5);
    if (at > 0 && at <= run.steps.length) brush.strokeRect(0.75, (at - 1) * y + 0.75, width - 1.5, Math.max(y - 1.5, 1));
  }
}

/// An empty canvas, and its brush, which counts CSS pixels.
function sized(canvas, { width, height }) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const brush = canvas.getContext("2d");
  brush.scale(ratio, ratio);
  return brush;
}

/// A mark is small and carries no text: its colour may be stronger than that of a token.
function strong(colour, scheme) {
  const factor = scheme === "dark" ? 1.45 : 0.8;
  const parts = [1, 3, 5].map((at) => Math.min(Math.round(parseInt(colour.slice(at, at + 2), 16) * factor), 255));
  return `rgb(${parts.join(" ")})`;
}
