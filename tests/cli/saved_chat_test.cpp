// Saved chats are anybody's files.
#include "saved_chat.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "temporary_folder.h"

namespace lacuna::saved_chat_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;
using testing::StartsWith;
using testing::ThrowsMessage;

std::string with_messages(const std::string& messages) {
  return R"({"format": "lacuna-chat", "version": 1, "model": "m", "messages": )" + messages + "}";
}

void expect_chat_refused(const std::string& text, const std::string& part) {
  EXPECT_THAT([&] { parse_chat(text, "c.json"); },
              ThrowsMessage<InputError>(AllOf(StartsWith("c.json"), HasSubstr(part))))
      << text;
}

TEST(SavedChat, ComesBackAsItWas) {
  const SavedChat chat{"mini", "Be \"short\".", {{"user", "a\n\x1b"}, {"assistant", "漢"}}};
  const SavedChat back = parse_chat(to_text(chat), "c.json");
  EXPECT_EQ(back.model, chat.model);
  EXPECT_EQ(back.system, chat.system);
  ASSERT_THAT(back.messages, SizeIs(2));
  EXPECT_EQ(back.messages[0].content, chat.messages[0].content);
  EXPECT_EQ(back.messages[1].role, "assistant");
  EXPECT_EQ(back.messages[1].content, chat.messages[1].content);
}

TEST(SavedChat, IsRefusedWhereItIsDamaged) {
  expect_chat_refused("", "not valid JSON");
  expect_chat_refused("[]", "expected a JSON object");
  expect_chat_refused("{}", "not a saved chat");
  expect_chat_refused(R"({"format": "lacuna-chat", "version": 2, "messages": []})", "version");
  expect_chat_refused(R"({"format": "lacuna-chat", "version": 1})", "messages");
  expect_chat_refused(with_messages("{}"), "messages");
  expect_chat_refused(with_messages("[1]"), "expected a JSON object");
  expect_chat_refused(with_messages(R"([{"role": "user", "content": 1}])"), "messages[0].content");
  expect_chat_refused(with_messages(R"([{"role": "assistant", "content": "x"}])"), "messages[0].role");
  expect_chat_refused(
      with_messages(R"([{"role": "user", "content": "x"}, {"role": "system", "content": "x"}])"),
      "messages[1].role");
  expect_chat_refused(with_messages(R"([{"role": "user", "content": "x"}])"), "no answer");
}

TEST(SavedChat, ReplacesNothingButChats) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "c.json").string();
  save_chat({"a", "", {}}, file);
  save_chat({"b", "", {}}, file);
  EXPECT_EQ(load_chat(file).model, "b");
  folder.write("notes.txt", "dear diary");
  EXPECT_THAT(
      [&] {
        save_chat({"a", "", {}}, (folder.path() / "notes.txt").string());
      },
      ThrowsMessage<InputError>(HasSubstr("is not a saved chat")));
  EXPECT_THROW(save_chat({"a", "", {}}, folder.path().string()), InputError);
  EXPECT_THROW(load_chat((folder.path() / "none.json").string()), InputError);
  EXPECT_THAT([] { load_chat("/dev/zero"); }, ThrowsMessage<InputError>(HasSubstr("is not a regular file")));
}

}  // namespace
}  // namespace lacuna::saved_chat_test
