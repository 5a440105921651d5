// Small dialogs: a question, a text to copy.
import { by, copyText } from "./dom.js";

/// Lets the user edit a text in a dialog; null if it was closed.
export function askText(title, value) {
  const field = by("ask-text");
  by("ask-title").textContent = title;
  field.hidden = false;
  field.value = value;
  return answerOf(() => field.value.trim() || null, "Save", () => field.select());
}

/// Whether the user agrees.
export async function askYes(sentence, yes) {
  by("ask-title").textContent = sentence;
  by("ask-text").hidden = true;
  return (await answerOf(() => true, yes, () => {})) === true;
}

function answerOf(read, yes, prepare) {
  const dialog = by("ask");
  by("ask-yes").textContent = yes;
  dialog.returnValue = "";
  dialog.showModal();
  prepare();
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "yes" ? read() : null), { once: true });
  });
}

/// Shows a text that can be copied.
export function showText(title, note, text) {
  by("copy-title").textContent = title;
  by("copy-note").textContent = note;
  by("copy-text").value = text;
  by("copy-button").onclick = () => copyText(text, by("copy-button"));
  by("copy").showModal();
  by("copy-text").select();
}
