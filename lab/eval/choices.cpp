#include "eval/choices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "eval/benchmarks.h"

namespace lacuna {
namespace {

constexpr std::string_view kBlanks = " \t\n\v\f\r";

char lower(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

std::string in_lower_case(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
}

std::string with_replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (size_t at; (at = text.find(from)) != std::string_view::npos; text.remove_prefix(at + from.size())) {
    result += text.substr(0, at);
    result += to;
  }
  return result += text;
}

/// Removes WikiHow's marks like lm-evaluation-harness: " [title]" becomes ". ", other brackets go.
std::string without_marks(std::string_view text) {
  std::string plain = with_replaced(trimmed(text), " [title]", ". ");
  for (size_t open = plain.find('['); open != std::string::npos; open = plain.find('[', open)) {
    const size_t close = plain.find(']', open);
    if (close == std::string::npos) break;
    plain.erase(open, close + 1 - open);
  }
  return with_replaced(plain, "  ", " ");
}

/// First letter upper case, others lower.
std::string sentence_case(std::string_view text) {
  std::string result = in_lower_case(text);
  if (!result.empty()) {
    result[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(result[0])));
  }
  return result;
}

/// Throws InputError for a wrong number of options, or if the question and options are too long.
void check_item(const JsonObject& object, std::string_view options_key, const ChoiceItem& item) {
  if (item.options.size() < 2 || item.options.size() > kMaxItemOptions) {
    object.refuse(options_key, fmt::format("2 to {} texts", kMaxItemOptions));
  }
  size_t bytes = item.question.size() + item.worked.size();
  for (const std::string& option : item.options) bytes += option.size();
  if (bytes > kMaxQuestionBytes) {
    throw InputError("{}: expected a question and options of at most {} bytes", object.file(),
                     kMaxQuestionBytes);
  }
}

ChoiceItem read_mmlu_pro(const nlohmann::json&, const JsonObject& object, RngStream) {
  ChoiceItem item{object.text("category"), object.text("question"), object.texts("options"), 0,
                  object.text("cot_content", "")};
  while (!item.options.empty() && item.options.back() == "N/A") item.options.pop_back();  // fills up to ten
  check_item(object, "options", item);
  item.answer =
      static_cast<size_t>(object.integer("answer_index", {0, static_cast<int64_t>(item.options.size()) - 1}));
  const std::string letter(1, static_cast<char>('A' + item.answer));
  if (object.text("answer", letter) != letter) object.refuse("answer", "the letter of answer_index");
  constexpr std::string_view kBegin = "A: ";
  if (item.worked.starts_with(kBegin)) item.worked.erase(0, kBegin.size());
  return item;
}

ChoiceItem read_piqa(const nlohmann::json&, const JsonObject& object, RngStream) {
  ChoiceItem item{"", object.text("goal"), {object.text("sol1"), object.text("sol2")}, 0, ""};
  check_item(object, "sol1", item);
  item.answer = static_cast<size_t>(object.integer("label", {0, 1}));
  return item;
}

ChoiceItem read_arc(const nlohmann::json&, const JsonObject& object, RngStream) {
  const JsonObject choices = object.object("choices");
  ChoiceItem item{"", object.text("question"), choices.texts("text"), 0, ""};
  check_item(choices, "text", item);
  const std::vector<std::string> labels = choices.texts("label");
  if (labels.size() != item.options.size()) choices.refuse("label", "as many as there are texts");
  const auto found = std::find(labels.begin(), labels.end(), object.text("answerKey"));
  if (found == labels.end()) object.refuse("answerKey", "one of choices.label");
  item.answer = static_cast<size_t>(found - labels.begin());
  return item;
}

/// The file has the correct answer first, so the options are shuffled by the seed; the harness has no seed.
ChoiceItem read_gpqa(const nlohmann::json&, const JsonObject& object, RngStream order) {
  ChoiceItem item{"", trimmed(object.text("Question")), {}, 0, ""};
  for (const char* const key :
       {"Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"}) {
    item.options.push_back(trimmed(object.text(key)));
  }
  check_item(object, "Correct Answer", item);
  for (size_t last = item.options.size() - 1; last > 0; --last) {
    const size_t other = order.below(last, static_cast<uint32_t>(last) + 1);
    std::swap(item.options[last], item.options[other]);
    if (item.answer == last) {
      item.answer = other;
    } else if (item.answer == other) {
      item.answer = last;
    }
  }
  return item;
}

ChoiceItem read_hellaswag(const nlohmann::json& line, const JsonObject& object, RngStream) {
  const std::string story = object.text("ctx_a") + " " + sentence_case(object.text("ctx_b", ""));
  ChoiceItem item{"", without_marks(object.text("activity_label") + ": " + story), {}, 0, ""};
  for (const std::string& ending : object.texts("endings")) item.options.push_back(without_marks(ending));
  check_item(object, "endings", item);
  const int64_t most = static_cast<int64_t>(item.options.size()) - 1;
  // The label is a number in the original file, a string in its copy on the Hugging Face hub.
  if (const auto label = line.find("label"); label != line.end() && label->is_string()) {
    const std::string digit = object.text("label");
    if (digit.size() != 1 || digit[0] < '0' || digit[0] > '0' + most) {
      object.refuse("label", fmt::format("\"0\" to \"{}\"", most));
    }
    item.answer = static_cast<size_t>(digit[0] - '0');
  } else {
    item.answer = static_cast<size_t>(object.integer("label", {0, most}));
  }
  return item;
}

constexpr ChoicePrompt kQuestionAndAnswer{"", "Question: {question}\nAnswer:", "", ""};

// FlashDLM, appendix C.5, without the paper's bold type. The paper does not show how options are listed.
constexpr std::string_view kArcRequest =
    "You are a careful reasoning assistant. A commonsense sentence is shown with a blank and {count} Answers "
    "that could fill the blank. Think step by step about which option makes the sentence most sensible, then "
    "decide.\n\nSentence: {question}\n\n{options}\n\nWhat you should do:\n\n"
    "- Briefly explain your reasoning.\n"
    "- On a new line, write exactly: \"The final answer is [answer]\" where [answer] is either {names}. Do "
    "not output anything after that line.";
constexpr std::string_view kGpqaRequest =
    "You are a careful reasoning assistant. A question is shown with {count} possible answers. Think step by "
    "step about which option is correct, then decide.\n\nQuestion: {question}\n\n{options}\n\n"
    "In your response:\n\n"
    "- First reason and explain your reasoning briefly before providing the final answer to the question.\n"
    "- Then at the end of your explanation, on a new line, write exactly: \"The final answer is [answer]\" "
    "where [answer] is one of {names}. Do not output anything after that line.";
constexpr std::string_view kHellaSwagRequest =
    "You are a careful reasoning assistant. A commonsense sentence is shown with a blank and {count} Endings "
    "that could fill the blank. Think step by step about which option makes the sentence most sensible, then "
    "decide.\n\nSentence: {question}\n\n{options}\n\nIn your response:\n\n"
    "1. First reason and explain your reasoning briefly before answering this question.\n"
    "2. Then at the end of your explanation, on a new line, write exactly: \"The final answer is [answer]\" "
    "where [answer] is either {names}. Do not output anything after that line.";
constexpr std::string_view kPiqaRequest =
    "Below is an instruction that describes a task. Write a response that appropriately completes the "
    "request.\n\nInstruction: {question}\n\n{options}\n\n"
    "Your response should end with \"The final answer is [answer]\" where [answer] is the response to the "
    "problem.";
constexpr std::string_view kMmluProDescription =
    "The following are multiple choice questions (with answers) about {subject}. Think step by step and then "
    "finish your answer with \"the answer is (X)\" where X is the correct letter choice.\n\n";

const std::array kBenchmarks = {
    ChoiceBenchmark{"arc-challenge", read_arc, kQuestionAndAnswer, false, {"", kArcRequest, "Answer#", ": "}},
    ChoiceBenchmark{"arc-easy", read_arc, kQuestionAndAnswer, false, {"", kArcRequest, "Answer#", ": "}},
    ChoiceBenchmark{"gpqa",
                    read_gpqa,
                    ChoicePrompt{"", "Question: {question}\nChoices:\n{options}\nAnswer:", "(@)", " "},
                    true,
                    {"", kGpqaRequest, "Answer#", ": "}},
    ChoiceBenchmark{"hellaswag",
                    read_hellaswag,
                    ChoicePrompt{"", "{question}", "", ""},
                    false,
                    {"", kHellaSwagRequest, "Ending#", ": "}},
    ChoiceBenchmark{"mmlu-pro",
                    read_mmlu_pro,
                    std::nullopt,
                    false,
                    {kMmluProDescription, "Question:\n{question}\nOptions:\n{options}\nAnswer:", "@", ". ",
                     " Let's think step by step."},
                    256,
                    true},
    ChoiceBenchmark{"piqa", read_piqa, kQuestionAndAnswer, false, {"", kPiqaRequest, "Solution#", ": "}},
};

std::string names_of(const ChoicePrompt& prompt, size_t count) {
  std::string names;
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) names += count == 2 ? " or " : i + 1 == count ? ", or " : ", ";
    names += option_name(prompt, i);
  }
  return names;
}

