#include "backend/cuda/pass_graphs.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace lacuna::cuda {
namespace {

int64_t power_of_two(int64_t count) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(count)));
}

int64_t whole_steps(int64_t rows) {
  return (rows + kGraphRowStep - 1) / kGraphRowStep * kGraphRowStep;
}

}  // namespace

PassShape rounded_up(const PassShape& exact) {
  PassShape shape = exact;
  shape.rows = whole_steps(exact.rows);
  shape.output_rows = whole_steps(exact.output_rows);
  shape.conditioned_rows = whole_steps(exact.conditioned_rows);
  shape.pages = power_of_two(exact.pages);
  // Without output rows, the last layer ends before attention.
  const bool has_outputs = exact.output_rows > 0;
  for (AttentionSize* size : {&shape.attention, &shape.sliding}) {
    for (int64_t* count : {&size->tasks, &size->merges, &size->runs, &size->masks})
      *count = power_of_two(*count);
    size->output_tasks = has_outputs ? power_of_two(size->output_tasks) : 0;
    size->output_merges = has_outputs ? power_of_two(size->output_merges) : 0;
  }
  return shape;
}

std::list<PassGraphs::Entry>::iterator PassGraphs::find(const PassShape& shape) {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.shape == shape; });
  if (found != entries_.end()) entries_.splice(entries_.begin(), entries_, found);
  return found;
}

bool PassGraphs::has_seen(const PassShape& shape) {
  if (find(shape) != entries_.end()) return true;
  entries_.push_front({.shape = shape, .place = 0, .graph = {}});
  if (entries_.size() > kMax) entries_.pop_back();
  return false;
}

void PassGraphs::launch(Stream& stream, const PassShape& shape, uint64_t place,
                        const std::function<void()>& send) {
  const auto entry = find(shape);
  expects(entry != entries_.end(), "launch: has_seen() knows the shape");
  if (entry->graph.num_nodes() == 0 || entry->place != place) {
    entry->graph = record_graph(stream, send);
    entry->place = place;
  }
  stream.launch(entry->graph);
}

}  // namespace lacuna::cuda
