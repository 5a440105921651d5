#include "tasks/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "tasks/outside.h"
#include "tasks/questions.h"
#include "tasks/talk.h"
#include "tasks/toy_program.h"
#include "tasks/vocabulary.h"
#include "tasks/word_problems.h"

namespace lacuna {
namespace {

// Sentences that change the number: {0} pronoun, {1} the change, {2} a friend, {3} the pronoun as an object.
constexpr auto kGains = std::to_array<std::string_view>(
    {" {0} finds {1} more.", " {0} buys {1} more.", " {0} gets {1} from {2}.", " {2} gives {3} {1} more."});
constexpr auto kLosses = std::to_array<std::string_view>(
    {" {0} loses {1}.", " {0} sells {1}.", " {0} gives {1} to {2}.", " {2} takes {1} from {3}."});

constexpr int kMinStart = 2;
constexpr int kMaxStart = 20;

constexpr size_t kMinCards = 2;
constexpr size_t kMaxCards = 6;

Sample draw_arithmetic(Draws draws, const TaskOptions& options) {
  const Person& person = draws.pick(kPeople);
  const std::string_view object = draws.pick(kObjects);
  // Three stories in five have two changes, the others one or three.
  const int changes = options.difficulty ? *options.difficulty : std::array{1, 2, 2, 2, 3}[draws.below(5)];
  const int most = options.difficulty ? std::min(kMaxNumber, 10 * *options.difficulty) : kMaxNumber;
  int number = draws.between(kMinStart, std::min(kMaxStart, most));

  Sample sample{fmt::format("{} has {} {}.", person.name, number, object), {}};
  for (int i = 0; i < changes; ++i) {
    // At most half of the range, so that the number can always be gained if it cannot be lost.
    const int amount = draws.between(1, std::min(kMaxChange, most / 2));
    const bool wants_gain = draws.below(2) == 0;
    const bool gains = number < amount || (wants_gain && number + amount <= most);
    const std::string_view sentence = draws.pick(gains ? kGains : kLosses);
    const Person& other = pick_friend(draws, person);
    sample.prompt += fmt::format(fmt::runtime(sentence), person.subject, amount, other.name, person.object);
    const int result = gains ? number + amount : number - amount;
    sample.answer += fmt::format("{}{}{}={}. ", number, gains ? '+' : '-', amount, result);
    number = result;
  }
  sample.prompt += fmt::format(" How many {} does {} have now?", object, person.name);
  sample.answer += fmt::format("The answer is {}.", number);
  return sample;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

bool check_arithmetic(const Sample& sample, std::string_view text) {
  return trim(text) == sample.answer;
}

Sample draw_story(Draws draws, const TaskOptions& options) {
  const std::string_view name = draws.pick(kPeople).name;
  const std::string_view animal = draws.pick(kAnimals);
  const std::string_view place = draws.pick(kPlaces);
  const auto count = static_cast<size_t>(options.difficulty.value_or(1));
  std::vector<std::string_view> things;
  while (things.size() < count) {
    const std::string_view thing = draws.pick(kThings);
    if (std::find(things.begin(), things.end(), thing) == things.end()) things.push_back(thing);
  }
  const std::string_view scene = place.substr(place.find(' ') + 1);  // without the preposition
  Sample sample{fmt::format("Tell a story about {} the {}, {}", name, animal, scene),
                fmt::format("{} the {} lives {}.", name, animal, place)};
  for (size_t i = 0; i < count; ++i) {
    sample.prompt += fmt::format("{} the {}", i + 1 < count ? "," : " and", things[i]);
    const Event& event = draws.pick(kEvents);
    sample.answer += fmt::format("{0}{1} {2} the {3}. {1} is very {4}.", kEventOpening, name, event.verb,
                                 things[i], event.feeling);
  }
  sample.prompt += ".";
  sample.answer += " The end.";
  return sample;
}

/// Splits a story into its opening and one part per day.
std::vector<std::string> story_parts(std::string_view story) {
  std::vector<std::string> parts;
  size_t end = 0;
  while ((end = story.find(kEventOpening)) != std::string_view::npos) {
    parts.emplace_back(story.substr(0, end));
    story.remove_prefix(end + kEventOpening.size());
  }
  parts.emplace_back(story);
  return parts;
}

/// Whether a day of a story equals the reference's, except for another event with its feeling.
bool is_right_day(const std::string& reference_day, const std::string& day) {
  // The reference's verb and feeling are single words that occur nowhere else in its day.
  const auto replaced = [](std::string text, std::string_view from, std::string_view to) {
    return text.replace(text.find(from), from.size(), to);
  };
  const auto has = [&](const Event& event) { return reference_day.find(event.verb) != std::string::npos; };
  const auto reference = std::find_if(kEvents.begin(), kEvents.end(), has);
  if (reference == kEvents.end()) return false;
  return std::any_of(kEvents.begin(), kEvents.end(), [&](const Event& event) {
    const std::string with_verb = replaced(reference_day, reference->verb, event.verb);
    return day == replaced(with_verb, reference->feeling, event.feeling);
  });
}

bool check_story(const Sample& sample, std::string_view text) {
  const std::vector<std::string> reference = story_parts(sample.answer);
  const std::vector<std::string> parts = story_parts(trim(text));
  return parts.size() == reference.size() && parts.front() == reference.front() &&
         std::equal(parts.begin() + 1, parts.end(), reference.begin() + 1,
                    [](const std::string& day, const std::string& of) { return is_right_day(of, day); });
}

std::string_view without_preposition(std::string_view place) {
  return place.substr(place.rfind(' ') + 1);
}

/// `taken` distinct numbers of 0 .. count - 1, in random order.
std::vector<size_t> drawn_from(Draws& draws, size_t count, size_t taken) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = 0; i < std::min(taken, count - 1); ++i)
    std::swap(order[i], order[i + draws.below(count - i)]);
  order.resize(taken);
  return order;
}

/// 0 .. count - 1 in random order.
std::vector<size_t> shuffled(Draws& draws, size_t count) {
  return drawn_from(draws, count, count);
}

/// A card is eight tokens in the zoo's vocabulary: a name, six words and a period. No two cards share a word.
Sample draw_records(Draws draws, const TaskOptions& options) {
  const size_t count = options.difficulty ? static_cast<size_t>(*options.difficulty) + 1
                                          : kMinCards + draws.below(kMaxCards - kMinCards + 1);
  const std::vector<size_t> people = shuffled(draws, kPeople.size());
  const std::vector<size_t> animals = shuffled(draws, kAnimals.size());
  const std::vector<size_t> verbs = shuffled(draws, kEvents.size());
  const std::vector<size_t> things = shuffled(draws, kThings.size());
  const std::vector<size_t> objects = shuffled(draws, kObjects.size());
  const std::vector<size_t> places = shuffled(draws, kPlaces.size());
  const std::vector<size_t> feelings = shuffled(draws, kEvents.size());
  Sample sample;
  std::vector<std::string> cards;
  for (size_t i = 0; i < count; ++i) {
    cards.push_back(fmt::format("{} {} {} {} {} {} {}.", kPeople[people[i]].name, kAnimals[animals[i]],
                                kEvents[verbs[i]].verb, kThings[things[i]], kObjects[objects[i]],
                                without_preposition(kPlaces[places[i]]), kEvents[feelings[i]].feeling));
    sample.prompt += cards.back() + " ";
  }
  sample.prompt += "Tell about";
  const std::vector<size_t> order = shuffled(draws, count);
  for (size_t i = 0; i < count; ++i) {
    sample.prompt += fmt::format(" {}{}", kPeople[people[order[i]]].name, i + 1 < count ? "," : ".");
    sample.answer += (i == 0 ? "" : " ") + cards[order[i]];
  }
  return sample;
}

bool check_records(const Sample& sample, std::string_view text) {
  return trim(text) == sample.answer;
}

// Token counts in the zoo's vocabulary, in which every word of the lists below, with its leading space, is
// one token.
constexpr int32_t kLineTokens = 4;  // " fox lantern Mia."
constexpr int32_t kQuestionTokens = 2;
constexpr int32_t kOpeningTokens = 2;  // "Tell."; each " now" in it adds a token to reach the length

/// Words of the lines of a list: animals, places, verbs and feelings.
std::vector<std::string_view> line_words() {
  std::vector<std::string_view> words(kAnimals.begin(), kAnimals.end());
  for (const std::string_view place : kPlaces) words.push_back(without_preposition(place));
  for (const Event& event : kEvents) words.push_back(event.verb);
  for (const Event& event : kEvents) words.push_back(event.feeling);
  return words;
}

/// Objects of facts; no other line names them.
std::vector<std::string_view> fact_things() {
  std::vector<std::string_view> words(kThings.begin(), kThings.end());
  words.insert(words.end(), kObjects.begin(), kObjects.end());
  return words;
}

Sample draw_retrieval(Draws draws, const TaskOptions& options) {
  static const std::vector<std::string_view> words = line_words();
  static const std::vector<std::string_view> things = fact_things();
  const int32_t length = options.length.value_or(kDefaultLength);
  const int32_t room = length - kOpeningTokens - kQuestionTokens;
  const auto count = static_cast<size_t>(room / kLineTokens);
  const size_t asked = options.depth
                           ? static_cast<size_t>(std::lround(*options.depth * static_cast<double>(count - 1)))
                           : draws.below(count);
  // The line that is asked about and others, at most every second one, are facts.
  const size_t most_facts = things.size() >> (kMaxDifficulty - options.difficulty.value_or(kMaxDifficulty));
  const size_t num_facts = std::min(most_facts, (count + 1) / 2);
  std::vector<bool> is_fact(count);
  for (const size_t line : drawn_from(draws, count, num_facts)) is_fact[line] = true;
  if (!is_fact[asked]) {
    *std::find(is_fact.begin(), is_fact.end(), true) = false;
    is_fact[asked] = true;
  }
  const std::vector<size_t> named = shuffled(draws, things.size());
  size_t next = 0;

  Sample sample{"Tell", {}};
  for (int32_t i = 0; i < room % kLineTokens; ++i) sample.prompt += " now";
  sample.prompt += ".";
  std::string question;
  for (size_t line = 0; line < count; ++line) {
    const std::string_view first = draws.pick(words);
    const std::string_view second = is_fact[line] ? things[named[next++]] : draws.pick(words);
    const std::string_view value = draws.pick(kPeople).name;
    sample.prompt += fmt::format(" {} {} {}.", first, second, value);
    if (line != asked) continue;
    question = fmt::format(" {} {}", first, second);
    sample.answer = fmt::format("{}.", value);
  }
  sample.prompt += question;
  return sample;
}

bool check_retrieval(const Sample& sample, std::string_view text) {
  return trim(text) == sample.answer;
}

/// A sentence about two numbers and the equivalent statements. {0} and {1} are the numbers, {2} one of them,
/// {3} a constant.
struct Instruction {
  std::string_view sentence;
  std::string_view statements;
};

constexpr auto kInstructions = std::to_array<Instruction>({
    {" {0} gets {3} more.", "{0}={0}+{3}"},
    {" {0} loses {3}.", "{0}={0}-{3}"},
    {" {0} gets {1} more.", "{0}={0}+{1}"},
    {" {0} loses {1}.", "{0}={0}-{1}"},
    {" {0} is now {1}.", "{0}={1}"},
    {" {0} gives {3} to {1}.", "{0}={0}-{3}; {1}={1}+{3}"},
    {" {0} and {1} swap.", "c={0}; {0}={1}; {1}=c"},
    {" If {0} has more, {2} gets {3} more.", "{0}>{1}?{2}={2}+{3}"},
    {" If {0} has more, {2} loses {3}.", "{0}>{1}?{2}={2}-{3}"},
});

Sample draw_program(Draws draws, const TaskOptions& options) {
  const int count = options.difficulty ? *options.difficulty : draws.between(2, 3);
  Sample sample{"Tell a program.", {}};
  for (int i = 0; i < count; ++i) {
    const Instruction& instruction = draws.pick(kInstructions);
    const char first = draws.below(2) == 0 ? 'a' : 'b';
    const char second = first == 'a' ? 'b' : 'a';
    const char either = draws.below(2) == 0 ? 'a' : 'b';
    const int constant = draws.between(1, kMaxNumber);
    const auto filled = [&](std::string_view form) {
      return fmt::format(fmt::runtime(form), first, second, either, constant);
    };
    sample.prompt += filled(instruction.sentence);
    sample.answer += (i == 0 ? "" : "; ") + filled(instruction.statements);
  }
  sample.answer += ".";
  return sample;
}

bool check_program(const Sample& sample, std::string_view text) {
  const std::optional<ToyProgram> reference = ToyProgram::parse(sample.answer);
  const std::optional<ToyProgram> program = ToyProgram::parse(text);
  return reference && program && behave_alike(*program, *reference);
}

/// The story and its question; empty if they belong to the other split.
std::optional<std::string> phrase_for(Draws& draws, const NumberProblem& problem, Split split) {
  const bool test = split == Split::kTest;
  Phrased phrased = phrase(draws, problem, test);
  if (is_held_out(phrased.frame) != test || split_of(phrased.text) != split) return std::nullopt;
  return std::move(phrased.text);
}

Sample draw_phrasing(Draws draws, Split split) {
  for (;;) {
    const NumberProblem problem = draw_word_problem(draws);
    std::optional<std::string> text = phrase_for(draws, problem, split);
    if (text) return {*text, worked_answer(problem)};
  }
}

/// A story with intermediate numbers and one hole, at a number or a verb.
Sample draw_infill(Draws draws, Split split) {
  InfillStory story = draw_infill_story(draws);
  while (split_of(story.text) != split) story = draw_infill_story(draws);
  const Blank& blank = draws.pick(story.blanks);
  const std::string before = story.text.substr(0, blank.begin), after = story.text.substr(blank.end);
  const std::string filling = story.text.substr(blank.begin, blank.end - blank.begin);
  Sample sample{before, filling + after};
  sample.hole = filling.size();
  for (const std::string& accepted : blank.accepted) sample.accepted.push_back(accepted + after);
  return sample;
}

bool check_infill(const Sample& sample, std::string_view text) {
  return std::find(sample.accepted.begin(), sample.accepted.end(), trim(text)) != sample.accepted.end();
}

// System turns that do not change the answer, and those that ask for the number alone.
constexpr auto kNeutralSystems = std::to_array<std::string_view>(
    {"You are a helpful assistant.", "You solve short stories about numbers.", "Answer step by step."});
constexpr auto kNumberSystems =
    std::to_array<std::string_view>({"Answer with the number only.", "Answer with the number only.",
                                     "Only give the number.", "Answer with a number."});

/// A conversation about one story; the last turn is its question or, after one or two turns, a follow-up.
Sample draw_number_chat(Draws& draws, Split split) {
  Sample sample;
  const uint32_t system = draws.below(4);  // of four: two without a system turn, one of each kind
  if (system == 2) sample.history.push_back({"system", std::string(draws.pick(kNeutralSystems))});
  if (system == 3) sample.history.push_back({"system", std::string(draws.pick(kNumberSystems))});
  const auto answer = [&](const NumberProblem& problem) {
    return system == 3 ? std::to_string(problem.result()) : worked_answer(problem);
  };
  NumberProblem problem = draw_word_problem(draws);
  std::optional<std::string> text;
  while (!text) text = phrase_for(draws, problem, split);
  sample.prompt = *text;
  sample.answer = answer(problem);
  for (int follow_ups = draws.between(0, 2); follow_ups > 0; --follow_ups) {
    sample.history.push_back({"user", sample.prompt});
    sample.history.push_back({"assistant", sample.answer});
    const Change change = draw_change(draws, problem);
    sample.prompt = phrase_follow_up(draws, problem, change);
    problem.start = problem.result();
    problem.changes = {change};
    sample.answer = answer(problem);
  }
  return sample;
}

Sample draw_chat(Draws draws, Split split) {
  const uint32_t kind = draws.below(10);
  if (kind == 0) return draw_small_talk(draws);
  return kind <= 2 ? draw_story_request(draws) : draw_number_chat(draws, split);
}

bool check_chat(const Sample& sample, std::string_view text) {
  return check_reply(sample, trim(text));
}

/// Samples until one belongs to the split. Each task has its own random streams, so samples of different
/// tasks with equal indices are independent.
template <Sample (*draw)(Draws, const TaskOptions&), uint64_t task_number>
Sample draw_of_split(Split split, uint64_t seed, uint64_t index, const TaskOptions& options) {
  for (uint64_t attempt = 0;; ++attempt) {
    Sample sample = draw(Draws(RngStream(seed, task_number, index, attempt)), options);
    if (split_of(sample.prompt) == split) return sample;
  }
}

/// Samples a task in which the split also decides the wording; `draw` ensures the split itself.
template <Sample (*draw)(Draws, Split), uint64_t task_number>
Sample draw_worded(Split split, uint64_t seed, uint64_t index, const TaskOptions& /*options*/) {
  return draw(Draws(RngStream(seed, task_number, index, static_cast<uint64_t>(split))), split);
}

constexpr auto kTasks = std::to_array<Task>({
    {"arithmetic", "short stories about a changing number, with worked steps", 32, 8, false,
     draw_of_split<draw_arithmetic, 1>, check_arithmetic},
    {"stories", "four sentences about a name, an animal, a place and a thing", 32, 12, false,
     draw_of_split<draw_story, 2>, check_story},
    {"records", "cards with six words about each of two to six people, in the order asked for", 56, 0, false,
     draw_of_split<draw_records, 3>, check_records},
    {"retrieval", "one fact out of a long list of lines", 8, 0, true, draw_of_split<draw_retrieval, 4>,
     check_retrieval},
    {"phrasings", "the stories of arithmetic in other words", 32, 0, false, draw_worded<draw_phrasing, 6>,
     check_arithmetic},
    {"chat", "conversations about number stories, requests for stories, small talk", 48, 0, false,
     draw_worded<draw_chat, 7>, check_chat},
    {"infill", "stories in which a number or a verb is to be restored", 72, 0, false,
     draw_worded<draw_infill, 8>, check_infill},
    {"outside", "300 questions about numbers that were written by hand, apart from all training", 48, 0,
     false, draw_outside, check_outside},
    {"programs", "small programs in a toy language, run on numbers that nobody has seen", 40, 12, false,
     draw_of_split<draw_program, 5>, check_program},
    {"questions", "questions about numbers in many wordings, with worked steps, and conversations about them",
     56, 0, false, draw_worded<draw_question_sample, 9>, check_question},
});

}  // namespace