std::string listed_options(const ChoicePrompt& prompt, const ChoiceItem& item) {
  std::string lines;
  for (size_t i = 0; i < item.options.size(); ++i) {
    if (i > 0) lines += '\n';
    lines += option_name(prompt, i);
    lines += prompt.separator;
    lines += item.options[i];
  }
  return lines;
}

std::string count_in_words(size_t count) {
  constexpr auto kWords = std::to_array<std::string_view>({"two", "three", "four", "five", "six"});
  return count - 2 < kWords.size() ? std::string(kWords[count - 2]) : std::to_string(count);
}

/// Fills placeholders once: placeholders within the inserted text are not replaced.
std::string fill_prompt(std::string_view text, const ChoicePrompt& prompt, const ChoiceItem& item) {
  std::string result;
  for (size_t open; (open = text.find('{')) != std::string_view::npos;) {
    const size_t close = text.find('}', open);
    const std::string_view what = text.substr(open + 1, close - open - 1);
    result += text.substr(0, open);
    if (what == "question") result += item.question;
    if (what == "subject") result += item.subject;
    if (what == "options") result += listed_options(prompt, item);
    if (what == "names") result += names_of(prompt, item.options.size());
    if (what == "count") result += count_in_words(item.options.size());
    text.remove_prefix(close + 1);
  }
  return result += text;
}

