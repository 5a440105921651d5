// The documentation as a reader follows it: its links lead somewhere, its commands exist and run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::docs_test {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> pages() {
  std::vector<fs::path> found;
  const fs::path root = LACUNA_SOURCE_DIR;
  for (const auto& entry : fs::directory_iterator(root)) found.push_back(entry.path());
  for (const char* folder : {"docs", "lab", "models", "src", "tests", "train"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) found.push_back(entry.path());
  }
  std::erase_if(found, [](const fs::path& path) { return path.extension() != ".md"; });
  return found;
}

/// Exit code and output of a shell command.
std::pair<int, std::string> shell(const std::string& command) {
  std::string printed;
  std::FILE* const pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
  if (pipe == nullptr) return {-1, ""};
  char buffer[4096];
  for (size_t size = 0; (size = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    printed.append(buffer, size);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, printed};
}

struct DocumentedCommand {
  std::string page, text;  ///< text: from the subcommand on
};

/// The lines of a page, those that end in a backslash joined with the next.
std::vector<std::string> lines(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<std::string> found;
  bool goes_on = false;
  for (std::string line; std::getline(stream, line);) {
    if (goes_on) {
      found.back().pop_back();
      found.back() += line.substr(std::min(line.find_first_not_of(' '), line.size()));
    } else {
      found.push_back(line);
    }
    goes_on = found.back().ends_with('\\');
  }
  return found;
}

/// Every `lacuna ...` in backticks, also over the end of a line, or on a line of its own.
std::vector<DocumentedCommand> commands() {
  std::vector<DocumentedCommand> found;
  for (const fs::path& path : pages()) {
    const std::string page = path.lexically_relative(LACUNA_SOURCE_DIR).string();
    if (page.starts_with("src") || page.starts_with("lab") || page == "CHANGELOG.md") continue;
    std::string text;
    for (const std::string& line : lines(path)) {
      text += line + ' ';
      const size_t begin = std::min(line.find_first_not_of(" $"), line.size());
      for (const std::string_view program : {"lacuna ", "build/release/lacuna "}) {
        if (!line.substr(begin).starts_with(program) || line.find('`') != std::string::npos) continue;
        const std::string command = line.substr(begin + program.size());
        found.push_back({page, command.substr(0, command.find(" #"))});
      }
    }
    constexpr std::string_view kOpen = "`lacuna ";
    for (size_t at = text.find(kOpen); at != std::string::npos; at = text.find(kOpen, at)) {
      at += kOpen.size();
      found.push_back({page, text.substr(at, text.find('`', at) - at)});
    }
  }
  return found;
}

/// The subcommand's words: "bench step".
std::string subcommand(const std::string& command) {
  static const std::set<std::string> kGroups = {"bench", "analyze"};
  std::istringstream words(command);
  std::string first, second;
  words >> first >> second;
  return kGroups.contains(first) && !second.starts_with('-') ? first + " " + second : first;
}

/// The shell's words, with those in quotes left out.
std::vector<std::string> flags(const std::string& command) {
  const std::string bare = std::regex_replace(command, std::regex(R"("[^"]*"|'[^']*')"), "");
  std::istringstream words(bare);
  std::vector<std::string> found;
  for (std::string word; words >> word;) {
    if (!word.starts_with("--")) continue;
    found.push_back(word.substr(0, word.find_first_of("=,.;:|)")));
  }
  return found;
}

/// Whether nothing in it stands for something that the reader has to choose.
bool is_complete(const std::string& command) {
  static const std::regex kPlaceholder(R"(\.\.\.|\b[A-Z]{1,}[A-Z_]*\b|path/to|\[|random:|<)");
  const std::string bare = std::regex_replace(command, std::regex(R"("[^"]*"|'[^']*')"), "");
  static const std::regex kModel(R"((-m |^[a-z]+ )mini-)");
  return std::regex_search(command, kModel) && !std::regex_search(bare, kPlaceholder) &&
         std::count(command.begin(), command.end(), '"') % 2 == 0;
}

TEST(Documentation, HasLinksThatLeadSomewhere) {
  static const std::regex kLink(R"(\]\(([^)#\s]+)(#[^)]*)?\))");
  int links = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& line : lines(page)) {
      for (std::sregex_iterator match(line.begin(), line.end(), kLink), end; match != end; ++match) {
        const std::string target = (*match)[1].str();
        if (target.find("://") != std::string::npos) continue;
        ++links;
        EXPECT_TRUE(fs::exists(page.parent_path() / target)) << page << " links to " << target;
      }
    }
  }
  EXPECT_GT(links, 50);
}

TEST(Documentation, NamesFlagsThatExist) {
  std::map<std::string, std::string> help;
  int checked = 0;
  for (const DocumentedCommand& command : commands()) {
    const std::string name = subcommand(command.text);
    if (name.empty() || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz- ") != std::string::npos) continue;
    if (!help.contains(name)) {
      const auto [exit_code, printed] = shell(LACUNA_BINARY " " + name + " --help-all");
      EXPECT_EQ(exit_code, 0) << command.page << ": lacuna " << name;
      help[name] = printed;
    }
    for (const std::string& flag : flags(command.text)) {
      ++checked;
      EXPECT_THAT(help[name], testing::ContainsRegex(flag + "([ ,=]|$|\n)"))
          << command.page << ": lacuna " << command.text;
    }
  }
  EXPECT_GT(checked, 500);
}

TEST(Documentation, NamesModelsThatShip) {
  static const std::regex kModel(R"((-m|--guide|--judge|--twin|^[a-z]+) (mini-[a-z0-9-]+))");
  for (const DocumentedCommand& command : commands()) {
    for (std::sregex_iterator match(command.text.begin(), command.text.end(), kModel), end; match != end;
         ++match) {
      EXPECT_TRUE(fs::exists(fs::path(LACUNA_SOURCE_DIR "/models") / (*match)[2].str()))
          << command.page << ": lacuna " << command.text;
    }
  }
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

TEST(Documentation, ListsTheFlagsThatTheProgramHas) {
  const auto [exit_code, printed] = shell(LACUNA_SOURCE_DIR "/scripts/flags_page " LACUNA_BINARY);
  EXPECT_EQ(exit_code, 0) << printed;
  EXPECT_EQ(printed, text_of(LACUNA_SOURCE_DIR "/docs/reference/flags.md"))
      << "`make flags-page` writes the page again";
}

/// Numbers with a decimal point or a per cent sign, which are what was measured rather than chosen.
TEST(Documentation, TakesItsFiguresFromThePagesThatReportsWrite) {
  std::map<std::string, std::string> written;
  std::string known;
  for (const fs::path& path : pages()) {
    const std::string page = path.lexically_relative(LACUNA_SOURCE_DIR).string();
    if (page.starts_with("docs/results/")) {
      known += text_of(path);
    } else if (page == "docs/reference/flags.md" || page.starts_with("docs/inside/decisions/")) {
      continue;  // defaults of flags, and measurements of their day
    } else if (page == "README.md" || page.starts_with("docs/")) {
      written[page] = std::regex_replace(text_of(path), std::regex("```[^`]*```|`[^`]*`"), "");
    }
  }
  static const std::regex kFigure(R"([ |(](\d{1,3}\.\d+%?|\d+%)[ ,;).×])");
  int64_t count = 0;
  for (const auto& [page, text] : written) {
    for (std::sregex_iterator match(text.begin(), text.end(), kFigure), end; match != end; ++match, ++count) {
      EXPECT_NE(known.find((*match)[1]), std::string::npos) << page << ": " << (*match)[1];
    }
  }
  EXPECT_GT(count, 30);
}

/// A command with what the page says it prints: lines "    $ lacuna ..." and the indented ones below.
struct Transcript {
  std::string page, command, printed;
};

std::vector<Transcript> transcripts() {
  constexpr std::string_view kIndent = "    ", kPrompt = "    $ lacuna ";
  std::vector<Transcript> found;
  for (const fs::path& path : pages()) {
    bool follows_command = false;
    for (const std::string& line : lines(path)) {
      if (line.starts_with(kPrompt)) {
        found.push_back(
            {path.lexically_relative(LACUNA_SOURCE_DIR).string(), line.substr(kPrompt.size()), ""});
        follows_command = true;
      } else if (follows_command && line.starts_with(kIndent)) {
        found.back().printed += line.substr(kIndent.size()) + '\n';
      } else {
        follows_command = false;
      }
    }
  }
  return found;
}

TEST(Documentation, ShowsWhatItsCommandsPrint) {
  const fs::path folder = fs::temp_directory_path() / "lacuna_docs_transcripts";
  fs::create_directories(folder);
  std::map<std::string, int> by_page;
  for (const Transcript& transcript : transcripts()) {
    if (transcript.command.find("--device simulator") != std::string::npos) continue;  // slow: see below
    const auto [exit_code, printed] =
        shell("cd " + folder.string() + " && LACUNA_MODELS=" LACUNA_SOURCE_DIR "/models " LACUNA_BINARY " " +
              transcript.command);
    EXPECT_EQ(exit_code, 0) << transcript.page << ": lacuna " << transcript.command;
    EXPECT_EQ(printed, transcript.printed) << transcript.page << ": lacuna " << transcript.command;
    ++by_page[transcript.page];
  }
  for (const auto& model : fs::directory_iterator(LACUNA_SOURCE_DIR "/models")) {
    const std::string name = model.path().filename().string(), card = "models/" + name + "/README.md";
    EXPECT_GE(by_page[card], 3) << card << " shows too few prompts to copy";
  }
  fs::remove_all(folder);
}

/// The number that a command asks for, by a part of its story; empty where it asks for none.
std::string asked_number(const std::string& command) {
  static const std::vector<std::pair<std::string, std::string>> kStories = {
      {"She gives 5 to Sam. How many", "14"}, {"Later she loses 5. How many", "14"},
      {"She finds 7 more. How many", "19"},   {"She loses 7. How many", "5"},
      {"He loses 4. How many", "5"},          {"question.txt", "5"}};
  for (const auto& [story, answer] : kStories) {
    if (command.find(story) != std::string::npos) return answer;
  }
  EXPECT_EQ(command.find("How many"), std::string::npos) << "which answer is right? lacuna " << command;
  return "";
}

TEST(SlowDocumentation, HasCommandsThatRun) {
  const fs::path folder = fs::temp_directory_path() / "lacuna_docs_commands";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::create_directory_symlink(LACUNA_SOURCE_DIR "/bench", folder / "bench");
  std::ofstream(folder / "question.txt") << "Tom has 9 coins. He loses 4. How many coins does Tom have now?";
  static const std::set<std::string> kRun = {"run", "decide", "eval", "compare", "inspect", "tokenize"};
  std::set<std::string> seen;
  for (const DocumentedCommand& command : commands()) {
    if (!kRun.contains(subcommand(command.text)) || !is_complete(command.text)) continue;
    if (command.text.find(" build/") != std::string::npos) continue;  // a model that another command makes
    if (command.text.find(" --fit") != std::string::npos) continue;   // writes to a model that ships
    // Whether it runs, not what it finds.
    std::string text = std::regex_replace(command.text, std::regex(R"(--samples \d+)"), "--samples 1");
    const bool takes_samples = subcommand(text) == "eval" || subcommand(text) == "compare";
    if (takes_samples && text.find("--samples") == std::string::npos) text += " --samples 1";
    if (!seen.insert(text).second) continue;
    const auto [exit_code, printed] = shell(
        "cd " + folder.string() + " && LACUNA_MODELS=" LACUNA_SOURCE_DIR "/models " LACUNA_BINARY " " + text);
    EXPECT_EQ(exit_code, 0) << command.page << ": lacuna " << text << "\n" << printed;
    if (subcommand(text) != "run") continue;
    EXPECT_THAT(printed, testing::ContainsRegex(asked_number(text) + "[^0-9]"))
        << command.page << ": lacuna " << text;
  }
  EXPECT_GT(seen.size(), 60U);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace lacuna::docs_test
