#include "backend/cuda/kv_pool.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/dtype.h"
#include "base/error.h"
#include "base/memory.h"

namespace lacuna::cuda {
namespace {

int64_t num_pages_for(int64_t cells) {
  return (cells + kPageCells - 1) / kPageCells;
}

/// One head's key or value in a pool's format, with the int8 scale, as finish_qkv() stores it.
struct StoredNumbers {
  std::vector<std::byte> bytes;
  float scale = 1;
};

StoredNumbers stored(CellFormat format, std::span<const float> numbers) {
  StoredNumbers made;
  const auto put = [&](auto value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    made.bytes.insert(made.bytes.end(), bytes, bytes + sizeof(value));
  };
  float largest = 0;
  float zero = 0;  // NaN if a number is not finite
  for (const float number : numbers) {
    largest = std::max(largest, std::abs(number));
    zero += 0 * number;
  }
  if (format == CellFormat::kInt8) made.scale = largest / 127 + zero;
  for (const float number : numbers) {
    switch (format) {
      case CellFormat::kBf16:
        put(bf16(number).bits);
        break;
      case CellFormat::kF32:
        put(number);
        break;
      case CellFormat::kInt8:
        put(static_cast<int8_t>(made.scale > 0 ? std::nearbyint(number / made.scale) : 0));
        break;
    }
  }
  return made;
}

void widen(CellFormat format, const std::byte* from, float scale, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    bf16 rounded;
    switch (format) {
      case CellFormat::kBf16:
        std::memcpy(&rounded.bits, from + 2 * i, 2);
        out[i] = static_cast<float>(rounded);
        break;
      case CellFormat::kF32:
        std::memcpy(&out[i], from + 4 * i, 4);
        break;
      case CellFormat::kInt8:
        out[i] = scale * static_cast<float>(static_cast<int8_t>(from[i]));
        break;
    }
  }
}

}  // namespace

PageShape::PageShape(const ModelConfig& config, CellFormat format) {
  int64_t bytes = 0;
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    layers_.push_back({.num_layers = config.num_layers,
                       .num_kv_heads = config.num_kv_heads_of(layer),
                       .head_dim = config.head_dim_of(layer),
                       .format = format,
                       .first_layer = layer});
    begins_.push_back(bytes);
    bytes += layers_.back().num_kv_heads * layers_.back().head_bytes();
  }
  for (PagePool& layer : layers_) layer.page_stride = bytes;
}

PagePool PageShape::pool_of(int64_t layer, std::byte* pages) const {
  const auto index = static_cast<size_t>(layer);
  PagePool pool = layers_[index];
  pool.memory = reinterpret_cast<uint16_t*>(pages + begins_[index]);
  return pool;
}

PageArena::PageArena(std::shared_ptr<DeviceStream> stream, PageShape shape, int64_t num_pages,
                     const Sink& sink)
    : device_(std::move(stream)), shape_(std::move(shape)), num_pages_(num_pages) {
  for (int64_t page = num_pages - 1; page >= 0; --page) free_.push_back(static_cast<int32_t>(page));
  const int64_t bytes = (num_pages + num_own_pages(sink)) * page_bytes();
  on_stream(*device_, [&] {
    try {
      memory_ = DeviceBuffer(static_cast<size_t>(bytes));
    } catch (const std::bad_alloc& error) {
      throw InputError("{} of keys and values do not fit into the device's memory: {}", human_bytes(bytes),
                       error.what());
    }
    if (sink.exists) write_sink(sink);
  });
}

