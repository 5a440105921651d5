#include "tasks/question_text.h"

#include <array>

#include "base/error.h"

namespace lacuna {
namespace {

bool is_pronoun(const Actor& actor) {
  return actor.name == actor.subject;
}

std::string possessive_name(const Actor& actor) {
  if (is_pronoun(actor)) return actor.possessive;
  return actor.name + (actor.plural && actor.name.back() == 's' ? "'" : "'s");
}

/// The actor's verb in its present form: "has", "have", "am".
std::string present_verb(std::string_view verb, const Actor& actor) {
  if (!actor.plural) return std::string(verb);
  const bool is_be = verb == "is" || verb.starts_with("is ");
  if (is_be && actor.subject == "I") return "am" + std::string(verb.substr(2));
  return plural_verb(verb);
}

bool is_was(std::string_view verb) {
  return verb == "was" || verb.starts_with("was ");
}

std::string past_verb(std::string_view verb, const Actor& actor) {
  return is_was(verb) && actor.plural && actor.subject != "I" ? plural_verb(verb) : std::string(verb);
}

std::string slot_text(std::string_view slot, const Filling& filling) {
  const Actor& actor = filling.actor;
  if (slot == "N") return actor.name;
  if (slot == "A") return filling.by_name ? actor.name : actor.subject;
  if (slot == "M") return is_pronoun(actor) ? actor.object : actor.name;
  if (slot == "N's") return possessive_name(actor);
  if (slot == "he") return actor.subject;
  if (slot == "him") return actor.object;
  if (slot == "his") return actor.possessive;
  if (slot == "n") return filling.number_text;
  if (slot == "o") return filling.number == 1 ? filling.noun.one : filling.noun.many;
  if (slot == "os") return filling.noun.many;
  if (slot == "m") return filling.amount;
  if (slot == "p") return filling.place;
  if (slot == "c") return filling.color;
  expects(slot == "x", "a wording has known slots");
  return filling.other;
}

/// The first or the second alternative of "one|two"; alternatives may contain [a|b].
std::string_view half(std::string_view text, bool second) {
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[') ++depth;
    if (text[at] == ']') --depth;
    if (text[at] == '|' && depth == 0) return second ? text.substr(at + 1) : text.substr(0, at);
  }
  return text;
}

}  // namespace

Actor Actor::known() const {
  Actor actor = *this;
  if (name.starts_with("a ")) actor.name = "the " + name.substr(2);
  if (name.starts_with("an ")) actor.name = "the " + name.substr(3);
  return actor;
}

Noun Noun::of(std::string_view text) {
  const size_t bar = text.find('|');
  if (bar == std::string_view::npos) return {std::string(text), std::string(text) + "s"};
  return {std::string(text.substr(0, bar)), std::string(text.substr(bar + 1))};
}

std::string fill_in(std::string_view wording, const Filling& filling) {
  std::string text;
  for (size_t at = 0; at < wording.size(); ++at) {
    const char open = wording[at];
    const char close = open == '{' ? '}' : open == '<' ? '>' : open == '(' ? ')' : open == '[' ? ']' : '\0';
    if (close == '\0') {
      text += open;
      continue;
    }
    const size_t end = wording.find(close, at);
    expects(end != std::string_view::npos, "a wording closes its brackets");
    const std::string_view inner = wording.substr(at + 1, end - at - 1);
    if (open == '{') {
      text += slot_text(inner, filling);
    } else if (open == '[') {
      text += half(inner, filling.number == 1);
    } else {
      const std::string chosen = fill_in(half(inner, filling.past), filling);
      const bool agrees = open == '<';
      // <has|has> is always in the present, <was|was> always in the past.
      const bool one_tense = half(inner, false) == half(inner, true);
      const bool past = one_tense ? is_was(chosen) : filling.past;
      text += !agrees ? chosen
              : past  ? past_verb(chosen, filling.actor)
                      : present_verb(chosen, filling.actor);
    }
    at = end;
  }
  return text;
}

std::string number_words(int number) {
  constexpr auto kSmall = std::to_array<std::string_view>(
      {"zero",     "one",     "two",     "three",     "four",     "five",    "six",
       "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
       "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"});
  constexpr auto kTens = std::to_array<std::string_view>(
      {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"});
  expects(number >= 0 && number < 100, "number words go to ninety-nine");
  const auto n = static_cast<size_t>(number);
  if (n < kSmall.size()) return std::string(kSmall[n]);
  std::string words(kTens[n / 10 - 2]);
  if (n % 10 > 0) words += "-" + std::string(kSmall[n % 10]);
  return words;
}

std::string plural_verb(std::string_view verb) {
  const std::string_view first = verb.substr(0, verb.find(' '));
  const std::string rest(verb.substr(first.size()));
  if (first == "has") return "have" + rest;
  if (first == "is") return "are" + rest;
  if (first == "was") return "were" + rest;
  if (first == "does" || first == "goes") return std::string(first.substr(0, 2)) + rest;
  if (!first.ends_with('s')) return std::string(verb);
  if (first.size() > 4 && first.ends_with("ies"))
    return std::string(first.substr(0, first.size() - 3)) + "y" + rest;
  for (const std::string_view end : {"ches", "shes", "sses", "xes"}) {
    if (first.ends_with(end)) return std::string(first.substr(0, first.size() - 2)) + rest;
  }
  return std::string(first.substr(0, first.size() - 1)) + rest;
}

std::string with_capitals(std::string text) {
  bool starts = true;
  for (size_t at = 0; at < text.size(); ++at) {
    if (starts && text[at] >= 'a' && text[at] <= 'z') text[at] = static_cast<char>(text[at] - 'a' + 'A');
    if (text[at] != ' ') starts = false;
    if (text[at] == ' ' && at > 0 && std::string_view(".?!").find(text[at - 1]) != std::string_view::npos)
      starts = true;
  }
  return text;
}

std::string random_word(Draws& draws) {
  constexpr std::string_view kConsonants = "bdfgklmnprstvz", kVowels = "aeiou";
  std::string word;
  for (uint32_t syllables = 2 + draws.below(2); syllables > 0; --syllables) {
    word += kConsonants[draws.below(kConsonants.size())];
    word += kVowels[draws.below(kVowels.size())];
  }
  return word;
}

}  // namespace lacuna
