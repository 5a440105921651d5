// The tab of decisions: probabilities for answers to questions about a text.
import { by, make } from "./dom.js";
import { percent } from "./details.js";

const KINDS = [["predicate", "Yes or no"], ["choice", "Choice"], ["score", "Score"]];
const OPTION_HINTS = { choice: "Options, one a line", score: "Levels from low to high, one a line" };
const EXAMPLES = [
  { type: "predicate", instructions: "Is Ben happy?", options: "" },
  { type: "choice", instructions: "Where does Ben live?", options: "in the barn\nby the lake\nnear the sea" },
  { type: "score", instructions: "How often does the number of shells change?", options: "never\none time\ntwo times" },
];
const LEAST_MASS = 0.5;  // of the labels, below which an answer means little

export class DecisionsTab {
  name = "decisions";
  action = "Decide";
  hint = "The answers appear here as bars of probability. All questions are read in as few passes as fit: nothing is written.";

  constructor(app) {
    this.app = app;
    by("questions").append(...EXAMPLES.map((example) => this.makeQuestion(example)));
    by("add-question").addEventListener("click", () => {
      by("questions").append(this.makeQuestion({ type: "predicate", instructions: "", options: "" }));
      by("questions").lastElementChild.querySelector("input").focus();
      this.app.showChoices();
    });
  }

  obstacle(props) {
    return props.has_tokenizer ? null : "This model has no tokenizer, so it cannot read texts.";
  }

  /// A note to read before the numbers: a model that was made for decisions is the better one to ask.
  advice(props) {
    const [decider] = this.app.models.deciders;
    if (decider !== undefined && props.writes_text) {
      const choose = make("button", { type: "button", className: "tool", onclick: () => this.app.models.choose(decider) }, `Ask ${decider}`);
      return [`${decider} was made for decisions, and ${props.model} was not. `, choose];
    }
    if (props.calibrated) return [];
    return [`${props.model} was not made for decisions, and nobody measured its probabilities: read them with care. `,
            make("code", {}, "lacuna serve mini-decide"), " serves a small model that was made for them."];
  }

  makeQuestion({ type, instructions, options }) {
    const kinds = KINDS.map(([value, text]) => new Option(text, value, false, value === type));
    const kind = make("select", { className: "kind" }, ...kinds);
    const text = make("input", { className: "instructions", value: instructions });
    const list = make("textarea", { className: "options", rows: 3, value: options, spellcheck: false });
    const hint = make("span");
    const label = make("label", { className: "option-field" }, hint, list);
    const remove = make("button", { type: "button", className: "tool" }, "Remove");
    const item = make("li", {}, make("label", {}, "Question ", text),
                      make("div", { className: "row" }, make("label", {}, "Answer ", kind), remove), label);
    const adapt = () => {
      label.hidden = kind.value === "predicate";
      hint.textContent = OPTION_HINTS[kind.value] ?? "";
    };
    kind.addEventListener("change", adapt);
    remove.addEventListener("click", () => {
      item.remove();
      this.app.showChoices();
    });
    adapt();
    return item;
  }

  requests() {
    const lacuna = {};
    if (by("both-orders").checked) lacuna.orders = 2;
    if (by("independent").checked) lacuna.independent = true;
    if (by("draws").value !== "") lacuna.draws = by("draws").valueAsNumber;
    const questions = [...by("questions").children].map(questionOf);
    return [{ title: "Decisions", path: "v1/decisions", body: { ...this.app.models.field, input: by("state-text").value, questions, lacuna } }];
  }

  async run(signal) {
    const [{ path, body }] = this.requests();
    const target = by("results-decisions");
    const reply = await (await this.app.ask(path, { body, signal })).json();
    target.replaceChildren(
      ...reply.answers.map((answer, index) => cardOf(answer, body.questions[index].instructions)), noteOf(reply));
    const spoken = reply.answers.map((answer, index) => `${body.questions[index].instructions} ${bestOf(answer)}.`);
    by("live").textContent = spoken.join(" ");
  }
}

function questionOf(item) {
  const type = item.querySelector(".kind").value;
  const instructions = item.querySelector(".instructions").value;
  const options = item.querySelector(".options").value.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  if (type === "choice") return { type, instructions, choices: options.map((value) => ({ value })) };
  if (type === "score") return { type, instructions, levels: options.map((label) => ({ label })) };
  return { type, instructions };
}

/// [{name, probability}] of an answer.
function sharesOf(answer) {
  if (answer.type === "predicate") {
    return [{ name: "yes", probability: answer.probability }, { name: "no", probability: 1 - answer.probability }];
  }
  return answer.probabilities.map(({ label, value, probability }) => ({ name: String(label ?? value), probability }));
}

function bestOf(answer) {
  const best = sharesOf(answer).reduce((a, b) => (b.probability > a.probability ? b : a));
  return `${best.name}, ${percent(best.probability)}`;
}

function cardOf(answer, instructions) {
  const shares = sharesOf(answer);
  const most = Math.max(...shares.map(({ probability }) => probability));
  const facts = [];
  if (answer.score !== undefined) facts.push(`expected level ${answer.score.toFixed(2)} of 0 to ${shares.length - 1}`);
  if (answer.confidence !== undefined) facts.push(`confidence ${percent(answer.confidence)}`);
  if (answer.standard_error !== undefined) facts.push(`standard error ${answer.standard_error.toFixed(3)}`);
  const mass = `The labels have ${percent(answer.label_mass)} of the probability of all tokens.`;
  return make("article", { className: "decision" },
              make("h3", {}, instructions || "Question"),
              make("ul", { className: "shares" }, ...shares.map(({ name, probability }) => {
                const bar = make("span", { className: "bar" });
                bar.style.setProperty("--share", probability);
                return make("li", { className: probability === most ? "best" : "" },
                            make("span", { className: "name" }, name), bar,
                            make("span", { className: "number" }, percent(probability)));
              })),
              make("p", { className: "facts" }, facts.join(" · ")),
              make("p", { className: answer.label_mass < LEAST_MASS ? "facts weak" : "facts" }, mass));
}

function noteOf(reply) {
  const { stats, calibrated } = reply.lacuna;
  const passes = `${stats.forward_passes} forward ${stats.forward_passes === 1 ? "pass" : "passes"}`;
  const says = [`${passes}, ${stats.rows} rows, ${reply.usage.input_tokens} tokens read.`,
                `The probabilities are ${calibrated ? "calibrated" : "not calibrated"}.`];
  if (reply.answers.some(({ label_mass: mass }) => mass < LEAST_MASS)) {
    says.push("Where the labels have less than half of the probability, the model would mostly have written something else, " +
              "and their shares mean little.");
  }
  return make("p", { className: "note" }, says.join(" "));
}