void PageArena::write_sink(const Sink& sink) {
  sink_page_ = spare_page() + 1;
  fill_with_zeros(sink_page_);
  for (size_t layer = 0; layer < sink.keys.size(); ++layer) {
    const PagePool pool = pool_of(static_cast<int64_t>(layer));
    const auto dim = static_cast<size_t>(pool.head_dim);
    const int64_t bytes = pool.number_bytes();
    for (int64_t kv_head = 0; kv_head < pool.num_kv_heads; ++kv_head) {
      const auto of_head = [&](const std::vector<float>& all) {
        return stored(pool.format, std::span(all).subspan(static_cast<size_t>(kv_head) * dim, dim));
      };
      const StoredNumbers key = of_head(sink.keys[layer]);
      const StoredNumbers value = of_head(sink.values[layer]);
      const float scales[] = {key.scale, value.scale};
      std::byte* head = head_of(sink_page_, static_cast<int64_t>(layer), kv_head);
      device_->stream.copy(head, key.bytes.data(), key.bytes.size());
      device_->stream.copy(head + kPageCells * bytes, value.bytes.data(), value.bytes.size());
      if (pool.format == CellFormat::kInt8)
        device_->stream.copy(head + 2 * kPageCells * bytes, scales, sizeof(scales));
      device_->stream.wait();
    }
  }
}

std::vector<int32_t> PageArena::take(int64_t count) {
  if (count > num_free()) return {};
  std::vector<int32_t> pages(free_.rbegin(), free_.rbegin() + count);
  for (const int32_t page : pages) fill_with_zeros(page);
  free_.resize(free_.size() - pages.size());  // last: if a fill throws, the pages stay free
  return pages;
}

void PageArena::give_back(int32_t page) {
  free_.push_back(page);
}

std::byte* PageArena::head_of(int32_t page, int64_t layer, int64_t kv_head) const {
  const PagePool pool = pool_of(layer);
  return reinterpret_cast<std::byte*>(pool.memory) + pool.offset(page, layer, kv_head);
}

void PageArena::fill_with_zeros(int32_t page) {
  device_->stream.fill(head_of(page, 0, 0), 0, static_cast<size_t>(page_bytes()));
}

void PageArena::copy_cells(int32_t from, int32_t to, int64_t count) {
  for (int64_t layer = 0; layer < shape_.num_layers(); ++layer) {
    const int64_t bytes = pool_of(layer).number_bytes();
    for (int64_t kv_head = 0; kv_head < shape_.num_kv_heads(layer); ++kv_head) {
      const std::byte* source = head_of(from, layer, kv_head);
      std::byte* target = head_of(to, layer, kv_head);
      const auto copy = [&](int64_t begin, int64_t size) {
        device_->stream.copy(target + begin, source + begin, static_cast<size_t>(size));
      };
      copy(0, count * bytes);
      copy(kPageCells * bytes, count * bytes);
      if (shape_.format() == CellFormat::kInt8) copy(2 * kPageCells * bytes, count * kScaleBytes);
    }
  }
}

KvPageShare::KvPageShare(std::shared_ptr<PageArena> arena, int32_t page, std::shared_ptr<int64_t> taken_bytes)
    : arena_(std::move(arena)), page_(page), taken_bytes_(std::move(taken_bytes)) {
  *taken_bytes_ += arena_->page_bytes();
}

KvPageShare::~KvPageShare() {
  *taken_bytes_ -= arena_->page_bytes();
  const std::lock_guard lock(arena_->device().mutex);
  arena_->give_back(page_);
}

CudaSequence::CudaSequence(const SequenceShape& shape, std::shared_ptr<PageArena> arena,
                           std::vector<std::shared_ptr<KvPageShare>> pages, DeviceBuffer outputs,
                           DeviceBuffer soft_embeddings, const RowMemory& rows,
                           std::shared_ptr<int64_t> taken_bytes)
    : KvSequence(shape),
      arena_(std::move(arena)),
      pages_(std::move(pages)),
      rows_(rows),
      outputs_(std::move(outputs)),
      soft_embeddings_(std::move(soft_embeddings)),
      taken_bytes_(std::move(taken_bytes)) {
  *taken_bytes_ += rows_.bytes(shape);
  for (const auto& page : pages_) page_table_.push_back(page->page());
}

