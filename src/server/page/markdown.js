// Markdown of answers as elements: headings, lists, quotes, code, tables, bold, italic, links. Texts become text nodes, never markup,
// and nothing is loaded: an image is a link. Where CommonMark and what models mean differ:
//   * and _ inside of words are characters, so that 2*3*4 stays what it is; line breaks in paragraphs are kept;
//   two spaces are enough to continue a list's item.
import { copyText, make } from "./dom.js";

const MOST_DEPTH = 8;            // of quotes, lists and emphasis in each other; deeper ones are plain text
const MOST_EMPHASIS = 4000;      // characters between the marks
const MOST_LETTERS = 100_000;    // longer texts are one paragraph, as they are
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:\s+(.*))?$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:\s+|$)/;
const LINK = /\[([^[\]]+)\]\((https?:\/\/[^\s()<>]+)\)/y;
const WORD = /[\p{Script=Latin}\p{N}]/u;

/// The elements for a text.
export function markdownOf(text) {
  if (text.length > MOST_LETTERS) return [make("p", {}, text)];
  return blocksOf(text.split(/\r?\n/), 0);
}

// Blocks. Each reader takes the lines from `at` on and gives {element, next}, or null where no such block begins there.

const READERS = [readFence, readHeading, readRule, readQuote, readList, readTable];

function blocksOf(lines, depth) {
  if (depth > MOST_DEPTH) return [make("p", {}, lines.join("\n"))];
  const elements = [];
  let at = 0;
  while (at < lines.length) {
    const { element, next } = readBlock(lines, at, depth) ?? readParagraph(lines, at, depth);
    if (element) elements.push(element);
    at = next;
  }
  return elements;
}

function readBlock(lines, at, depth) {
  for (const read of READERS) {
    const block = read(lines, at, depth);
    if (block !== null) return block;
  }
  return null;
}

const isBlank = (line) => line.trim() === "";

/// Whether a paragraph ends before the line. A list ends one only where it begins with 1, as in CommonMark.
function beginsBlock(lines, at) {
  const line = lines[at];
  const [, , mark] = ITEM.exec(line) ?? [];
  return isBlank(line) || FENCE.test(line) || HEADING.test(line) || isRule(line) || isQuote(line) || columnsAt(lines, at) !== null ||
    (mark !== undefined && !(Number.parseInt(mark, 10) > 1));
}

function readParagraph(lines, at, depth) {
  let next = at + 1;
  if (isBlank(lines[at])) return { element: null, next };
  while (next < lines.length && !beginsBlock(lines, next)) next += 1;
  return { element: make("p", {}, ...inlineOf(lines.slice(at, next).join("\n").trim(), depth)), next };
}

/// Code up to the fence that ends it, or to the end of an answer that was cut.
function readFence(lines, at) {
  const [, fence, info] = FENCE.exec(lines[at]) ?? [];
  if (fence === undefined) return null;
  const isEnd = (line) => line.trim().length >= fence.length && line.trim().replaceAll(fence[0], "") === "";
  let end = at + 1;
  while (end < lines.length && !isEnd(lines[end])) end += 1;
  return { element: codeBlock(lines.slice(at + 1, end).join("\n"), info.trim().split(/\s/)[0]), next: end + 1 };
}

function codeBlock(code, language) {
  const copy = make("button", { type: "button", className: "tool", "aria-label": "Copy the code", onclick: () => copyText(code, copy) }, "Copy");
  return make("figure", { className: "code-block" }, make("figcaption", {}, make("span", {}, language || "code"), copy),
              make("pre", { tabIndex: 0, "aria-label": language === "" ? "Code" : `Code, ${language}` }, make("code", {}, code)));
}

/// Below the headings of the page, of which three levels are left.
function readHeading(lines, at, depth) {
  const [, marks, text = ""] = HEADING.exec(lines[at]) ?? [];
  if (marks === undefined) return null;
  return { element: make(`h${Math.min(marks.length + 3, 6)}`, {}, ...inlineOf(text.trim(), depth)), next: at + 1 };
}

