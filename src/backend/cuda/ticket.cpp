#include "backend/cuda/ticket.h"

#include <algorithm>
#include <cmath>

#include "backend/cuda/kernels/drift.h"
#include "backend/cuda/kernels/rows.h"
#include "backend/cuda/pass.h"
#include "backend/cuda/soft_embeddings.h"
#include "model/drift.h"
#include "model/sampling.h"
#include "model/soft_embedding.h"
#include "model/token_classes.h"

namespace lacuna::cuda {
namespace {

/// Rows of logits per download.
constexpr int64_t kHostRows = 64;

std::vector<LogitRow> selected(std::span<const LogitRow> wanted, std::span<const size_t> indices) {
  std::vector<LogitRow> rows;
  rows.reserve(indices.size());
  for (const size_t index : indices) rows.push_back(wanted[index]);
  return rows;
}

/// Throws for plans that this backend must not compute.
void check_plan(const StepPlan& plan, std::span<const CudaSequence* const> sequences) {
  for (const RowGroup& group : plan.groups) {
    const CudaSequence& sequence = *sequences[static_cast<size_t>(group.sequence)];
    expects(sequence.arena() == sequences.front()->arena(), "submit: sequences are of this model's pools");
    for (int32_t row = group.rows.begin; row < group.rows.end; ++row) {
      const int32_t cell = plan.cells[static_cast<size_t>(row)];
      const auto page = static_cast<size_t>(cell / kPageCells);
      expects(cell >= 0 && page < sequence.pages().size(),
              "submit: sequences have room for the plan's cells");
      expects(sequence.pages()[page].use_count() == 1,
              "submit: no pass writes to a prefix that sequences share");
    }
  }
}

}  // namespace

std::unique_ptr<PassMemory> PassMemories::take() {
  const std::lock_guard lock(mutex_);
  if (free_.empty()) return std::make_unique<PassMemory>();
  std::unique_ptr<PassMemory> memory = std::move(free_.back());
  free_.pop_back();
  return memory;
}

void PassMemories::give_back(std::unique_ptr<PassMemory> memory) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(memory));
}

CudaTicket::CudaTicket(DeviceModel& model, const CpuDevice& host, PassMemories& memories,
                       const StepPlan& plan, std::span<KvSequence* const> sequences)
    : model_(model),
      host_(host),
      memories_(memories),
      plan_(plan),
      memory_(memories.take()),
      head_(model, memory_->residual),
      row_sequence_(plan.tokens.size()) {
  for (const KvSequence* sequence : sequences)
    sequences_.push_back(&sequence_of<const CudaSequence>(*sequence));
  check_plan(plan, sequences_);
  for (const RowGroup& group : plan.groups) {
    std::fill(row_sequence_.begin() + group.rows.begin, row_sequence_.begin() + group.rows.end,
              group.sequence);
  }
  std::tie(drawn_, host_drawn_) = split(plan.logits);
  const Stopwatch clock;
  on_stream(*model_.device, [&] { send(); });
  times_.other += clock.seconds();
}

CudaTicket::~CudaTicket() {
  try {
    // Copies from and to this memory must have run before another pass uses it.
    wait_for(*model_.device, done_);
    memories_.give_back(std::move(memory_));
  } catch (const std::exception&) {
    // The device failed; the next pass reports it.
  }
}

void CudaTicket::send() {
  DevicePass(model_, plan_, sequences_, *memory_).send(selected(plan_.logits, drawn_));
  const size_t statistics_bytes = drawn_.size() * sizeof(DrawStatistics);
  const int64_t num_drifts =
      plan_.measures_kv_drift ? 2 * int64_t{plan_.num_rows()} * model_.config.num_layers : 0;
  const size_t drift_bytes = static_cast<size_t>(num_drifts) * sizeof(float);
  HostBuffer& results = memory_->results;
  if (results.bytes() < statistics_bytes + drift_bytes) results = HostBuffer(statistics_bytes + drift_bytes);
  std::byte* drift = results.as<std::byte>() + statistics_bytes;
  result_.kv_drift = {reinterpret_cast<const float*>(drift), static_cast<size_t>(num_drifts)};
  Stream& stream = model_.stream();
  stream.copy(results.as<std::byte>(), memory_->statistics.as<std::byte>(), statistics_bytes);
  stream.copy(drift, memory_->kv_drift.as<std::byte>(), drift_bytes);
  stream.record(done_);
}

