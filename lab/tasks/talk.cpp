#include "tasks/talk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace lacuna {
namespace {

struct SmallTalk {
  std::string_view prompt, answer;
};

constexpr std::string_view kGreeting =
    "Hello! Tell me a short story about numbers and ask how many are left.";
constexpr std::string_view kAbout =
    "I am a tiny model. I solve short stories about numbers and tell stories about animals.";
constexpr auto kSmallTalk = std::to_array<SmallTalk>({
    {"Hello", kGreeting},
    {"Hello!", kGreeting},
    {"Hi", kGreeting},
    {"Hi!", kGreeting},
    {"Hi there", kGreeting},
    {"Who are you?", kAbout},
    {"What are you?", kAbout},
    {"What can you do?", kAbout},
    {"Help", kAbout},
    {"Thanks", "You are welcome!"},
    {"Thank you", "You are welcome!"},
    {"Thank you!", "You are welcome!"},
});

constexpr auto kStoryRequests = std::to_array<std::string_view>({
    "Tell a story about {0} the {1}, {2} and the {3}.",
    "Tell me a story about {0} the {1}, {2} and the {3}.",
    "Write a short story about {0} the {1}, {2} and the {3}.",
    "Tell me a story about {0} the {1}.",
    "Write a short story about {0} the {1}.",
    "Tell me a story about a {1}.",
    "Write a story about a {1} and a {3}.",
    "Tell me a story about {2}.",
    "Tell me a story.",
    "Write a short story.",
});

/// Parts of a story of one day.
struct StoryWords {
  std::string_view name, animal, place, thing;
  Event event;

  std::string text() const {
    return fmt::format("{0} the {1} lives {2}.{6}{0} {3} the {4}. {0} is very {5}. The end.", name, animal,
                       place, event.verb, thing, event.feeling, kEventOpening);
  }
};

}  // namespace

Sample draw_small_talk(Draws& draws) {
  const SmallTalk& talk = draws.pick(kSmallTalk);
  return {std::string(talk.prompt), std::string(talk.answer)};
}

Sample draw_story_request(Draws& draws) {
  const StoryWords words{draws.pick(kPeople).name, draws.pick(kAnimals), draws.pick(kPlaces),
                         draws.pick(kThings), draws.pick(kEvents)};
  return {fmt::format(fmt::runtime(draws.pick(kStoryRequests)), words.name, words.animal,
                      words.place.substr(words.place.find(' ') + 1), words.thing),
          words.text()};
}

namespace {

/// Whether `text` has this word or these words, not as a part of a longer word.
bool has_words(std::string_view text, std::string_view words) {
  const auto is_letter = [&](size_t at) {
    return at < text.size() && std::isalpha(static_cast<unsigned char>(text[at]));
  };
  for (size_t at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
    if ((at == 0 || !is_letter(at - 1)) && !is_letter(at + words.size())) return true;
  }
  return false;
}

/// The first element whose words occur in the text; a default-constructed one if none does.
template <typename List, typename WordsOf>
auto find_words(std::string_view text, const List& list, const WordsOf& words_of) {
  const auto found = std::find_if(list.begin(), list.end(),
                                  [&](const auto& element) { return has_words(text, words_of(element)); });
  return found == list.end() ? typename List::value_type{} : *found;
}

}  // namespace

bool check_requested_story(std::string_view request, std::string_view text) {
  const auto same = [](std::string_view words) { return words; };
  const auto last_word = [](std::string_view words) { return words.substr(words.rfind(' ') + 1); };
  const auto name_of = [](const Person& person) { return person.name; };
  const StoryWords words{find_words(text, kPeople, name_of).name, find_words(text, kAnimals, same),
                         find_words(text, kPlaces, same), find_words(text, kThings, same),
                         find_words(text, kEvents, [](const Event& event) { return event.verb; })};
  const auto keeps = [&](const auto& list, const auto& words_of, std::string_view chosen) {
    return std::all_of(list.begin(), list.end(), [&](const auto& element) {
      return !has_words(request, words_of(element)) || words_of(element) == chosen;
    });
  };
  return text == words.text() && keeps(kPeople, name_of, words.name) && keeps(kAnimals, same, words.animal) &&
         keeps(kPlaces, last_word, last_word(words.place)) && keeps(kThings, same, words.thing);
}

bool check_reply(const Sample& sample, std::string_view text) {
  if (sample.answer.find(kEventOpening) == std::string::npos) return text == sample.answer;
  return check_requested_story(sample.prompt, text);
}

}  // namespace lacuna
