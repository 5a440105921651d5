#include "train/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

#include "base/error.h"
#include "base/rng.h"

namespace lacuna::train {
namespace {

enum Purpose : uint8_t {
  kRowKind = 16,
  kDrill,
  kRowOrder,
  kBatchOrder
};  // apart from those of the objective

// So many batches are drawn together and sorted by length; more would save little.
constexpr uint64_t kPoolBatches = 16;

// Never extended: the zoo's models share the vocabulary that these two gave, and any text can be written in
// it.
constexpr std::array<std::string_view, 2> kVocabularyTasks = {"arithmetic", "stories"};

struct Equation {
  std::string question;  // "12+7="
  std::string result;
};

Equation draw_equation(const RngStream& stream, uint64_t number) {
  for (uint64_t attempt = 0;; ++attempt) {
    const uint64_t index = 3 * (1000 * number + attempt);
    const int left = static_cast<int>(stream.below(index, kMaxNumber + 1));
    const int right = 1 + static_cast<int>(stream.below(index + 1, kMaxChange));
    const bool adds = stream.below(index + 2, 2) == 0;
    const int result = adds ? left + right : left - right;
    if (result < 0 || result > kMaxNumber) continue;
    return {fmt::format("{}{}{}=", left, adds ? '+' : '-', right), fmt::format("{}", result)};
  }
}

/// The order that puts random keys in ascending order.
std::vector<size_t> shuffled(size_t count, const RngStream& stream) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return stream.bits(a) < stream.bits(b); });
  return order;
}

}  // namespace

BatchSource::BatchSource(DataOptions options, const Tokenizer& tokenizer, TokenId end_id)
    : options_(std::move(options)), tokenizer_(&tokenizer), end_id_(end_id) {
  if (options_.one_end_token && options_.drill_share > 0) {
    throw InputError("--drill-share {}: this family learns slots of whole answers; it has no drills",
                     options_.drill_share);
  }
}

Batch BatchSource::batch(uint64_t step) {
  if (pool_number_ != step / kPoolBatches) fill(step / kPoolBatches);
  return pool_[step % kPoolBatches];
}

BatchSource::Row BatchSource::draw_row(uint64_t index) const {
  double stories = 0;
  for (const TaskShare& share : options_.tasks) stories += share.share;
  double kind = (stories + options_.drill_share) * RngStream(options_.seed, kRowKind).uniform(index);
  const bool drill = kind >= stories;
  if (drill) kind = (kind - stories) / options_.drill_share * stories;  // even again: chooses its prompt
  auto chosen = options_.tasks.begin();
  for (; chosen + 1 != options_.tasks.end() && kind >= chosen->share; ++chosen) kind -= chosen->share;
  const Sample sample = chosen->task->generate(Split::kTrain, options_.seed, index);
  Row row{tokenizer_->encode(sample.prompt), {}};
  if (!drill) row.answer = tokenizer_->encode(sample.answer);
  return row;
}

int64_t BatchSource::length(const Row& row) const {
  const auto answer = static_cast<int64_t>(row.answer.size());
  return static_cast<int64_t>(row.prompt.size()) +
         (options_.one_end_token ? answer + 1 : std::max(options_.canvas, answer));
}

void BatchSource::fill(uint64_t pool_number) {
  const auto rows_per_batch = static_cast<size_t>(options_.batch_rows);
  const uint64_t first = pool_number * kPoolBatches * rows_per_batch;
  std::vector<std::pair<uint64_t, Row>> rows;
  for (uint64_t i = 0; i < kPoolBatches * rows_per_batch; ++i)
    rows.emplace_back(first + i, draw_row(first + i));
  std::stable_sort(rows.begin(), rows.end(),
                   [this](const auto& a, const auto& b) { return length(a.second) < length(b.second); });
  const std::vector<size_t> batch_order =
      shuffled(kPoolBatches, RngStream(options_.seed, kBatchOrder, pool_number));

  pool_.assign(kPoolBatches, {});
  for (size_t b = 0; b < kPoolBatches; ++b) {
    const std::span members = std::span(rows).subspan(b * rows_per_batch, rows_per_batch);
    int64_t length = 0;
    for (const auto& [index, row] : members) length = std::max(length, this->length(row));
    if (options_.context > 0) {
      if (length > options_.context) {
        throw InputError("--context {}: a prompt and its canvas need {} positions", options_.context, length);
      }
      length = options_.context;
    }
    const std::vector<size_t> order =
        shuffled(rows_per_batch, RngStream(options_.seed, kRowOrder, pool_number, b));
    Batch batch{torch::empty({options_.batch_rows, length}, torch::kInt64),
                torch::empty({options_.batch_rows, length}, torch::kBool)};
    for (size_t r = 0; r < rows_per_batch; ++r) {
      const auto& [index, row] = members[order[r]];
      const auto offset = static_cast<int64_t>(r) * length;
      write_row(row, index, batch.tokens.data_ptr<int64_t>() + offset,
                batch.response.data_ptr<bool>() + offset, length);
    }
    pool_[batch_order[b]] = batch;
  }
  pool_number_ = pool_number;
}

void BatchSource::write_row(const Row& row, uint64_t index, int64_t* tokens, bool* response,
                            int64_t length) const {
  const auto prompt = static_cast<int64_t>(row.prompt.size());
  int64_t* end = std::copy(row.prompt.begin(), row.prompt.end(), tokens);
  std::fill(response, response + prompt, false);
  if (row.answer.empty()) return write_drill(index, tokens, response, prompt, length);
  end = std::copy(row.answer.begin(), row.answer.end(), end);
  std::fill(end, tokens + length, static_cast<int64_t>(end_id_));
  const int64_t learned = options_.one_end_token ? this->length(row) : length;
  std::fill(response + prompt, response + learned, true);
  std::fill(response + learned, response + length, false);
}

void BatchSource::write_drill(uint64_t index, int64_t* tokens, bool* response, int64_t at,
                              int64_t length) const {
  const RngStream stream(options_.seed, kDrill, index);
  const auto append = [&](const std::string& text, bool is_response) {
    for (const TokenId token : tokenizer_->encode(text)) {
      if (at == length) return;
      tokens[at] = token;
      response[at++] = is_response;
    }
  };
  for (uint64_t number = 0; at < length; ++number) {
    const Equation equation = draw_equation(stream, number);
    append((number == 0 ? "" : " ") + equation.question, false);
    append(equation.result, true);
    append(".", false);
  }
}

std::vector<std::string> vocabulary_corpus() {
  constexpr uint64_t kSeed = 1;
  constexpr uint64_t kSamplesPerTask = 20000;
  std::vector<std::string> texts;
  for (const std::string_view name : kVocabularyTasks) {
    for (uint64_t index = 0; index < kSamplesPerTask; ++index) {
      Sample sample = find_task(name).generate(Split::kTrain, kSeed, index);
      texts.push_back(std::move(sample.prompt));
      texts.push_back(std::move(sample.answer));
    }
  }
  return texts;
}

}  // namespace lacuna::train
