#include "server/page/page.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <string>

#include "running_server.h"

namespace lacuna::page_test {
namespace {

using nlohmann::json;

std::string source_of(const std::string& name) {
  std::ifstream file(std::filesystem::path(LACUNA_SOURCE_DIR) / "src/server/page" / name);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Page, IsThePartsOfItsFolderThatBrowsersRead) {
  const StaticFiles files = page_files();
  for (const auto& [path, file] : files) {
    std::string name = path == "/" ? "index.html" : path.substr(1);
    if (name.find('.') == std::string::npos) name += ".html";  // "/docs"
    EXPECT_EQ(file.bytes, source_of(name)) << path;
    EXPECT_THAT(std::string(file.content_type), testing::EndsWith("; charset=utf-8")) << path;
  }
  EXPECT_EQ(files.at("/").content_type, "text/html; charset=utf-8");
  EXPECT_EQ(files.at("/page.css").content_type, "text/css; charset=utf-8");
  EXPECT_EQ(files.at("/page.js").content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(files.at("/docs").content_type, "text/html; charset=utf-8");
  EXPECT_FALSE(files.contains("/page.h"));
  EXPECT_FALSE(files.contains("/index.html"));
}

TEST(Page, IsToldWhichRowsAPassComputed) {
  RunningServer server("mini-llada");
  const json settings{{"events", true}, {"cache", "dual"}, {"block_length", 8}};
  const json reply =
      server.post("/v1/completions", {{"prompt", "Mia has"}, {"max_tokens", 16}, {"lacuna", settings}})
          .json();
  const json& events = reply["choices"][0]["lacuna"]["events"];
  ASSERT_GT(events.size(), 2U);
  for (size_t i = 1; i < events.size(); ++i) {
    int64_t rows = 0;
    for (const json& range : events[i]["computed"]) rows += range[1].get<int64_t>() - range[0].get<int64_t>();
    EXPECT_EQ(rows, events[i]["rows"]) << i;
  }
}

TEST(Page, CanNameTheTokensOfARecordedRun) {
  RunningServer server("mini-llada");
  const std::vector<TokenId> tokens = server.tokenizer().encode("Mia has");
  const json reply = server.post("/detokenize", {{"tokens", tokens}, {"with_pieces", true}}).json();
  std::string text;
  for (const json& token : reply["tokens"]) text += token["piece"].get<std::string>();
  EXPECT_EQ(text, "Mia has");
  EXPECT_EQ(reply["tokens"].size(), tokens.size());
}

}  // namespace
}  // namespace lacuna::page_test
