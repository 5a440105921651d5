#include "server/message_parts.h"

#include <gmock/gmock.h>

#include <string>

#include "server/api_request.h"
#include "server/dialect.h"

namespace lacuna::message_parts_test {
namespace {

using json = nlohmann::ordered_json;

TEST(MessageParts, OfResultsThatAreImagesHaveANoteInTheirPlace) {
  const json call = {{"id", "c"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
  const json url = {{"type", "image_url"}, {"image_url", {{"url", "data:"}}}};
  const json word = {{"type", "text"}, {"text", "Seen: "}};
  const GenerationRequest chat =
      kOpenAiChat.parse({{"messages",
                          {{{"role", "user"}, {"content", "a"}},
                           {{"role", "assistant"}, {"tool_calls", {call}}},
                           {{"role", "tool"}, {"tool_call_id", "c"}, {"content", {word, url}}}}}},
                        {});
  const json image = {{"type", "image"}, {"source", {{"type", "base64"}, {"data", ""}}}};
  const GenerationRequest messages = kAnthropicMessages.parse(
      {{"max_tokens", 8},
       {"messages",
        {{{"role", "user"}, {"content", "a"}},
         {{"role", "assistant"},
          {"content", {{{"type", "tool_use"}, {"id", "c"}, {"name", "f"}, {"input", json::object()}}}}},
         {{"role", "user"},
          {"content", {{{"type", "tool_result"}, {"tool_use_id", "c"}, {"content", {word, image}}}}}}}}},
      {});
  const json input = {{"type", "input_image"}, {"image_url", "data:"}};
  const GenerationRequest responses = kOpenAiResponses.parse(
      {{"input",
        {{{"role", "user"}, {"content", "a"}},
         {{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", "{}"}},
         {{"type", "function_call_output"}, {"call_id", "c"}, {"output", {word, input}}}}}},
      {});
  for (const GenerationRequest* request : {&chat, &messages, &responses}) {
    const auto& last = std::get<Conversation>(request->prompts.at(0)).messages.back();
    EXPECT_EQ(content_text(last), "Seen: [an image, which this model cannot read]");
    EXPECT_THAT(request->left_out, testing::ElementsAre("tool_result.image"));
  }
  EXPECT_THROW((void)kOpenAiChat.parse({{"messages", {{{"role", "user"}, {"content", {url}}}}}}, {}),
               FieldError);
}

TEST(MessageParts, ThatAreThoughtsAreLeftOutOfChats) {
  const json thought = {{"type", "thinking"}, {"thinking", "x"}, {"signature", "s"}};
  const json reason = {{"type", "reasoning"}, {"text", "y"}};
  const json word = {{"type", "text"}, {"text", "b"}};
  const GenerationRequest request =
      kOpenAiChat.parse({{"messages",
                          {{{"role", "user"}, {"content", "a"}},
                           {{"role", "assistant"}, {"content", {thought, reason, word}}},
                           {{"role", "user"}, {"content", "c"}}}}},
                        {});
  EXPECT_EQ(content_text(std::get<Conversation>(request.prompts.at(0)).messages.at(1)), "b");
  EXPECT_THAT(request.left_out, testing::ElementsAre("thinking", "reasoning"));
}

}  // namespace
}  // namespace lacuna::message_parts_test
