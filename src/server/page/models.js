// The server's models: which there are, and which one is asked. A server of one model needs no choice.
import { by, keep, make, recall } from "./dom.js";

/// Why a model cannot do what tabs of texts do; null: it can.
export function noTexts(props) {
  if (!props.has_tokenizer) return "This model has no tokenizer, so it cannot read texts.";
  return props.writes_text ? null : `${props.model} was made for decisions and writes no text: see “Decisions”.`;
}

const GROUPS = [["Loaded", true], ["Loaded when asked for", false]];

export class Models {
  /// `onChoose` hears that another model was chosen.
  constructor(onChoose) {
    this.chosen = "";  // "": the only one
    this.deciders = [];  // names of the models that were made for decisions alone
    by("model-choice").addEventListener("change", () => {
      this.chosen = by("model-choice").value;
      keep("model", this.chosen);
      onChoose();
    });
  }

  /// The fields of a request that name the model.
  get field() {
    return this.chosen === "" ? {} : { model: this.chosen };
  }

  /// The path of GET /props.
  get path() {
    return this.chosen === "" ? "props" : `props?model=${encodeURIComponent(this.chosen)}`;
  }

  choose(name) {
    by("model-choice").value = name;
    by("model-choice").dispatchEvent(new Event("change"));
  }

  /// Takes the reply of GET /v1/models. The model that was chosen last stays chosen while the server has it.
  show({ data }) {
    const names = data.map(({ id }) => id);
    this.deciders = data.filter(({ meta }) => !meta.writes_text).map(({ id }) => id);
    by("model-field").hidden = names.length < 2;
    const wanted = [this.chosen, recall("model", "")].find((name) => names.includes(name)) ?? names[0];
    this.chosen = names.length < 2 ? "" : wanted;
    by("model-choice").replaceChildren(...GROUPS.flatMap(([label, isLoaded]) => {
      const group = data.filter(({ meta }) => meta.loaded === isLoaded).map(({ id }) => new Option(id, id, false, id === wanted));
      return group.length === 0 ? [] : [make("optgroup", { label }, ...group)];
    }));
  }
}
