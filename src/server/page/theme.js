// Light, dark, or as the system has it.
import { by, keep, recall } from "./dom.js";

/// Makes the switch work. `onChange` hears of every change, the system's own included.
export function switchTheme(onChange) {
  const choice = by("theme");
  const apply = () => {
    document.documentElement.dataset.theme = choice.value;
    onChange();
  };
  choice.value = recall("theme", "auto");
  if (choice.selectedIndex < 0) choice.value = "auto";
  choice.addEventListener("change", () => {
    keep("theme", choice.value);
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  apply();
}
