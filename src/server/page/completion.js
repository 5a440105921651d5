// The tab that continues a text, without a chat's template.
import { by } from "./dom.js";
import { NUM_ALTERNATIVES, Runs } from "./runs.js";

export class CompletionTab {
  name = "completion";
  action = "Continue";

  constructor(app) {
    this.app = app;
    this.runs = new Runs(by("results-completion"), app);
  }

  obstacle(props) {
    return props.has_tokenizer ? null : "This model has no tokenizer, so it cannot read texts.";
  }

  requests() {
    return this.app.settings.chosen().map(({ title, lacuna }) => ({
      title, path: "v1/completions",
      body: { prompt: by("beginning").value, ...this.app.length(), logprobs: NUM_ALTERNATIVES, ...this.app.common(lacuna) },
    }));
  }

  async run(signal) {
    await this.runs.run(this.requests(), signal);
  }
}
