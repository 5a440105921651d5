// The tab that continues a text, without a chat's template.
import { by } from "./dom.js";
import { noTexts } from "./models.js";
import { NUM_ALTERNATIVES, Runs } from "./runs.js";

export class CompletionTab {
  name = "completion";
  action = "Continue";

  constructor(app) {
    this.app = app;
    this.runs = new Runs(by("results-completion"), app);
  }

  obstacle(props) {
    return noTexts(props);
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
