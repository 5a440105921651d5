// llama.cpp's POST /completion.
#include <array>
#include <utility>

#include "server/dialect.h"
#include "server/prompts.h"

namespace lacuna {
namespace llama_cpp {
namespace {

using nlohmann::ordered_json;

void read_count(const FieldValue& field, GenerationRequest& request) {
  if (field.value != 0) read_num_choices(field, request);
}

constexpr RequestField kFields[] = {
    {"prompt", R"({"anyOf": [{"type": "string"}, {"type": "array"}, {"type": "object"}]})",
     "text, token ids or both, or a list of prompts", read_prompts, true},
    {"n_predict", kInteger, "the most positions of the answer; -1: the default", read_open_limit},
    {"max_tokens", kInteger, "the same", read_open_limit},
    {"temperature", kNumber, "0: the likeliest token", as_setting<setting::kTemperature>},
    {"top_p", kNumber, "without effect at temperature 0", as_setting<setting::kTopP>},
    {"top_k", kInteger, "without effect at temperature 0", as_setting<setting::kTopK>},
    {"seed", kInteger, "of all sampling; -1: the default", read_seed},
    {"stop", kTextOrTexts, "texts that end the answer", read_stop_texts},
    {"stream", kBoolean, "server-sent events in the place of one object",
     as_flag<&GenerationRequest::stream>},
    {"n_probs", kAlternativeCount, "tokens that are listed for each position", read_num_probs},
    {"logprobs", kAlternativeCount, "the same", read_num_probs},
    {"json_schema", kAnyValue, "the answer is JSON that is valid against this schema"},
    {"grammar", kString, "the answer is a text of this grammar"},
    {"model", kString, "a model of this server"},
    {"n", kInteger, "answers to each prompt; 0: one", read_count},
    {"n_cmpl", kInteger, "the same", read_count},
};

RequestFields fields() {
  static const std::vector<RequestField> all =
      join({kFields, sampling_fields(), hint_fields(), own_fields()});
  return all;
}

GenerationRequest parse(const ordered_json& body, const GenerationOptions& defaults) {
  GenerationRequest length;
  GenerationRequest request = read_request(without_zero_length(body, length), defaults, fields());
  take_zero_length(length, request);
  check_num_answers(request);
  return request;
}

class CompletionFormat final : public ReplyFormat {
 public:
  using ReplyFormat::ReplyFormat;

  /// An object for one answer, a list for several.
  ordered_json whole(AnswerChoices choices, const AnswerUsage& /*usage*/) override {
    ordered_json list = ordered_json::array();
    for (const AnswerChoice* const choice : choices) {
      ordered_json reply = end(*choice);
      reply["content"] = choice->answer.text;
      reply["tokens"] = ids_of(choice->answer.tokens);
      add_probabilities(reply, choice->answer);
      reply["lacuna"] = own_part(*choice, request());
      list.push_back(std::move(reply));
    }
    return list.size() == 1 ? std::move(list.front()) : std::move(list);
  }

  std::string part(const AnswerPart& part) override {
    if (part.piece.text.empty() && part.piece.tokens.empty()) return {};
    ordered_json reply = begin(part.choice);
    reply["content"] = part.piece.text;
    reply["tokens"] = ids_of(part.piece.tokens);
    reply["stop"] = false;
    add_probabilities(reply, part.piece);
    return sse(reply);
  }

  std::string end_stream(AnswerChoices choices, const AnswerUsage& /*usage*/) override {
    std::string text;
    for (const AnswerChoice* const choice : choices) text += sse(end(*choice));
    return text;
  }

  std::string fail_stream(const std::string& sentence) override {
    return sse(openai_error(500, sentence, "", ""));
  }

 private:
  ordered_json begin(const AnswerChoice& choice) const {
    return {{"index", choice.index},
            {"content", ""},
            {"tokens", ordered_json::array()},
            {"stop", true},
            {"model", model().name}};
  }

  ordered_json end(const AnswerChoice& choice) {
    AnswerUsage usage = choice.usage;
    // Only the first choice of each prompt has the number of prompt tokens.
    if (choice.index % static_cast<size_t>(request().num_choices) == 0) prompt_tokens_ = usage.prompt_tokens;
    usage.prompt_tokens = prompt_tokens_;
    ordered_json reply = begin(choice);
    const char* reason = !choice.stop_text.empty()        ? "word"
                         : choice.finish_reason == "stop" ? "eos"
                                                          : "limit";
    reply["stop_type"] = reason;
    reply["stopping_word"] = choice.stop_text;
    reply["tokens_predicted"] = usage.answer_tokens;
    reply["tokens_evaluated"] = usage.prompt_tokens;
    reply["tokens_cached"] = usage.cached_tokens;
    reply["truncated"] = false;
    reply["timings"] = timings_of(usage);
    return reply;
  }

  void add_probabilities(ordered_json& reply, const Piece& piece) const {
    if (request().wants_logprobs) reply["completion_probabilities"] = chat_logprobs(model(), piece.tokens);
  }

  int32_t prompt_tokens_ = 0;  // prompt tokens of the current choice's prompt
};

constexpr std::array<std::string_view, 2> kAnswerFormats = {"json_schema", "grammar"};

}  // namespace
}  // namespace llama_cpp

const Dialect kLlamaCppCompletion{llama_cpp::fields,
                                  false,
                                  llama_cpp::kAnswerFormats,
                                  kOpenAiObjects,
                                  llama_cpp::parse,
                                  make_format<llama_cpp::CompletionFormat>,
                                  openai_error};

}  // namespace lacuna
