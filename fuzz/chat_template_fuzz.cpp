// A Jinja program, then roles and contents, with zero bytes between them. What a message says never becomes a
// special token: each of the prompt's begins in the template's own text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz.h"
#include "tiny_tokens.h"
#include "tokenizer/template_of.h"

namespace {

using namespace lacuna;

/// Special tokens of the prompt, each of which begins with a "<" that the template wrote.
void check_specials(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                    const std::vector<Message>& messages) {
  const std::vector<TokenId> tokens = render(chat_template, tokenizer, messages);
  const auto specials =
      std::count_if(tokens.begin(), tokens.end(), [&](TokenId id) { return tokenizer.is_special(id); });
  std::ptrdiff_t begins = 0;
  for (const jinja::Piece& piece : chat_template.pieces(Conversation(messages))) {
    if (!piece.is_input) begins += std::count(piece.text.begin(), piece.text.end(), '<');
  }
  fuzz::check(specials <= begins);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = fuzz::tiny_tokenizer();
  std::string_view rest = fuzz::text_of(data, size);
  const ChatTemplate chat_template = template_of(std::string(fuzz::next_text(rest)));
  if (!chat_template.problem().empty()) return 0;
  std::vector<Message> messages;
  while (!rest.empty() && messages.size() < 16) {
    Message message;
    message.role = fuzz::next_text(rest);
    message.content = fuzz::next_text(rest);
    messages.push_back(std::move(message));
  }
  try {
    check_specials(tokenizer, chat_template, messages);
  } catch (const InputError&) {
  }
  return 0;
}
