// A Jinja program, then roles and contents, with zero bytes between them. What a message says never becomes a
// special token, so every rendered prompt has as many of them as one whose messages say nothing.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fuzz.h"
#include "tiny_tokens.h"
#include "tokenizer/chat_template.h"

namespace {

using namespace lacuna;

size_t count_specials(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                      const std::vector<Message>& messages) {
  const std::vector<TokenId> tokens = render(chat_template, tokenizer, messages);
  return static_cast<size_t>(
      std::count_if(tokens.begin(), tokens.end(), [&](TokenId id) { return tokenizer.is_special(id); }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = fuzz::tiny_tokenizer();
  std::string_view rest = fuzz::text_of(data, size);
  const ChatTemplate chat_template = recognise_chat_template(fuzz::next_text(rest));
  fuzz::check(chat_template.format != ChatFormat::kNone || !chat_template.reason.empty());
  std::vector<Message> messages, silent;
  while (!rest.empty() && messages.size() < 16) {
    Message message;
    message.role = fuzz::next_text(rest);
    message.content = fuzz::next_text(rest);
    silent.push_back({message.role, ""});
    messages.push_back(std::move(message));
  }
  try {
    fuzz::check(count_specials(tokenizer, chat_template, messages) ==
                count_specials(tokenizer, chat_template, silent));
  } catch (const InputError&) {
  }
  return 0;
}
