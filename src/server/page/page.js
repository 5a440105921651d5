// The page: which tab is shown, what is sent, and what all tabs share.
import { offerFacts } from "./about.js";
import { takeTextFiles } from "./attachments.js";
import { ChatTab } from "./chat.js";
import { CompletionTab } from "./completion.js";
import { DecisionsTab } from "./decisions.js";
import { by, keep, recall } from "./dom.js";
import { InfillTab } from "./infill.js";
import { listenForKeys } from "./keys.js";
import { Models } from "./models.js";
import { openFragment, watchForTraces } from "./recorded.js";
import { SchemaTab } from "./schema.js";
import { Settings } from "./settings.js";
import { ask } from "./stream.js";
import { drawSample } from "./sample.js";
import { switchTheme } from "./theme.js";

const MILLISECONDS_BETWEEN_TRIES = 1000;
const NARROW = matchMedia("(width < 64rem)");  // one column, as page.css has it
const CANVAS_HINT = "The canvas appears here and fills as the model writes: in any order, several tokens at once. " +
  "A file that lacuna run --trace wrote can be dropped anywhere on this page.";

/// State shared by the tabs.
const app = {
  props: null,    // /props of the server's model, once it has arrived
  running: null,  // AbortController of what is being done
  isConnected: true,
  models: new Models(() => meetServer()),
  ask: askServer,
  noteLoss,
  length: () => (by("length").value === "" ? {} : { max_tokens: by("length").valueAsNumber }),
  common: (lacuna) => ({ ...app.models.field, seed: by("seed").valueAsNumber || 0, stream: true, lacuna: { events: true, ...lacuna } }),
  showChoices,
  start,
  showTab: (name) => chooseTab(tabs.find((tab) => tab.name === name)),
};
app.settings = new Settings(showChoices);
const tabs = [ChatTab, CompletionTab, InfillTab, DecisionsTab, SchemaTab].map((Tab) => new Tab(app));
app.tabs = tabs;
app.tab = tabs.find(({ name }) => name === recall("tab", "chat")) ?? tabs[0];

// The server and its model.

let meeting = 0;  // counts the tries, of which the last one alone has a say
let described = "";

async function askServer(path, options) {
  try {
    return await ask(path, { key: by("key").value, ...options });
  } catch (error) {
    if (error.status === 0) noteLoss();
    throw error;
  }
}

/// Asks what the server runs, until it says so.
async function meetServer() {
  meeting += 1;
  const mine = meeting;
  const isLatest = () => mine === meeting;
  try {
    const options = { key: by("key").value };
    const list = await (await ask("v1/models", options)).json();
    if (!isLatest()) return;
    app.models.show(list);
    const props = await (await ask(app.models.path, options)).json();
    if (isLatest()) showServer(props);
  } catch (error) {
    if (!isLatest()) return;
    showObstacle(error);
    if (error.status !== 401) setTimeout(() => isLatest() && meetServer(), MILLISECONDS_BETWEEN_TRIES);
  }
}

/// The settings are made anew only where they differ: what was filled in stays when a server is back.
function showServer(props) {
  app.props = props;
  showConnection(true);
  by("show-model").disabled = false;
  const { model, family, context } = props;
  const facts = [family, `up to ${context} tokens`];
  by("model").textContent = (app.models.chosen === "" ? [model, ...facts] : facts).join(" · ");
  const { paradigm, version, has_guide: hasGuide, can_infill: canInfill, presets, settings } = props;
  const description = JSON.stringify([model, paradigm, version, hasGuide, canInfill, presets, settings]);
  if (description !== described) app.settings.describe(props);
  described = description;
  const isUseless = app.tab.obstacle(props) !== null;
  if (!props.writes_text && isUseless) app.tab = tabs.find(({ name }) => name === "decisions");
  showTab();
}

function showObstacle(error) {
  if (error.status === 0) return showConnection(false);
  by("model").textContent = error.message;
  by("key-field").hidden = error.status !== 401 && by("key").value === "";
}

/// A request found no server, or lost it.
function noteLoss() {
  if (app.isConnected) meetServer();
}

function showConnection(isConnected) {
  app.isConnected = isConnected;
  by("unreachable").hidden = isConnected;
  by("unreachable").textContent = isConnected ? "" :
    `The server at ${location.origin} cannot be reached. It is asked again every second; what is written here stays.`;
  showChoices();
}

// Tabs.

