#include "tokenizer/chat_template.h"

#include <array>

#include "base/error.h"
#include "base/gguf.h"
#include "tokenizer/json_file.h"
#include "tokenizer/tokenizer_files.h"
#include "tokenizer/unicode.h"

namespace lacuna {
namespace {

struct NamedFormat {
  std::string_view name;
  ChatFormat format;
};
constexpr std::array kFormats = std::to_array<NamedFormat>({{"none", ChatFormat::kNone},
                                                            {"llada", ChatFormat::kLlada},
                                                            {"chatml", ChatFormat::kChatMl},
                                                            {"nemotron", ChatFormat::kNemotron},
                                                            {"seed-coder", ChatFormat::kSeedCoder},
                                                            {"gemma", ChatFormat::kGemma}});

// A prompt under construction. Text is gathered up to the next atom and encoded as a whole, because words and
// merges may cross from the template's text into a message's.
class PromptBuilder {
 public:
  explicit PromptBuilder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  PromptBuilder& atom(std::string_view token) {
    const auto id = tokenizer_.id_of(token);
    if (!id) throw InputError("the chat template needs the token '{}', which the tokenizer lacks", token);
    flush();
    tokens_.push_back(*id);
    return *this;
  }

  /// A token where the tokenizer has it, else text.
  PromptBuilder& atom_or_text(std::string_view token) {
    return tokenizer_.id_of(token) ? atom(token) : text(token);
  }

  PromptBuilder& text(std::string_view part) {
    text_ += part;
    return *this;
  }

  std::vector<TokenId> finish() {
    flush();
    return std::move(tokens_);
  }

 private:
  void flush() {
    const std::vector<TokenId> tokens = tokenizer_.encode(text_, SpecialTokens::kAsText);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    text_.clear();
  }

