// Recorded runs (`lacuna run --trace FILE`) as the events of a stream.

/// The events of the first request in a recorded run. Throws an Error with one sentence where it is none.
///   mask  the model's mask token: a trace does not tell it
export function eventsOfTrace(text, mask) {
  const lines = text.split("\n").filter((line) => line.trim() !== "").map(parseLine);
  const start = lines.find((line) => Array.isArray(line.canvas));
  if (!start) throw new Error("this is no recorded run; expected the file that lacuna run --trace writes");
  const canvas = [...start.canvas];
  const events = [{ type: "start", prompt: start.prompt_tokens ?? 0, mask, canvas: start.canvas }];
  for (const line of lines) {
    if (!Array.isArray(line.committed) || line.request !== start.request) continue;
    events.push(stepOf(line, canvas, mask));
  }
  return events;
}

function parseLine(line, index) {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error(`line ${index + 1} of the recorded run is no JSON`);
  }
}

/// `canvas` is the one before the step; it becomes the one after it.
function stepOf(line, canvas, mask) {
  const step = {
    type: "step", pass: line.pass, step: line.step, kind: line.kind, set: [], edit: [], remask: [],
    drop: line.drop ?? [], insert: line.insert ?? [], lock: line.locked, unlock: line.unlocked,
    rows: line.rows.length, flops: line.layer_flops + line.head_flops, ms: 1e3 * line.seconds,
  };
  const computed = new Set(line.rows);
  const isComputed = canvas.map((_, position) => computed.has(position));
  for (const list of [canvas, isComputed]) {
    for (const position of [...step.drop].reverse()) list.splice(position, 1);
    for (const [position, count] of step.insert) {
      list.splice(position, 0, ...Array(count).fill(list === canvas ? mask : false));
    }
  }
  const length = line.length ?? canvas.length;
  while (canvas.length < length) canvas.push(mask);
  canvas.length = length;
  for (const { position, token, confidence } of line.committed) {
    const isNew = position >= canvas.length || canvas[position] === mask;
    (isNew ? step.set : step.edit).push([position, token, confidence]);
    canvas[position] = token;
  }
  for (const [position, token] of line.changed ?? []) {
    const isNew = position >= canvas.length || canvas[position] === mask;
    if (token === mask) step.remask.push(position);
    else (isNew ? step.set : step.edit).push([position, token, null]);
    canvas[position] = token;
  }
  step.length = canvas.length;
  // A guide's rows are places in its own reading, not on the canvas.
  const isGuides = line.kind === "verify" && !line.slots;
  const isMoved = step.drop.length + step.insert.length > 0;
  const rows = isMoved ? [...isComputed.keys()].filter((position) => isComputed[position]) : line.rows;
  if (!isGuides) step.computed = rows.map((row) => [row, row + 1]);
  return step;
}