const PassResult& CudaTicket::wait() {
  if (has_result_) return result_;
  const Stopwatch clock;
  wait_for(*model_.device, done_);
  times_.other += clock.seconds();
  samples_.resize(plan_.logits.size());
  take_statistics(memory_->results.as<DrawStatistics>(), drawn_, plan_.logits, samples_);
  draw_on_host(host_drawn_, plan_.logits, samples_);
  result_.samples = samples_;
  has_result_ = true;
  return result_;
}

std::pair<std::vector<size_t>, std::vector<size_t>> CudaTicket::split(
    std::span<const LogitRow> wanted) const {
  std::pair<std::vector<size_t>, std::vector<size_t>> by_place;
  for (size_t i = 0; i < wanted.size(); ++i)
    (is_drawn_on_device(plan_, wanted[i]) ? by_place.first : by_place.second).push_back(i);
  return by_place;
}

void CudaTicket::take_statistics(const DrawStatistics* drawn, std::span<const size_t> indices,
                                 std::span<const LogitRow> wanted,
                                 std::vector<RowStatistics>& samples) const {
  for (size_t i = 0; i < indices.size(); ++i) {
    const LogitRow& logit = wanted[indices[i]];
    samples[indices[i]] = to_row_statistics(plan_.rules[static_cast<size_t>(logit.rule)], drawn[i]);
  }
}

template <typename Send>
void CudaTicket::ask(Send&& send) {
  on_stream(*model_.device, [&] {
    memory_->questions.clear();
    send(model_.stream());
    model_.stream().record(answered_);
  });
  wait_for(*model_.device, answered_);
}

template <typename T>
std::span<T> CudaTicket::answers(size_t count) {
  if (memory_->answers.bytes() < count * sizeof(T)) memory_->answers = HostBuffer(count * sizeof(T));
  return {memory_->answers.as<T>(), count};
}

template <typename Body>
void CudaTicket::on_host_threads(int64_t count, Body&& body) {
  const std::lock_guard lock(host_.mutex());
  host_.threads().parallel_for(count, [&](int64_t i, int) { body(i); });
}

void CudaTicket::scale_logits() {
  if (model_.config.logit_scale == 1) return;
  for (float& logit : logits_) logit *= model_.config.logit_scale;
}

template <typename Use>
void CudaTicket::for_each_logits(std::span<const LogitRow> wanted, Use&& use) {
  const int64_t vocab = model_.config.vocab_size;
  const auto most = static_cast<size_t>(std::min(kHostRows, head_chunk_rows(vocab) / 2));
  for (size_t first = 0; first < wanted.size(); first += most) {
    const std::span<const LogitRow> chunk = wanted.subspan(first, std::min(most, wanted.size() - first));
    std::vector<int32_t> rows;  // the chunk's rows, then the unconditional rows of those with guidance
    for (const LogitRow& logit : chunk) rows.push_back(logit.row);
    for (const LogitRow& logit : chunk) {
      if (logit.unconditional_row >= 0) rows.push_back(logit.unconditional_row);
    }
    const Stopwatch clock;
    ask([&](Stream& stream) {
      logits_ = answers<float>(rows.size() * static_cast<size_t>(vocab));
      const Staged<int32_t> list = memory_->questions.add(rows);
      memory_->questions.send(stream);
      head_.reserve(std::ssize(rows));
      head_.logits_of_rows(memory_->questions.at(list), std::ssize(rows));
      stream.copy(logits_.data(), model_.scratch.logits.as<float>(), logits_.size_bytes());
    });
    times_.head += clock.seconds();
    scale_logits();
    const Matrix<float> logits(logits_.data(), std::ssize(rows), vocab);
    int64_t guide = std::ssize(chunk);
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (chunk[i].unconditional_row < 0) continue;
      apply_guidance(logits.row(guide++), chunk[i].guidance, logits.row_span(static_cast<int64_t>(i)));
    }
    const Stopwatch drawing;
    use(first, logits.first_rows(std::ssize(chunk)));
    times_.draws += drawing.seconds();
  }
}

