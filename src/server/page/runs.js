// The runs of a tab: one, or two settings one after the other, so that neither shares the other's time.
import { inSeconds } from "./costs.js";
import { percent } from "./details.js";
import { make } from "./dom.js";
import { Run } from "./replay.js";
import { RunView } from "./run_view.js";
import { eventsOf } from "./stream.js";

const RACE_MILLISECONDS = 6000;  // duration of the longest of several runs that are played together
/// Alternatives to request for each position, with their probabilities.
export const NUM_ALTERNATIVES = 5;
export const LOGPROBS_OF_CHATS = { logprobs: true, top_logprobs: NUM_ALTERNATIVES };

const COUNT = new Intl.NumberFormat("en");

export class Runs {
  /// `server` has ask() and props. `onShow` hears that other runs are shown.
  constructor(element, server, onShow = () => {}) {
    this.server = server;
    this.onShow = onShow;
    this.verdict = make("div", { className: "verdict", hidden: true });
    this.grid = make("div", { className: "runs" });
    this.views = [];
    element.append(this.verdict, this.grid);
  }

  /// Sends requests, one after the other. Once all have ended it gives
  ///   [{text, view, outcome: "done", "stopped" or "failed", error}]
  ///   jobs  [{title, path, body, showsPrompt, onText(text), onDraw(view)}]
  async run(jobs, signal) {
    const views = jobs.map(({ title, showsPrompt, onDraw }) => new RunView(this.newRun(), title, { showsPrompt, onDraw }));
    this.show(views);
    const results = [];
    for (const [index, view] of views.entries()) results.push(await this.runOne(jobs[index], view, signal));
    this.compare();
    return results;
  }

  newRun() {
    const run = new Run();
    run.ends = new Set(this.server.props?.end_ids);
    return run;
  }

  show(views) {
    for (const view of this.views) view.player.pause();
    this.views = views;
    this.verdict.hidden = true;
    this.grid.replaceChildren(...views.map((view) => view.element));
    this.onShow();
  }

  async runOne(job, view, signal) {
    view.state = "waiting";
    try {
      const response = await this.send(job, signal);
      view.state = "writing";
      for await (const chunk of eventsOf(response)) {
        if (chunk.error) throw new Error(chunk.error.message);
        takeChunk(chunk, view, job.onText);
      }
      view.finish("done");
      return { text: view.text, view, outcome: "done" };
    } catch (error) {
      if (error.status === 0) this.server.noteLoss();
      if (!signal.aborted) view.fail(error.message);
      else view.finish("stopped");
      return { text: view.text, view, outcome: signal.aborted ? "stopped" : "failed", error: error.message };
    }
  }

  /// Asks for the alternatives of each token where the method measures probabilities, and without them where the server refuses.
  async send({ path, body }, signal) {
    const { logprobs, top_logprobs: _top, ...plain } = body;
    try {
      return await this.server.ask(path, { body, signal });
    } catch (error) {
      if (logprobs === undefined || error.status !== 400 || !error.message.includes("logprobs")) throw error;
      return this.server.ask(path, { body: plain, signal });
    }
  }

  // Comparisons.

  compare() {
    if (this.views.length !== 2) return;
    const totals = this.views.map(({ run }) => run.cost(run.steps.length));
    // A run that computed every row tells what an uncached row takes; the longest one tells it best.
    const complete = totals.filter(({ rows, rowsBaseline }) => rows > 0 && rows === rowsBaseline);
    const [uncached] = complete.sort((a, b) => b.rows - a.rows);
    if (uncached) this.views.forEach((view) => view.comparePace(uncached.milliseconds / uncached.rows));
    if (totals.some(({ rows }) => rows === 0)) return;
    this.verdict.replaceChildren(
      make("p", { role: "status" }, verdictOf(this.views, totals)),
      barsOf("Rows", this.views, totals.map(({ rows }) => rows), COUNT.format),
      barsOf("Time", this.views, totals.map(({ milliseconds }) => milliseconds), inSeconds),
      make("button", { type: "button", className: "race", onclick: () => this.race() }, "Play both in their own time"));
    this.verdict.hidden = false;
  }

  /// Plays all runs at once, slowed down alike.
  race() {
    const longest = Math.max(...this.views.map(({ run }) => run.cost(run.steps.length).milliseconds));
    for (const view of this.views) {
      view.part(".speed").value = "recorded";
      view.player.speed = "recorded";
      view.player.slowness = longest > 0 ? RACE_MILLISECONDS / longest : 1;
      view.show(0);
      view.player.play();
    }
  }

  /// Plays or pauses all.
  togglePlay() {
    const isPlaying = this.views.some(({ player }) => player.isPlaying);
    for (const { player } of this.views) isPlaying ? player.pause() : player.play();
  }

  redraw() {
    for (const view of this.views) view.draw();
  }
}

const NOISE = 1.1;  // between the times of two runs of the same work

function takeChunk(chunk, view, onText) {
  if (chunk.lacuna?.event) view.run.add(chunk.lacuna.event);
  for (const choice of chunk.choices) {
    const text = choice.delta?.content ?? choice.text ?? "";
    view.addText(text);
    if (text !== "") onText?.(text);
    view.run.addLogprobs(contentOf(choice.logprobs));
  }
  view.update();
}

/// Completions list what chats have as an object for each token.
function contentOf(logprobs) {
  if (!logprobs?.tokens) return logprobs?.content;
  return logprobs.tokens.map((_, i) => ({
    id: logprobs.ids?.[i],
    top_logprobs: Object.entries(logprobs.top_logprobs?.[i] ?? {}).map(([token, logprob]) => ({ token, logprob })),
  }));
}

/// A comparison of two runs. One run each cannot tell times apart that are closer than NOISE, and runs of the same
/// work differ by chance alone.
function verdictOf(views, [a, b]) {
  const times = (x, y) => `${(x / y).toFixed(2)}×`;
  const [mine, other] = views.map(({ replay, count }) => (replay.goTo(count), replay.cells));
  const same = mine.filter((cell, position) => cell.id === other[position]?.id && !cell.given).length;
  const written = mine.filter((cell) => !cell.given).length;
  const [quick, slow] = a.milliseconds <= b.milliseconds ? [0, 1] : [1, 0];
  const [less, more] = quick === 0 ? [a, b] : [b, a];
  const agreement = `${same} of ${written} tokens are the same.`;
  if (a.rows === b.rows && a.flops === b.flops) return `Both computed the same rows and FLOPs: their times differ by chance; ${agreement}`;
  if (more.milliseconds < NOISE * less.milliseconds) {
    return `Both took about the same time; “${views[1].title}” computed ${percent(b.rows / a.rows)} of the rows of ` +
      `“${views[0].title}” and ${percent(b.flops / a.flops)} of its FLOPs; ${agreement}`;
  }
  return `“${views[quick].title}” was ${times(more.milliseconds, less.milliseconds)} as fast as ` +
    `“${views[slow].title}”, with ` +
    `${percent(less.rows / more.rows)} of its rows and ${percent(less.flops / more.flops)} of its FLOPs; ${agreement}`;
}

function barsOf(title, views, values, format) {
  const most = Math.max(...values);
  return make("dl", { className: "bars" }, make("dt", {}, title), ...views.map((view, index) => {
    const bar = make("span", { className: "bar" });
    bar.style.setProperty("--share", most > 0 ? values[index] / most : 0);
    return make("dd", {}, make("span", { className: "name" }, view.title), bar,
                make("span", { className: "number" }, format(values[index])));
  }));
}
