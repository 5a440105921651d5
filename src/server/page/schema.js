// The tab of JSON: an answer that is valid against a schema, laid out while it is filled in.
import { by, make } from "./dom.js";
import { MASK_GLYPH } from "./grid.js";
import { layOut } from "./pretty.js";
import { noTexts } from "./models.js";
import { LOGPROBS_OF_CHATS, Runs } from "./runs.js";

const EXAMPLES = {
  "The number alone": {
    type: "object", properties: { answer: { type: "integer", minimum: 0, maximum: 99 } },
    required: ["answer"], additionalProperties: false,
  },
  "Shells and their owner": {
    type: "object",
    properties: { shells: { type: "integer", minimum: 0, maximum: 99 }, owner: { enum: ["Mia", "Sam"] } },
    required: ["shells", "owner"], additionalProperties: false,
  },
  "Steps of a calculation": {
    type: "object",
    properties: {
      steps: { type: "array", items: { type: "integer" }, minItems: 1, maxItems: 3 },
      sure: { type: "boolean" }, note: { type: "string", maxLength: 12 },
    },
    required: ["steps", "sure"], additionalProperties: false,
  },
};
const DEFAULT_LENGTH = 64;

export class SchemaTab {
  name = "schema";
  action = "Write JSON";

  constructor(app) {
    this.app = app;
    this.runs = new Runs(by("results-schema"), app);
    const choice = by("schema-example");
    choice.append(...Object.keys(EXAMPLES).map((title) => new Option(title)));
    choice.addEventListener("change", () => this.choose(choice.value));
    by("schema").addEventListener("input", () => this.check());
    by("format-schema").addEventListener("click", () => {
      if (this.check()) by("schema").value = JSON.stringify(JSON.parse(by("schema").value), null, 2);
    });
    this.choose(Object.keys(EXAMPLES)[0]);
  }

  obstacle(props) {
    return noTexts(props);
  }

  choose(title) {
    by("schema").value = JSON.stringify(EXAMPLES[title], null, 2);
    this.check();
    this.app.showChoices();
  }

  /// Whether the schema is JSON; says where it is not.
  check() {
    try {
      JSON.parse(by("schema").value);
      by("schema-error").textContent = "";
      return true;
    } catch (error) {
      by("schema-error").textContent = `The schema is not valid JSON: ${error.message}`;
      return false;
    }
  }

  requests() {
    if (!this.check()) throw new Error(by("schema-error").textContent);
    const schema = JSON.parse(by("schema").value);
    const { max_tokens = DEFAULT_LENGTH } = this.app.length();
    return this.app.settings.chosen().map(({ title, lacuna }) => ({
      title, path: "v1/chat/completions",
      body: {
        messages: [{ role: "user", content: by("schema-prompt").value }], max_tokens,
        response_format: { type: "json_schema", json_schema: { name: "answer", strict: true, schema } },
        ...LOGPROBS_OF_CHATS, ...this.app.common(lacuna),
      },
    }));
  }

  async run(signal) {
    const jobs = this.requests();
    by("values").replaceChildren(...jobs.map(({ title }) => {
      const caption = make("figcaption", {}, jobs.length > 1 ? title : "The value");
      return make("figure", {}, caption, make("pre", { tabIndex: 0, "aria-label": "JSON" }));
    }));
    by("values").hidden = false;
    const fields = by("values").querySelectorAll("pre");
    for (const [index, job] of jobs.entries()) job.onDraw = (view) => showValue(fields[index], view);
    await this.runs.run(jobs, signal);
  }
}

function showValue(element, view) {
  if (!view.run.start) return;
  const laid = layOut(view.parts());
  element.replaceChildren(...laid.map(({ text, masked }) => (masked ? make("span", { className: "hole" }, MASK_GLYPH) : text)));
}
