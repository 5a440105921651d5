#include "eval/benchmarks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/open_file.h"
#include "tasks/written_numbers.h"

namespace lacuna {
namespace {

template <typename Item, typename Read>
std::vector<Item> read_items(const std::string& path, Read&& read) {
  std::vector<Item> items;
  read_json_lines(path, [&](const nlohmann::json&, const JsonObject& json) { items.push_back(read(json)); });
  return items;
}

constexpr std::string_view kFinalAnswer = "final answer is";

/// The content of the first fenced block; the whole text without one.
std::string_view first_fenced_block(std::string_view text) {
  constexpr std::string_view kFence = "```";
  const size_t fence = text.find(kFence);
  if (fence == std::string_view::npos) return text;
  const size_t line_end = text.find('\n', fence);
  text = line_end == std::string_view::npos ? std::string_view() : text.substr(line_end + 1);
  return text.substr(0, text.find(kFence));
}

}  // namespace

std::string read_plain_or_gzip(const std::string& path) {
  const auto close = [](gzFile file) { gzclose(file); };
  FileDescriptor opened = open_to_read(path, FileKind::kAnything);
  const std::unique_ptr<gzFile_s, decltype(close)> file(gzdopen(opened.number(), "rb"), close);
  if (!file) throw std::bad_alloc();
  opened.release();  // the stream closes it
  std::string text;
  std::vector<char> piece(1 << 16);
  for (;;) {
    const int count = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    int error = Z_OK;
    const char* const reason = gzerror(file.get(), &error);
    if (count < 0 || (error != Z_OK && error != Z_STREAM_END)) {
      throw InputError("{}: cannot be read: {}", path, error == Z_ERRNO ? std::strerror(errno) : reason);
    }
    if (count == 0) return text;
    text.append(piece.data(), static_cast<size_t>(count));
    if (text.size() > kMaxBenchmarkBytes) {
      throw InputError("{}: expected at most {} bytes", path, kMaxBenchmarkBytes);
    }
  }
}

void read_json_lines(const std::string& path, const JsonLineReader& read) {
  const std::string text = read_plain_or_gzip(path);
  size_t number = 0;
  size_t num_items = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    const std::string place = fmt::format("{} line {}", path, ++number);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (num_items++ == kMaxBenchmarkItems) {
      throw InputError("{}: expected at most {} lines", path, kMaxBenchmarkItems);
    }
    const nlohmann::json json = parse_json(line, place);
    if (!json.is_object()) throw InputError("{}: expected a JSON object", place);
    read(json, JsonObject(json, place));
  }
  if (num_items == 0) throw InputError("{}: expected at least one line with a JSON object", path);
}

std::vector<WordProblem> read_gsm8k(const std::string& path) {
  return read_items<WordProblem>(path, [](const JsonObject& json) {
    WordProblem problem{json.text("question"), json.text("answer"), {}};
    const std::optional<std::string> number = strict_number(problem.solution);
    if (!number) json.refuse("answer", "a solution with '#### ' and a number");
    problem.number = *number;
    return problem;
  });
}

std::string gsm8k_prompt(const std::vector<WordProblem>& solved, std::string_view question) {
  std::string prompt;
  for (const WordProblem& problem : solved) {
    prompt += fmt::format("Question: {}\nAnswer: {}\n\n", problem.question, problem.solution);
  }
  return prompt + fmt::format("Question: {}\nAnswer:", question);
}

std::vector<std::string> gsm8k_flashdlm_turns(const std::vector<WordProblem>& solved,
                                              std::string_view question) {
  const auto request = [](std::string_view problem) {
    return fmt::format(
        "Given the following problem, reason and give a final answer to the problem.\n\nProblem: {}\n\nYour "
        "response should end with \"The final answer is [answer]\" where [answer] is just the final number "
        "to the problem.",
        problem);
  };
  std::vector<std::string> turns;
  for (const WordProblem& problem : solved) {
    turns.push_back(request(problem.question));
    const std::string_view worked =
        std::string_view(problem.solution).substr(0, problem.solution.find("#### "));
    turns.push_back(fmt::format("{}The {} {}", worked, kFinalAnswer, problem.number));
  }
  turns.push_back(request(question));
  return turns;
}

