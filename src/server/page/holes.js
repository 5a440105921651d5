// Holes in a text that is being edited: {begin, end, tokens}, by UTF-16 offsets, ascending, disjoint. `tokens` is null where
// the length is not known.

/// Holes that the text itself marks: [[4]] of 4 tokens, [[1-3]] of 1 to 3, as `lacuna infill` has them; \[[ is text.
/// Their `tokens` are a number or {min, max}.
function marksOf(text) {
  const marks = [];
  for (const found of text.matchAll(/\\?\[\[(\d{1,4})(?:-(\d{1,4}))?\]\]/g)) {
    const [mark, first, last] = found;
    if (mark.startsWith("\\")) continue;
    const tokens = last === undefined ? Number(first) : { min: Number(first), max: Number(last) };
    marks.push({ begin: found.index, end: found.index + mark.length, tokens, isMark: true });
  }
  return marks;
}

/// The holes that were made and those that the text marks; a mark within a hole belongs to it.
export function withMarks(holes, text) {
  const isFree = (mark) => holes.every((hole) => hole.end <= mark.begin || hole.begin >= mark.end);
  return [...holes, ...marksOf(text).filter(isFree)].sort((a, b) => a.begin - b.begin);
}

/// The text that "\[[" stands for.
export function unescaped(text) {
  return text.replaceAll("\\[[", "[[");
}

/// With a hole over [begin, end), which replaces those that it touches.
export function addHole(holes, hole) {
  const others = holes.filter((other) => other.end <= hole.begin || other.begin >= hole.end);
  return [...others, hole].sort((a, b) => a.begin - b.begin);
}

/// The holes after `before` was edited into `after`: they move with the text around them, grow or shrink with
/// edits inside them, and vanish when an edit reaches across their edge.
export function moveHoles(holes, before, after) {
  const most = Math.min(before.length, after.length);
  // Match the text after an edit first: of "one two three", "two " was deleted and not "wo t".
  let tail = 0;
  while (tail < most && before.at(-1 - tail) === after.at(-1 - tail)) tail += 1;
  let head = 0;
  while (head < most - tail && before[head] === after[head]) head += 1;
  const editEnd = before.length - tail;
  const growth = after.length - before.length;
  return holes.flatMap((hole) => {
    if (hole.end <= head) return [hole];
    if (hole.begin >= editEnd) return [{ ...hole, begin: hole.begin + growth, end: hole.end + growth }];
    const isInside = hole.begin <= head && editEnd <= hole.end && hole.end + growth > hole.begin;
    return isInside ? [{ ...hole, end: hole.end + growth }] : [];
  });
}

/// Input for /v1/infill: texts and {"hole": tokens}; {"hole": {}} where the length is not known.
export function inputOf(text, holes) {
  const parts = partsOf(text, withMarks(holes, text))
    .map((part) => (part.hole ? { hole: part.hole.tokens ?? {} } : unescaped(part.text)));
  return parts.filter((part) => part !== "");
}

/// The text in pieces: {text, hole}, where `hole` is undefined for what is given.
export function partsOf(text, holes) {
  const parts = [];
  let at = 0;
  for (const hole of holes) {
    parts.push({ text: text.slice(at, hole.begin) }, { text: text.slice(hole.begin, hole.end), hole });
    at = hole.end;
  }
  return [...parts, { text: text.slice(at) }];
}
