// Recorded runs (`lacuna run --trace FILE`) as the events of a stream, and back. A file may be anybody's: what is
// read is checked and counted, so that nothing in it makes the page work or allocate without bound.

const MAX_POSITIONS = 1 << 16;
const MAX_STEPS = 1 << 16;
const MAX_CELLS = 1 << 25;    // positions of all passes together: each is visited once per pass, and once per insertion
const MAX_MARKS = 1 << 18;    // what all passes together write, lock and compute: each is drawn on the map
const MAX_LINES = 1 << 18;    // those of other requests included
const MAX_PIECE = 1024;       // characters of a token's text
const MAX_TEXT = 1 << 20;     // characters of the run's text
const MAX_TOPS = 64;          // alternatives of a position
const MAX_SHOWN = 40;         // characters of a value that is refused
const MARKS = "positions written, locked and computed in all passes together";
const NO_RUN = "this is not a recorded run; expected the file that lacuna run --trace writes";

/// The events of the first request in a recorded run. Throws an Error with one sentence if the file is not a trace or is over a limit.
///   mask  the model's mask token, for traces that do not tell it
export function eventsOfTrace(text, mask) {
  try {
    return readEvents(text, mask);
  } catch (error) {
    throw error instanceof TypeError || error instanceof RangeError ? new Error(NO_RUN) : error;  // values of other kinds
  }
}

function readEvents(text, mask) {
  const lines = linesOf(text);
  const start = firstLine(lines);
  const canvas = idsOf(start.canvas, "canvas");
  atMost(canvas.length, MAX_POSITIONS, "positions of the canvas");
  const known = Number.isInteger(start.mask) ? start.mask : mask;
  const prompt = Math.min(countOf(start.prompt_tokens ?? 0, "prompt_tokens"), canvas.length);
  const events = [{
    type: "start", prompt, mask: known, canvas: [...canvas], pieces: piecesOf(start), ends: idsOf(start.ends ?? [], "ends"),
    alternatives: alternativesOf(start.page?.alternatives ?? []),
  }];
  const work = { cells: canvas.length, marks: 0 };
  for (const line of lines) {
    if (!Array.isArray(line.committed) || line.request !== start.request) continue;
    atMost(events.length, MAX_STEPS, "passes");
    charge(line, canvas.length, work);
    const step = stepOf(line, canvas, known);
    work.marks += step.computed?.length ?? 0;
    atMost(work.marks, MAX_MARKS, MARKS);
    events.push(step);
  }
  atMost(lettersOf(canvas.slice(prompt), events), MAX_TEXT, "characters of text");
  return events;
}

/// Counts the work that a pass makes, here and wherever the run is shown, before any of it is done.
function charge(line, length, work) {
  const countIn = (list) => (Array.isArray(list) ? list.length : 0);
  const after = Math.max(length, Number.isInteger(line.length) ? Math.min(line.length, MAX_POSITIONS) : 0);
  work.cells += (1 + countIn(line.insert)) * after + countIn(line.rows);
  atMost(work.cells, MAX_CELLS, "positions in all passes together");
  for (const name of ["committed", "changed", "drop", "locked", "unlocked"]) work.marks += countIn(line[name]);
  atMost(work.marks, MAX_MARKS, MARKS);
}

function lettersOf(canvas, events) {
  const lengths = new Map();
  for (const { pieces } of events) for (const [id, text] of Object.entries(pieces)) lengths.set(Number(id), text.length);
  return canvas.reduce((sum, id) => sum + (lengths.get(id) ?? 0), 0);
}

function firstLine(lines) {
  for (const line of lines) if (Array.isArray(line.canvas)) return line;
  throw new Error(NO_RUN);
}

/// The lines as objects, each read when it is asked for. The iterator continues where it was left.
function linesOf(text) {
  let begin = 0;
  let number = 0;
  const next = () => {
    while (begin < text.length) {
      const newline = text.indexOf("\n", begin);
      const end = newline < 0 ? text.length : newline;
      const line = text.slice(begin, end);
      begin = end + 1;
      number += 1;
      atMost(number, MAX_LINES, "lines");
      if (line.trim() !== "") return { value: parseLine(line, number), done: false };
    }
    return { value: undefined, done: true };
  };
  return { next, [Symbol.iterator]() { return this; } };
}

