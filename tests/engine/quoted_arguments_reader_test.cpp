#include "engine/quoted_arguments_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace lacuna::quoted_arguments_reader_test {
namespace {

TEST(QuotedArgumentsReader, WritesJsonAsSoonAsItIsSure) {
  QuotedArgumentsReader reader;
  std::string unread = "{a:<|";
  EXPECT_EQ(reader.advance(unread, "<|\"|>"), "{\"a\": ");
  EXPECT_EQ(unread, "<|") << "it may become a quote";
  unread += "\"|>b\\";
  EXPECT_EQ(reader.advance(unread, "<|\"|>"), "\"b\\\\");
  unread += "<x<|\"|>,c:12";
  EXPECT_EQ(reader.advance(unread, "<|\"|>"), "<x\", \"c\": ") << "the number may continue";
  EXPECT_FALSE(reader.is_over());
  unread = "}rest";
  EXPECT_EQ(reader.advance(unread, "<|\"|>"), "12}");
  EXPECT_TRUE(reader.is_over());
  EXPECT_EQ(unread, "rest");
}

TEST(QuotedArgumentsReader, QuotesWordsThatAreNoJson) {
  for (const auto& [text, json] :
       {std::pair("{a:True}", R"({"a": "True"})"),
        std::pair("{a:-1e3,b:false,c:nul}", R"({"a": -1e3, "b": false, "c": "nul"})"),
        std::pair("{'a':{b:http://x}}", R"({"'a'": {"b": "http://x"}})"),
        std::pair("{'k':'v'}", R"({"k": "v"})")}) {
    QuotedArgumentsReader reader;
    std::string unread = text;
    EXPECT_EQ(reader.advance(unread, std::string(text) == "{'k':'v'}" ? "'" : "<|\"|>"), json);
  }
}

}  // namespace
}  // namespace lacuna::quoted_arguments_reader_test
