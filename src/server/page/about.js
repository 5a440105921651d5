// Facts about the server's model, from GET /props.
import { by, make } from "./dom.js";

const COUNT = new Intl.NumberFormat("en");
const inMebibytes = (bytes) => `${COUNT.format(Math.round(bytes / 2 ** 20))} MiB`;

/// `app` has props.
export function offerFacts(app) {
  by("show-model").addEventListener("click", () => {
    const facts = factsOf(app.props).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]);
    by("model-facts").replaceChildren(...facts);
    by("about").showModal();
  });
}

function factsOf(props) {
  return [
    ["Model", props.model], ["Family", `${props.family}, ${props.paradigm}`],
    ["Context", `${COUNT.format(props.context)} tokens`], ["Vocabulary", `${COUNT.format(props.vocab_size)} tokens`],
    ["Chat template", props.chat_template_source], ["Guide", props.has_guide ? "yes" : "no"],
    ["Device", props.device ?? "not loaded yet"], ["Weights", props.weights || "not loaded yet"],
    ["Requests at once", `${props.total_slots}, and ${props.max_queue} wait`], ["Memory for K/V", inMebibytes(props.kv_bytes)],
    ["Server", props.version],
  ];
}
