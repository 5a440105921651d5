// JSON that is not finished, laid out: line breaks and indents wherever the structure is known already.

const INDENT = "  ";

/// Parts of JSON text, with line breaks added between values. White space of the text outside of strings is left out.
///   parts  [{text, masked}], in order
export function layOut(parts) {
  const laid = [];
  const state = { depth: 0, inString: false, escaped: false, justOpened: false };
  for (const part of parts) {
    if (part.masked) {
      const lead = state.justOpened && !state.inString ? breakLine(state) : "";
      state.justOpened = false;
      if (lead !== "") laid.push({ text: lead, masked: false });
      laid.push({ text: "", masked: true });
      continue;
    }
    let text = "";
    for (const letter of part.text) text += take(letter, state);
    laid.push({ ...part, text });
  }
  return laid;
}

const breakLine = ({ depth }) => `\n${INDENT.repeat(Math.max(depth, 0))}`;

function take(letter, state) {
  if (state.inString) return takeInString(letter, state);
  if (/\s/.test(letter)) return "";
  if (letter === "}" || letter === "]") {
    state.depth -= 1;
    const lead = state.justOpened ? "" : breakLine(state);
    state.justOpened = false;
    return lead + letter;
  }
  const lead = state.justOpened ? breakLine(state) : "";
  state.justOpened = letter === "{" || letter === "[";
  if (state.justOpened) state.depth += 1;
  if (letter === '"') state.inString = true;
  if (letter === ",") return `${lead},${breakLine(state)}`;
  return lead + (letter === ":" ? ": " : letter);
}

function takeInString(letter, state) {
  if (state.escaped) state.escaped = false;
  else if (letter === "\\") state.escaped = true;
  else if (letter === '"') state.inString = false;
  return letter;
}
