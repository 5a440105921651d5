// Typed questions about a text. An answer is the probability of each option, read from the logit of its
// label.
//
// An answer's probabilities are a softmax over the logits of its labels, divided by a temperature for each
// kind of question. They are calibrated only as far as that temperature was fitted (decision_temperatures.h);
// DecisionAnswer::label_mass is the labels' share of the full distribution.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

enum class QuestionKind : uint8_t {
  kPredicate,  ///< whether a statement is true: two options, yes and no
  kChoice,     ///< one of several options
  kScore,      ///< one of several levels, the lowest first
};

inline constexpr size_t kNumQuestionKinds = 3;
/// "predicate", "choice" or "score".
std::string_view name_of(QuestionKind kind);

struct DecisionOption {
  std::string text;         ///< text of the choice or level; "yes" or "no" for a predicate
  std::string description;  ///< when it applies; may be empty
};

struct DecisionQuestion {
  QuestionKind kind = QuestionKind::kPredicate;
  std::string instructions;
  std::vector<DecisionOption> options;
};

inline constexpr size_t kMaxQuestions = 400;
inline constexpr size_t kMaxOptions = 255;
inline constexpr size_t kMaxLevels = 10;
inline constexpr int32_t kMaxDraws = 64;

/// Makes a predicate; `if_true` and `if_false` describe when it holds and when not, and may be empty.
DecisionQuestion make_predicate(std::string instructions, std::string if_true = {},
                                std::string if_false = {});

/// The temperature T of softmax(logits / T), for each kind of question.
struct DecisionTemperatures {
  std::array<double, kNumQuestionKinds> values = {1, 1, 1};  ///< by QuestionKind
  bool is_fitted = false;
  bool writes_text = true;  ///< false: the model was made for decisions alone

  double of(QuestionKind kind) const { return values[static_cast<size_t>(kind)]; }
};

/// Questions about one text.
struct DecideRequest {
  std::string guidance = {};  ///< further text of the system turn, before the questions; may be empty
  std::string state;          ///< the text
  std::vector<DecisionQuestion> questions;
  bool both_orders = false;  ///< average over the given and the reversed order of a choice's options
  bool independent = false;  ///< each question has a canvas of its own
  int32_t draws =
      4;  ///< noise samples at the labels' positions, for models trained on noise (GIDD, DiffusionGemma)
  uint64_t seed = 0;  ///< of that noise
};

struct DecisionAnswer {
  std::vector<double> probabilities;  ///< [options], their sum is 1
  double label_mass = 0;              ///< probability of all labels together; mean of all readings
  /// Standard error of the mean over noise samples, the largest of all options; empty with fewer than two
  /// samples.
  std::optional<double> standard_error = {};

  /// Index of the most probable option; the first on a tie.
  size_t best() const;
  /// Expected level: the sum of level times probability.
  double score() const;
};

/// With less label_mass the model would mostly have written something other than a label.
inline constexpr double kMinLabelMass = 0.5;

/// softmax(logprobs / temperature).
std::vector<double> label_probabilities(std::span<const double> logprobs, double temperature);

/// Confidence by TypeSafe's formulas, for n options; 1 if n = 1. Choice: max(0, (p_max - 1/n) / (1 - 1/n)).
/// Score: max(0, 1 - D / Du) with the most probable level m, D = sum of p_i |i - m| and Du = (1/n) sum of |i
/// - (n - 1)/2|.
double confidence_of(QuestionKind kind, std::span<const double> probabilities);

}  // namespace lacuna