function showTab() {
  const isChat = app.tab.name === "chat";
  if (document.body.dataset.tab !== app.tab.name) {  // what is written stands below the messages, and before all other results
    document.body.dataset.tab = app.tab.name;
    isChat ? by("results").after(by("request")) : by("results").before(by("request"));
    by("common").open = !isChat && !NARROW.matches;
  }
  for (const tab of tabs) {
    const button = by(`tab-${tab.name}`);
    const isShown = tab === app.tab;
    button.setAttribute("aria-selected", isShown);
    button.tabIndex = isShown ? 0 : -1;
    by(`panel-${tab.name}`).hidden = !isShown;
  }
  for (const part of by("results").querySelectorAll("[data-of]")) part.hidden = part.dataset.of !== app.tab.name;
  const obstacle = app.props === null ? null : app.tab.obstacle(app.props);
  by("obstacle").hidden = obstacle === null;
  by("obstacle").textContent = obstacle ?? "";
  const advice = app.props === null || obstacle !== null ? [] : app.tab.advice?.(app.props) ?? [];
  by("advice").hidden = advice.length === 0;
  by("advice").replaceChildren(...advice);
  by("run").textContent = app.tab.action;
  by("hint-text").textContent = app.tab.hint ?? CANVAS_HINT;
  by("common").hidden = app.tab.name === "decisions";
  by("length-field").hidden = app.tab.name === "infill";
  showError("");
  app.tab.open?.();
  showChoices();
}

function chooseTab(tab, movesFocus = false) {
  app.tab = tab;
  keep("tab", tab.name);
  showTab();
  if (movesFocus) by(`tab-${tab.name}`).focus();
}

function moveTab(event) {
  const at = tabs.indexOf(app.tab);
  const target = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
  if (target === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  chooseTab(tabs[(target + tabs.length) % tabs.length], true);
}

// Requests.

/// Shows what would be sent, and what can be done now.
function showChoices() {
  if (!app.tab) return;  // the tabs are being made
  by("run").disabled = !app.isConnected || app.props === null || app.running !== null || app.tab.obstacle(app.props) !== null;
  by("model-choice").disabled = app.running !== null;
  by("stop").disabled = app.running === null;
  if (!by("sent-part").open) return;
  try {
    const requests = app.props === null ? [] : app.tab.requests();
    by("sent").textContent = requests.map(({ path, body }) => `POST /${path}\n${JSON.stringify(body, null, 2)}`).join("\n\n");
  } catch (error) {
    by("sent").textContent = error.message;
  }
}

function showError(sentence) {
  by("error").textContent = sentence;
}

/// Does one thing at a time, which "Stop" ends.
async function start(action) {
  if (by("run").disabled) return;
  app.running = new AbortController();
  if (NARROW.matches && app.tab.name === "chat") by("common").open = by("sent-part").open = false;  // they would hide the canvas
  else if (NARROW.matches) by("results").scrollIntoView({ block: "start" });
  showError("");
  showChoices();
  try {
    await action(app.running.signal);
  } catch (error) {
    if (!app.running.signal.aborted) showError(error.message);
  }
  app.running = null;
  showChoices();
  if (app.models.chosen !== "") meetServer();  // its model may be loaded now
}

// Events of the page.

by("request").addEventListener("submit", (event) => {
  event.preventDefault();
  start((signal) => app.tab.run(signal));
});
by("request").addEventListener("input", showChoices);
by("request").addEventListener("keydown", (event) => {
  if (event.ctrlKey && event.key === "Enter") start((signal) => app.tab.run(signal));
});
by("sent-part").addEventListener("toggle", showChoices);
by("stop").addEventListener("click", () => app.running?.abort());
by("key").addEventListener("change", meetServer);
by("tabs").addEventListener("keydown", moveTab);
for (const tab of tabs) by(`tab-${tab.name}`).addEventListener("click", () => chooseTab(tab));
document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll(".menu[open]")) menu.open = menu.contains(event.target);
});

for (const note of document.querySelectorAll(".right")) {  // it speaks of the example until that is changed
  note.closest("section").addEventListener("input", () => (note.hidden = true));
}
switchTheme(() => {
  drawSample();
  tabs.forEach(({ runs }) => runs?.redraw());
});
listenForKeys(app);
offerFacts(app);
takeTextFiles(showError);
watchForTraces(app);
showTab();
meetServer();
openFragment(app);