template <typename Answer>
std::string with_shots(const ChoicePrompt& prompt, const Shots& shots, const ChoiceItem& item,
                       Answer&& answer) {
  std::string text = fill_prompt(prompt.description, prompt, item);
  size_t shown = 0;
  for (const ChoiceItem& solved : shots.solved) {
    if (shown == shots.count) break;
    if (solved.subject != item.subject) continue;
    text += fmt::format("{} {}\n\n", fill_prompt(prompt.item, prompt, solved), answer(solved));
    ++shown;
  }
  if (shown < shots.count) {
    throw InputError("--shots {}: {} holds {} solved questions{}", shots.count, shots.source, shown,
                     item.subject.empty() ? "" : fmt::format(" of '{}'", item.subject));
  }
  return text + fill_prompt(prompt.item, prompt, item) + std::string(prompt.lead);
}

/// Position after the first (`last`: the last) occurrence of `phrase` and white space behind it.
size_t after_phrase(std::string_view lower_text, std::string_view phrase, bool last) {
  const size_t at = last ? lower_text.rfind(phrase) : lower_text.find(phrase);
  if (at == std::string_view::npos) return at;
  return std::min(lower_text.find_first_not_of(kBlanks, at + phrase.size()), lower_text.size());
}

std::optional<size_t> letter_at(std::string_view text, size_t at, size_t count) {
  if (at < text.size() && text[at] >= 'A' && static_cast<size_t>(text[at] - 'A') < count) {
    return static_cast<size_t>(text[at] - 'A');
  }
  return {};
}

std::optional<size_t> chosen_letter(std::string_view text, size_t count) {
  const std::string lower_text = in_lower_case(text);
  constexpr std::string_view kPhrase = "answer is";
  for (size_t from = 0; (from = lower_text.find(kPhrase, from)) != std::string::npos;) {
    from += kPhrase.size();
    size_t at = std::min(lower_text.find_first_not_of(kBlanks, from), text.size());
    if (at < text.size() && text[at] == '(') ++at;
    if (const auto letter = letter_at(text, at, count)) return letter;
  }
  if (const auto letter = letter_at(text, after_phrase(lower_text, "answer:", true), count)) return letter;
  for (size_t at = text.size(); at-- > 0;) {
    const bool alone =
        (at == 0 || !is_word(text[at - 1])) && (at + 1 == text.size() || !is_word(text[at + 1]));
    if (!alone) continue;
    if (const auto letter = letter_at(text, at, count)) return letter;
  }
  return {};
}

