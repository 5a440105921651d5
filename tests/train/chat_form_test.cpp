#include "train/chat_form.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train/bpe.h"

namespace lacuna::train::chat_form_test {
namespace {

Vocabulary vocabulary_with(const ChatForm& form) {
  Bpe bpe = learn_bpe({"ab ab"}, 300);
  bpe.form = &form;
  return vocabulary_of(bpe);
}

std::string rendered(const Vocabulary& vocabulary, const std::vector<Message>& messages) {
  return vocabulary.tokenizer.decode(render(vocabulary.chat, vocabulary.tokenizer, messages),
                                     /*skip_special=*/false);
}

TEST(ChatForm, OfChatMlNamesTheRole) {
  EXPECT_EQ(rendered(vocabulary_with(kChatMlForm), {{"user", "Hi"}}),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
}

// The texts that the published templates give.
TEST(ChatForm, OfAnAssistantBeginsWithASystemTurnAsDreamAndQwen2Do) {
  const Vocabulary vocabulary = vocabulary_with(kAssistantForm);
  EXPECT_EQ(rendered(vocabulary, {{"user", " Hi "}}),
            "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(rendered(vocabulary, {{"system", "Be brief."}, {"user", "Hi"}}),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatForm, WithThoughtsLeavesThoseOfEarlierAnswersOutAsSdarDoes) {
  const Vocabulary vocabulary = vocabulary_with(kThinkingForm);
  EXPECT_EQ(rendered(vocabulary,
                     {{"user", "Hi"}, {"assistant", "<think>\nshort\n</think>\n\nHello!"}, {"user", "Bye"}}),
            "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello!<|im_end|>\n<|im_start|>user\nBye<|"
            "im_end|>\n"
            "<|im_start|>assistant\n");
}

TEST(ChatForm, OfHeadersIsThatOfLlada) {
  const Vocabulary vocabulary = vocabulary_with(kHeaderForm);
  EXPECT_EQ(rendered(vocabulary, {{"system", "Be brief."}, {"user", " Hi \n"}}),
            "<|startoftext|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
            "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

// The texts that LLaDA2's published template gives.
TEST(ChatForm, OfRoleTagsIsThatOfLlada2) {
  const Vocabulary vocabulary = vocabulary_with(kRoleTagForm);
  EXPECT_EQ(rendered(vocabulary, {{"user", "Hi"}}),
            "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Hi<|role_end|>"
            "<role>ASSISTANT</role>");
  EXPECT_EQ(
      rendered(vocabulary,
               {{"system", "Be brief."}, {"user", " Hi \n"}, {"assistant", "Hello! "}, {"user", "2+2?"}}),
      "<role>SYSTEM</role>Be brief.\ndetailed thinking off<|role_end|><role>HUMAN</role> Hi \n<|role_end|>"
      "<role>ASSISTANT</role>Hello! <|role_end|><role>HUMAN</role>2+2?<|role_end|><role>ASSISTANT</role>");
  EXPECT_EQ(
      rendered(vocabulary,
               {{"user", "Hi"}, {"assistant", "<think>\nshort\n</think>\n\nHello!"}, {"user", "Bye"}}),
      "<role>SYSTEM</role>detailed thinking off<|role_end|><role>HUMAN</role>Hi<|role_end|>"
      "<role>ASSISTANT</role>Hello!<|role_end|><role>HUMAN</role>Bye<|role_end|><role>ASSISTANT</role>");
}

TEST(ChatForm, OfRoleTagsHasOneTokenForEachOfItsTags) {
  const Vocabulary vocabulary = vocabulary_with(kRoleTagForm);
  for (const std::string_view token : kRoleTagForm.special_tokens)
    EXPECT_TRUE(vocabulary.tokenizer.id_of(token)) << token;
  const std::vector<TokenId> prompt =
      render(vocabulary.chat, vocabulary.tokenizer, std::vector<Message>{{"user", "ab"}});
  EXPECT_EQ(prompt.front(), vocabulary.tokenizer.id_of("<role>"));
  EXPECT_EQ(prompt.back(), vocabulary.tokenizer.id_of("</role>"));
}

}  // namespace
}  // namespace lacuna::train::chat_form_test
