// The page: what is asked of the server, and the runs that answer.
import { addHole, inputOf, moveHoles } from "./holes.js";
import { offerOf, settingsOf, SUGGESTIONS } from "./methods.js";
import { Run } from "./replay.js";
import { ask, eventsOf } from "./stream.js";
import { eventsOfTrace } from "./trace.js";
import { RunView } from "./view.js";

const MILLISECONDS_BETWEEN_TRIES = 1000;
const TITLES = ["First setting", "Second setting"];

const by = (id) => document.getElementById(id);
const form = by("request");
let props = null;     // of the server's model, once it is there
let holes = [];       // of the prompt's text
let text = "";        // the prompt before the last edit
let running = null;   // AbortController of the running requests

// The server's model.

async function meetServer() {
  try {
    props = await (await ask("props", { key: by("key").value })).json();
  } catch (error) {
    by("model").textContent = error.message;
    by("key-field").hidden = error.status !== 401 && by("key").value === "";
    if (error.status !== 401) setTimeout(meetServer, MILLISECONDS_BETWEEN_TRIES);
    return;
  }
  by("model").textContent = `${props.model} · ${props.family} · up to ${props.context} tokens`;
  form.elements.kind.forEach((radio) => {
    radio.disabled = !props.has_tokenizer || (radio.value === "infill" && !props.can_infill);
  });
  by("settings").replaceChildren(...TITLES.map(makeSettings));
  showChoices();
}

// Settings.

function makeSettings(title, index) {
  const offer = offerOf(props);
  const element = by("settings-template").content.firstElementChild.cloneNode(true);
  element.querySelector("legend").textContent = title;
  const method = element.querySelector(".method");
  for (const name of Object.keys(offer.methods)) method.add(new Option(name));
  element.querySelector(".fields").append(...offer.fields.map((name) => makeField(name, index)));
  method.addEventListener("change", () => fillIn(element, offer.methods[method.value]));
  fillIn(element, offer.methods[method.value]);
  return element;
}

function makeField(name, index) {
  const described = props.settings.find((setting) => setting.name === name);
  const field = document.createElement("div");
  field.className = "field";
  const label = document.createElement("label");
  const input = document.createElement("input");
  input.name = name;
  input.placeholder = "default";
  input.spellcheck = false;
  label.append(name, " ", input);
  const help = document.createElement("small");
  help.className = "help";
  help.id = `help-${index}-${name}`;
  help.textContent = described?.help ?? "";
  input.setAttribute("aria-describedby", help.id);
  const list = document.createElement("datalist");
  list.id = `values-${index}-${name}`;
  list.append(...(SUGGESTIONS[name] ?? []).map((value) => new Option(value, value)));
  input.setAttribute("list", list.id);
  field.append(label, help, list);
  return field;
}

/// A method's settings into the fields; those that have no field are written as JSON.
function fillIn(element, settings) {
  const rest = { ...settings };
  for (const input of element.querySelectorAll(".fields input")) {
    input.value = rest[input.name] ?? "";
    delete rest[input.name];
  }
  element.querySelector(".more").value = Object.keys(rest).length > 0 ? JSON.stringify(rest) : "";
  showChoices();
}

function readSettings(element) {
  const inputs = [...element.querySelectorAll(".fields input")];
  const texts = Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()]));
  const types = Object.fromEntries(props.settings.map(({ name, type }) => [name, type]));
  return { ...settingsOf(texts, types), ...readMore(element.querySelector(".more").value) };
}

function readMore(json) {
  if (json.trim() === "") return {};
  try {
    return Object(JSON.parse(json));
  } catch {
    throw new Error(`More, as JSON is ${json}; expected an object such as {"top-k": 5}`);
  }
}

// Requests.

const kind = () => form.elements.kind.value;
const settingElements = () => [...by("settings").children].slice(0, by("compare").checked ? 2 : 1);

/// {path, body} of what one setting asks for.
function requestOf(element) {
  const prompt = by("prompt").value;
  const common = { seed: by("seed").valueAsNumber || 0, stream: true, lacuna: { events: true, ...readSettings(element) } };
  const length = by("length").value === "" ? {} : { max_tokens: by("length").valueAsNumber };
  switch (kind()) {
    case "infill":
      return { path: "v1/infill", body: { input: inputOf(prompt, holes), ...common } };
    case "completion":
      return { path: "v1/completions", body: { prompt, ...length, ...common } };
    default:
      return { path: "v1/chat/completions", body: { messages: [{ role: "user", content: prompt }], ...length, ...common } };
  }
}

/// Shows what belongs to the choices that are made, and what would be sent.
function showChoices() {
  const isInfill = kind() === "infill";
  by("prompt-label").textContent = { chat: "Message", completion: "Text to continue", infill: "Text with holes" }[kind()];
  by("holes-field").hidden = !isInfill;
  by("length-field").hidden = isInfill;
  by("run").disabled = props === null || running !== null;
  by("stop").disabled = running === null;
  [...by("settings").children].forEach((element, index) => {
    element.hidden = index > 0 && !by("compare").checked;
  });
  try {
    const requests = props === null ? [] : settingElements().map(requestOf);
    by("sent").textContent = requests.map(({ path, body }) => `POST /${path}\n${JSON.stringify(body, null, 2)}`).join("\n\n");
  } catch (error) {
    by("sent").textContent = error.message;
  }
}

/// One after the other: runs that share passes would share their time too.
async function runAll() {
  if (by("run").disabled) return;
  const elements = settingElements();
  const views = elements.map((element, index) => {
    const { value } = element.querySelector(".method");
    return new RunView(new Run(), elements.length > 1 ? `${TITLES[index]}: ${value}` : value);
  });
  showRuns(views);
  running = new AbortController();
  showChoices();
  for (const [index, view] of views.entries()) await runOne(elements[index], view, running.signal);
  running = null;
  showChoices();
  comparePaces(views);
  if (views.length === 2) by("verdict").textContent = verdictOf(...views.map((view) => view.run));
}

