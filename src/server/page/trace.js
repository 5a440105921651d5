// Recorded runs (`lacuna run --trace FILE`) as the events of a stream, and back. A file may be anybody's: what is
// read is checked, so that nothing in it makes the page allocate without bound.

const MOST_POSITIONS = 1 << 16;
const MOST_STEPS = 1 << 16;
const MOST_CELLS = 1 << 26;  // cells of all passes together: each is read once per pass

/// The events of the first request in a recorded run. Throws an Error with one sentence where it is none.
///   mask  the model's mask token, for traces that do not tell it
export function eventsOfTrace(text, mask) {
  const lines = text.split("\n").filter((line) => line.trim() !== "").map(parseLine);
  const start = lines.find((line) => Array.isArray(line.canvas));
  if (!start) throw new Error("this is not a recorded run; expected the file that lacuna run --trace writes");
  const canvas = idsOf(start.canvas, "canvas");
  if (canvas.length > MOST_POSITIONS) {
    throw new Error(`the canvas has ${canvas.length} positions; expected at most ${MOST_POSITIONS}`);
  }
  const known = Number.isInteger(start.mask) ? start.mask : mask;
  const prompt = Math.min(countOf(start.prompt_tokens ?? 0, "prompt_tokens"), canvas.length);
  const events = [{
    type: "start", prompt, mask: known, canvas: [...canvas], pieces: piecesOf(start), ends: idsOf(start.ends ?? [], "ends"),
    alternatives: alternativesOf(start.page?.alternatives ?? []),
  }];
  let cells = 0;
  for (const line of lines) {
    if (!Array.isArray(line.committed) || line.request !== start.request) continue;
    cells += canvas.length;
    if (cells > MOST_CELLS) throw new Error(`the passes of the recorded run have more than ${MOST_CELLS} positions together`);
    if (events.length > MOST_STEPS) throw new Error(`the recorded run has more than ${MOST_STEPS} passes`);
    events.push(stepOf(line, canvas, known));
  }
  return events;
}

function parseLine(line, index) {
  let value = null;
  try {
    value = JSON.parse(line);
  } catch {
    throw new Error(`line ${index + 1} of the recorded run is not valid JSON`);
  }
  return Object(value);
}

function countOf(value, name) {
  if (!Number.isInteger(value) || value < 0) throw new Error(`${name} is ${JSON.stringify(value)}; expected a whole number`);
  return value;
}

function positionOf(value, name) {
  if (countOf(value, name) < MOST_POSITIONS) return value;
  throw new Error(`${name} is ${value}; expected a position below ${MOST_POSITIONS}`);
}

function idsOf(values, name) {
  if (!Array.isArray(values)) throw new Error(`${name} is not a list`);
  return values.map((value) => countOf(value, name));
}

function positionsOf(values, name) {
  return idsOf(values ?? [], name).map((value) => positionOf(value, name));
}

function piecesOf(line) {
  return Object.fromEntries(Object.entries(line.pieces ?? {}).map(([id, text]) => [id, String(text)]));
}

function alternativesOf(list) {
  return list.map(([position, { id, tops, entropy }]) => [positionOf(position, "alternatives"), {
    id, tops: tops.map(({ text, probability }) => ({ text: String(text), probability: numberOf(probability) })),
    entropy: Number.isFinite(entropy) ? entropy : null,
  }]);
}

const numberOf = (value) => (Number.isFinite(value) ? value : 0);

/// `canvas` is the one before the step; it becomes the one after it.
function stepOf(line, canvas, mask) {
  const step = {
    type: "step", pass: numberOf(line.pass), step: numberOf(line.step), kind: String(line.kind ?? "denoise"), set: [], edit: [],
    remask: [], drop: positionsOf(line.drop, "drop"), insert: insertsOf(line.insert, canvas.length),
    lock: positionsOf(line.locked, "locked"), unlock: positionsOf(line.unlocked, "unlocked"), rows: (line.rows ?? []).length,
    flops: numberOf(line.layer_flops) + numberOf(line.head_flops), ms: 1e3 * numberOf(line.seconds), pieces: piecesOf(line),
  };
  const rows = positionsOf(line.rows, "rows");
  const computed = new Set(rows);
  const isComputed = canvas.map((_, position) => computed.has(position));
  editCanvas(canvas, step, mask);
  editCanvas(isComputed, step, false);
  resize(canvas, line.length === undefined ? canvas.length : positionOf(line.length, "length"), mask);
  for (const { position, token, confidence } of line.committed) write(step, canvas, mask, position, token, confidence ?? null);
  for (const [position, token] of line.changed ?? []) write(step, canvas, mask, position, token, null);
  step.length = canvas.length;
  step.lock = step.lock.filter((position) => position < canvas.length);
  step.unlock = step.unlock.filter((position) => position < canvas.length);
  // A guide's rows are places in its own reading, not on the canvas.
  const isGuides = line.page ? line.page.guide === true : line.kind === "verify" && !line.slots;
  const isMoved = step.drop.length + step.insert.length > 0;
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
  let most = MOST_POSITIONS - length;
  return (inserts ?? []).map((pair) => {
    const [position, count] = idsOf(pair, "insert");
    most -= count;
    if (!(most >= 0)) throw new Error(`insert makes more than ${MOST_POSITIONS} positions`);
    return [positionOf(position, "insert"), count];
  });
}

function editCanvas(list, { drop, insert }, inserted) {
  for (const position of [...drop].reverse()) list.splice(position, 1);
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
    request: 0, prompt_tokens: start.prompt, canvas: start.canvas, v: 2, mask: start.mask, ends,
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
  const behind = [...(step.set ?? []), ...(step.edit ?? [])].map(([position]) => position + 1);
  return Math.max(step.length ?? edited, ...behind);
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
