// The list of endpoints, from which requests find theirs and /openapi.json is made.
#include "server/endpoints.h"

namespace lacuna {
namespace {

constexpr RequestField kTokenizeFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"content", R"({"type": "string"})", "the text", nullptr, true},
    {"with_pieces", R"({"type": "boolean"})", "the text of each token as well"},
    {"parse_special", R"({"type": "boolean"})", "special tokens in the text become such tokens"},
    {"add_special", R"({"type": "boolean"})", "left out: prompts are read as they are", leave_out_field},
    {"add_special_tokens", R"({"type": "boolean"})", "the same", leave_out_field},
};

constexpr RequestField kDetokenizeFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"tokens", R"({"type": "array", "items": {"type": "integer"}})", "token ids", nullptr, true},
    {"with_pieces", R"({"type": "boolean"})", "the text of each token as well"},
};

constexpr RequestField kTemplateFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"messages", R"({"type": "array", "items": {"type": "object"}})", "a conversation", nullptr, true},
    {"tools", R"({"type": "array", "items": {"type": "object"}})", "functions that the template shows"},
    {"tool_choice", R"({"type": ["string", "object"]})", "none: the template shows no functions"},
    {"parallel_tool_calls", R"({"type": "boolean"})", "left out: it changes no prompt", leave_out_field},
    {"chat_template_kwargs", R"({"type": "object"})",
     "variables of the chat template, such as enable_thinking"},
    {"enable_thinking", R"({"type": "boolean"})", "the same as in chat_template_kwargs"},
    {"reasoning_effort", R"({"type": "string"})", "the same"},
    {"documents", R"({"type": "array", "items": {"type": "object"}})",
     "documents for templates that show some"},
    {"add_generation_prompt", R"({"type": "boolean"})",
     "whether the prompt ends with the beginning of an answer"},
    {"continue_final_message", R"({"type": "boolean"})",
     "whether the prompt ends with the last message, the assistant's"},
};

constexpr RequestField kDecisionFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"input", R"({"anyOf": [{"type": "string"}, {"type": "array"}]})", "text or messages"},
    {"questions", R"({"type": "array", "items": {"type": "object"}})", "predicates, choices and scores",
     nullptr, true},
    {"lacuna", R"({"type": "object"})", "orders, independent, draws, seed"},
};

constexpr RequestField kSystemOneFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"state", R"({})", "text, an object or a list", nullptr, true},
    {"questions", R"({"type": "object"})", "questions by name", nullptr, true},
    {"assets", R"({"type": "object"})", "empty: this server reads texts alone"},
    {"lacuna", R"({"type": "object"})", "orders, independent, draws, seed"},
};

constexpr RequestField kReloadFields[] = {
    {"model", R"({"type": "string"})", "a model of this server"},
    {"folder", R"({"type": "string"})", "a folder below the one of --reload-from", nullptr, true},
};

constexpr RequestField kShowFields[] = {
    {"model", R"({"type": "string"})", "a model of this server", nullptr, true},
    {"name", R"({"type": "string"})", "the same"},
    {"verbose", R"({"type": "boolean"})", "left out", leave_out_field},
    {"template", R"({"type": "string"})", "left out", leave_out_field},
    {"system", R"({"type": "string"})", "left out", leave_out_field},
    {"options", R"({"type": "object"})", "left out", leave_out_field},
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
      {"POST",
       "/v1/messages/count_tokens",
       "/messages/count_tokens",
       "Counts the tokens of a conversation (Anthropic)",
       &E::count_tokens,
       &kAnthropicMessages,
       {},
       anthropic_error},
      {"POST",
       "/v1/messages",
       "/messages",
       "Answers a conversation (Anthropic)",
       &E::generate,
       &kAnthropicMessages,
       {},
       anthropic_error},
      {"POST",
       "/api/chat",
       "",
       "Answers a conversation (Ollama)",
       &E::generate,
       &kOllamaChat,
       {},
       ollama_error},
      {"POST",
       "/api/generate",
       "",
       "Answers a prompt (Ollama)",
       &E::generate,
       &kOllamaGenerate,
       {},
       ollama_error},
      {"POST", "/completion", "", "Continues a prompt (llama.cpp)", &E::generate, &kLlamaCppCompletion},
      {"POST", "/v1/infill", "/infill", "Fills holes in a text", &E::generate, &kLacunaInfill},
      {"POST", "/v1/decisions", "/decisions", "Probabilities of answers to questions (OpenAI)", &E::decide,
       nullptr, kDecisionFields},
      {"POST", "/v1/systemone", "", "Probabilities of answers to questions (System One)",
       &E::decide_system_one, nullptr, kSystemOneFields},
      {"POST", "/v1/embeddings", "/embeddings", "Refused: no model here has embeddings",
       &E::refuse_embeddings},
      {"POST",
       "/api/embed",
       "/api/embeddings",
       "Refused: no model here has embeddings (Ollama)",
       &E::refuse_embeddings,
       nullptr,
       {},
       ollama_error},
      {"POST", "/v1/reload", "", "Reload the weights of a model from another folder", &E::reload, nullptr,
       kReloadFields},
      {"GET", "/v1/models", "/models", "All models", &E::models},
      {"GET", "/v1/models/{id}", "/models/{id}", "One model", &E::one_model},
      {"GET", "/api/tags", "", "All models (Ollama)", &E::ollama_tags, nullptr, {}, ollama_error},
      {"GET", "/api/ps", "", "The models that are loaded (Ollama)", &E::ollama_ps, nullptr, {}, ollama_error},
      {"POST", "/api/show", "", "One model (Ollama)", &E::ollama_show, nullptr, kShowFields, ollama_error},
      {"GET", "/api/version", "", "The server's version (Ollama)", &E::version, nullptr, {}, ollama_error},
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