CudaSequence::~CudaSequence() {
  *taken_bytes_ -= rows_.bytes(shape());
}

float* CudaSequence::soft_embedding(int32_t cell) const {
  expects(rows_.keeps_soft_embeddings && cell >= 0 && cell < shape().num_cells,
          "soft_embedding: the model has canvases and the cell exists");
  return soft_embeddings_.as<float>() + cell * rows_.hidden_dim;
}

int32_t CudaSequence::sink_cell() const {
  return arena_->sink_page() < 0 ? -1 : static_cast<int32_t>(pages_.size()) * kPageCells;
}

void CudaSequence::share_page(size_t index, const std::shared_ptr<KvPageShare>& page) {
  pages_[index] = page;
  page_table_[index] = page->page();
}

void CudaSequence::add_page_table(std::vector<int32_t>& table) const {
  table.insert(table.end(), page_table_.begin(), page_table_.end());
  if (arena_->sink_page() >= 0) table.push_back(arena_->sink_page());
}

void CudaSequence::read_cells(int64_t layer, int64_t kv_head, IndexRange cells, Matrix<float> keys,
                              Matrix<float> values) const {
  std::vector<int32_t> table;
  add_page_table(table);
  const auto last = static_cast<int32_t>(table.size()) * kPageCells;
  expects(cells.begin >= 0 && cells.end <= last, "read_cells: the cells exist");
  expects(keys.rows >= cells.size() && values.rows >= cells.size(), "read_cells: there is room");
  const PagePool pool = arena_->pool_of(layer);
  const auto bytes = static_cast<size_t>(pool.number_bytes());
  std::vector<std::byte> numbers(2 * static_cast<size_t>(cells.size()) * bytes);
  std::vector<float> scales(2 * static_cast<size_t>(cells.size()), 1);
  on_stream(arena_->device(), [&] {
    Stream& stream = arena_->device().stream;
    for (int32_t cell = cells.begin; cell < cells.end; ++cell) {
      const auto at = static_cast<size_t>(cell - cells.begin);
      const std::byte* head = arena_->head_of(table[static_cast<size_t>(cell / kPageCells)], layer, kv_head);
      const std::byte* key = head + static_cast<size_t>(cell % kPageCells) * bytes;
      stream.copy(numbers.data() + 2 * at * bytes, key, bytes);
      stream.copy(numbers.data() + (2 * at + 1) * bytes, key + kPageCells * bytes, bytes);
      if (pool.format != CellFormat::kInt8) continue;
      const std::byte* own = head + 2 * kPageCells * bytes + cell % kPageCells * kScaleBytes;
      stream.copy(scales.data() + 2 * at, own, 2 * sizeof(float));
    }
    stream.wait();
  });
  for (size_t at = 0; at < static_cast<size_t>(cells.size()); ++at) {
    const auto row = static_cast<int64_t>(at);
    widen(pool.format, numbers.data() + 2 * at * bytes, scales[2 * at], keys.row_span(row));
    widen(pool.format, numbers.data() + (2 * at + 1) * bytes, scales[2 * at + 1], values.row_span(row));
  }
}

void CudaSequence::read_outputs(std::span<const int32_t> cells, Matrix<float> out) const {
  expects(shape().remembers_outputs, "read_outputs: the sequence remembers outputs");
  expects(out.rows >= std::ssize(cells) && out.cols == rows_.hidden_dim, "read_outputs: there is room");
  for (const int32_t cell : cells)
    expects(cell >= 0 && cell < shape().num_cells, "read_outputs: the cells exist");
  on_stream(arena_->device(), [&] {
    Stream& stream = arena_->device().stream;
    for (size_t i = 0; i < cells.size(); ++i) {
      stream.copy(out.row(static_cast<int64_t>(i)), outputs_.as<float>() + cells[i] * rows_.hidden_dim,
                  static_cast<size_t>(rows_.hidden_dim) * sizeof(float));
    }
    stream.wait();
  });
}

