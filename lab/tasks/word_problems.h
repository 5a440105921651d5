// Number stories in varied words: a problem is sampled as values and then phrased. The same problem can be
// asked in thousands of ways, continued in a conversation, or told with its intermediate states for
// infilling.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tasks/vocabulary.h"

namespace lacuna {

/// The equations of the `arithmetic` task: numbers lie in [0, kMaxNumber], changes in [1, kMaxChange].
inline constexpr int kMaxNumber = 40;
inline constexpr int kMaxChange = 9;

/// One change of the number of things.
struct Change {
  bool gains = true;
  int amount = 1;     ///< in [1, kMaxChange]
  std::string other;  ///< another participant: a name, or words such as "her brother"
};

/// A story: somebody has things, and their number changes.
struct NumberProblem {
  std::string name;
  bool feminine = true;
  std::string object;  ///< plural
  int start = 0;       ///< in [0, kMaxNumber]
  std::vector<Change> changes;

  /// The number after the first `count` changes.
  int number_after(size_t count) const;
  int result() const { return number_after(changes.size()); }
};

/// Samples a problem of one to three changes whose numbers stay in [0, kMaxNumber]. One problem in five has a
/// random pronounceable word as its name or its object, so that a model cannot rely on known words.
NumberProblem draw_word_problem(Draws& draws);

/// A further change after the existing ones of a story.
Change draw_change(Draws& draws, const NumberProblem& problem);

/// "12+7=19. 19-5=14. The answer is 14."
std::string worked_answer(const NumberProblem& problem);

/// A text and a hash of its sentence frames, which does not depend on names and numbers.
struct Phrased {
  std::string text;
  uint64_t frame = 0;  ///< hash of the frames
};

/// The story and its question. With `held_out`, the question may be one that is reserved for the test split.
Phrased phrase(Draws& draws, const NumberProblem& problem, bool held_out);

/// A follow-up turn of one change: "Then she finds 3 more. How many does she have now?"
std::string phrase_follow_up(Draws& draws, const NumberProblem& problem, const Change& change);

/// Whether a frame belongs to the test split: one in eight does.
bool is_held_out(uint64_t frame);

/// A span of a text that the rest of the text determines.
struct Blank {
  size_t begin = 0, end = 0;          ///< bytes of the text
  size_t change = 0;                  ///< index of the story's change that the number belongs to
  std::vector<std::string> accepted;  ///< correct fillings, the text's own words included
};

struct InfillStory {
  std::string text;
  Blank start;  ///< the number before all changes; the first change determines it
  std::vector<Blank>
      blanks;  ///< ascending, at least two; if one per change is hidden, the rest determines it
};

/// A story told with the number after each change: "Mia has 12 shells. She finds 7 more. Now she has 19
/// shells." Blanks are numbers and verbs.
InfillStory draw_infill_story(Draws& draws);

/// Every word that phrasings may use, with the leading space that texts have, for learning a vocabulary.
std::vector<std::string> word_problem_words();

}  // namespace lacuna
