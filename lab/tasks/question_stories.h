// Stories about one number for the task `questions`.
#pragma once

#include <string>
#include <vector>

#include "tasks/number_question.h"
#include "tasks/question_text.h"
#include "tasks/question_themes.h"

namespace lacuna {

/// How numbers are written.
enum class NumberStyle : uint8_t { kDigits, kWords };

NumberStyle draw_number_style(Draws& draws);
/// "7", "seven"; above kMaxAsked always digits.
std::string number_text(NumberStyle style, int number);

/// A pair of numbers, the second at most the first where `subtracts`; the second is at least 1.
struct NumberPair {
  int first, second;
};
NumberPair draw_number_pair(Draws& draws, bool subtracts);
/// A further number of at least 1, at most `limit` >= 1.
int draw_further_number(Draws& draws, int limit);

/// A person or several, "I" or "you".
Actor draw_actor(Draws& draws, ActorKind kind);
/// A name, known or random, as a person's.
Actor draw_named_actor(Draws& draws);
/// Another participant, not the actor.
std::string draw_participant(Draws& draws, const Actor& actor, bool has_relatives);

/// Where a conversation may continue.
struct StoryState {
  const Theme* theme = nullptr;  ///< none: nothing to continue
  Filling filling;
  int number = 0;
  bool can_continue() const { return theme != nullptr && theme->max_changes > 2; }
};

/// A story and its question; `state`, where given, is how it ends.
NumberQuestion draw_story_question(Draws& draws, StoryState* state);

/// Another change of the same things: "And if she loses 4 more?". Changes `state`. Precondition:
/// can_continue().
NumberQuestion draw_next_change(Draws& draws, StoryState& state);

/// The words of all stories, with a space in front and, as at the start of a sentence, without.
std::vector<std::string> story_words();
/// Adds those of one wording.
void add_words(std::string_view wording, std::vector<std::string>& words);

}  // namespace lacuna
