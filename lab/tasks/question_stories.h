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

/// A pair of numbers; `second` is at least 1 and, if drawn with `subtracts`, at most `first`.
struct NumberPair {
  int first, second;
};
NumberPair draw_number_pair(Draws& draws, bool subtracts);
/// A further number of at least 1, at most `limit` >= 1.
int draw_further_number(Draws& draws, int limit);

/// One or several people, "I" or "you"; for kOwner, an owner such as a shop.
Actor draw_actor(Draws& draws, ActorKind kind);
/// A person with a known or random name.
Actor draw_named_actor(Draws& draws);
/// Another participant, not the actor.
std::string draw_participant(Draws& draws, const Actor& actor, bool has_relatives);

/// End of a story, from which a conversation may continue.
struct StoryState {
  const Theme* theme = nullptr;  ///< null: nothing to continue
  Filling filling;
  int number = 0;
  bool can_continue() const { return theme != nullptr && theme->max_changes > 2; }
};

/// A story and its question; `state`, unless null, gets the end of the story.
NumberQuestion draw_story_question(Draws& draws, StoryState* state);

/// Another change of the same things: "And if she loses 4 more?". Changes `state`. Precondition:
/// can_continue().
NumberQuestion draw_next_change(Draws& draws, StoryState& state);

/// The words of all stories, each with a leading space and, for the start of a sentence, without.
std::vector<std::string> story_words();
/// Adds the words of one wording.
void add_words(std::string_view wording, std::vector<std::string>& words);

}  // namespace lacuna