std::optional<std::string> flashdlm_number(std::string_view answer) {
  const size_t at = answer.rfind(kFinalAnswer);
  if (at == std::string_view::npos) return last_number(answer);
  const std::string_view rest = answer.substr(at + kFinalAnswer.size());
  const size_t begin = rest.find_first_of("0123456789");
  if (begin == std::string_view::npos) return last_number(answer);
  const size_t end = rest.find_first_not_of("0123456789.,", begin);
  return last_number(rest.substr(0, end));
}

const std::vector<std::string>& gsm8k_stops() {
  static const std::vector<std::string> stops = {"Question:", "</s>", "<|im_end|>"};
  return stops;
}

std::vector<CodeProblem> read_humaneval(const std::string& path) {
  return read_items<CodeProblem>(path, [](const JsonObject& json) {
    return CodeProblem{json.text("task_id"), json.text("prompt"), json.text("entry_point"),
                       json.text("test")};
  });
}

std::string humaneval_request(const CodeProblem& problem) {
  return fmt::format(
      "Write a solution to the following problem and make sure that it passes the tests:\n```python\n{}\n```",
      problem.prompt);
}

std::string humaneval_completion(const CodeProblem& problem, std::string_view text, bool is_chat) {
  if (!is_chat) {
    constexpr auto kStops = std::to_array<std::string_view>({"\nclass", "\ndef", "\n#", "\nif", "\nprint"});
    size_t end = text.size();
    for (const std::string_view stop : kStops) end = std::min(end, text.find(stop));
    return std::string(text.substr(0, end));
  }
  text = first_fenced_block(text);
  const bool defines = text.find(fmt::format("def {}(", problem.entry_point)) != std::string_view::npos;
  return (defines ? "\n" : "") + std::string(text);
}

std::string humaneval_program(const CodeProblem& problem, std::string_view completion) {
  return fmt::format("{}{}\n{}\ncheck({})\n", problem.prompt, completion, problem.test, problem.entry_point);
}

std::vector<CodeProblem> read_mbpp(const std::string& path) {
  return read_items<CodeProblem>(path, [](const JsonObject& json) {
    const bool is_sanitized = json.has("prompt");
    const std::vector<std::string> tests = json.texts("test_list");
    if (tests.empty()) json.refuse("test_list", "a list of one or more statements");
    std::string setup = json.text("test_setup_code", "");
    if (json.has("test_imports")) setup += fmt::format("{}\n", fmt::join(json.texts("test_imports"), "\n"));
    return CodeProblem{
        fmt::format("{}", json.integer("task_id", {0, int64_t{1} << 53})),
        fmt::format(
            "You are an expert Python programmer, and here is your task: {} Your code should pass these "
            "tests:\n\n{}\n",
            json.text(is_sanitized ? "prompt" : "text"), fmt::join(tests, "\n")),
        {},
        fmt::format("{}\n{}\n", setup, fmt::join(tests, "\n"))};
  });
}

std::string mbpp_prompt(const CodeProblem& problem) {
  return problem.prompt + "[BEGIN]\n";
}

std::string mbpp_completion(std::string_view text, bool is_chat) {
  return std::string(is_chat ? first_fenced_block(text) : text.substr(0, text.find("[DONE]")));
}

std::string mbpp_program(const CodeProblem& problem, std::string_view completion) {
  return fmt::format("{}\n{}", completion, problem.test);
}

std::vector<ChatQuestion> read_mt_bench(const std::string& path) {
  return read_items<ChatQuestion>(path, [](const JsonObject& json) {
    ChatQuestion question{json.integer("question_id", {0, int64_t{1} << 53}), json.text("category"),
                          json.texts("turns")};
    if (question.turns.empty()) json.refuse("turns", "a list of one or more texts");
    return question;
  });
}

}  // namespace lacuna
