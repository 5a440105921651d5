// Tasks with samples generated from a seed and answers that a program checks exactly. Models are trained on
// the train split and measured on the test split; no prompt is in both.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tasks/sample.h"

namespace lacuna {

/// A named kind of sample. All functions are pure: equal arguments give equal bytes on every machine.
struct Task {
  std::string_view name;
  std::string_view summary;
  int32_t answer_positions;  ///< positions for any answer in the zoo's vocabulary, and an end token
  int32_t level_positions;   ///< difficulty d needs at most d + 1 times this many positions; 0: no effect
  bool has_lengths;          ///< supports TaskOptions::length and depth
  Sample (*draw)(Split split, uint64_t seed, uint64_t index, const TaskOptions& options);
  /// Sample number `index` of this seed. Two indices may give the same sample. Throws InputError like
  /// check_options().
  Sample generate(Split split, uint64_t seed, uint64_t index, const TaskOptions& options = {}) const;
  /// Whether `text`, the model's output up to the end token, is correct. White space around it is ignored.
  bool (*check)(const Sample& sample, std::string_view text);
  /// The sample's answer as it follows the prompt: with a space if prompts end within a sentence.
  std::string continuation(const Sample& sample) const { return (has_lengths ? " " : "") + sample.answer; }
  /// answer_positions, or more if the difficulty needs it: a multiple of 8.
  int32_t room(const TaskOptions& options) const;
};

/// Every task:
///  - `arithmetic`: a story with one to three changes of a number, answered by one equation per change, in
///    order, and the result: "12+7=19. 19-5=14. The answer is 14.". Correct means correct in every character:
///    each equation and the final answer. Difficulty d: d changes, numbers up to min(10 d, kMaxNumber).
///  - `phrasings`: the same stories in other words: thousands of combinations of openings, verbs, tenses and
///    questions, and random words as names or objects. Answers and check are those of `arithmetic`. The
///    combinations of the test split, and some of its questions, never occur in the train split.
///  - `chat`: conversations: rephrased stories with or without a system turn ("Answer with the number only."
///    asks for "14"), follow-up questions about the same things, requests for stories, small talk. Correct
///    means correct in every character; for a requested story, of the form of `stories` and with the
///    requested words. Small talk and requests for stories are the same in both splits.
///  - `infill`: a story of `phrasings` with the number after each change. One number or verb is to be
///  restored;
///    the rest of the story determines it. Any verb that fits the numbers is accepted.
///  - `outside`: 300 handwritten questions, whose author did not look at the generation of training data:
///    stories of one number or of two people, bare sums, number words, the system turn "Answer with the
///    number only.", conversations. They are the same under every seed, sample k is question k modulo 300,
///    and there is no train split (InputError). Correct means that the last number of the text is the result.
///  - `stories`: four sentences about a given name, animal, place and thing. The model chooses one of six
///    events, each with one matching feeling. Correct means that all sentences agree with the prompt and the
///    feeling with the event. Difficulty d: d things, each with an event and its feeling.
///  - `records`: cards with six words about two to six people, then a list of their names in another order;
///    the answer repeats the cards in that order: "Ben fox finds lantern shells hill happy. Mia ...". The
///    cards are independent, so they can be written in parallel. Correct means correct in every character.
///    Difficulty d: d + 1 people.
///  - `retrieval`: a needle in a haystack. A list of lines " fox lantern Mia.", then the words of a fact once
///    more: "Tell. fox river Ada. deer lantern Mia. ... deer lantern"; the answer is its value and a period:
///    "Mia.". At most 40 lines, and at most every second one, are facts: their second word is a thing that no
///    other line names. The prompt has exactly TaskOptions::length tokens (default 1,024) in the zoo's
///    vocabulary: an opening of two to five, four for each line and two for the question. Correct means
///    correct in every character; chance level is 1 in 20. Difficulty d: at most 2, 5, 10, 20 or 40 facts.
///  - `programs`: "Tell a program. a gets 3 more. If a has more, b loses 2." describes changes of two numbers
///    in two or three sentences; the answer is a program in the language of toy_program.h, "a=a+3;
///    a>b?b=b-2.". Correct is every program with the described results for fixed inputs that the prompt does
///    not contain. Difficulty d: d sentences.
std::span<const Task> tasks();

/// "arithmetic, stories, ..."
std::string task_names();

/// The task of that name; throws InputError with the list of names.
const Task& find_task(std::string_view name);

/// Throws InputError for a length, depth or difficulty outside its range, or a length or depth for a task
/// without `has_lengths`; the message names the flags --length, --depth, --difficulty.
void check_options(const Task& task, const TaskOptions& options);

}  // namespace lacuna
