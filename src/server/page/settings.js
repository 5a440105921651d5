// Settings of a run: a preset, and every setting of the server under "Advanced". There are two of them to compare.
import { by, copyOf, keep, make, recall } from "./dom.js";
import { DEFAULT_PRESET, offerOf, settingsOf, SUGGESTIONS } from "./methods.js";

const GUIDE_HELP = "The server's guide verifies the drafts of this request, or makes them";
const TITLES = ["First setting", "Second setting"];

export class Settings {
  /// `onChange` hears of every change.
  constructor(onChange) {
    this.onChange = onChange;
    this.panels = [];
    by("compare").addEventListener("change", () => this.showPanels());
  }

  /// For the model that GET /props describes.
  describe(props) {
    this.props = props;
    this.offer = offerOf(props);
    this.types = Object.fromEntries(props.settings.map(({ name, type }) => [name, type]));
    this.helps = Object.fromEntries(props.settings.map(({ name, help }) => [name, help]));
    this.panels = TITLES.map((title, index) => this.makePanel(title, index));
    by("settings").replaceChildren(...this.panels);
    this.showPanels();
  }

  changed() {
    const titles = this.chosen().map(({ title }) => title);
    by("settings-summary").textContent = titles.length === 0 ? "" : `: ${titles.join(" and ")}`;
    this.onChange();
  }

  showPanels() {
    const isCompared = by("compare").checked;
    this.panels.forEach((panel, index) => (panel.hidden = index > 0 && !isCompared));
    this.panels[0]?.querySelector("legend").replaceChildren(isCompared ? TITLES[0] : "Preset");
    this.changed();
  }

  makePanel(title, index) {
    const panel = copyOf("settings-template");
    panel.querySelector("legend").textContent = title;
    const first = recall("preset", DEFAULT_PRESET);
    const chosen = index === 0 ? first : first === "" ? DEFAULT_PRESET : "";
    panel.querySelector(".presets").append(...this.offer.presets.map((preset) => this.makePreset(preset, index, chosen)));
    panel.querySelector(".presets").addEventListener("change", () => {
      if (index === 0) keep("preset", presetOf(panel));
      this.showPreset(panel);
    });
    const method = panel.querySelector(".method");
    method.add(new Option("…", ""));
    for (const name of Object.keys(this.offer.methods)) method.add(new Option(name));
    method.addEventListener("change", () => this.fillIn(panel, this.offer.methods[method.value]));
    panel.querySelector(".fields").append(...this.offer.fields.map((name) => this.makeField(name, index)));
    const others = this.offer.others.map((name) => this.makeField(name, index));
    if (this.props.has_guide) others.unshift(this.makeField("guide", index));
    panel.querySelector(".others").append(...others);
    panel.querySelector(".others-title").textContent = `${others.length} more settings`;
    const search = panel.querySelector(".search");
    search.addEventListener("input", () => {
      const words = search.value.trim().toLowerCase();
      for (const field of others) field.hidden = !field.textContent.toLowerCase().includes(words);
    });
    panel.querySelector(".reset").addEventListener("click", () => this.fillIn(panel, null));
    panel.addEventListener("input", () => this.countChosen(panel));
    this.showPreset(panel);
    return panel;
  }

  makePreset({ value, title }, index, chosen) {
    const input = make("input", { type: "radio", name: `preset-${index}`, value, checked: value === chosen });
    return make("label", {}, input, make("span", {}, title));
  }

  showPreset(panel) {
    const { note, flags } = this.offer.presets.find(({ value }) => value === presetOf(panel));
    const codes = flags.map((flag) => make("code", {}, `${flag} `));
    panel.querySelector(".note").replaceChildren(note, codes.length > 0 ? ": " : ".", ...codes);
    this.changed();
  }

  makeField(name, index) {
    const isBoolean = name === "guide" || this.types[name] === "boolean";
    const id = `help-${index}-${name}`;
    const input = isBoolean ? makeChoice(name) : makeInput(name);
    input.setAttribute("aria-describedby", id);
    const help = make("small", { id, className: "help" }, this.helps[name] ?? GUIDE_HELP);
    const field = make("div", { className: "field" }, make("label", {}, `${name} `, input), help);
    if (SUGGESTIONS[name]) {
      const options = SUGGESTIONS[name].map((value) => new Option(value, value));
      const list = make("datalist", { id: `values-${index}-${name}` }, ...options);
      input.setAttribute("list", list.id);
      field.append(list);
    }
    return field;
  }

  /// A method's settings into the fields; null empties them.
  fillIn(panel, settings) {
    for (const input of inputsOf(panel)) input.value = settings?.[input.name] ?? "";
    const preset = settings === null ? null : panel.querySelector(".presets input[value='']");
    if (preset) preset.checked = true;
    if (settings === null) panel.querySelector(".method").value = "";
    this.countChosen(panel);
    this.showPreset(panel);
  }

  countChosen(panel) {
    const count = inputsOf(panel).filter((input) => input.value.trim() !== "").length;
    panel.querySelector(".chosen-count").textContent = count === 0 ? "" : ` (${count} set)`;
    this.changed();
  }

  /// [{title, lacuna}]: what each setting is called, and the request's `lacuna` object.
  chosen() {
    return this.panels.filter((panel) => !panel.hidden).map((panel) => {
      const texts = Object.fromEntries(inputsOf(panel).map((input) => [input.name, input.value.trim()]));
      const preset = presetOf(panel);
      const types = { ...this.types, guide: "boolean" };
      const lacuna = { ...(preset === "" ? {} : { preset }), ...settingsOf(texts, types) };
      return { title: this.titleOf(panel, preset, texts), lacuna };
    });
  }

  titleOf(panel, preset, texts) {
    const own = Object.entries(texts).filter(([, text]) => text !== "").map(([name, text]) => `${name} ${text}`);
    const method = panel.querySelector(".method").value;
    const { title } = this.offer.presets.find(({ value }) => value === preset);
    if (preset === "" && method !== "" && own.length > 0) return method;
    if (preset !== "" && own.length === 0) return title;
    return own.length === 0 ? "No preset" : `${preset === "" ? "" : `${title}, `}${own.join(", ")}`;
  }
}

const inputsOf = (panel) => [...panel.querySelectorAll(".field :is(input, select)")];
const presetOf = (panel) => panel.querySelector(".presets input:checked")?.value ?? "";

function makeInput(name) {
  return make("input", { name, placeholder: "default", spellcheck: false, autocomplete: "off" });
}

function makeChoice(name) {
  return make("select", { name }, new Option("default", ""), new Option("yes", "true"), new Option("no", "false"));
}
