#include "eval/bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <utility>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "decode/noise_schedule.h"
#include "eval/perplexity.h"

namespace lacuna {
namespace {

// Noise streams by purpose.
enum Purpose : uint8_t { kOffset = 48, kOrder, kNoisy };

/// Stratified sample k of n in [0, 1): each is uniform, and together they are evenly spaced.
double spread(double offset, int32_t k, int32_t n) {
  double whole = 0;
  return std::modf(offset + static_cast<double>(k) / n, &whole);
}

/// A random subset of 0 .. `of` - 1 with `count` elements, ascending.
std::vector<int32_t> choose(int32_t count, int32_t of, const RngStream& keys) {
  std::vector<int32_t> chosen(static_cast<size_t>(of));
  std::iota(chosen.begin(), chosen.end(), 0);
  const auto key = [&](int32_t i) { return keys.bits(static_cast<uint64_t>(i)); };
  std::nth_element(chosen.begin(), chosen.begin() + count - 1, chosen.end(),
                   [&](int32_t a, int32_t b) { return key(a) < key(b); });
  chosen.resize(static_cast<size_t>(count));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<TokenId> all_tokens(const BoundText& text) {
  std::vector<TokenId> tokens = text.prompt;
  tokens.insert(tokens.end(), text.scored.begin(), text.scored.end());
  return tokens;
}

int32_t size_of(const std::vector<TokenId>& tokens) {
  return static_cast<int32_t>(tokens.size());
}

/// Collects sequences, and runs them together when there are enough rows.
class Passes {
 public:
  Passes(const BackendModel& model, Bound& bound) : model_(model), bound_(bound), pool_(model.make_pool()) {
    plan_.rules.emplace_back();  // greedy sampling
  }

  /// Begins a new sequence; the rows, groups and scores that follow belong to `text`.
  void begin(size_t text) {
    if (plan_.num_rows() >= kScoringRows) run();
    text_ = text;
    num_cells_.push_back(0);
  }
  /// Adds a row to the sequence, with its K/V in the next cell. Returns its index.
  int32_t add_row(TokenId token, int32_t position) {
    plan_.add_row(token, position, num_cells_.back()++);
    return plan_.num_rows() - 1;
  }
  /// Makes a group of the rows from `first` on.
  void add_group(int32_t first, std::vector<IndexRange> visible, OwnRows own_rows) {
    plan_.groups.push_back({static_cast<int32_t>(num_cells_.size()) - 1,
                            {first, plan_.num_rows()},
                            std::move(visible),
                            own_rows});
  }
  /// Adds `weight` times -log p(token), predicted by `row`, to the text's sum.
  void score(int32_t row, TokenId token, double weight) {
    LogitRow logit;
    logit.row = row;
    logit.scored = token;
    plan_.logits.push_back(logit);
    shares_.push_back({text_, weight});
  }

  int32_t num_rows() const { return plan_.num_rows(); }

  /// Runs the collected sequences.
  void run() {
    if (plan_.groups.empty()) return;
    const std::vector<std::unique_ptr<KvSequence>> sequences = make_sequences();
    const std::unique_ptr<PassTicket> ticket = submit(sequences);
    const std::span<const RowStatistics> samples = ticket->wait().samples;
    for (size_t i = 0; i < samples.size(); ++i) {
      // The row sampled its most probable token, so its confidence is that token's probability.
      const RowStatistics& row = samples[i];
      const double nats = static_cast<double>(row.best_logit) - static_cast<double>(row.scored_logit) -
                          std::log(row.confidence);
      bound_.texts[shares_[i].text].nats += shares_[i].weight * nats;
    }
    clear();
  }

  /// Runs the collected sequences and passes the logits to `use`: [scores, vocabulary].
  void run_for_logits(Buffer<float>& memory, const std::function<void(Matrix<float>)>& use) {
    const auto rows = static_cast<int64_t>(plan_.logits.size());
    const int64_t vocab = model_.config().vocab_size;
    memory.reserve(rows * vocab);
    const Matrix<float> logits(memory.data(), rows, vocab);
    const std::vector<LogitRow> wanted = std::exchange(plan_.logits, {});
    {
      const std::vector<std::unique_ptr<KvSequence>> sequences = make_sequences();
      const std::unique_ptr<PassTicket> ticket = submit(sequences);
      ticket->wait();
      ticket->read_logits(wanted, logits);
    }
    use(logits);
    clear();
  }

 private:
  struct Share {
    size_t text;
    double weight;
  };

  std::vector<std::unique_ptr<KvSequence>> make_sequences() const {
    std::vector<std::unique_ptr<KvSequence>> sequences;
    for (const int32_t cells : num_cells_) sequences.push_back(pool_->make_sequence({cells}));
    return sequences;
  }
  /// `sequences` and the plan must outlive the ticket.
  std::unique_ptr<PassTicket> submit(std::span<const std::unique_ptr<KvSequence>> sequences) {
    std::vector<KvSequence*> pointers;
    for (const std::unique_ptr<KvSequence>& sequence : sequences) pointers.push_back(sequence.get());
    ++bound_.forward_passes;
    bound_.rows += plan_.num_rows();
    return model_.submit(plan_, pointers);
  }
  void clear() {
    plan_.clear();
    plan_.rules.emplace_back();
    num_cells_.clear();
    shares_.clear();
  }

  const BackendModel& model_;
  Bound& bound_;
  std::unique_ptr<KvPool> pool_;
  StepPlan plan_;
  std::vector<int32_t> num_cells_;  // of each sequence
  std::vector<Share> shares_;       // of each of plan_.logits
  size_t text_ = 0;
};

/// Adds the whole text as causal rows. Row i - 1 scores token i, except the first token of each slot, which
/// is scored by a mask at its position. `slot_size` 0: no slots.
void add_left_to_right(const BoundText& text, size_t index, int32_t slot_size, TokenId mask_id,
                       Passes& passes) {
  const std::vector<TokenId> tokens = all_tokens(text);
  const int32_t prompt = size_of(text.prompt);
  passes.begin(index);
  const int32_t first_row = passes.num_rows();
  for (int32_t i = 0; i < size_of(tokens); ++i) passes.add_row(tokens[static_cast<size_t>(i)], i);
  passes.add_group(first_row, {}, OwnRows::kCausal);
  for (int32_t i = prompt; i < size_of(tokens); ++i) {
    int32_t row = first_row + i - 1;
    if (slot_size > 0 && (i - prompt) % slot_size == 0) {
      row = passes.add_row(mask_id, i);
      passes.add_group(row, {{0, i}}, OwnRows::kCausal);
    }
    passes.score(row, tokens[static_cast<size_t>(i)], 1);
  }
}

/// Random masks of one text, or of a part of it, for a model of masks.
class MaskDraws {
 public:
  /// `part` distinguishes parts of a text that are sampled separately, such as blocks.
  MaskDraws(const BoundSettings& settings, size_t text, int32_t part, int32_t count)
      : settings_(settings),
        text_(text),
        part_(part),
        count_(count),
        offset_(RngStream(settings.seed, kOffset, text, part).uniform(0)) {}

  /// Ascending indices, below the constructor's `count`, of the tokens that sample `draw` masks.
  std::vector<int32_t> masked(int32_t draw) const {
    const auto masks = 1 + static_cast<int32_t>(spread(offset_, draw, settings_.draws) * count_);
    return choose(std::min(masks, count_), count_, RngStream(settings_.seed, kOrder, text_, part_, draw));
  }
  double weight(size_t masks) const {
    return static_cast<double>(count_) / static_cast<double>(masks) / settings_.draws;
  }

 private:
  const BoundSettings& settings_;
  size_t text_;
  int32_t part_;
  int32_t count_;
  double offset_;
};

void add_masked(const BoundText& text, size_t index, const ModelConfig& config, const BoundSettings& settings,
                Passes& passes) {
  const std::vector<TokenId> tokens = all_tokens(text);
  const int32_t prompt = size_of(text.prompt);
  const MaskDraws draws(settings, index, 0, size_of(text.scored));
  for (int32_t draw = 0; draw < settings.draws; ++draw) {
    const std::vector<int32_t> masked = draws.masked(draw);
    std::vector<TokenId> seen = tokens;
    for (const int32_t i : masked) seen[text.prompt.size() + static_cast<size_t>(i)] = config.mask_id;
    passes.begin(index);
    const int32_t first_row = passes.num_rows();
    for (int32_t i = 0; i < size_of(seen); ++i) passes.add_row(seen[static_cast<size_t>(i)], i);
    passes.add_group(first_row, {}, OwnRows::kBidirectional);
    for (const int32_t i : masked) {
      const int32_t position = prompt + i;
      passes.score(first_row + position - (config.shifted_logits ? 1 : 0),
                   tokens[static_cast<size_t>(position)], draws.weight(masked.size()));
    }
  }
}

/// A sequence with the clean text and, at the same positions, masked copies of its blocks that fill the pass.
class BlockText {
 public:
  BlockText(const BoundText& text, size_t index, const ModelConfig& config, const BoundSettings& settings)
      : index_(index),
        config_(config),
        settings_(settings),
        tokens_(all_tokens(text)),
        prompt_(size_of(text.prompt)),
        block_(settings.block_length > 0 ? settings.block_length
                                         : static_cast<int32_t>(config.block_length)) {}

  void add(Passes& passes) const {
    const int32_t first_block = prompt_ / block_;
    const int32_t copied = size_of(tokens_) - first_block * block_;
    const int32_t draws_at_once = std::max(1, (kScoringRows - size_of(tokens_)) / copied);
    for (int32_t draw = 0; draw < settings_.draws; draw += draws_at_once) {
      passes.begin(index_);
      add_clean(draw == 0, passes);
      const int32_t last = std::min(settings_.draws, draw + draws_at_once);
      for (int32_t d = draw; d < last; ++d) {
        for (int32_t begin = first_block * block_; begin < size_of(tokens_); begin += block_) {
          add_copy(begin, d, passes);
        }
      }
    }
  }

 private:
  TokenId token(int32_t position) const { return tokens_[static_cast<size_t>(position)]; }
  int32_t end_of(int32_t begin) const { return std::min(begin + block_, size_of(tokens_)); }

  void add_clean(bool scores, Passes& passes) const {
    for (int32_t begin = 0; begin < size_of(tokens_); begin += block_) {
      if (scores && config_.shifted_logits && begin >= prompt_ && begin > 0) {
        passes.score(passes.num_rows() - 1, token(begin), 1);
      }
      const int32_t first_row = passes.num_rows();
      for (int32_t i = begin; i < end_of(begin); ++i) passes.add_row(token(i), i);
      passes.add_group(first_row, before(begin), OwnRows::kBidirectional);
    }
  }
  void add_copy(int32_t begin, int32_t draw, Passes& passes) const {
    // With shifted logits, the block before scores the first token, which is then clean.
    const int32_t first = std::max(begin + (config_.shifted_logits ? 1 : 0), prompt_);
    const int32_t count = end_of(begin) - first;
    if (count <= 0) return;
    const MaskDraws draws(settings_, index_, begin, count);
    const std::vector<int32_t> masked = draws.masked(draw);
    const int32_t first_row = passes.num_rows();
    auto next = masked.begin();
    for (int32_t i = begin; i < end_of(begin); ++i) {
      const bool is_masked = next != masked.end() && first + *next == i;
      passes.add_row(is_masked ? config_.mask_id : token(i), i);
      if (is_masked) ++next;
    }
    passes.add_group(first_row, before(begin), OwnRows::kBidirectional);
    for (const int32_t i : masked) {
      passes.score(first_row + first + i - begin - (config_.shifted_logits ? 1 : 0), token(first + i),
                   draws.weight(masked.size()));
    }
  }
  /// Cells of the clean text before `begin`; cell numbers equal positions.
  static std::vector<IndexRange> before(int32_t begin) {
    return begin > 0 ? std::vector<IndexRange>{{0, begin}} : std::vector<IndexRange>{};
  }

  size_t index_;
  const ModelConfig& config_;
  const BoundSettings& settings_;
  std::vector<TokenId> tokens_;
  int32_t prompt_;
  int32_t block_;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// One sampled noise level, and the loss of a token at this level.
class NoiseTerm {
 public:
  NoiseTerm(const ModelConfig& config, double t)
      : mask_id_(config.mask_id),
        log_snr_(std::clamp(std::log((1 - t) / t), double{config.noise->min_log_snr},
                            double{config.noise->max_log_snr})),
        alpha_(sigmoid(log_snr_)),
        beta_(sigmoid(-log_snr_)),
        shown_(sigmoid(log_snr_ + config.noise->uniform_shift)),
        // 1 - shown_ without cancellation.
        hidden_(sigmoid(-log_snr_ - config.noise->uniform_shift)),
        others_(static_cast<double>(num_noise_tokens(config.vocab_size, config.mask_id))) {}

  /// Samples the noisy token z ~ q(.|x).
  TokenId noisy(TokenId x, const RngStream& stream) const {
    if (stream.uniform(0) < alpha_) return x;
    if (stream.uniform(1) >= shown_) return mask_id_;
    const auto other = static_cast<TokenId>(stream.below(2, static_cast<uint32_t>(others_)));
    return mask_id_ < 0 || other < mask_id_ ? other : other + 1;
  }

  /// Whether the loss of this z is 0 for any prediction.
  bool is_nothing(TokenId x, TokenId z) const { return weight(x, z) == 0; }

  ///   logits  [vocabulary] of the row
  double loss(TokenId x, TokenId z, std::span<const float> logits) const {
    float best = -std::numeric_limits<float>::infinity();
    for (size_t k = 0; k < logits.size(); ++k) {
      if (static_cast<TokenId>(k) != mask_id_) best = std::max(best, logits[k]);
    }
    const auto shifted_exp = [&](TokenId k) {
      return std::exp(static_cast<double>(logits[static_cast<size_t>(k)]) - static_cast<double>(best));
    };
    double sum = 0;
    for (size_t k = 0; k < logits.size(); ++k) {
      if (static_cast<TokenId>(k) != mask_id_) sum += shifted_exp(static_cast<TokenId>(k));
    }
    const auto predicted = [&](TokenId k) { return k == mask_id_ ? 0 : shifted_exp(k) / sum; };

    // q(.|x) is uniform over tokens other than x; the mask has the same probability in q(.|x) and q(.|p).
    const double other = beta_ * shown_ / others_;
    const double q_x = alpha_ + other;
    double divergence = q_x * std::log(q_x / (alpha_ * predicted(x) + other));
    if (other > 0) {
      const double scale = alpha_ / other / sum;
      double rest = 0;
      for (size_t k = 0; k < logits.size(); ++k) {
        const auto token = static_cast<TokenId>(k);
        if (token != mask_id_ && token != x) rest += std::log1p(scale * shifted_exp(token));
      }
      divergence -= other * rest;
    }
    const double noise = beta_ * prior(z);
    const double ratio = ((z == x ? alpha_ : 0) + noise) / (alpha_ * predicted(z) + noise);
    return weight(x, z) / (alpha_ * beta_) * (divergence + ratio - std::log(ratio) - 1);
  }

 private:
  double prior(TokenId z) const { return z == mask_id_ ? hidden_ : shown_ / others_; }
  double weight(TokenId x, TokenId z) const {
    const double slope = shown_ * hidden_ * (z == mask_id_ ? -1 : 1 / others_);
    return (prior(z) - slope) / (prior(z) + (z == x ? std::exp(log_snr_) : 0));
  }

  TokenId mask_id_;
  double log_snr_;
  double alpha_, beta_;
  double shown_, hidden_;  // shares of the noise that are tokens and masks
  double others_;          // tokens but the mask
};

/// Adds the noise bound of one text. Clean rows see clean rows, noisy rows see all; in a model that fills a
/// canvas, all rows see all.
void score_noise(const BoundText& text, size_t index, const BackendModel& model,
                 const BoundSettings& settings, Buffer<float>& memory, Passes& passes, Bound& bound) {
  const ModelConfig& config = model.config();
  const int32_t prompt = size_of(text.prompt);
  const double offset = RngStream(settings.seed, kOffset, index).uniform(0);
  for (int32_t draw = 0; draw < settings.draws; ++draw) {
    const double spread_draw = spread(offset, draw, settings.draws);
    const NoiseTerm term(config, std::clamp(spread_draw, 1e-12, 1 - 1e-12));
    std::vector<TokenId> noisy;
    for (size_t i = 0; i < text.scored.size(); ++i) {
      noisy.push_back(term.noisy(text.scored[i], RngStream(settings.seed, kNoisy, index, draw, i)));
    }
    passes.begin(index);
    for (int32_t i = 0; i < prompt; ++i) passes.add_row(text.prompt[static_cast<size_t>(i)], i);
    if (!config.denoises_whole_canvas()) passes.add_group(0, {}, OwnRows::kBidirectional);
    std::vector<size_t> asked;
    for (size_t i = 0; i < noisy.size(); ++i) {
      const int32_t row = passes.add_row(noisy[i], prompt + static_cast<int32_t>(i));
      if (term.is_nothing(text.scored[i], noisy[i])) continue;
      asked.push_back(i);
      passes.score(row, text.scored[i], 1);
    }
    if (config.denoises_whole_canvas()) {
      passes.add_group(0, {}, OwnRows::kBidirectional);
    } else {
      passes.add_group(prompt, {{0, prompt}}, OwnRows::kBidirectional);
    }
    passes.run_for_logits(memory, [&](Matrix<float> logits) {
      for (size_t j = 0; j < asked.size(); ++j) {
        const float* const row = logits.row(static_cast<int64_t>(j));
        bound.texts[index].nats +=
            term.loss(text.scored[asked[j]], noisy[asked[j]], {row, static_cast<size_t>(config.vocab_size)}) /
            settings.draws;
      }
    });
  }
}

void check_text(const BoundText& text, const ModelConfig& config) {
  expects(!text.prompt.empty() && !text.scored.empty(), "bound: something is given and something is scored");
  for (const std::vector<TokenId>* tokens : {&text.prompt, &text.scored}) {
    for (const TokenId token : *tokens) {
      if (token < 0 || token >= config.vocab_size || token == config.mask_id) {
        throw InputError("a text holds token {}; expected one of the {} of the model that is not its mask",
                         token, config.vocab_size);
      }
    }
  }
  const size_t length = text.prompt.size() + text.scored.size();
  if (length > static_cast<size_t>(config.max_positions)) {
    throw InputError("a text takes {} positions with its canvas; the model has {}", length,
                     config.max_positions);
  }
}

}  // namespace

std::string_view bound_name(Paradigm paradigm) {
  switch (paradigm) {
    case Paradigm::kCausal:
    case Paradigm::kCanvases:
      return "exact, left to right";
    case Paradigm::kSlots:
      return "exact, slot after slot";
    case Paradigm::kMasked:
      return "bound over masks";
    case Paradigm::kBlocks:
      return "bound over masks of blocks";
    case Paradigm::kUniform:
      break;
  }
  return "bound over noise";
}

bool is_exact(Paradigm paradigm) {
  return paradigm == Paradigm::kCausal || paradigm == Paradigm::kSlots || paradigm == Paradigm::kCanvases;
}

int64_t Bound::tokens() const {
  int64_t sum = 0;
  for (const Text& text : texts) sum += text.counted;
  return sum;
}

double Bound::nats_per_token() const {
  double sum = 0;
  for (const Text& text : texts) sum += text.nats;
  return tokens() > 0 ? sum / static_cast<double>(tokens()) : 0;
}

std::optional<Interval> Bound::interval() const {
  if (texts.size() < 2 || tokens() == 0) return {};
  constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5th percentile
  const double mean = nats_per_token();
  double squares = 0;
  for (const Text& text : texts) {
    const double residual = text.nats - mean * static_cast<double>(text.counted);
    squares += residual * residual;
  }
  const auto n = static_cast<double>(texts.size());
  const double half = kZ * std::sqrt(n / (n - 1) * squares) / static_cast<double>(tokens());
  return Interval{std::max(0.0, mean - half), mean + half};
}

BoundText bound_text(const ModelConfig& config, std::vector<TokenId> prompt, std::span<const TokenId> answer,
                     TokenId end, int32_t room, int32_t block_length) {
  BoundText text{std::move(prompt), {answer.begin(), answer.end()}, 0};
  if (config.noise && config.bos_id >= 0 && (text.prompt.empty() || text.prompt.front() != config.bos_id)) {
    text.prompt.insert(text.prompt.begin(), config.bos_id);  // like the decoder
  }
  if (end >= 0) text.scored.push_back(end);
  text.counted = static_cast<int64_t>(text.scored.size());
  const Paradigm paradigm = config.paradigm();
  if (end < 0 || is_exact(paradigm)) return text;
  size_t length = std::max(text.scored.size(), static_cast<size_t>(room));
  if (paradigm == Paradigm::kBlocks) {
    const size_t block =
        block_length > 0 ? static_cast<size_t>(block_length) : static_cast<size_t>(config.block_length);
    length = (text.prompt.size() + length + block - 1) / block * block - text.prompt.size();
  }
  text.scored.resize(length, config.eos_id >= 0 ? config.eos_id : end);
  return text;
}

Bound bound(const BackendModel& model, std::span<const BoundText> texts, const BoundSettings& settings) {
  const ModelConfig& config = model.config();
  if (config.causal_context) {
    throw InputError("the likelihood of {} is that of its causal mode: expected --paradigm causal",
                     config.architecture);
  }
  if (config.whole_prompt) {
    throw InputError(
        "the likelihood of {} in blocks behind a prompt is not computed: expected --paradigm masked",
        config.architecture);
  }
  for (const BoundText& text : texts) check_text(text, config);
  const Stopwatch clock;
  Bound bound;
  for (const BoundText& text : texts) bound.texts.push_back({0, text.counted});
  Passes passes(model, bound);
  Buffer<float> memory;
  for (size_t i = 0; i < texts.size(); ++i) {
    switch (config.paradigm()) {
      case Paradigm::kCausal:
      case Paradigm::kCanvases:
        add_left_to_right(texts[i], i, 0, config.mask_id, passes);
        break;
      case Paradigm::kSlots:
        add_left_to_right(texts[i], i, settings.slot_size, config.mask_id, passes);
        break;
      case Paradigm::kMasked:
        add_masked(texts[i], i, config, settings, passes);
        break;
      case Paradigm::kBlocks:
        BlockText(texts[i], i, config, settings).add(passes);
        break;
      case Paradigm::kUniform:
        score_noise(texts[i], i, model, settings, memory, passes, bound);
        break;
    }
  }
  passes.run();
  bound.seconds = clock.seconds();
  return bound;
}

nlohmann::ordered_json to_json(const Bound& bound) {
  const std::optional<Interval> interval = bound.interval();
  const auto or_null = [&](auto value) {
    return interval ? nlohmann::ordered_json(value(*interval)) : nullptr;
  };
  return {{"texts", bound.texts.size()},
          {"tokens", bound.tokens()},
          {"nats_per_token", bound.nats_per_token()},
          {"nats_low", or_null([](const Interval& of) { return of.low; })},
          {"nats_high", or_null([](const Interval& of) { return of.high; })},
          {"perplexity", std::exp(bound.nats_per_token())},
          {"perplexity_low", or_null([](const Interval& of) { return std::exp(of.low); })},
          {"perplexity_high", or_null([](const Interval& of) { return std::exp(of.high); })},
          {"forward_passes", bound.forward_passes},
          {"rows", bound.rows},
          {"seconds", bound.seconds}};
}

}  // namespace lacuna
