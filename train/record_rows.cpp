// Rows of a BatchSource that come from files.
#include <algorithm>

#include "base/rng.h"
#include "train/data.h"

namespace lacuna::train {
namespace {

constexpr uint64_t kRecord = 80;  // a purpose of random numbers, distinct from those of data.cpp

/// Pseudorandom permutation of 0 .. count-1: a Feistel network over the next power of four, applied
/// repeatedly until the result is below `count` (cycle walking).
uint64_t permuted(uint64_t index, uint64_t count, const RngStream& stream) {
  constexpr uint64_t kRounds = 4;
  int half = 1;
  while (half < 31 && uint64_t{1} << (2 * half) < count) ++half;
  const uint64_t mask = (uint64_t{1} << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (stream.bits(round << 32 | right) & mask);
      left = right;
      right = mixed;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

}  // namespace

BatchSource::Row BatchSource::record_row(const Records& records, uint64_t record, uint64_t index) const {
  const Records::Row tokens = records.row(record);
  Row row;
  row.prompt.assign(tokens.prompt.begin(), tokens.prompt.end());
  row.answer.assign(tokens.answer.begin(), tokens.answer.end());
  row.room = sample_room(index);
  return row;
}

BatchSource::Row BatchSource::sample_record_row(uint64_t index, double kind) const {
  auto file = options_.files.begin();
  for (; file + 1 != options_.files.end() && kind >= file->share; ++file) kind -= file->share;
  const uint64_t rows = file->records->size();
  const uint64_t learned = rows - rows / kHeldOutEvery;
  const RngStream order(options_.seed, kRecord, index / learned);
  const uint64_t number = permuted(index % learned, learned, order);
  return record_row(*file->records, number + number / (kHeldOutEvery - 1), index);
}

std::vector<Batch> BatchSource::held_out() const {
  const auto rows_per_batch = static_cast<uint64_t>(options_.batch_rows);
  std::vector<std::pair<uint64_t, Row>> rows;
  for (const RecordsShare& file : options_.files) {
    const uint64_t count = file.records->size() / kHeldOutEvery;
    const uint64_t wanted = std::min(count, kMaxHeldOutBatches * rows_per_batch / options_.files.size());
    for (uint64_t i = 0; i < wanted; ++i) {
      const uint64_t record = (i * count / wanted + 1) * kHeldOutEvery - 1;
      rows.emplace_back(rows.size(), record_row(*file.records, record, rows.size()));
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [this](const auto& a, const auto& b) { return length(a.second) < length(b.second); });
  std::vector<Batch> batches;
  for (uint64_t first = 0; first + rows_per_batch <= rows.size(); first += rows_per_batch) {
    std::vector<const std::pair<uint64_t, Row>*> members;
    for (uint64_t i = first; i < first + rows_per_batch; ++i) members.push_back(&rows[i]);
    batches.push_back(make_batch(members));
  }
  return batches;
}

}  // namespace lacuna::train
