// One run on the page: its canvas after any pass, the map of its passes, what each token is, and what it has cost.
import { showCosts } from "./costs.js";
import { showDetails } from "./details.js";
import { copyOf, make } from "./dom.js";
import { offerExports } from "./exports.js";
import { Grid } from "./grid.js";
import { showLegend } from "./legend.js";
import { currentScheme } from "./palette.js";
import { DEFAULT_SPEED, Player, SPEEDS } from "./player.js";
import { isEnd, Replay } from "./replay.js";
import { StepMap } from "./step_map.js";

const DETAILS_HINT = "Point at a token, or go to it with the arrow keys, to see when it was written and how sure the model was.";
const RATE = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export class RunView {
  /// `run` may grow: call update() after each event.
  ///   showsPrompt  whether the prompt's positions are shown at first
  ///   onDraw       hears of every change of what is shown
  constructor(run, title, { showsPrompt = false, onDraw = () => {} } = {}) {
    this.run = run;
    this.title = title;
    this.onDraw = onDraw;
    this.replay = new Replay(run);
    this.follows = true;  // shows the latest pass
    this.ramp = "age";
    this.element = copyOf("run-template");
    this.part(".title").textContent = title;
    this.grid = new Grid(this.part(".canvas"), (position) => this.choose(position));
    this.map = new StepMap(this.part(".map"), (position, pass) => this.pointAt(position, pass), (pass) => this.seek(pass + 1));
    this.player = new Player(this, () => this.drawPlayer());
    this.part(".show-prompt").checked = showsPrompt;
    this.listen();
    offerExports(this);
    this.draw();
  }

  listen() {
    this.part(".slider").addEventListener("input", () => this.seek(Number(this.part(".slider").value)));
    this.part(".play").addEventListener("click", () => this.player.toggle());
    this.part(".back").addEventListener("click", () => this.seek(this.at - 1));
    this.part(".on").addEventListener("click", () => this.seek(this.at + 1));
    const speed = this.part(".speed");
    speed.append(...SPEEDS.map(([value, text]) => new Option(text, value, false, value === DEFAULT_SPEED)));
    speed.addEventListener("change", () => (this.player.speed = speed.value));
    this.part(".show-prompt").addEventListener("change", () => this.draw());
    for (const button of this.element.querySelectorAll("[data-ramp]")) {
      button.addEventListener("click", () => this.colourBy(button.dataset.ramp));
    }
  }

  part(selector) {
    return this.element.querySelector(selector);
  }

  // Interface for the player.

  get at() {
    return this.replay.at;
  }

  get count() {
    return this.run.steps.length;
  }

  millisecondsOf(pass) {
    return this.run.steps[pass]?.ms ?? 0;
  }

  set state(text) {
    this.part(".state").textContent = text;
  }

  get state() {
    return this.part(".state").textContent;
  }

  fail(sentence) {
    this.state = "";
    this.end();
    this.part(".run-error").textContent = sentence;
  }

  addText(text) {
    this.part(".answer").append(text);
  }

  get text() {
    return this.part(".answer").textContent;
  }

  /// Shows what came in since, at most once a frame of the screen.
  update() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  /// Nothing more comes, so the last pass is drawn before anyone hears that the run has ended. Those who do not see the canvas hear
  /// the text that came of it.
  finish(state) {
    this.state = state;
    this.end();
    cancelAnimationFrame(this.frame);
    this.frame = null;
    this.draw();
    const words = this.text.trim();
    const says = `${this.title}: ${state} after ${this.count} passes.`;
    this.part(".summary").textContent = words === "" ? says : `${says} Text: ${words}`;
  }

  end() {
    this.element.classList.add("finished");
  }

  seek(pass) {
    this.player.pause();
    this.show(Math.min(Math.max(pass, 0), this.count));
  }

  show(pass) {
    this.follows = pass >= this.count;
    this.replay.goTo(pass);
    this.draw();
  }

  colourBy(ramp) {
    this.ramp = ramp;
    this.draw();
  }

  /// How the run is shown now, for everything that draws.
  look() {
    const { cells } = this.replay;
    const prompt = Math.min(this.run.start?.prompt ?? 0, cells.length);
    const first = this.part(".show-prompt").checked ? 0 : prompt;
    return {
      run: this.run, ramp: this.ramp, scheme: currentScheme(), first, length: cells.length - first,
      all: Math.max(cells.filter((cell) => !cell.given).length, this.replay.written), at: this.at, chosen: this.grid.chosen,
      block: this.blockOf(cells.length - prompt), columns: this.grid.columns, title: this.title,
    };
  }

  /// The block that the last pass denoised; none where that is the whole answer.
  blockOf(answerLength) {
    const [begin, end] = this.run.steps[this.at - 1]?.block ?? [0, 0];
    return end - begin < answerLength ? [begin, end] : [0, 0];
  }

  draw() {
    if (this.at === 0) this.replay.restart();  // the start may have come in
    if (this.follows) this.replay.goTo(this.count);
    this.element.classList.toggle("empty", this.run.start === null);
    const look = this.look();
    this.grid.draw(this.replay.cells, look.first, look);
    this.drawPlayer();
    this.drawPace();
    this.map.update(look);
    showLegend(this.part(".legend"), look, this.replay.cells);
    showCosts(this.part(".costs"), this.run.cost(this.at), this.pace);
    this.drawDetails();
    for (const button of this.element.querySelectorAll("[data-ramp]")) {
      button.setAttribute("aria-pressed", button.dataset.ramp === this.ramp);
    }
    this.onDraw(this);
  }

  drawPlayer() {
    const step = this.run.steps[this.at - 1];
    const where = this.at === 0 ? "before the first pass" : `pass ${this.at} of ${this.count}`;
    const slider = this.part(".slider");
    slider.max = this.count;
    slider.value = this.at;
    slider.setAttribute("aria-valuetext", `${where}: ${this.progress()}`);
    this.part(".where").textContent = step && step.kind !== "denoise" ? `${where}, ${step.kind}` : where;
    this.part(".play").textContent = this.player.isPlaying ? "Pause" : "Play";
    this.part(".play").setAttribute("aria-pressed", this.player.isPlaying);
    this.part(".back").disabled = this.at === 0;
    this.part(".on").disabled = this.at >= this.count;
  }

  /// How much of the canvas is filled, and the tokens of the text, up to the first end, in the time of the passes.
  drawPace() {
    const { cells } = this.replay;
    const filling = this.part(".filling");
    if (cells.length > 0) {
      filling.max = cells.filter(({ given }) => !given).length;
      filling.value = cells.filter(({ order }) => order !== null).length;
    }
    const end = cells.findIndex((cell) => isEnd(cell, this.run.ends));
    const count = cells.slice(0, end < 0 ? cells.length : end).filter(({ order }) => order !== null).length;
    const { milliseconds } = this.run.cost(this.at);
    const says = `${count} ${count === 1 ? "token" : "tokens"}, ${RATE.format((1e3 * count) / milliseconds)} tokens/s`;
    this.part(".pace").textContent = count > 0 && milliseconds > 0 ? says : "";
  }

  progress() {
    const written = this.replay.cells.filter((cell) => cell.changed).length;
    const left = this.replay.cells.filter((cell) => cell.masked).length;
    return `${written} tokens changed, ${left} to be written`;
  }

  /// Milliseconds for a row, as an uncached run next to this one measured them: how long its own would take.
  comparePace(pace) {
    this.pace = pace;
    this.draw();
  }

  /// The pointer is on the map: shows the position's token, and says which pass that is.
  pointAt(position, pass) {
    this.choose(position);
    this.part(".map-place").textContent = `pass ${pass + 1}, position ${position}`;
  }

  choose(position) {
    if (position < 0 || position >= this.replay.cells.length || position === this.grid.chosen) return;
    this.grid.choose(position);
    this.map.update(this.look());
    this.drawDetails();
  }

  drawDetails() {
    const cell = this.replay.cells[this.grid.chosen];
    const details = this.part(".details");
    if (cell) showDetails(details, this.grid.chosen, cell, this.run);
    else details.replaceChildren(make("p", { className: "facts" }, DETAILS_HINT));
  }

  /// The texts of the positions after the prompt up to the first end token, as they are shown: [{text, masked}].
  parts() {
    const answer = this.replay.cells.slice(this.run.start?.prompt ?? 0);
    const end = answer.findIndex((cell) => isEnd(cell, this.run.ends));
    const shown = end < 0 ? answer : answer.slice(0, end);
    return shown.map(({ id, masked }) => ({ text: masked ? "" : this.run.pieceOf(id), masked }));
  }
}
