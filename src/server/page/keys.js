// Keys that work wherever no field is being filled in, and those with Ctrl that always work.
import { by } from "./dom.js";

export function listenForKeys(app) {
  by("show-keys").addEventListener("click", () => by("keys").showModal());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") closeMenu();
    if (document.querySelector("dialog[open]")) return;
    if (event.ctrlKey || event.altKey || event.metaKey) actOnConversations(event, app);
    else if (!isTyping(event.target) && actOn(event, app)) event.preventDefault();
  });
}

/// With Ctrl, or Command on a Mac. They show the tab of conversations first.
const CONVERSATION_KEYS = {
  "k": (list) => list.find(),
  "b": (list) => list.toggle(),
  "shift+o": (list) => list.begin(),
  "shift+e": (list) => list.rename(),
  "shift+d": (list) => list.remove(),
};

function actOnConversations(event, app) {
  const name = (event.shiftKey ? "shift+" : "") + event.key.toLowerCase();
  if (event.altKey || !(name in CONVERSATION_KEYS)) return;
  event.preventDefault();
  app.showTab("chat");
  CONVERSATION_KEYS[name](app.tab.list);
}

function closeMenu() {
  const menu = document.querySelector(".menu[open]");
  if (!menu) return;
  menu.open = false;
  menu.querySelector("summary").focus();
}

function isTyping(element) {
  return element.matches("input:not([type=range], [type=checkbox], [type=radio], [type=file]), textarea, select");
}

/// Whether the key means something here. Space keeps its meaning on whatever can be pressed.
function actOn(event, app) {
  const runs = app.tab.runs;
  const views = runs?.views ?? [];
  const isPressed = event.target.matches("button, summary, a, input");
  switch (event.key) {
    case "?":
      by("keys").showModal();
      return true;
    case "/":
      by(`panel-${app.tab.name}`).querySelector("textarea:not([hidden])").focus();
      return true;
    case "k":
    case " ":
      if (views.length === 0 || (event.key === " " && isPressed)) return false;
      runs.togglePlay();
      return true;
    case ",":
      views.forEach((view) => view.seek(view.at - 1));
      return views.length > 0;
    case ".":
      views.forEach((view) => view.seek(view.at + 1));
      return views.length > 0;
    case "c":
      views.forEach((view) => view.colourBy(view.ramp === "age" ? "confidence" : "age"));
      return views.length > 0;
    default:
      return false;
  }
}