/// Lower case, without punctuation and white space at both ends.
std::string bare(std::string_view text) {
  const auto is_bare = [](char c) { return is_word(c) || static_cast<unsigned char>(c) >= 0x80; };
  const auto begin = std::find_if(text.begin(), text.end(), is_bare);
  const auto end = std::find_if(text.rbegin(), text.rend(), is_bare).base();
  return begin < end ? in_lower_case(std::string_view(begin, end)) : std::string();
}

/// The number at the start of `rest` after `word`: 12 for "answer 12" after "answer".
std::optional<size_t> number_after(std::string_view rest, std::string_view word) {
  if (!rest.starts_with(word)) return {};
  rest.remove_prefix(word.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(kBlanks), rest.size()));
  size_t number = 0, digits = 0;
  while (digits < rest.size() && digits < 3 && rest[digits] >= '0' && rest[digits] <= '9') {
    number = 10 * number + static_cast<size_t>(rest[digits++] - '0');
  }
  return digits > 0 ? std::optional(number) : std::nullopt;
}

std::optional<size_t> chosen_name(const ChoicePrompt& prompt, const ChoiceItem& item, std::string_view text) {
  const std::string lower_text = in_lower_case(text);
  const size_t at = after_phrase(lower_text, "final answer is", true);
  if (at == std::string::npos) return {};
  const std::string_view rest = std::string_view(lower_text).substr(at);
  const std::string answer = bare(rest.substr(0, rest.find('\n')));
  const std::string word = in_lower_case(prompt.name.substr(0, prompt.name.find('#')));
  if (const auto number = number_after(answer, word)) {
    return *number >= 1 && *number <= item.options.size() ? std::optional(*number - 1) : std::nullopt;
  }
  for (size_t i = 0; i < item.options.size(); ++i) {
    if (!answer.empty() && bare(item.options[i]) == answer) return i;
  }
  return {};
}

}  // namespace

std::span<const ChoiceBenchmark> choice_benchmarks() {
  return kBenchmarks;
}

const ChoiceBenchmark* find_choice_benchmark(std::string_view name) {
  const auto found = std::find_if(kBenchmarks.begin(), kBenchmarks.end(),
                                  [&](const ChoiceBenchmark& benchmark) { return benchmark.name == name; });
  return found == kBenchmarks.end() ? nullptr : &*found;
}

std::vector<ChoiceItem> read_choices(const ChoiceBenchmark& benchmark, const std::string& path,
                                     uint64_t seed) {
  std::vector<ChoiceItem> items;
  read_json_lines(path, [&](const nlohmann::json& line, const JsonObject& object) {
    items.push_back(benchmark.read(line, object, RngStream(seed, items.size())));
  });
  return items;
}

std::string option_name(const ChoicePrompt& prompt, size_t option) {
  std::string name;
  for (const char c : prompt.name) {
    if (c == '#') {
      name += std::to_string(option + 1);
    } else {
      name += c == '@' ? static_cast<char>('A' + option) : c;
    }
  }
  return name;
}

std::string likelihood_prompt(const ChoiceBenchmark& benchmark, const Shots& shots, const ChoiceItem& item) {
  expects(benchmark.likelihood.has_value(), "likelihood_prompt: a benchmark that has one");
  return with_shots(*benchmark.likelihood, shots, item,
                    [&](const ChoiceItem& solved) { return scored_text(benchmark, solved, solved.answer); });
}

std::string generation_prompt(const ChoiceBenchmark& benchmark, const Shots& shots, const ChoiceItem& item) {
  return with_shots(benchmark.generation, shots, item,
                    [](const ChoiceItem& solved) { return solved.worked; });
}

std::string scored_text(const ChoiceBenchmark& benchmark, const ChoiceItem& item, size_t option) {
  return benchmark.scores_names ? option_name(*benchmark.likelihood, option) : item.options[option];
}

std::optional<size_t> chosen_option(const ChoiceBenchmark& benchmark, const ChoiceItem& item,
                                    std::string_view text) {
  if (benchmark.generation.name == "@") {
    constexpr std::string_view kNext = "Question:";  // a base model continues with another question
    return chosen_letter(text.substr(0, text.find(kNext)), item.options.size());
  }
  return chosen_name(benchmark.generation, item, text);
}

}  // namespace lacuna
