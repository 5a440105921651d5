// Text files in a chat message: opened, dropped on its field, or pasted. Their text becomes a part of the message.
import { by } from "./dom.js";

const MOST_BYTES = 1 << 18;  // of a file

/// `showError` hears a sentence where a file is refused, and "" before the next one.
export function takeTextFiles(showError) {
  const take = async (files) => {
    showError("");
    try {
      for (const file of files) append(await quoteOf(file));
    } catch (error) {
      showError(error.message);
    }
  };
  by("attach").addEventListener("change", async () => {
    await take([...by("attach").files]);
    by("attach").value = "";
  });
  by("prompt").addEventListener("paste", (event) => {
    const { files } = event.clipboardData;
    if (files.length === 0) return;
    event.preventDefault();
    take([...files]);
  });
  by("prompt").addEventListener("drop", (event) => {
    const { files } = event.dataTransfer;
    if (files.length === 0) return;
    event.preventDefault();
    event.stopPropagation();  // elsewhere it would be a recorded run
    document.body.classList.remove("dropping");
    take([...files]);
  });
}

function append(quote) {
  const field = by("prompt");
  field.value = [field.value.trimEnd(), quote].filter((part) => part !== "").join("\n\n");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
}

/// The file's name and its text between fences that the text does not contain.
async function quoteOf(file) {
  if (file.size > MOST_BYTES) throw new Error(`${file.name} has ${file.size} bytes; accepted: at most ${MOST_BYTES}`);
  const text = decode(await file.arrayBuffer(), file.name);
  const longest = (text.match(/`+/g) ?? []).reduce((most, { length }) => Math.max(most, length), 0);
  const fence = "`".repeat(Math.max(3, longest + 1));
  return `${file.name}:\n${fence}\n${text.trimEnd()}\n${fence}`;
}

function decode(bytes, name) {
  const refusal = new Error(`${name} is not a text in UTF-8; accepted: text files`);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw refusal;
  }
  if (text.includes("\0")) throw refusal;
  return text;
}
