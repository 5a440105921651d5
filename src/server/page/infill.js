// The tab that fills holes: select text, and it is written anew.
import { by, make } from "./dom.js";
import { addHole, inputOf, moveHoles, partsOf, unescaped, withMarks } from "./holes.js";
import { noTexts } from "./models.js";
import { Runs } from "./runs.js";

const NO_HOLE = "There is no hole yet: write [[1-3]] where 1 to 3 tokens are missing, or select the text that is to be " +
  "written anew and press “Hole of the same length”.";
const ALL_LENGTHS = "done; every length was tried, and the canvas with the most confident tokens was taken. " +
  "Only holes of fixed length show their canvas.";

export class InfillTab {
  name = "infill";
  action = "Fill in";

  constructor(app) {
    this.app = app;
    this.holes = [];
    this.text = by("gapped").value;  // before the last edit
    this.runs = new Runs(by("results-infill"), app);
    by("gapped").addEventListener("input", () => this.noteEdit());
    by("gapped").addEventListener("scroll", () => (by("backdrop").scrollTop = by("gapped").scrollTop));
    by("gapped").addEventListener("keydown", (event) => {
      if (!event.altKey || event.key.toLowerCase() !== "h") return;
      event.preventDefault();
      this.makeHole(event.shiftKey);
    });
    by("make-hole").addEventListener("click", () => this.makeHole(false));
    by("make-open-hole").addEventListener("click", () => this.makeHole(true));
    this.show();
  }

  obstacle(props) {
    if (!props.writes_text) return noTexts(props);
    if (!props.can_infill) return `${props.model} cannot fill holes; masked models such as LLaDA and Dream can, and LLaDA 2.2.`;
    return noTexts(props);
  }

  /// Holes of unknown length are tried in every length, which events cannot show, unless the canvas grows or the
  /// model edits its blocks (LLaDA 2.2).
  requests() {
    const isOpen = this.allHoles().some(({ tokens }) => typeof tokens !== "number");
    return this.app.settings.chosen().map(({ title, lacuna }) => {
      const common = this.app.common(lacuna);
      if (isOpen && !lacuna.grow && this.app.props.paradigm !== "blocks") delete common.lacuna.events;
      return { title, path: "v1/infill", showsPrompt: true, body: { input: inputOf(by("gapped").value, this.holes), ...common } };
    });
  }

  async run(signal) {
    if (this.allHoles().length === 0) throw new Error(NO_HOLE);
    by("filled").hidden = true;
    const [first] = await this.runs.run(this.requests(), signal);
    if (first.outcome === "done") this.showFilled(first.text);
    if (first.view.run.start === null && first.outcome === "done") {
      first.view.state = ALL_LENGTHS;
    }
  }

  /// The text, with what was written marked. The given parts are found in their order.
  showFilled(text) {
    const given = partsOf(by("gapped").value, this.allHoles()).filter(({ hole }) => !hole).map((part) => unescaped(part.text));
    const element = by("filled");
    element.hidden = false;
    element.replaceChildren();
    let at = 0;
    for (const [index, part] of given.entries()) {
      const isLast = index === given.length - 1;
      const begin = isLast ? Math.max(text.length - part.length, at) : text.indexOf(part, at);
      if (begin < 0 || text.slice(begin, begin + part.length) !== part) return element.replaceChildren(text);
      if (begin > at) element.append(make("mark", {}, text.slice(at, begin)));
      element.append(part);
      at = begin + part.length;
    }
  }

  // Holes.

  /// Those that were made here, and those that the text marks.
  allHoles() {
    return withMarks(this.holes, by("gapped").value);
  }

  async makeHole(isOpen) {
    const { selectionStart: begin, selectionEnd: end, value } = by("gapped");
    if (begin === end) {
      by("hole-hint").textContent = "Select some text in the box first.";
      return;
    }
    const hole = { begin, end, tokens: isOpen ? null : 1 };
    this.holes = addHole(this.holes, hole);
    this.show();
    if (isOpen) return;
    const reply = await this.app.ask("tokenize", { body: { ...this.app.models.field, content: value.slice(begin, end) } });
    hole.tokens = (await reply.json()).tokens.length;
    this.show();
  }

  noteEdit() {
    const now = by("gapped").value;
    this.holes = moveHoles(this.holes, this.text, now);
    this.text = now;
    this.show();
  }

  show() {
    const holes = withMarks(this.holes, this.text);
    by("hole-hint").textContent = holes.length === 0 ? "Write [[1-3]] for 1 to 3 missing tokens, or select what is to be written anew." : "";
    const parts = partsOf(this.text, holes);
    by("backdrop").replaceChildren(...parts.map(({ text, hole }) => (hole ? make("mark", {}, text) : text)), "\n");
    by("holes").replaceChildren(...holes.map((hole) => (hole.isMark ? markElement(hole) : this.elementOf(hole))));
    this.app.showChoices();
  }

  elementOf(hole) {
    const tokens = make("input", { type: "number", min: 1, value: hole.tokens ?? "", placeholder: "any" });
    tokens.addEventListener("input", () => {
      hole.tokens = Number.isNaN(tokens.valueAsNumber) ? null : tokens.valueAsNumber;
      this.app.showChoices();
    });
    const remove = make("button", { type: "button", className: "tool", onclick: () => {
      this.holes = this.holes.filter((other) => other !== hole);
      this.show();
      by("gapped").focus();
    } }, "Keep the text");
    const quote = make("q", {}, this.text.slice(hole.begin, hole.end));
    return make("li", {}, make("label", {}, quote, " → ", tokens, " tokens "), remove);
  }
}

/// A hole that the text marks, which is changed there.
function markElement({ tokens }) {
  const [mark, length] = typeof tokens === "number" ? [`[[${tokens}]]`, `${tokens}`] : [`[[${tokens.min}-${tokens.max}]]`, `${tokens.min} to ${tokens.max}`];
  return make("li", {}, make("code", {}, mark), ` → ${length} ${tokens === 1 ? "token" : "tokens"}`);
}