void CudaTicket::draw_on_host(std::span<const size_t> indices, std::span<const LogitRow> wanted,
                              std::vector<RowStatistics>& samples) {
  for_each_logits(selected(wanted, indices), [&](size_t first, Matrix<float> logits) {
    on_host_threads(logits.rows, [&](int64_t i) {
      const size_t index = indices[first + static_cast<size_t>(i)];
      const LogitRow& logit = wanted[index];
      samples[index] = draw(host_.kernels(), plan_.rules[static_cast<size_t>(logit.rule)], logit.noise,
                            logits.row_span(i), logit.scored, logit.num_likeliest);
    });
    keep_soft_embeddings(selected(wanted, indices.subspan(first, static_cast<size_t>(logits.rows))), logits);
  });
}

void CudaTicket::keep_soft_embeddings(std::span<const LogitRow> wanted, Matrix<float> logits) {
  const std::vector<float*> kept = soft_embeddings_of(plan_, sequences_, wanted);
  std::vector<float> factors, weights;
  std::vector<float*> to;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (kept[i] == nullptr) continue;
    const std::span<float> row = logits.row_span(static_cast<int64_t>(i));
    const float largest = *std::max_element(row.begin(), row.end());
    for (float& logit : row) logit = std::exp(logit - largest);
    const double sum = leave_out_least_likely(row, double{wanted[i].soft_embedding_slack});
    factors.push_back(static_cast<float>(double{model_.embedding_scale()} / sum));
    weights.insert(weights.end(), row.begin(), row.end());
    to.push_back(kept[i]);
  }
  if (to.empty()) return;
  on_stream(*model_.device, [&] {
    cuda::keep_soft_embeddings(model_, memory_->questions, {weights.data(), std::ssize(to), logits.cols},
                               factors, to);
  });
}

void CudaTicket::sample_more(std::span<const LogitRow> wanted) {
  further_samples_.assign(wanted.size(), {});
  const auto halves = split(wanted);
  const std::vector<size_t>& on_device_indices = halves.first;
  const std::vector<size_t>& on_host_indices = halves.second;
  if (!on_device_indices.empty()) {
    std::span<DrawStatistics> drawn;
    const Stopwatch clock;
    ask([&](Stream& stream) {
      drawn = answers<DrawStatistics>(on_device_indices.size());
      const std::vector<LogitRow> rows = selected(wanted, on_device_indices);
      head_.stage_draws(plan_, rows, soft_embeddings_of(plan_, sequences_, rows), memory_->questions);
      memory_->questions.send(stream);
      grow(stream, memory_->further_statistics, static_cast<int64_t>(drawn.size_bytes()));
      head_.draw_all(memory_->questions, memory_->further_statistics.as<DrawStatistics>());
      stream.copy(drawn.data(), memory_->further_statistics.as<std::byte>(), drawn.size_bytes());
    });
    times_.head += clock.seconds();
    take_statistics(drawn.data(), on_device_indices, wanted, further_samples_);
  }
  draw_on_host(on_host_indices, wanted, further_samples_);
}

void CudaTicket::read_classes(std::span<const ClassRow> wanted) {
  classes_.assign(count_classes(wanted), {});
  std::vector<LogitRow> rows;
  std::vector<std::span<ClassStatistics>> of_row;
  std::span<ClassStatistics> left(classes_);
  for (const ClassRow& each : wanted) {
    const auto count = static_cast<size_t>(each.classes->count);
    rows.push_back(each.logit);
    of_row.push_back(left.first(count));
    left = left.subspan(count);
  }
  for_each_logits(rows, [&](size_t first, Matrix<float> logits) {
    on_host_threads(logits.rows, [&](int64_t i) {
      const size_t index = first + static_cast<size_t>(i);
      const ClassRow& row = wanted[index];
      const SamplingRule& rule = plan_.rules[static_cast<size_t>(row.logit.rule)];
      reduce_by_class(host_.kernels(), rule, row.samples && rule.draws ? &row.logit.noise : nullptr,
                      *row.classes, logits.row_span(i), of_row[index]);
    });
  });
}

