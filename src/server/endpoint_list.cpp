// The list of endpoints, for dispatching requests and generating /openapi.json.
#include "server/endpoints.h"

namespace lacuna {
namespace {

constexpr RequestField kTokenizeFields[] = {
    {"model", kString, "a model of this server"},
    {"content", kString, "the text", nullptr, true},
    {"with_pieces", kBoolean, "the text of each token as well"},
    {"parse_special", kBoolean, "special tokens in the text become such tokens"},
    {"add_special", kBoolean, "left out: prompts are read as they are", leave_out_field},
    {"add_special_tokens", kBoolean, "the same", leave_out_field},
};

constexpr RequestField kDetokenizeFields[] = {
    {"model", kString, "a model of this server"},
    {"tokens", R"({"type": "array", "items": {"type": "integer"}})", "token ids", nullptr, true},
    {"with_pieces", kBoolean, "the text of each token as well"},
};

constexpr RequestField kTemplateFields[] = {
    {"model", kString, "a model of this server"},
    {"messages", kObjects, "a conversation", nullptr, true},
    {"tools", kObjects, "functions that the template shows"},
    {"tool_choice", R"({"type": ["string", "object"]})", "none: the template shows no functions"},
    {"parallel_tool_calls", kBoolean, "left out: it changes no prompt", leave_out_field},
    {"chat_template_kwargs", kObject, "variables of the chat template, such as enable_thinking"},
    {"enable_thinking", kBoolean, "the same as in chat_template_kwargs"},
    {"reasoning_effort", kString, "the same"},
    {"documents", kObjects, "documents for templates that show some"},
    {"add_generation_prompt", kBoolean, "whether the prompt ends with the beginning of an answer"},
    {"continue_final_message", kBoolean, "whether the prompt ends with the last message, the assistant's"},
};

constexpr RequestField kDecisionFields[] = {
    {"model", kString, "a model of this server"},
    {"input", R"({"anyOf": [{"type": "string"}, {"type": "array"}]})", "text or messages"},
    {"questions", kObjects, "predicates, choices and scores", nullptr, true},
    {"lacuna", kObject, "orders, independent, draws, seed"},
};

constexpr RequestField kSystemOneFields[] = {
    {"model", kString, "a model of this server"},
    {"state", kAnyValue, "text, an object or a list", nullptr, true},
    {"questions", kObject, "questions by name", nullptr, true},
    {"assets", kObject, "empty: this server reads texts alone"},
    {"lacuna", kObject, "orders, independent, draws, seed"},
};

constexpr RequestField kReloadFields[] = {
    {"model", kString, "a model of this server"},
    {"folder", kString, "a folder below the one of --reload-from", nullptr, true},
};

constexpr RequestField kShowFields[] = {
    {"model", kString, "a model of this server", nullptr, true},
    {"name", kString, "the same"},
    {"verbose", kBoolean, "left out", leave_out_field},
    {"template", kString, "left out", leave_out_field},
    {"system", kString, "left out", leave_out_field},
    {"options", kObject, "left out", leave_out_field},
};

}  // namespace

std::span<const Endpoint> Endpoints::list() {
  using E = Endpoints;
  static const Endpoint kEndpoints[] = {
      {"POST", "/v1/chat/completions", "/chat/completions", "Answers a conversation (OpenAI)", &E::generate,
       &kOpenAiChat},
      {"POST", "/v1/completions", "/completions", "Continues a prompt (OpenAI)", &E::generate,
       &kOpenAiCompletions},
      {"POST", "/v1/responses", "/responses", "Answers a conversation (OpenAI's Responses)", &E::generate,
       &kOpenAiResponses},
      {"POST", "/v1/responses/input_tokens", "/responses/input_tokens",
       "Counts the tokens of a conversation (OpenAI's Responses)", &E::count_tokens, &kOpenAiResponses},
      {"POST", "/v1/messages/count_tokens", "/messages/count_tokens",
       "Counts the tokens of a conversation (Anthropic)", &E::count_tokens, &kAnthropicMessages},
      {"POST", "/v1/messages", "/messages", "Answers a conversation (Anthropic)", &E::generate,
       &kAnthropicMessages},
      {"POST", "/api/chat", "", "Answers a conversation (Ollama)", &E::generate, &kOllamaChat},
      {"POST", "/api/generate", "", "Answers a prompt (Ollama)", &E::generate, &kOllamaGenerate},
      {"POST", "/completion", "", "Continues a prompt (llama.cpp)", &E::generate, &kLlamaCppCompletion},
      {"POST", "/v1/infill", "/infill", "Fills holes in a text", &E::generate, &kLacunaInfill},
      {"POST", "/v1/decisions", "/decisions", "Probabilities of answers to questions (OpenAI)", &E::decide,
       nullptr, kDecisionFields},
      {"POST", "/v1/systemone", "", "Probabilities of answers to questions (System One)", &E::decide, nullptr,
       kSystemOneFields, DecisionFormat::kSystemOne},
      {"POST", "/v1/embeddings", "/embeddings", "Refused: no model here has embeddings",
       &E::refuse_embeddings},
      {"POST", "/api/embed", "/api/embeddings", "Refused: no model here has embeddings (Ollama)",
       &E::refuse_embeddings},
      {"POST", "/v1/reload", "", "Reload the weights of a model from another folder", &E::reload, nullptr,
       kReloadFields},
      {"GET", "/v1/models", "/models", "All models", &E::models},
      {"GET", "/v1/models/{id}", "/models/{id}", "One model", &E::one_model},
      {"GET", "/api/tags", "", "All models (Ollama)", &E::ollama_tags},
      {"GET", "/api/ps", "", "The models that are loaded (Ollama)", &E::ollama_ps},
      {"POST", "/api/show", "", "One model (Ollama)", &E::ollama_show, nullptr, kShowFields},
      {"GET", "/api/version", "", "The server's version (Ollama)", &E::version},
      {"GET", "/version", "", "The server's version", &E::version},
      {"POST", "/tokenize", "", "A text as tokens", &E::tokenize, nullptr, kTokenizeFields},
      {"POST", "/detokenize", "", "Tokens as a text", &E::detokenize, nullptr, kDetokenizeFields},
      {"POST", "/apply-template", "", "A conversation as the prompt that the model reads", &E::apply_template,
       nullptr, kTemplateFields},
      {"GET", "/props", "", "Family, limits and settings of a model", &E::props},
      {"GET", "/slots", "", "Requests that run or wait", &E::slots},
      {"GET", "/metrics", "", "Metrics for Prometheus", &E::metrics},
      {"GET", "/health", "/v1/health", "Whether requests are answered; needs no key"},
      {"GET", "/ready", "", "The same, by the name that load balancers ask for"},
      {"GET", "/live", "", "Whether the process runs, loading and draining included; needs no key"},
      {"GET", "/openapi.json", "", "This description; needs no key"},
  };
  return kEndpoints;
}

}  // namespace lacuna
