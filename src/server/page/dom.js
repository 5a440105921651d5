// Elements, and what the browser keeps. Texts always become text nodes, never markup.

export const by = (id) => document.getElementById(id);

/// A new element. Properties that the element has are set, names with "on" become listeners, and the rest are
/// attributes. Children are elements or texts.
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/// A copy of the first element of a <template>.
export function copyOf(id) {
  return by(id).content.firstElementChild.cloneNode(true);
}

/// Offers bytes as a file to keep.
export function saveFile(name, blob) {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/// Copies, and says so on the button for a moment. Pages over plain HTTP from another machine have no clipboard.
export async function copyText(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "The browser refuses";
  }
  setTimeout(() => (button.textContent = before), 1500);
}

/// Value stored under a name in this browser; `fallback` if nothing is stored or storage is switched off.
export function recall(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`lacuna.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

/// False: the browser keeps nothing more.
export function keep(name, value) {
  try {
    localStorage.setItem(`lacuna.${name}`, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