std::span<const Task> tasks() {
  return kTasks;
}

std::string task_names() {
  std::string names;
  for (const Task& task : kTasks) names += fmt::format("{}{}", names.empty() ? "" : ", ", task.name);
  return names;
}

const Task& find_task(std::string_view name) {
  const auto* const found =
      std::find_if(kTasks.begin(), kTasks.end(), [&](const Task& task) { return task.name == name; });
  if (found != kTasks.end()) return *found;
  throw InputError("task '{}' is not known; the tasks are {}", name, task_names());
}

Sample Task::generate(Split split, uint64_t seed, uint64_t index, const TaskOptions& options) const {
  check_options(*this, options);
  return draw(split, seed, index, options);
}

int32_t Task::room(const TaskOptions& options) const {
  const int32_t needed = level_positions * (options.difficulty.value_or(0) + 1);
  return std::max(answer_positions, (needed + 7) / 8 * 8);
}

void check_options(const Task& task, const TaskOptions& options) {
  const auto refuse_other_tasks = [&](std::string_view flag, auto value) {
    if (!task.has_lengths) {
      throw InputError("--{} {}: task '{}' has no list of facts; expected retrieval", flag, value, task.name);
    }
  };
  if (options.length) {
    refuse_other_tasks("length", *options.length);
    if (*options.length < kMinLength || *options.length > kMaxLength) {
      throw InputError("--length {}: expected {} to {} tokens", *options.length, kMinLength, kMaxLength);
    }
  }
  if (options.depth) {
    refuse_other_tasks("depth", *options.depth);
    if (!(*options.depth >= 0 && *options.depth <= 1)) {
      throw InputError("--depth {}: expected 0 (the first fact) to 1 (the last)", *options.depth);
    }
  }
  if (options.difficulty && (*options.difficulty < 1 || *options.difficulty > kMaxDifficulty)) {
    throw InputError("--difficulty {}: expected 1 (easiest) to {}", *options.difficulty, kMaxDifficulty);
  }
}

}  // namespace lacuna