function parseLine(line, number) {
  try {
    return Object(JSON.parse(line));
  } catch {
    throw new Error(`line ${number} of the recorded run is not valid JSON`);
  }
}

function atMost(count, most, what) {
  if (!(count <= most)) throw new Error(`the recorded run has ${shown(count)} ${what}; expected at most ${most}`);
}

function shown(value) {
  const text = JSON.stringify(value) ?? "missing";
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}

function countOf(value, name) {
  if (!Number.isInteger(value) || value < 0) throw new Error(`${name} is ${shown(value)}; expected a whole number`);
  return value;
}

function positionOf(value, name) {
  if (countOf(value, name) < MAX_POSITIONS) return value;
  throw new Error(`${name} is ${value}; expected a position below ${MAX_POSITIONS}`);
}

function idsOf(values, name) {
  if (!Array.isArray(values)) throw new Error(`${name} is not a list`);
  return values.map((value) => countOf(value, name));
}

function positionsOf(values, name) {
  return idsOf(values ?? [], name).map((value) => positionOf(value, name));
}

function piecesOf(line) {
  return Object.fromEntries(Object.entries(line.pieces ?? {}).map(([id, text]) => [id, pieceOf(text)]));
}

function pieceOf(value) {
  const text = String(value);
  atMost(text.length, MAX_PIECE, "characters in a token");
  return text;
}

function alternativesOf(list) {
  atMost(list.length, MAX_POSITIONS, "positions with alternatives");
  return list.map(([position, { id, tops, entropy }]) => {
    atMost(tops.length, MAX_TOPS, "alternatives of a position");
    return [positionOf(position, "alternatives"), {
      id, tops: tops.map(({ text, probability }) => ({ text: pieceOf(text), probability: numberOf(probability) })),
      entropy: Number.isFinite(entropy) ? entropy : null,
    }];
  });
}

const numberOf = (value) => (Number.isFinite(value) ? value : 0);

/// `canvas` is the one before the step; it becomes the one after it.
function stepOf(line, canvas, mask) {
  const step = {
    type: "step", pass: numberOf(line.pass), step: numberOf(line.step), kind: String(line.kind ?? "denoise").slice(0, MAX_SHOWN), set: [], edit: [],
    remask: [], drop: positionsOf(line.drop, "drop"), insert: insertsOf(line.insert, canvas.length),
    lock: positionsOf(line.locked, "locked"), unlock: positionsOf(line.unlocked, "unlocked"), rows: (line.rows ?? []).length,
    flops: numberOf(line.layer_flops) + numberOf(line.head_flops), ms: 1e3 * numberOf(line.seconds), pieces: piecesOf(line),
  };
  const rows = positionsOf(line.rows, "rows");
  const computed = new Set(rows);
  const isComputed = canvas.map((_, position) => computed.has(position));
  const isMoved = step.drop.length + step.insert.length > 0;
  if (isMoved) {
    editCanvas(canvas, step, mask);
    editCanvas(isComputed, step, false);
  }
  resize(canvas, line.length === undefined ? canvas.length : positionOf(line.length, "length"), mask);
  for (const { position, token, confidence } of line.committed) write(step, canvas, mask, position, token, confidence ?? null);
  for (const [position, token] of line.changed ?? []) write(step, canvas, mask, position, token, null);
  step.length = canvas.length;
  step.lock = step.lock.filter((position) => position < canvas.length);
  step.unlock = step.unlock.filter((position) => position < canvas.length);
  // A guide's rows are places in its own reading, not on the canvas.
  const isGuides = line.page ? line.page.guide === true : line.kind === "verify" && !line.slots;
  const after = isMoved ? [...isComputed.keys()].filter((position) => isComputed[position]) : rows;
  if (!isGuides) step.computed = rangesOf(after);
  return Object.assign(step, moreOf(line.page));
}

