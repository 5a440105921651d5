// One run on the page: its canvas after any step, what each token is, and what it has cost.
import { Replay, shareOf } from "./replay.js";

const COUNT = new Intl.NumberFormat("en");
const MILLISECONDS_PER_PLAYED_STEP = 150;
const MILLISECONDS_BETWEEN_SUMMARIES = 3000;

export class RunView {
  /// `run` may grow: call update() after each event.
  constructor(run, title) {
    this.run = run;
    this.replay = new Replay(run);
    this.follows = true;  // shows the latest step
    this.chosen = null;   // position of the token that the keys or the pointer are on
    this.tokens = [];
    this.nextSummary = 0;
    this.element = document.querySelector("#run-template").content.firstElementChild.cloneNode(true);
    this.part("h2").textContent = title;
    this.part(".slider").addEventListener("input", () => this.seek(Number(this.part(".slider").value)));
    this.part(".play").addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    this.part(".colour").addEventListener("change", () => this.draw());
    this.part(".canvas").addEventListener("keydown", (event) => this.moveByKey(event));
    this.part(".canvas").addEventListener("pointerover", (event) => this.choose(this.tokens.indexOf(event.target)));
    this.draw();
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  set state(text) {
    this.part(".state").textContent = text;
  }

  fail(sentence) {
    this.state = "";
    this.part(".error").textContent = sentence;
  }

  addText(text) {
    this.part(".answer").append(text);
  }

  /// Shows what came in since, at most once a frame of the screen.
  update() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
      this.summarise();
    });
  }

  finish(state) {
    this.state = state;
    this.nextSummary = 0;
    this.update();
  }

  seek(step) {
    this.pause();
    this.show(step);
  }

  show(step) {
    this.follows = step >= this.run.steps.length;
    this.replay.goTo(step);
    this.draw();
  }

  play() {
    if (this.replay.at >= this.run.steps.length) this.replay.goTo(0);
    this.part(".play").textContent = "Pause";
    this.timer = setInterval(() => {
      this.show(this.replay.at + 1);
      if (this.follows) this.pause();
    }, MILLISECONDS_PER_PLAYED_STEP);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.part(".play").textContent = "Play";
  }

  draw() {
    if (this.replay.at === 0) this.replay.restart();  // the start may have come in
    if (this.follows) this.replay.goTo(this.run.steps.length);
    this.drawSlider();
    this.drawCanvas();
    this.drawChart();
    this.drawCosts();
    this.drawDetails();
  }

  drawSlider() {
    const { at } = this.replay;
    const count = this.run.steps.length;
    const step = this.run.steps[at - 1];
    const where = at === 0 ? "before the first pass" : `pass ${at} of ${count}, ${step.kind}`;
    const slider = this.part(".slider");
    slider.max = count;
    slider.value = at;
    slider.setAttribute("aria-valuetext", `${where}: ${this.progress()}`);
    this.part(".where").textContent = where;
  }

  progress() {
    const written = this.replay.cells.filter((cell) => cell.changed).length;
    const left = this.replay.cells.filter((cell) => cell.masked).length;
    return `${written} tokens changed, ${left} to be written`;
  }

  drawCanvas() {
    const { cells } = this.replay;
    const canvas = this.part(".canvas");
    while (this.tokens.length < cells.length) {
      this.tokens.push(document.createElement("span"));
      canvas.append(this.tokens.at(-1));
    }
    while (this.tokens.length > cells.length) this.tokens.pop().remove();
    const [begin, end] = this.run.steps[this.replay.at - 1]?.block ?? [0, 0];
    cells.forEach((cell, position) => {
      const token = this.tokens[position];
      const share = this.shareOf(cell);
      const marks = ["given", "masked", "noise", "locked", "kept", "guided", "changed"].filter((mark) => cell[mark]);
      if (share !== null) marks.push("written");
      if (begin <= position && position < end) marks.push("block");
      if (position === this.chosen) marks.push("chosen");
      token.className = ["token", ...marks].join(" ");
      token.style.setProperty("--share", share ?? 0);
      token.textContent = cell.masked ? "" : this.pieceOf(cell.id).replaceAll("\n", "↵\n");
    });
    const byOrder = this.part(".colour").value === "order";
    this.part(".ramp").textContent = byOrder ? "first … last" : "unsure … sure";
  }

  pieceOf(id) {
    return this.run.pieces.get(id) ?? `⟨${id}⟩`;
  }

  /// Where the token's colour lies between the two ends; null: it has none.
  shareOf(cell) {
    if (cell.order === null) return null;
    if (this.part(".colour").value === "confidence") return cell.confidence === null ? null : shareOf(cell.confidence);
    const all = Math.max(this.replay.cells.filter((each) => !each.given).length, this.replay.written);
    return cell.order / Math.max(all - 1, 1);
  }

  /// Rows of each pass, over those of the same pass without any cache or lock.
  drawChart() {
    const { steps } = this.run;
    const uncached = steps.map((step) => step.rows_uncached ?? 0);
    const rows = steps.map((step) => step.rows);
    const most = Math.max(1, ...uncached, ...rows);
    const bars = (heights) => heights.map((height, i) => `M${i} ${most}v${-height}h1v${height}z`).join("");
    const chart = this.part(".chart");
    chart.setAttribute("viewBox", `0 0 ${Math.max(steps.length, 1)} ${most}`);
    chart.querySelector(".baseline").setAttribute("d", bars(uncached));
    chart.querySelector(".rows").setAttribute("d", bars(rows));
    chart.querySelector(".now").setAttribute("d", `M${this.replay.at} 0V${most}`);
  }

  drawCosts() {
    const cost = this.run.cost(this.replay.at);
    const isUncached = cost.rows === cost.rowsBaseline;
    const pacedTime = this.pace && cost.rowsBaseline !== null ? cost.rowsBaseline * this.pace : null;
    this.part(".costs").replaceChildren(
      costRow("rows", COUNT.format, cost.rows, cost.rowsBaseline),
      costRow("FLOPs", inPrefixes, cost.flops, cost.flopsBaseline),
      costRow("time", inSeconds, cost.milliseconds, isUncached ? cost.milliseconds : pacedTime));
  }

  /// Milliseconds for a row, as an uncached run next to this one measured them: how long its own would take.
  comparePace(pace) {
    this.pace = pace;
    this.draw();
  }

  /// Says how far a run is that is being followed, and what came of it, to those who do not see the canvas.
  summarise() {
    const now = performance.now();
    if (now < this.nextSummary) return;
    this.nextSummary = now + MILLISECONDS_BETWEEN_SUMMARIES;
    const state = this.part(".state").textContent;
    this.part(".summary").textContent = `${state}: ${this.run.steps.length} passes, ${this.progress()}`;
  }

  moveByKey(event) {
    const last = this.tokens.length - 1;
    const at = this.chosen ?? -1;
    const target = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: last }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.choose(Math.min(Math.max(target, 0), last));
    this.tokens[this.chosen]?.scrollIntoView({ block: "nearest" });
  }

  choose(position) {
    if (position < 0 || position >= this.tokens.length) return;
    this.tokens[this.chosen]?.classList.remove("chosen");
    this.chosen = position;
    this.tokens[position].classList.add("chosen");
    this.drawDetails();
  }

  drawDetails() {
    const cell = this.replay.cells[this.chosen];
    if (!cell) return;
    const says = [`position ${this.chosen}`];
    if (cell.masked) says.push("to be written");
    else says.push(`“${this.pieceOf(cell.id)}” (${cell.id})`);
    if (cell.given) says.push("given");
    if (cell.noise) says.push("noise");
    if (cell.order !== null) says.push(`written in step ${cell.step + 1} as number ${cell.order + 1}`);
    if (cell.confidence !== null) says.push(`confidence ${cell.confidence.toFixed(3)}`);
    if (cell.edits > 0) says.push(`rewritten ${cell.edits} times`);
    if (cell.guided) says.push("confirmed");
    if (cell.locked) says.push("locked");
    if (cell.kept) says.push("not computed in this pass");
    this.part(".details").textContent = says.join(" · ");
  }
}

/// 3 digits and the prefix of a power of 1,000.
function inPrefixes(value) {
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.max(value, 1)) / 3), 0), 6);
  return `${(value / 1e3 ** power).toPrecision(3)} ${["", "k", "M", "G", "T", "P", "E"][power]}`;
}

function inSeconds(milliseconds) {
  return milliseconds < 1e3 ? `${milliseconds.toFixed(1)} ms` : `${(milliseconds / 1e3).toFixed(2)} s`;
}

function costRow(name, format, value, baseline) {
  const row = document.createElement("tr");
  const head = document.createElement("th");
  head.scope = "row";
  head.textContent = name;
  row.append(head);
  const share = baseline ? value / baseline : null;
  for (const text of [format(value), baseline === null ? "–" : format(baseline)]) row.insertCell().textContent = text;
  const cell = row.insertCell();
  cell.textContent = share === null ? "–" : `${(100 * share).toFixed(1)}%`;
  cell.className = "share";
  cell.style.setProperty("--share", Math.min(share ?? 0, 1));
  return row;
}
