#include "train/chat_form.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train/bpe.h"

namespace lacuna::train::chat_form_test {
namespace {

Tokenizer tokenizer_of(const ChatForm& form) {
  Bpe bpe = learn_bpe({"ab ab"}, 300);
  bpe.form = &form;
  return Tokenizer::from_json(tokenizer_json(bpe).dump(), "learned");
}

std::string rendered(const Tokenizer& tokenizer, const std::vector<Message>& messages) {
  return tokenizer.decode(render(training_template(tokenizer), tokenizer, messages), /*skip_special=*/false);
}

TEST(ChatForm, OfChatMlNamesTheRole) {
  EXPECT_EQ(rendered(tokenizer_of(chatml_form()), {{"user", "Hi"}}),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

// The texts that LLaDA2's published template gives.
TEST(ChatForm, OfRoleTagsIsThatOfLlada2) {
  const Tokenizer tokenizer = tokenizer_of(role_tag_form());
  EXPECT_EQ(rendered(tokenizer, {{"user", "Hi"}}),
            "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Hi<|role_end|>"
            "<role>ASSISTANT</role>");
  EXPECT_EQ(
      rendered(tokenizer,
               {{"system", "Be brief."}, {"user", " Hi \n"}, {"assistant", "Hello! "}, {"user", "2+2?"}}),
      "<role>SYSTEM</role>Be brief.\ndetailed thinking off<|role_end|><role>HUMAN</role> Hi \n<|role_end|>"
      "<role>ASSISTANT</role>Hello! <|role_end|><role>HUMAN</role>2+2?<|role_end|><role>ASSISTANT</role>");
  EXPECT_EQ(
      rendered(tokenizer,
               {{"user", "Hi"}, {"assistant", "<think>\nshort\n</think>\n\nHello!"}, {"user", "Bye"}}),
      "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Hi<|role_end|>"
      "<role>ASSISTANT</role>Hello!<|role_end|><role>HUMAN</role>Bye<|role_end|><role>ASSISTANT</role>");
}

TEST(ChatForm, OfRoleTagsHasOneTokenForEachOfItsTags) {
  const Tokenizer tokenizer = tokenizer_of(role_tag_form());
  for (const std::string_view token : role_tag_form().special_tokens)
    EXPECT_TRUE(tokenizer.id_of(token)) << token;
  const std::vector<TokenId> prompt =
      render(training_template(tokenizer), tokenizer, std::vector<Message>{{"user", "ab"}});
  EXPECT_EQ(prompt.front(), tokenizer.id_of("<role>"));
  EXPECT_EQ(prompt.back(), tokenizer.id_of("</role>"));
}

}  // namespace
}  // namespace lacuna::train::chat_form_test