/// Keys that traces written by this page have beyond those of the command line.
function moreOf(page) {
  const known = {};
  for (const name of ["final", "rows_uncached", "rows_baseline", "flops_uncached", "flops_baseline"]) {
    if (Number.isFinite(page?.[name])) known[name] = page[name];
  }
  if (Array.isArray(page?.block)) known.block = positionsOf(page.block, "block");
  return known;
}

function insertsOf(inserts, length) {
  let most = MAX_POSITIONS - length;
  return (inserts ?? []).map((pair) => {
    const [position, count] = idsOf(pair, "insert");
    most -= count;
    if (!(most >= 0)) throw new Error(`insert makes more than ${MAX_POSITIONS} positions`);
    return [positionOf(position, "insert"), count];
  });
}

function editCanvas(list, { drop, insert }, inserted) {
  const dropped = new Set(drop);
  const kept = list.filter((_, position) => !dropped.has(position));
  kept.forEach((value, position) => (list[position] = value));
  list.length = kept.length;
  for (const [position, count] of insert) list.splice(position, 0, ...Array(count).fill(inserted));
}

function resize(canvas, length, mask) {
  while (canvas.length < length) canvas.push(mask);
  canvas.length = length;
}

function write(step, canvas, mask, place, token, confidence) {
  const position = positionOf(place, "position");
  const id = countOf(token, "token");
  const isNew = position >= canvas.length || canvas[position] === mask;
  resize(canvas, Math.max(canvas.length, position + 1), mask);
  if (id === mask) step.remask.push(position);
  else (isNew ? step.set : step.edit).push([position, id, Number.isFinite(confidence) ? confidence : null]);
  canvas[position] = id;
}

function rangesOf(positions) {
  const ranges = [];
  for (const position of [...new Set(positions)].sort((a, b) => a - b)) {
    if (ranges.at(-1)?.[1] === position) ranges.at(-1)[1] += 1;
    else ranges.push([position, position + 1]);
  }
  return ranges;
}

/// A run as the lines that `lacuna replay` reads. "page" holds what the page shows and the command line does not record.
export function traceOf(run) {
  const { start, steps, pieces, ends } = run;
  const lines = [{
    request: 0, prompt_tokens: start.prompt, canvas: start.canvas, v: 2, mask: start.mask, ends: [...ends],
    pieces: Object.fromEntries(pieces),
  }];
  if (run.alternatives.size > 0) lines[0].page = { alternatives: [...run.alternatives] };
  let length = start.canvas.length;
  for (const step of steps) {
    lines.push(lineOf(step, length, start.mask));
    length = lengthAfter(step, length);
  }
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

function lengthAfter(step, before) {
  const edited = before - (step.drop ?? []).length + (step.insert ?? []).reduce((sum, [, count]) => sum + count, 0);
  const writes = [...(step.set ?? []), ...(step.edit ?? [])];
  return writes.reduce((most, [position]) => Math.max(most, position + 1), step.length ?? edited);
}

function lineOf(step, before, mask) {
  const places = [...Array(before).keys()];  // before the step, of each position after its edits
  editCanvas(places, { drop: step.drop ?? [], insert: step.insert ?? [] }, null);
  const computed = (step.computed ?? []).flatMap(([begin, end]) => Array.from({ length: end - begin }, (_, i) => begin + i));
  const rows = step.computed ? computed.map((position) => (position < places.length ? places[position] : position))
                             : [...Array(step.rows).keys()];
  const committed = [...(step.set ?? []), ...(step.edit ?? [])].map(
    ([position, token, confidence]) => (confidence === null ? { position, token } : { position, token, confidence }));
  const line = {
    request: 0, pass: step.pass, step: step.step, kind: step.kind, rows: rows.filter((row) => row !== null), committed,
    locked: step.lock ?? [], unlocked: step.unlock ?? [], layer_flops: step.flops, head_flops: 0, seconds: step.ms / 1e3,
  };
  if (step.drop?.length) line.drop = step.drop;
  if (step.insert?.length) line.insert = step.insert;
  if (step.length !== undefined) line.length = step.length;
  if (step.remask?.length) line.changed = step.remask.map((position) => [position, mask]);
  line.page = { guide: !step.computed, block: step.block, ...moreOf(step) };
  return line;
}