float* CudaTicket::remembered(int32_t row, int32_t cell) const {
  const auto sequence = static_cast<size_t>(row_sequence_[static_cast<size_t>(row)]);
  const DeviceBuffer& outputs = sequences_[sequence]->outputs();
  return outputs.bytes() == 0 ? nullptr : outputs.as<float>() + cell * model_.config.hidden_dim;
}

void CudaTicket::compare(std::span<const DriftProbe> probes) {
  drifts_.assign(probes.size(), {});
  const int64_t vocab = model_.config.vocab_size;
  const auto most = static_cast<size_t>(std::min(kHostRows, head_chunk_rows(vocab)) / 4);
  for (size_t first = 0; first < probes.size(); first += most) {
    const std::span<const DriftProbe> chunk = probes.subspan(first, std::min(most, probes.size() - first));
    const bool is_guided = std::any_of(chunk.begin(), chunk.end(),
                                       [](const DriftProbe& probe) { return probe.unconditional_row >= 0; });
    // Current rows, then remembered rows. With guidance, each half ends with the unconditional rows.
    std::vector<int32_t> rows;
    std::vector<const float*> before;
    const auto add = [&](int32_t row, int32_t cell) {
      rows.push_back(row);
      before.push_back(remembered(row, cell));
      expects(before.back() != nullptr, "follow_up: probes need remembered outputs");
    };
    for (const DriftProbe& probe : chunk) add(probe.row, probe.cell);
    for (const DriftProbe& probe : chunk) {
      if (is_guided) add(probe.unconditional_row >= 0 ? probe.unconditional_row : probe.row, probe.cell);
    }
    const auto count = std::ssize(rows);
    std::span<double> measured;
    ask([&](Stream& stream) {
      const Staged<int32_t> now_list = memory_->questions.add(rows);
      const Staged<const float*> before_list = memory_->questions.add(before);
      memory_->questions.send(stream);
      head_.reserve(2 * count);
      head_.logits_of_rows(memory_->questions.at(now_list), count);
      head_.logits_of_outputs(memory_->questions.at(before_list), count, count);
      const float* logits = model_.scratch.logits.as<float>();
      if (is_guided) {
        logits_ = answers<float>(static_cast<size_t>(2 * count * vocab));
        stream.copy(logits_.data(), logits, logits_.size_bytes());
      } else {
        measured = answers<double>(2 * chunk.size());
        grow(stream, memory_->further_statistics, static_cast<int64_t>(measured.size_bytes()));
        measure_drift(stream,
                      {logits, logits + count * vocab, memory_->further_statistics.as<double>(), vocab, vocab,
                       model_.config.logit_scale},
                      static_cast<uint32_t>(count));
        stream.copy(measured.data(), memory_->further_statistics.as<double>(), measured.size_bytes());
      }
    });
    if (is_guided) scale_logits();
    for (size_t i = 0; i < chunk.size(); ++i) {
      drifts_[first + i] = is_guided ? guided_drift(chunk[i], static_cast<int64_t>(i), count)
                                     : Drift{measured[2 * i], measured[2 * i + 1]};
    }
  }
}

Drift CudaTicket::guided_drift(const DriftProbe& probe, int64_t index, int64_t count) {
  const int64_t vocab = model_.config.vocab_size;
  for (float* row : {logits_.data() + index * vocab, logits_.data() + (count + index) * vocab}) {
    const std::span<float> logits(row, static_cast<size_t>(vocab));
    const float* without = row + count / 2 * vocab;
    if (probe.unconditional_row >= 0) apply_guidance(without, probe.guidance, logits);
  }
  const auto size = static_cast<size_t>(vocab);
  return lacuna::measure_drift({logits_.data() + index * vocab, size},
                               {logits_.data() + (count + index) * vocab, size});
}