function isRule(line) {
  const bare = line.replaceAll(/\s/g, "");
  return bare.length >= 3 && "-*_".includes(bare[0]) && bare.replaceAll(bare[0], "") === "";
}

function readRule(lines, at) {
  return isRule(lines[at]) ? { element: make("hr"), next: at + 1 } : null;
}

const isQuote = (line) => /^ {0,3}>/.test(line);

function readQuote(lines, at, depth) {
  let next = at;
  while (next < lines.length && isQuote(lines[next])) next += 1;
  if (next === at) return null;
  const inside = lines.slice(at, next).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return { element: make("blockquote", {}, ...blocksOf(inside, depth + 1)), next };
}

// Lists.

/// Items of one kind, with the lines that are indented below them.
function readList(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (first === null) return null;
  const [, indent, mark] = first;
  const isNumbered = /\d/.test(mark);
  const items = [];
  let next = at;
  while (next < lines.length && isSibling(lines[next], indent.length, mark)) {
    const end = endOfItem(lines, next, indent.length);
    items.push(make("li", {}, ...blocksOf(linesOfItem(lines.slice(next, end)), depth + 1)));
    next = end;
  }
  const list = isNumbered ? make("ol", { start: Number.parseInt(mark, 10) }, ...items) : make("ul", {}, ...items);
  return { element: list, next };
}

function isSibling(line, indent, mark) {
  const [, otherIndent, otherMark] = ITEM.exec(line) ?? [];
  return otherMark !== undefined && Math.abs(otherIndent.length - indent) < 2 && otherMark.at(-1) === mark.at(-1) && !isRule(line);
}

/// The item continues over lines that are indented, blank ones before such included, and over text right below it.
function endOfItem(lines, at, indent) {
  const isInside = (line) => !isBlank(line) && line.length - line.trimStart().length >= indent + 2;
  let end = at + 1;
  while (end < lines.length) {
    let next = end;
    while (next < lines.length && isBlank(lines[next])) next += 1;
    if (next === lines.length) return next;
    const continues = isInside(lines[next]) || (next === end && !beginsBlock(lines, next) && !ITEM.test(lines[next]));
    if (!continues) return isSiblingBehind(lines, next, end) ? next : end;
    end = next + 1;
  }
  return end;
}

/// Blank lines between two items do not end their list.
function isSiblingBehind(lines, next, end) {
  return next > end && ITEM.test(lines[next]);
}

function linesOfItem(lines) {
  const [whole] = ITEM.exec(lines[0]);
  const most = whole.length;
  const strip = (line) => line.slice(Math.min(most, line.length - line.trimStart().length));
  return [lines[0].slice(most), ...lines.slice(1).map(strip)];
}

// Tables.

function cellsOf(line) {
  const cells = line.trim().replaceAll("\\|", "\u0000").split("|").map((cell) => cell.trim().replaceAll("\u0000", "|"));
  if (cells[0] === "") cells.shift();
  if (cells.at(-1) === "") cells.pop();
  return cells;
}

/// The alignment of each column of a table that begins here; null: none does.
function columnsAt(lines, at) {
  if (!lines[at].includes("|") || !lines[at + 1]?.includes("-")) return null;
  const marks = cellsOf(lines[at + 1]);
  if (marks.length !== cellsOf(lines[at]).length || !marks.every((mark) => /^:?-+:?$/.test(mark))) return null;
  return marks.map((mark) => (mark.endsWith(":") ? (mark.startsWith(":") ? "center" : "end") : "start"));
}

function readTable(lines, at, depth) {
  const columns = columnsAt(lines, at);
  if (columns === null) return null;
  const row = (tag, line) => make("tr", {}, ...cellsOf(line).slice(0, columns.length).map((cell, column) =>
    make(tag, { className: columns[column] }, ...inlineOf(cell, depth))));
  let next = at + 2;
  while (next < lines.length && lines[next].includes("|")) next += 1;
  const table = make("table", {}, make("thead", {}, row("th", lines[at])),
                     make("tbody", {}, ...lines.slice(at + 2, next).map((line) => row("td", line))));
  return { element: make("div", { className: "scrolls", tabIndex: 0, role: "region", "aria-label": "Table" }, table), next };
}

