// Replays a run: its events, and the canvas after any step. Events are those of docs/reference/server.md, version 2.

/// A run as it is known so far; it grows while events arrive.
export class Run {
  start = null;
  steps = [];
  pieces = new Map();        // id: text
  alternatives = new Map();  // position: {id, tops: [{text, probability}], entropy (nats, or null)}
  ends = new Set();          // ids that end an answer
  numLogprobs = 0;

  add(event) {
    for (const [id, text] of Object.entries(event.pieces ?? {})) this.pieces.set(Number(id), text);
    if (event.type === "start") this.start = event;
    if (event.type === "step") this.steps.push(event);
    for (const id of event.ends ?? []) this.ends.add(id);
    for (const [position, known] of event.alternatives ?? []) this.alternatives.set(position, known);
  }

  /// Adds a stream's `logprobs` for the next tokens of the answer.
  addLogprobs(content) {
    for (const token of content ?? []) {
      const tops = (token.top_logprobs ?? []).map(({ token: text, logprob }) => ({ text, probability: Math.exp(logprob) }));
      const known = { id: token.id, tops, entropy: token.entropy ?? null };
      const position = (this.start?.prompt ?? 0) + this.numLogprobs;
      if (tops.length > 1 || known.entropy !== null) this.alternatives.set(position, known);
      this.numLogprobs += 1;
    }
  }

  pieceOf(id) {
    return this.pieces.get(id) ?? `⟨${id}⟩`;
  }

  /// Sums over the first `count` steps, and the baseline of the whole request: null where the steps tell none.
  cost(count) {
    const sum = (key) => this.steps.slice(0, count).reduce((total, step) => total + step[key], 0);
    const last = this.steps[count - 1] ?? {};
    return {
      rows: sum("rows"),
      rowsBaseline: last.rows_baseline ?? null,
      flops: sum("flops"),
      flopsBaseline: last.flops_baseline ?? null,
      milliseconds: sum("ms"),
    };
  }
}

/// The canvas of a run after `at` steps. Each cell has
///   id, given (in the prompt, or around holes), masked, noise (to be replaced, though no mask),
///   order (how many writes there were before the pass that wrote it), pass (0-based; null: not written), step,
///   confidence (null: none is known), edits (how often it was rewritten), guided (a pass that verifies drafts accepted it),
///   locked (never computed again), kept (the last pass read its keys and values as they were),
///   changed (by the last step).
export class Replay {
  cells = [];
  at = 0;

  constructor(run) {
    this.run = run;
    this.restart();
  }

  goTo(count) {
    if (count < this.at) this.restart();
    while (this.at < Math.min(count, this.run.steps.length)) this.apply(this.run.steps[this.at]);
  }

  restart() {
    this.at = 0;
    this.written = 0;
    const { canvas = [], prompt = 0, mask = -1 } = this.run.start ?? {};
    const hasMasks = canvas.includes(mask);
    this.cells = canvas.map((id, position) => {
      const masked = id === mask;
      return newCell(id, { masked, noise: position >= prompt && !hasMasks, given: !masked && (hasMasks || position < prompt) });
    });
  }

  apply(step) {
    this.before = this.written;
    for (const cell of this.cells) cell.changed = false;
    const dropped = new Set(step.drop);
    if (dropped.size > 0) this.cells = this.cells.filter((_, position) => !dropped.has(position));
    for (const [position, count] of step.insert ?? []) {
      const masks = Array.from({ length: count }, () => newCell(this.run.start.mask, { masked: true, changed: true }));
      this.cells.splice(position, 0, ...masks);
    }
    this.resize(step.length ?? this.cells.length);
    for (const [position, id, confidence] of step.set ?? []) this.write(position, id, confidence, step);
    for (const [position, id, confidence] of step.edit ?? []) this.write(position, id, confidence, step);
    for (const position of step.remask ?? []) {
      Object.assign(this.cells[position], newCell(this.run.start.mask, { masked: true, changed: true }));
    }
    for (const position of step.lock ?? []) this.cells[position].locked = true;
    for (const position of step.unlock ?? []) this.cells[position].locked = false;
    if (step.computed) this.markKept(step.computed);
    this.at += 1;
  }

  resize(length) {
    while (this.cells.length < length) this.cells.push(newCell(this.run.start.mask, { masked: true }));
    this.cells.length = length;
  }

  write(position, id, confidence, step) {
    const cell = this.cells[position];
    const edits = cell.masked || cell.noise ? 0 : cell.edits + 1;
    Object.assign(cell, { id, confidence, edits, step: step.step, pass: this.at, order: this.before, masked: false });
    Object.assign(cell, { noise: false, given: false, changed: true, guided: step.kind === "verify" });
    this.written += 1;
  }

  markKept(computed) {
    for (const cell of this.cells) cell.kept = true;
    for (const [begin, end] of computed) {
      for (let position = begin; position < Math.min(end, this.cells.length); ++position) this.cells[position].kept = false;
    }
  }
}

function newCell(id, what) {
  return {
    id, given: false, masked: false, noise: false, order: null, pass: null, step: null, confidence: null, edits: 0,
    guided: false, locked: false, kept: false, changed: false, ...what,
  };
}

/// Where a confidence lies between 0 and 1: rules that measure entropy give its negative.
export function shareOf(confidence) {
  return confidence < 0 ? Math.exp(confidence) : Math.min(confidence, 1);
}

/// Whether a cell holds an end token that the model wrote.
export function isEnd(cell, ends) {
  return !cell.given && !cell.masked && ends.has(cell.id);
}
