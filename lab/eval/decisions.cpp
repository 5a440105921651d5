#include "eval/decisions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "engine/decide.h"
#include "tasks/vocabulary.h"
#include "tasks/word_problems.h"

namespace lacuna {
namespace {

constexpr uint64_t kDecisionSamples = 9;  // apart from the streams of the other tasks
constexpr size_t kBins = 15;
constexpr size_t kFewQuestions = 500;  // with fewer questions, bins of equal width would be too small

/// The parts of a story: somebody's things, an animal, or both.
enum class Part : uint8_t { kThings, kAnimal, kBoth };

/// The facts of a story.
struct Facts {
  Part part = Part::kBoth;
  std::string_view owner, object;
  int number = 0;   // after all changes
  int changes = 0;  // 0 to 3
  std::string_view animal_name, animal, place, thing;
  Event event;
};

std::string tell(Draws& draws, Facts& facts) {
  facts.part = draws.pick(std::to_array({Part::kThings, Part::kAnimal, Part::kBoth, Part::kBoth}));
  const Person& owner = draws.pick(kPeople);
  const Person& other = pick_friend(draws, owner);
  facts.owner = owner.name;
  facts.animal_name = other.name;
  facts.object = draws.pick(kObjects);
  facts.animal = draws.pick(kAnimals);
  facts.place = draws.pick(kPlaces);
  facts.thing = draws.pick(kThings);
  facts.event = draws.pick(kEvents);
  facts.number = draws.between(2, 20);
  facts.changes = draws.between(0, 3);
  std::string story = fmt::format("{} has {} {}.", facts.owner, facts.number, facts.object);
  for (int i = 0; i < facts.changes; ++i) {
    const int amount = draws.between(1, kMaxChange);
    const bool gains = facts.number < amount || (draws.below(2) == 0 && facts.number + amount <= kMaxNumber);
    story += gains ? fmt::format(" {} finds {} more.", owner.subject, amount)
                   : fmt::format(" {} loses {}.", owner.subject, amount);
    facts.number += gains ? amount : -amount;
  }
  std::string scene = fmt::format("{0} the {1} lives {2}.{3}{0} {4} the {5}. {0} is very {6}.",
                                  facts.animal_name, facts.animal, facts.place, kEventOpening,
                                  facts.event.verb, facts.thing, facts.event.feeling);
  if (facts.part == Part::kThings) return story;
  if (facts.part == Part::kAnimal) return scene;
  return draws.below(2) == 0 ? story + " " + scene : scene + " " + story;
}

/// A question with the index of its correct option.
struct Asked {
  DecisionQuestion question;
  size_t answer = 0;
};

/// A question with the correct word among others of a list, in random order.
template <typename List, typename WordOf>
Asked ask_choice(Draws& draws, std::string instructions, const List& list, const WordOf& word_of,
                 std::string_view right) {
  const auto count = static_cast<size_t>(draws.between(2, 5));
  std::vector<std::string_view> words = {right};
  while (words.size() < count) {
    const std::string_view word = word_of(draws.pick(list));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
  }
  std::swap(words[0], words[draws.below(count)]);
  Asked asked;
  asked.question = {QuestionKind::kChoice, std::move(instructions), {}};
  for (const std::string_view word : words) {
    if (word == right) asked.answer = asked.question.options.size();
    asked.question.options.push_back({std::string(word), {}});
  }
  return asked;
}

/// Index of a random question that fits the story's parts: the first `of_animal` are about the animal, the
/// next `of_things` about the things.
uint32_t pick_question(Draws& draws, const Facts& facts, uint32_t of_animal, uint32_t of_things) {
  if (facts.part == Part::kAnimal) return draws.below(of_animal);
  if (facts.part == Part::kThings) return of_animal + draws.below(of_things);
  return draws.below(of_animal + of_things);
}

/// " now" or nothing, at random.
std::string_view perhaps_now(Draws& draws) {
  return draws.below(2) == 0 ? " now" : "";
}

constexpr auto kSame = [](std::string_view word) { return word; };

Asked ask_predicate(Draws& draws, const Facts& facts) {
  const bool is_true = draws.below(2) == 0;
  const auto another = [&](const auto& list, const auto& word_of, std::string_view right) {
    std::string_view word = right;
    while (word == right && !is_true) word = word_of(draws.pick(list));
    return word;
  };
  std::string text;
  bool holds = is_true;
  switch (pick_question(draws, facts, 3, 1)) {
    case 0:
      text = fmt::format("Is {} {}?", facts.animal_name,
                         another(
                             kEvents, [](const Event& event) { return event.feeling; }, facts.event.feeling));
      break;
    case 1:
      text = fmt::format("Does {} live {}?", facts.animal_name, another(kPlaces, kSame, facts.place));
      break;
    case 2:
      text = fmt::format("Is {} a {}?", facts.animal_name, another(kAnimals, kSame, facts.animal));
      break;
    default: {
      const int distance = draws.between(0, 5);
      const int bound = is_true ? std::max(0, facts.number - 1 - distance) : facts.number + distance;
      holds = facts.number > bound;
      text = fmt::format("Does {} have more than {} {}{}?", facts.owner, bound, facts.object,
                         perhaps_now(draws));
    }
  }
  return {make_predicate(std::move(text)), holds ? size_t{0} : size_t{1}};
}

Asked ask_what(Draws& draws, const Facts& facts) {
  switch (pick_question(draws, facts, 2, 2)) {
    case 0:
      return ask_choice(
          draws, fmt::format("How does {} feel?", facts.animal_name), kEvents,
          [](const Event& event) { return event.feeling; }, facts.event.feeling);
    case 1:
      return ask_choice(draws, fmt::format("Where does {} live?", facts.animal_name), kPlaces, kSame,
                        facts.place);
    case 2:
      return ask_choice(draws, fmt::format("What does {} have?", facts.owner), kObjects, kSame, facts.object);
    default:
      return ask_choice(
          draws, fmt::format("Who has {}?", facts.object), kPeople,
          [](const Person& person) { return person.name; }, facts.owner);
  }
}

Asked ask_score(Draws& draws, const Facts& facts) {
  constexpr std::string_view kTimes[] = {"never", "one time", "two times", "three times"};
  constexpr int kStep = 10;
  Asked asked;
  asked.question.kind = QuestionKind::kScore;
  if (draws.below(2) == 0) {
    asked.question.instructions = fmt::format("How often does the number of {} change?", facts.object);
    for (const std::string_view times : kTimes) asked.question.options.push_back({std::string(times), {}});
    asked.answer = static_cast<size_t>(facts.changes);
    return asked;
  }
  asked.question.instructions =
      fmt::format("How many {} does {} have{}?", facts.object, facts.owner, perhaps_now(draws));
  for (int least = 0; least <= kMaxNumber; least += kStep)
    asked.question.options.push_back({fmt::format("{} to {}", least, least + kStep - 1), {}});
  asked.answer = static_cast<size_t>(facts.number / kStep);
  return asked;
}

DecisionSample draw_sample(Draws draws, int most_questions) {
  Facts facts;
  DecisionSample sample;
  sample.story = tell(draws, facts);
  constexpr int kMaxAttempts = 200;  // a story has few different questions
  const int count = draws.between(1, most_questions);
  for (int attempt = 0; attempt < kMaxAttempts && std::ssize(sample.questions) < count; ++attempt) {
    // The last kind, scores, asks for numbers of things.
    const uint32_t kind =
        draws.below(facts.part == Part::kAnimal ? kNumQuestionKinds - 1 : kNumQuestionKinds);
    Asked asked = kind == 0   ? ask_predicate(draws, facts)
                  : kind == 1 ? ask_what(draws, facts)
                              : ask_score(draws, facts);
    const auto is_same = [&](const DecisionQuestion& other) {
      return other.instructions == asked.question.instructions;
    };
    if (std::any_of(sample.questions.begin(), sample.questions.end(), is_same)) continue;
    sample.questions.push_back(std::move(asked.question));
    sample.answers.push_back(asked.answer);
  }
  return sample;
}

/// A question's largest probability, and whether it was that of the correct option.
struct Confident {
  double confidence = 0;
  bool is_right = false;
};

double calibration_error(std::vector<Confident> answers) {
  const bool has_equal_bins = answers.size() < kFewQuestions;
  std::stable_sort(answers.begin(), answers.end(),
                   [](const Confident& a, const Confident& b) { return a.confidence < b.confidence; });
  std::array<double, kBins> confidence = {}, right = {};
  for (size_t i = 0; i < answers.size(); ++i) {
    const size_t bin = has_equal_bins
                           ? i * kBins / answers.size()
                           : static_cast<size_t>(answers[i].confidence * static_cast<double>(kBins));
    confidence.at(std::min(bin, kBins - 1)) += answers[i].confidence;
    right.at(std::min(bin, kBins - 1)) += answers[i].is_right ? 1 : 0;
  }
  double sum = 0;  // weighted by bin size, so bins need no means
  for (size_t bin = 0; bin < kBins; ++bin) sum += std::abs(right[bin] - confidence[bin]);
  return sum / static_cast<double>(answers.size());
}

double nll_of(std::span<const JudgedDecision> decisions, QuestionKind kind, double temperature) {
  constexpr double kMin = 1e-12;
  double sum = 0;
  for (const JudgedDecision& decision : decisions) {
    if (decision.question.kind == kind)
      sum -= std::log(std::max(kMin, decision.probabilities(temperature)[decision.answer]));
  }
  return sum;
}

/// Golden-section search on ln T.
double fit_temperature(std::span<const JudgedDecision> decisions, QuestionKind kind) {
  constexpr double kRatio = 0.6180339887498949;
  constexpr int kIterations = 60;
  double low = std::log(0.05), high = std::log(20.0);
  const auto nll = [&](double log_temperature) { return nll_of(decisions, kind, std::exp(log_temperature)); };
  double left = high - kRatio * (high - low), right = low + kRatio * (high - low);
  double at_left = nll(left), at_right = nll(right);
  for (int i = 0; i < kIterations; ++i) {
    if (at_left <= at_right) {
      high = std::exchange(right, left);
      at_right = at_left;
      left = high - kRatio * (high - low);
      at_left = nll(left);
    } else {
      low = std::exchange(left, right);
      at_left = at_right;
      right = low + kRatio * (high - low);
      at_right = nll(right);
    }
  }
  return std::exp((low + high) / 2);
}

}  // namespace

DecisionSample draw_decisions(Split split, uint64_t seed, uint64_t index, int most_questions) {
  for (uint64_t attempt = 0;; ++attempt) {
    DecisionSample sample =
        draw_sample(Draws(RngStream(seed, kDecisionSamples, index, attempt)), most_questions);
    if (split_of(sample.story) == split) return sample;
  }
}

std::vector<double> JudgedDecision::probabilities(double temperature) const {
  return answer_of(question, logprobs, both_orders, temperature).probabilities;
}

DecisionQuality measure_decisions(std::span<const JudgedDecision> decisions,
                                  const DecisionTemperatures& temperatures) {
  DecisionQuality quality;
  quality.count = decisions.size();
  if (decisions.empty()) return quality;
  const auto count = static_cast<double>(decisions.size());
  std::vector<Confident> answers;
  for (const JudgedDecision& decision : decisions) {
    const std::vector<double> probabilities = decision.probabilities(temperatures.of(decision.question.kind));
    const auto best = std::max_element(probabilities.begin(), probabilities.end());
    const bool is_right = static_cast<size_t>(best - probabilities.begin()) == decision.answer;
    answers.push_back({*best, is_right});
    quality.accuracy += (is_right ? 1 : 0) / count;
    quality.label_mass += decision.label_mass / count;
    for (size_t option = 0; option < probabilities.size(); ++option) {
      const double error = probabilities[option] - (option == decision.answer ? 1 : 0);
      quality.brier += error * error / count;
    }
  }
  quality.ece = calibration_error(std::move(answers));
  for (size_t kind = 0; kind < kNumQuestionKinds; ++kind) {
    const auto each = static_cast<QuestionKind>(kind);
    quality.nll += nll_of(decisions, each, temperatures.of(each)) / count;
  }
  return quality;
}

DecisionTemperatures fit_temperatures(std::span<const JudgedDecision> decisions) {
  DecisionTemperatures temperatures;
  temperatures.is_fitted = true;
  for (size_t kind = 0; kind < kNumQuestionKinds; ++kind) {
    const auto each = static_cast<QuestionKind>(kind);
    const bool has_any = std::any_of(decisions.begin(), decisions.end(), [&](const JudgedDecision& decision) {
      return decision.question.kind == each;
    });
    // Rounded to f32, like the value that is read from the file.
    if (has_any) temperatures.values[kind] = static_cast<float>(fit_temperature(decisions, each));
  }
  return temperatures;
}

nlohmann::ordered_json to_json(const DecisionQuality& quality) {
  return {{"questions", quality.count}, {"accuracy", quality.accuracy}, {"brier", quality.brier},
          {"ece", quality.ece},         {"nll", quality.nll},           {"label_mass", quality.label_mass}};
}

}  // namespace lacuna
