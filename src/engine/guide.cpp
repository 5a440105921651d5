#include "engine/guide.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "engine/chat_prompt.h"

namespace lacuna {
namespace {

bool contains(const std::vector<TokenId>& tokens, TokenId token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

std::string bytes_of(const Tokenizer& tokenizer, TokenId token) {
  return tokenizer.decode(std::span(&token, 1), false);
}

/// Whether ids mean the same text. Special tokens may differ: Dream's mask is an unused row of Qwen2.5.
bool share_ids(const Tokenizer& a, const Tokenizer& b) {
  for (TokenId token = 0; token < std::min(a.size(), b.size()); ++token) {
    if (a.is_special(token) || b.is_special(token)) continue;
    if (bytes_of(a, token) != bytes_of(b, token)) return false;
  }
  return true;
}

}  // namespace

Guide::Guide(const TextModel& main, const TextModel& guide) : main_(main), guide_(guide) {
  if ((main.tokenizer == nullptr) != (guide.tokenizer == nullptr)) {
    throw InputError(
        "--guide: one of the two models has a tokenizer and the other none; expected both or neither");
  }
  // Without tokenizers (random models) only ids can be compared.
  shares_vocabulary_ = main.tokenizer == nullptr || share_ids(*main.tokenizer, *guide.tokenizer);
  if (shares_vocabulary_) {
    alignment_ = shared_vocabulary(main.config, guide.config);
  } else {
    alignment_ = std::make_shared<ByteAlignment>(main, guide);
  }
}

bool Guide::has_same_tokens(std::span<const TokenId> prompt) const {
  if (!shares_vocabulary_ || main_.tokenizer == nullptr) return shares_vocabulary_;
  const Tokenizer &main = *main_.tokenizer, &guide = *guide_.tokenizer;
  return std::none_of(prompt.begin(), prompt.end(), [&](TokenId token) {
    if (!main.is_special(token) && !guide.is_special(token)) return false;
    return bytes_of(main, token) != bytes_of(guide, token);
  });
}

GuideContext Guide::context(std::span<const TokenId> prompt, const Conversation* conversation) const {
  GuideContext context{&guide_.config, {}, alignment_};
  if (has_same_tokens(prompt)) {
    context.prompt.assign(prompt.begin(), prompt.end());
  } else if (conversation != nullptr) {
    context.prompt = chat_prompt(guide_.chat_template, *guide_.tokenizer, *conversation).tokens;
  } else {
    context.prompt = guide_.tokenizer->encode(main_.tokenizer->decode(prompt));
  }
  return context;
}

GuideContext Guide::context(std::span<const TokenId> prompt, std::span<const Message> turns) const {
  if (turns.empty()) return context(prompt);
  const Conversation conversation(turns);
  return context(prompt, &conversation);
}

GuideReading ByteAlignment::read(std::span<const TokenId> answer) const {
  GuideReading reading;
  int32_t end = 0;
  std::string segment;
  const auto cut_segment = [&](int32_t segment_begin) {
    int32_t guide_end = segment_begin;
    for (const TokenId token : guide_.tokenizer->encode(segment)) {
      guide_end += static_cast<int32_t>(bytes_of(*guide_.tokenizer, token).size());
      reading.tokens.push_back(token);
      reading.guide_ends.push_back(guide_end);
    }
    // Normalization may change the text's length; then the segment is accepted or rejected as a whole.
    if (guide_end != end) {
      std::replace_if(
          reading.guide_ends.begin(), reading.guide_ends.end(),
          [&](int32_t value) { return value > segment_begin; }, end);
    }
    segment.clear();
  };
  int32_t segment_begin = 0;
  for (const TokenId token : answer) {
    if (contains(main_.config.end_ids, token)) {
      cut_segment(segment_begin);
      reading.tokens.push_back(guide_.config.eos_id);
      reading.guide_ends.push_back(++end);
      segment_begin = end;
    } else {
      const std::string bytes = bytes_of(*main_.tokenizer, token);
      segment += bytes;
      end += static_cast<int32_t>(bytes.size());
    }
    reading.answer_ends.push_back(end);
  }
  cut_segment(segment_begin);
  return reading;
}

std::optional<TokenId> ByteAlignment::write(std::span<const TokenId> answer, const GuideReading& reading,
                                            size_t num_read, TokenId guide_token) const {
  // Text of the guide's tokens after the answer, then of its next token.
  const int32_t answer_end = answer.empty() ? 0 : reading.answer_ends[answer.size() - 1];
  std::string text;
  for (size_t i = 0; i < num_read; ++i) {
    if (reading.guide_ends[i] <= answer_end) continue;
    const int32_t begin = i == 0 ? 0 : reading.guide_ends[i - 1];
    const std::string bytes = bytes_of(*guide_.tokenizer, reading.tokens[i]);
    const int32_t known = std::clamp(answer_end - begin, 0, static_cast<int32_t>(bytes.size()));
    text += bytes.substr(static_cast<size_t>(known));
  }
  if (contains(guide_.config.end_ids, guide_token)) {
    if (text.empty() && main_.config.eos_id >= 0) return main_.config.eos_id;
  } else if (guide_.tokenizer->is_special(guide_token)) {
    if (text.empty()) return {};
  } else {
    text += bytes_of(*guide_.tokenizer, guide_token);
  }
  const std::vector<TokenId> tokens = main_.tokenizer->encode(text);
  if (tokens.empty()) return {};
  return tokens.front();
}

std::vector<TokenId> ByteAlignment::unreadable() const {
  // Special tokens have no text that the guide could read; dead rows have none at all.
  std::vector<TokenId> tokens;
  for (int64_t id = 0; id < main_.config.vocab_size; ++id) {
    const auto token = static_cast<TokenId>(id);
    const bool has_text = token < main_.tokenizer->size() && !main_.tokenizer->is_special(token) &&
                          !bytes_of(*main_.tokenizer, token).empty();
    const bool has_twin = guide_.config.eos_id >= 0 && contains(main_.config.end_ids, token);
    if (!has_text && !has_twin) tokens.push_back(token);
  }
  return tokens;
}

}  // namespace lacuna