async function runOne(element, view, signal) {
  view.state = "waiting";
  try {
    const { path, body } = requestOf(element);
    const response = await ask(path, { body, key: by("key").value, signal });
    view.state = "writing";
    for await (const chunk of eventsOf(response)) {
      if (chunk.error) throw new Error(chunk.error.message);
      takeChunk(chunk, view);
    }
    view.finish("done");
  } catch (error) {
    if (signal.aborted) view.finish("stopped");
    else view.fail(error.message);
  }
}

function takeChunk(chunk, view) {
  for (const choice of chunk.choices) view.addText(choice.delta?.content ?? choice.text ?? "");
  if (chunk.lacuna?.event) {
    view.run.add(chunk.lacuna.event);
    view.update();
  }
}

function showRuns(views) {
  by("hint").hidden = true;
  by("verdict").textContent = "";
  by("runs").replaceChildren(...views.map((view) => view.element));
}

// Comparisons.

const totalOf = (run) => run.cost(run.steps.length);

/// A run that computed every row tells what an uncached row takes; the longest one tells it best.
function comparePaces(views) {
  const totals = views.map((view) => totalOf(view.run)).sort((a, b) => b.rows - a.rows);
  const uncached = totals.find((total) => total.rows > 0 && total.rows === total.rowsBaseline);
  if (uncached) views.forEach((view) => view.comparePace(uncached.milliseconds / uncached.rows));
}

function verdictOf(first, second) {
  const [a, b] = [totalOf(first), totalOf(second)];
  if (a.rows === 0 || b.rows === 0) return "";
  const times = (x, y) => `${(x / y).toFixed(2)}×`;
  const [mine, other] = [first, second].map((run) => new RunView(run, "").replay.cells);
  const same = mine.filter((cell, position) => cell.id === other[position]?.id && !cell.given).length;
  const written = mine.filter((cell) => !cell.given).length;
  return `The second took ${times(b.milliseconds, a.milliseconds)} the time, ${times(b.flops, a.flops)} the FLOPs and ` +
    `${times(b.rows, a.rows)} the rows of the first; ${same} of ${written} tokens are the same.`;
}

// Holes.

async function makeHole() {
  const { selectionStart: begin, selectionEnd: end, value } = by("prompt");
  if (begin === end) return;
  const hole = { begin, end, tokens: 1 };
  holes = addHole(holes, hole);
  showHoles();
  const reply = await ask("tokenize", { body: { content: value.slice(begin, end) }, key: by("key").value });
  hole.tokens = (await reply.json()).tokens.length;
  showHoles();
}

function showHoles() {
  by("holes").replaceChildren(...holes.map((hole) => {
    const item = document.createElement("li");
    const quote = document.createElement("q");
    quote.textContent = text.slice(hole.begin, hole.end);
    const tokens = document.createElement("input");
    tokens.type = "number";
    tokens.min = 1;
    tokens.value = hole.tokens;
    tokens.addEventListener("input", () => (hole.tokens = tokens.valueAsNumber || 0));
    const label = document.createElement("label");
    label.append(quote, " → ", tokens, " tokens ");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.textContent = "Keep the text";
    remove.addEventListener("click", () => {
      holes = holes.filter((other) => other !== hole);
      showHoles();
      by("prompt").focus();
    });
    item.append(label, remove);
    return item;
  }));
  showChoices();
}

function noteEdit() {
  const now = by("prompt").value;
  holes = moveHoles(holes, text, now);
  text = now;
  showHoles();
}

// Recorded runs.

async function openTrace(file) {
  const run = new Run();
  const view = new RunView(run, file.name);
  showRuns([view]);
  try {
    const events = eventsOfTrace(await file.text(), props?.mask_id ?? -1);
    events.forEach((event) => run.add(event));
    view.finish("recorded run; texts of its tokens are those of this server's model");
    await nameTokens(run);
    view.update();
  } catch (error) {
    view.fail(error.message);
  }
}

/// A trace has ids alone.
async function nameTokens(run) {
  const tokens = new Set(run.start.canvas);
  for (const step of run.steps) for (const [, id] of [...step.set, ...step.edit]) tokens.add(id);
  const reply = await ask("detokenize", { body: { tokens: [...tokens], with_pieces: true }, key: by("key").value });
  for (const { id, piece } of (await reply.json()).tokens) run.pieces.set(id, piece);
}

// Events of the page.

form.addEventListener("submit", (event) => {
  event.preventDefault();
  runAll();
});
form.addEventListener("input", showChoices);
form.addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "Enter") runAll();
});
by("stop").addEventListener("click", () => running?.abort());
by("prompt").addEventListener("input", noteEdit);
by("prompt").addEventListener("keydown", (event) => {
  if (event.altKey && event.key.toLowerCase() === "h" && kind() === "infill") {
    event.preventDefault();
    makeHole();
  }
});
by("make-hole").addEventListener("click", makeHole);
by("key").addEventListener("change", meetServer);
by("trace").addEventListener("change", () => {
  if (by("trace").files.length > 0) openTrace(by("trace").files[0]);
  by("trace").value = "";
});
for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    event.preventDefault();
    document.body.classList.toggle("dropping", name === "dragover");
    if (name === "drop" && event.dataTransfer.files.length > 0) openTrace(event.dataTransfer.files[0]);
  });
}

text = by("prompt").value;
showChoices();
meetServer();