  const Tokenizer& tokenizer_;
  std::vector<TokenId> tokens_;
  std::string text_;
};

std::vector<TokenId> render_llada(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                  std::span<const Message> messages) {
  PromptBuilder prompt(tokenizer);
  if (!messages.empty()) prompt.atom(chat_template.bos_token);
  const auto header = [&](std::string_view role) {
    prompt.atom("<|start_header_id|>").text(role).atom("<|end_header_id|>").text("\n\n");
  };
  for (const Message& message : messages) {
    header(message.role);
    prompt.text(trim_as_python(message.content)).atom("<|eot_id|>");
  }
  header("assistant");
  return prompt.finish();
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

void expect_known_role(const Message& message) {
  if (message.role == "system" || message.role == "user" || message.role == "assistant") return;
  throw InputError("role '{}' is not one of system, user, assistant", message.role);
}

std::vector<TokenId> render_chatml(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                   std::span<const Message> messages) {
  PromptBuilder prompt(tokenizer);
  const auto turn = [&](std::string_view role, std::string_view content) {
    prompt.atom("<|im_start|>").text(role).text("\n").text(content).atom("<|im_end|>").text("\n");
  };
  const bool brings_system = !messages.empty() && messages.front().role == "system";
  if (!brings_system && !chat_template.default_system.empty()) turn("system", chat_template.default_system);
  for (const Message& message : messages) {
    expect_known_role(message);
    turn(message.role, message.content);
  }
  prompt.atom("<|im_start|>").text("assistant\n");
  if (chat_template.skips_thoughts)
    prompt.atom_or_text("<think>").text("\n\n").atom_or_text("</think>").text("\n\n");
  return prompt.finish();
}

// Appends an answer as Nemotron's template repeats it: behind an empty thought, and without its own ones
// where a question follows it.
void repeat_nemotron_answer(std::string_view content, bool is_before_last_question, PromptBuilder& prompt) {
  constexpr std::string_view kBegin = "<think>", kEnd = "</think>";
  const size_t end = content.rfind(kEnd);
  const bool begins = contains(content, kBegin);
  const bool ends = end != std::string_view::npos;
  const bool drops_thoughts = begins && ends && is_before_last_question;
  if ((begins || ends) && !drops_thoughts) {
    prompt.text(trim_as_python(content));
    return;
  }
  if (drops_thoughts) content.remove_prefix(end + kEnd.size());
  const std::string_view trimmed = trim_as_python(content);
  const auto length = trimmed.empty() ? 0 : trimmed.data() + trimmed.size() - content.data();
  prompt.atom_or_text(kBegin).atom_or_text(kEnd).text(content.substr(0, static_cast<size_t>(length)));
}

// The published template (Nemotron 3's) with its own default of "enable_thinking".
std::vector<TokenId> render_nemotron(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                     std::span<const Message> messages) {
  PromptBuilder prompt(tokenizer);
  const auto begin = [&](std::string_view role) -> PromptBuilder& {
    return prompt.atom("<|im_start|>").text(role).text("\n");
  };
  const auto end = [&] { prompt.atom("<|im_end|>").text("\n"); };
  size_t last_question = 0;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role == "user") last_question = i;
  }
  if (messages.empty() || messages.front().role != "system") {
    begin("system");
    end();
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const Message& message = messages[i];
    expect_known_role(message);
    begin(message.role);
    if (message.role == "assistant") {
      repeat_nemotron_answer(message.content, i < last_question, prompt);
    } else {
      prompt.text(message.content);
    }
    end();
  }
  begin("assistant").atom_or_text("<think>");
  if (chat_template.thinks) {
    prompt.text("\n");
  } else {
    prompt.atom_or_text("</think>");
  }
  return prompt.finish();
}

// Seed-Coder's turns as other engines render them.
std::vector<TokenId> render_seed_coder(const Tokenizer& tokenizer, std::span<const Message> messages) {
  constexpr std::string_view kUsualSystem =
      "You are an AI programming assistant, utilizing the Seed-Coder model, developed by ByteDance Seed, and "
      "you only answer questions related to computer science. For politically sensitive questions, security "
      "and privacy issues, and other non-computer science questions, you will refuse to answer.";
  constexpr std::string_view kBegin = "<[begin\u2581of\u2581sentence]>",
                             kEnd = "<[end\u2581of\u2581sentence]>";
  PromptBuilder prompt(tokenizer);
  const auto turn = [&](std::string_view role, std::string_view content) {
    prompt.atom(kBegin).text(role).text("\n").text(content);
    if (role == "system") prompt.text("\n\n");
    prompt.atom(kEnd);
  };
  if (messages.empty() || messages.front().role != "system") turn("system", kUsualSystem);
  for (const Message& message : messages) {
    expect_known_role(message);
    turn(message.role, message.content);
  }
  prompt.atom(kBegin).text("assistant\n");
  return prompt.finish();
}

// An answer of an earlier turn without the model's thoughts, <|channel>...<channel|>, which Gemma's template
// leaves out.
std::string without_thoughts(std::string_view answer) {
  constexpr std::string_view kBegin = "<|channel>", kEnd = "<channel|>";
  std::string text;
  while (true) {
    const size_t end = answer.find(kEnd);
    const std::string_view part = answer.substr(0, end);
    text += part.substr(0, part.find(kBegin));
    if (end == std::string_view::npos) return text;
    answer.remove_prefix(end + kEnd.size());
  }
}

std::vector<TokenId> render_gemma(const Tokenizer& tokenizer, std::span<const Message> messages) {
  PromptBuilder prompt(tokenizer);
  prompt.atom("<bos>");
  for (const Message& message : messages) {
    expect_known_role(message);
    const bool is_answer = message.role == "assistant";
    const std::string content = is_answer ? without_thoughts(message.content) : message.content;
    prompt.atom("<|turn>").text(is_answer ? "model" : message.role).text("\n");
    prompt.text(trim_as_python(content)).atom("<turn|>").text("\n");
  }
  prompt.atom("<|turn>").text("model\n");
  return prompt.finish();
}

// Undoes the escapes of a Jinja string literal.
std::string unescape(std::string_view literal) {
  std::string text;
  for (size_t index = 0; index < literal.size(); ++index) {
    if (literal[index] != '\\' || index + 1 == literal.size()) {
      text += literal[index];
      continue;
    }
    const char escaped = literal[++index];
    text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
  }
  return text;
}

// Templates with a default system turn hold it in one string literal, '<|im_start|>system\nYou are
// …<|im_end|>'. Where a message's content is pasted in, the literal ends before <|im_end|>.
// Looks at the first places only, and at a bounded part after each, so that a hostile template takes no
// longer.
std::string find_default_system(std::string_view jinja) {
  constexpr std::string_view kTurn = "<|im_start|>system";
  constexpr int kMostPlaces = 64;
  constexpr size_t kLongestSystem = 16 << 10;
  size_t at = jinja.find(kTurn);
  for (int place = 0; place < kMostPlaces && at != std::string_view::npos;
       ++place, at = jinja.find(kTurn, at + 1)) {
    std::string_view rest = jinja.substr(at + kTurn.size(), kLongestSystem);
    if (rest.starts_with("\\n")) {
      rest.remove_prefix(2);
    } else if (rest.starts_with('\n')) {
      rest.remove_prefix(1);
    } else {
      continue;
    }
    const std::string_view sentence = rest.substr(0, rest.find("<|im_end|>"));
    const char quote = at > 0 ? jinja[at - 1] : '\'';
    if (sentence.size() < rest.size() && sentence.find(quote) == std::string_view::npos)
      return unescape(sentence);
  }
  return {};
}

// The Jinja program of a folder, or nothing.
std::optional<std::string> read_jinja(const JsonValue& config, const std::filesystem::path& folder) {
  if (const auto value = config.find("chat_template")) {
    if (value->json().is_string()) return value->string();
    for (const JsonValue& choice : value->elements()) {
      if (choice.at("name").string() == "default") return choice.at("template").string();
    }
  }
  const auto path = folder / "chat_template.jinja";
  return has_file(path) ? std::optional(read_text_file(path)) : std::nullopt;
}

// Whether a checkpoint's tokenizer always asks for answers without thoughts: Tiny-A2D's
// (dllm/utils/models.py).
bool wants_no_thoughts(const std::filesystem::path& folder) {
  const auto path = folder / "config.json";
  if (!has_file(path)) return false;
  const nlohmann::json document = parse_json(read_text_file(path), path.string());
  const auto type = JsonValue(document, path.string()).find("model_type");
  return type && type->json().is_string() && type->string().starts_with("a2d-qwen");
}

}  // namespace