CudaPool::CudaPool(std::shared_ptr<PageArena> arena, const RowMemory& rows, int64_t limit)
    : arena_(std::move(arena)),
      rows_(rows),
      limit_(std::min(limit, arena_->num_pages() * arena_->page_bytes())) {}

DeviceBuffer CudaPool::zeros(int64_t bytes) const {
  DeviceBuffer buffer;
  if (bytes == 0) return buffer;
  buffer = DeviceBuffer(static_cast<size_t>(bytes));
  arena_->device().stream.fill(buffer.as<float>(), 0, buffer.bytes());
  return buffer;
}

int64_t CudaPool::bytes_for(const SequenceShape& shape, int64_t shared) const {
  const int64_t pages = num_pages_for(shape.num_cells) - shared / kPageCells;
  return pages * arena_->page_bytes() + rows_.bytes(shape);
}

int64_t CudaPool::bytes_of(std::span<const KvSequence* const> sequences) const {
  std::unordered_set<const KvPageShare*> pages;
  int64_t bytes = 0;
  for (const KvSequence* sequence : sequences) {
    const auto& own = sequence_of<const CudaSequence>(*sequence);
    bytes += rows_.bytes(own.shape());
    for (const auto& page : own.pages()) {
      if (pages.insert(page.get()).second) bytes += arena_->page_bytes();
    }
  }
  return bytes;
}

std::unique_ptr<KvSequence> CudaPool::make_sequence(const SequenceShape& shape, const KvPrefix& prefix) {
  if (bytes_for(shape, prefix.count) > limit_ - *taken_bytes_) return nullptr;
  const int64_t own_pages = num_pages_for(shape.num_cells) - prefix.count / kPageCells;
  std::vector<int32_t> taken;
  DeviceBuffer outputs, soft_embeddings;
  const bool has_room = on_stream(arena_->device(), [&] {
    if (own_pages > arena_->num_free()) return false;  // other pools of the model hold pages, too
    try {
      outputs = zeros(rows_.output_bytes(shape));
      soft_embeddings = zeros(rows_.soft_embedding_bytes(shape));
    } catch (const std::bad_alloc&) {
      return false;
    }
    taken = arena_->take(own_pages);
    return true;
  });
  if (!has_room) return nullptr;
  std::vector<std::shared_ptr<KvPageShare>> pages;
  if (prefix.count >= kPageCells) {
    const auto& from = sequence_of<const CudaSequence>(*prefix.sequence).pages();
    pages.assign(from.begin(), from.begin() + prefix.count / kPageCells);
  }
  for (const int32_t page : taken) pages.push_back(std::make_shared<KvPageShare>(arena_, page, taken_bytes_));
  auto sequence = std::make_unique<CudaSequence>(shape, arena_, std::move(pages), std::move(outputs),
                                                 std::move(soft_embeddings), rows_, taken_bytes_);
  if (prefix.count > 0) take_prefix(*sequence, prefix);
  return sequence;
}

void CudaPool::take_prefix(KvSequence& to, const KvPrefix& prefix) {
  const auto& from = sequence_of<const CudaSequence>(*prefix.sequence).pages();
  auto& own = sequence_of<CudaSequence>(to);
  const auto whole = static_cast<size_t>(prefix.count / kPageCells);
  expects(prefix.count <= to.shape().num_cells && prefix.count <= prefix.sequence->shape().num_cells,
          "take_prefix: both have cells for it");
  for (size_t i = 0; i < whole; ++i) own.share_page(i, from[i]);
  const int64_t rest = prefix.count % kPageCells;
  if (rest == 0) return;
  on_stream(arena_->device(),
            [&] { arena_->copy_cells(from[whole]->page(), own.pages()[whole]->page(), rest); });
}

}  // namespace lacuna::cuda