FollowUpResult CudaTicket::follow_up(const FollowUp& wanted) {
  expects(has_result_, "follow_up: after wait()");
  read_classes(wanted.classes);
  sample_more(wanted.logits);
  const Stopwatch clock;
  compare(wanted.probes);
  times_.head += clock.seconds();
  return {further_samples_, drifts_, classes_};
}

void CudaTicket::remember_outputs() {
  std::vector<int32_t> rows;
  std::vector<float*> outputs;
  for (const RowGroup& group : plan_.groups) {
    for (int32_t row = group.rows.begin; row < group.rows.end && !group.only_kv; ++row) {
      float* to = remembered(row, plan_.cells[static_cast<size_t>(row)]);
      if (to == nullptr) continue;
      rows.push_back(row);
      outputs.push_back(to);
    }
  }
  if (rows.empty()) return;
  ask([&](Stream& stream) {
    const Staged<int32_t> list = memory_->questions.add(rows);
    const Staged<float*> to = memory_->questions.add(outputs);
    memory_->questions.send(stream);
    rms_norm(stream,
             {.residual = memory_->residual.as<float>(),
              .rows = memory_->questions.at(list),
              .weight = model_.weights.final_norm.as<float>(),
              .out_f32_rows = memory_->questions.at(to),
              .hidden = model_.config.hidden_dim,
              .epsilon = model_.config.norm_eps},
             static_cast<uint32_t>(rows.size()));
  });
}

void CudaTicket::read_logits(std::span<const LogitRow> wanted, Matrix<float> out) {
  expects(out.rows == std::ssize(wanted) && out.cols == model_.config.vocab_size,
          "read_logits: out is rows by vocabulary");
  for_each_logits(wanted, [&](size_t first, Matrix<float> logits) {
    for (int64_t i = 0; i < logits.rows; ++i)
      std::copy_n(logits.row(i), logits.cols, out.row(static_cast<int64_t>(first) + i));
  });
}

void compare_outputs(DeviceModel& model, ConstMatrix<float> now, ConstMatrix<float> before,
                     std::span<Drift> drifts) {
  expects(now.rows == before.rows && std::ssize(drifts) == now.rows,
          "compare_outputs: as many rows now as before");
  const int64_t vocab = model.config.vocab_size;
  const int64_t most = head_chunk_rows(vocab) / 2;
  Staging values, pointers;
  DeviceBuffer nothing, out;
  for (int64_t first = 0; first < now.rows; first += most) {
    const int64_t count = std::min(most, now.rows - first);
    std::vector<double> measured(static_cast<size_t>(2 * count));
    on_stream(*model.device, [&] {
      Stream& stream = model.stream();
      values.clear();
      std::vector<Staged<float>> staged;
      for (const ConstMatrix<float>* rows : {&now, &before}) {
        for (int64_t i = 0; i < count; ++i)
          staged.push_back(values.add(std::span<const float>(rows->row_span(first + i))));
      }
      values.send(stream);
      std::vector<const float*> outputs;
      outputs.reserve(staged.size());
      for (const Staged<float>& row : staged) outputs.push_back(values.at(row));
      pointers.clear();
      const Staged<const float*> list = pointers.add(outputs);
      pointers.send(stream);
      DeviceHead head(model, nothing);
      head.reserve(2 * count);
      head.logits_of_outputs(pointers.at(list), 2 * count);
      grow(stream, out, static_cast<int64_t>(measured.size() * sizeof(double)));
      const float* logits = model.scratch.logits.as<float>();
      measure_drift(
          stream, {logits, logits + count * vocab, out.as<double>(), vocab, vocab, model.config.logit_scale},
          static_cast<uint32_t>(count));
      stream.copy(measured.data(), out.as<double>(), measured.size() * sizeof(double));
      stream.wait();
    });
    for (int64_t i = 0; i < count; ++i) {
      const auto index = static_cast<size_t>(i);
      drifts[static_cast<size_t>(first) + index] = {measured[2 * index], measured[2 * index + 1]};
    }
  }
}

}  // namespace lacuna::cuda