std::optional<ChatFormat> chat_format_named(std::string_view name) {
  for (const NamedFormat& candidate : kFormats) {
    if (candidate.name == name) return candidate.format;
  }
  return std::nullopt;
}

std::string_view name_of(ChatFormat format) {
  for (const NamedFormat& candidate : kFormats) {
    if (candidate.format == format) return candidate.name;
  }
  return "?";
}

ChatTemplate recognise_chat_template(std::string_view jinja) {
  if (contains(jinja, "<|start_header_id|>") && contains(jinja, "<|end_header_id|>") &&
      contains(jinja, "<|eot_id|>")) {
    return {.format = ChatFormat::kLlada};
  }
  if (contains(jinja, "<|im_start|>") && contains(jinja, "truncate_history_thinking")) {
    return {.format = ChatFormat::kNemotron,
            .thinks = contains(jinja, "enable_thinking if enable_thinking is defined else True")};
  }
  if (contains(jinja, "<|im_start|>") && contains(jinja, "<|im_end|>")) {
    return {.format = ChatFormat::kChatMl, .default_system = find_default_system(jinja)};
  }
  if (contains(jinja, "<|turn>") && contains(jinja, "<turn|>")) {
    return {.format = ChatFormat::kGemma, .bos_token = "<bos>"};
  }
  return {.reason = "the chat template is not LLaDA's, ChatML, Nemotron's or Gemma's"};
}

namespace {

ChatTemplate read_gguf_chat_template(const GgufFile& file) {
  if (!file.has(kChatTemplate)) return {.reason = fmt::format("{} has no chat template", file.name())};
  ChatTemplate chat_template = recognise_chat_template(file.text(kChatTemplate));
  if (const auto bos = gguf_bos_token(file)) chat_template.bos_token = *bos;
  return chat_template;
}

}  // namespace

ChatTemplate load_chat_template(const std::filesystem::path& folder) {
  if (GgufFile::is_gguf(folder)) return read_gguf_chat_template(GgufFile::open(folder));
  const auto path = folder / "tokenizer_config.json";
  const nlohmann::json document =
      has_file(path) ? parse_json(read_text_file(path), path.string()) : nlohmann::json::object();
  const JsonValue config(document, path.string());
  const auto jinja = read_jinja(config, folder);
  if (!jinja) return {.reason = fmt::format("{} has no chat template", folder.string())};
  ChatTemplate chat_template = recognise_chat_template(*jinja);
  chat_template.skips_thoughts = chat_template.format == ChatFormat::kChatMl &&
                                 contains(*jinja, "enable_thinking is false") && wants_no_thoughts(folder);
  if (const auto bos = config.find("bos_token")) {
    chat_template.bos_token = bos->json().is_object() ? bos->at("content").string() : bos->string();
  }
  return chat_template;
}

std::vector<TokenId> render(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                            std::span<const Message> messages) {
  switch (chat_template.format) {
    case ChatFormat::kLlada:
      return render_llada(chat_template, tokenizer, messages);
    case ChatFormat::kChatMl:
      return render_chatml(chat_template, tokenizer, messages);
    case ChatFormat::kNemotron:
      return render_nemotron(chat_template, tokenizer, messages);
    case ChatFormat::kSeedCoder:
      return render_seed_coder(tokenizer, messages);
    case ChatFormat::kGemma:
      return render_gemma(tokenizer, messages);
    case ChatFormat::kNone:
      break;
  }
  if (messages.size() != 1)
    throw InputError("without a chat template there is one message, not {}", messages.size());
  return tokenizer.encode(messages.front().content, SpecialTokens::kAsText);
}

std::optional<TokenId> end_of_turn(const Tokenizer& tokenizer) {
  for (const std::string_view name : {"<|eot_id|>", "<|im_end|>", "<|role_end|>", "<turn|>"}) {
    if (const std::optional<TokenId> id = tokenizer.id_of(name)) return id;
  }
  return std::nullopt;
}

}  // namespace lacuna
