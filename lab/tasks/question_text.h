// The small language in which the wordings of the task `questions` are written, and the words that fill them.
//
// A wording is a sentence without its final mark, in lower case at its start:
//   {N} the actor's name, {A} the name or the pronoun, {M} the name as an object, {N's} its possessive,
//   {he} {him} {his} pronouns, {n} the number, {o} the noun, singular or plural by the number, {os} its
//   plural, {m} the number with or without the noun, {p} a place with its preposition, {x} somebody else,
//   {c} a color, <has|had> a verb of the actor in the present and in the past, (gives|gave) a verb of
//   somebody else, [are|is] the plural and the singular, by the number. Brackets may be nested in < > or ( ).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/vocabulary.h"

namespace lacuna {

/// Who a question is about.
struct Actor {
  std::string name;        ///< as first mentioned: "Mia", "a farmer", "I"
  std::string subject;     ///< "she", "it", "they", "I"
  std::string object;      ///< "her"
  std::string possessive;  ///< "her"
  bool plural = false;     ///< takes plural verb forms, like "I" and "you"

  /// The actor as mentioned again: "the farmer".
  Actor known() const;
};

struct Noun {
  std::string one, many;
  /// Parsed from "shell" or, with an irregular plural, "leaf|leaves".
  static Noun of(std::string_view text);
};

/// Values that fill a wording.
struct Filling {
  Actor actor = {};
  Noun noun = {};
  std::string place = {};
  std::string other = {};
  std::string color = {};
  bool past = false;
  bool by_name = false;          ///< {A} is the name
  int number = 0;                ///< selects plural or singular
  std::string number_text = {};  ///< the number as digits or words
  std::string amount = {};       ///< {m}
};

/// The wording with everything filled in. Precondition: brackets and braces are balanced and known.
std::string fill_in(std::string_view wording, const Filling& filling);

/// "zero" to "ninety-nine"; `number` in [0, 99].
std::string number_words(int number);

/// The plural form of a verb: "have" for "has", "carry out" for "carries out".
std::string plural_verb(std::string_view verb);

/// Capitalizes the first letter of each sentence.
std::string with_capitals(std::string text);

/// A random word of two or three syllables that begins with a consonant.
std::string random_word(Draws& draws);

/// Picks wordings, and hashes the choices into the frame of a text, without its names and numbers.
class WordingPicker {
 public:
  explicit WordingPicker(Draws& draws) : draws_(&draws) {}
  template <typename List>
  const auto& pick(const List& list) {
    return list[choose(list.size())];
  }
  uint32_t choose(size_t count) {
    const uint32_t choice = draws_->below(count);
    add(choice);
    return choice;
  }
  bool one_in(size_t count) { return choose(count) == 0; }
  void add(uint64_t choice) { frame_ = mix_bits(frame_ * 31 + choice + 1); }
  uint64_t frame() const { return frame_; }
  Draws& draws() { return *draws_; }

 private:
  Draws* draws_;
  uint64_t frame_ = 1;
};

}  // namespace lacuna