// Text within a block.

const MARKS = { "*": "em", "_": "em", "**": "strong", "***": "strong", "~~": "s" };

/// Texts and elements, in order.
function inlineOf(text, depth) {
  if (depth > MOST_DEPTH) return [text];
  const parts = [];
  const unclosed = {};  // for each mark, up to where nothing closes it, so that no part is searched twice
  let plain = "";
  let at = 0;
  while (at < text.length) {
    const found = readInline(text, at, depth, unclosed);
    if (found === null) {
      plain += text[at];
      at += 1;
      continue;
    }
    at = found.next;
    if (typeof found.part === "string") {
      plain += found.part;
      continue;
    }
    parts.push(plain, found.part);
    plain = "";
  }
  return [...parts, plain].filter((part) => part !== "");
}

function readInline(text, at, depth, unclosed) {
  switch (text[at]) {
    case "\\": return /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "") ? { part: text[at + 1], next: at + 2 } : null;
    case "`": return readCode(text, at);
    case "[": return readLink(text, at, depth);
    case "*": case "_": case "~": return readEmphasis(text, at, depth, unclosed);
    default: return null;
  }
}

function runAt(text, at) {
  let end = at;
  while (text[end] === text[at]) end += 1;
  return text.slice(at, end);
}

/// Code between as many backticks on both sides; without the others they are text, all at once.
function readCode(text, at) {
  const ticks = runAt(text, at);
  const begin = at + ticks.length;
  for (let end = text.indexOf(ticks, begin); end >= 0; end = text.indexOf(ticks, end + 1)) {
    const run = runAt(text, end);
    if (run === ticks) return { part: make("code", {}, text.slice(begin, end).trim()), next: end + ticks.length };
    end += run.length - 1;
  }
  return { part: ticks, next: begin };
}

function readLink(text, at, depth) {
  LINK.lastIndex = at;
  const [whole, name, url] = LINK.exec(text) ?? [];
  if (whole === undefined) return null;
  const link = make("a", { href: url, title: url, target: "_blank", rel: "noopener noreferrer" }, ...inlineOf(name, depth + 1));
  return { part: link, next: at + whole.length };
}

function readEmphasis(text, at, depth, unclosed) {
  const mark = runAt(text, at);
  const begin = at + mark.length;
  const literal = { part: mark, next: begin };
  const isWordsOnly = mark.length === 1;  // its marks are not within words
  if (!(mark in MARKS) || /\s/.test(text[begin] ?? " ") || (isWordsOnly && WORD.test(text[at - 1] ?? " "))) return literal;
  const end = endOfEmphasis(text, begin, mark, isWordsOnly, unclosed);
  if (end === null) return literal;
  const inside = inlineOf(text.slice(begin, end), depth + 1);
  const element = make(MARKS[mark], {}, ...(mark === "***" ? [make("em", {}, ...inside)] : inside));
  return { part: element, next: end + mark.length };
}

/// Where a mark is closed does not depend on where it was opened.
function endOfEmphasis(text, begin, mark, isWordsOnly, unclosed) {
  const last = Math.min(text.length, begin + MOST_EMPHASIS);
  const from = Math.max(begin, unclosed[mark] ?? 0);
  for (let end = text.indexOf(mark, from); end >= 0 && end < last; end = text.indexOf(mark, end)) {
    const run = runAt(text, end);
    const isClosed = run === mark && !/\s/.test(text[end - 1]) && !(isWordsOnly && WORD.test(text[end + 1] ?? " "));
    if (isClosed) return end;
    end += run.length;
  }
  unclosed[mark] = last;
  return null;
}
