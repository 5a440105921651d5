// The output head: logits, sampling, and drift of posteriors.
#include <algorithm>
#include <iterator>
#include <limits>
#include <vector>

#include "base/error.h"
#include "model/drift.h"
#include "model/pass.h"
#include "model/sampling.h"
#include "model/soft_embedding.h"

namespace lacuna {

void Model::Pass::sample_all(std::span<const LogitRow> wanted, std::span<RowStatistics> samples) {
  for_each_logits(wanted, [&](size_t first, Matrix<float> logits) {
    context_.threads.parallel_for(logits.rows, [&](int64_t i, int) {
      const size_t index = first + static_cast<size_t>(i);
      const LogitRow& logit = wanted[index];
      samples[index] = draw(kernels_, plan_.rules[static_cast<size_t>(logit.rule)], logit.noise,
                            logits.row_span(i), logit.scored, logit.num_likeliest);
    });
    keep_soft_embeddings(wanted.subspan(first, static_cast<size_t>(logits.rows)), logits);
  });
}

void Model::Pass::keep_logits(std::span<const LogitRow> wanted) {
  // Other ranks may have some of the logits, and a later chunk overwrites earlier ones.
  if (!part_.is_whole() || static_cast<int64_t>(wanted.size()) > head_chunk_rows(config_.vocab_size)) return;
  ws_.kept_logits.assign(wanted.begin(), wanted.end());
  for (LogitRow& logit : ws_.kept_logits) {
    const SamplingRule& rule = plan_.rules[static_cast<size_t>(logit.rule)];
    if (logit.soft_embedding_slack >= 0 || !keeps_logits(rule, logit.num_likeliest)) logit.row = -1;
  }
}

/// Rows of ws_.logits that hold the logits of `wanted`; empty unless all are there.
std::vector<int64_t> Model::Pass::kept_rows(std::span<const ClassRow> wanted) const {
  std::vector<int64_t> rows;
  for (const ClassRow& each : wanted) {
    const auto found =
        std::find_if(ws_.kept_logits.begin(), ws_.kept_logits.end(), [&](const LogitRow& kept) {
          return kept.row == each.logit.row && kept.unconditional_row == each.logit.unconditional_row &&
                 kept.guidance == each.logit.guidance;
        });
    if (found == ws_.kept_logits.end()) return {};
    rows.push_back(found - ws_.kept_logits.begin());
  }
  return rows;
}

void Model::Pass::read_classes(std::span<const ClassRow> wanted, std::span<ClassStatistics> values) {
  std::vector<LogitRow> rows;
  std::vector<std::span<ClassStatistics>> of_row;
  for (const ClassRow& each : wanted) {
    const auto count = static_cast<size_t>(each.classes->count);
    rows.push_back(each.logit);
    of_row.push_back(values.first(count));
    values = values.subspan(count);
  }
  const auto read = [&](size_t index, std::span<float> logits) {
    const ClassRow& row = wanted[index];
    const SamplingRule& rule = plan_.rules[static_cast<size_t>(row.logit.rule)];
    reduce_by_class(kernels_, rule, row.samples && rule.draws ? &row.logit.noise : nullptr, *row.classes,
                    logits, of_row[index]);
  };
  if (const std::vector<int64_t> kept = kept_rows(wanted); !kept.empty()) {
    // The head computed these rows in this pass already; the logits are bitwise identical.
    const Matrix<float> logits = sized(ws_.logits, std::ssize(ws_.kept_logits), config_.vocab_size);
    context_.threads.parallel_for(std::ssize(kept), [&](int64_t i, int) {
      read(static_cast<size_t>(i), logits.row_span(kept[static_cast<size_t>(i)]));
    });
    ws_.kept_logits.clear();
    return;
  }
  for_each_logits(rows, [&](size_t first, Matrix<float> logits) {
    context_.threads.parallel_for(
        logits.rows, [&](int64_t i, int) { read(first + static_cast<size_t>(i), logits.row_span(i)); });
  });
}

void Model::Pass::keep_soft_embeddings(std::span<const LogitRow> wanted, Matrix<float> logits) {
  if (std::none_of(wanted.begin(), wanted.end(),
                   [](const LogitRow& logit) { return logit.soft_embedding_slack >= 0; }))
    return;
  expects(config_.canvas && !caches_.empty(), "soft embeddings are kept by passes of a model with canvases");
  ws_.vocabulary.assign(static_cast<size_t>(logits.stride), std::numeric_limits<int32_t>::max());
  std::fill_n(ws_.vocabulary.begin(), logits.cols, 0);
  std::vector<float> factors(wanted.size());
  std::vector<float*> kept(wanted.size());
  context_.threads.parallel_for(logits.rows, [&](int64_t i, int) {
    const auto index = static_cast<size_t>(i);
    const LogitRow& logit = wanted[index];
    const auto row = static_cast<size_t>(logit.row);
    if (logit.soft_embedding_slack < 0) {
      std::fill_n(logits.row(i), logits.cols, 0.0F);
      return;
    }
    kernels_.softmax_numerators(logits.row(i), ws_.vocabulary.data(), logits.stride, 0, 1);
    const double sum = leave_out_least_likely(logits.row_span(i), double{logit.soft_embedding_slack});
    factors[index] = static_cast<float>(double{embedding_scale_} / sum);
    kept[index] = caches_[static_cast<size_t>(row_sequence_[row])]->soft_embeddings().row(plan_.cells[row]);
  });
  mean_embeddings(context_, parameters_.embedding, logits, factors, kept);
}

void Model::Pass::compare(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
                          std::span<Drift> drifts) {
  const int64_t chunk_probes = head_chunk_rows(config_.vocab_size) / 4;
  const auto count = static_cast<int64_t>(probes.size());
  for (int64_t first = 0; first < count; first += chunk_probes) {
    const auto size = static_cast<size_t>(std::min(chunk_probes, count - first));
    const auto begin = static_cast<size_t>(first);
    compare_chunk(probes.subspan(begin, size), outputs, drifts.subspan(begin, size));
  }
}

void Model::Pass::compare_rows(ConstMatrix<float> now, ConstMatrix<float> before, std::span<Drift> drifts) {
  const int64_t chunk_rows = head_chunk_rows(config_.vocab_size) / 2;
  for (int64_t first = 0; first < now.rows; first += chunk_rows) {
    const int64_t count = std::min(chunk_rows, now.rows - first);
    const Matrix<float> head_rows = sized(ws_.head_rows, 2 * count, config_.hidden_dim);
    for (int64_t i = 0; i < count; ++i) {
      std::copy_n(now.row(first + i), config_.hidden_dim, head_rows.row(i));
      std::copy_n(before.row(first + i), config_.hidden_dim, head_rows.row(count + i));
    }
    ws_.packed.pack(context_, head_rows, {}, dtype_);
    const Matrix<float> logits = head();
    context_.threads.parallel_for(count, [&](int64_t i, int) {
      drifts[static_cast<size_t>(first + i)] =
          lacuna::measure_drift(logits.row_span(i), logits.row_span(count + i));
    });
  }
}

void Model::Pass::remember(std::span<OutputCache* const> outputs) {
  for_each_row(plan_.num_rows(), [&](int64_t row) {
    const auto index = static_cast<size_t>(row);
    if (!ws_.residual_row.empty() && ws_.residual_row[index] < 0) return;
    const OutputCache* output = outputs[static_cast<size_t>(row_sequence_[index])];
    if (output != nullptr) final_norm(row, output->rows().row(plan_.cells[index]));
  });
}

Matrix<float> Model::Pass::compute_logits(std::span<const LogitRow> wanted) {
  // First all rows, then the unconditional rows of those with guidance.
  const auto count = static_cast<int64_t>(wanted.size());
  std::vector<int32_t>& rows = ws_.head_row_indices;
  rows.clear();
  for (const LogitRow& logit : wanted) rows.push_back(logit.row);
  for (const LogitRow& logit : wanted) {
    if (logit.unconditional_row >= 0) rows.push_back(logit.unconditional_row);
  }
  const auto num_rows = static_cast<int64_t>(rows.size());
  ws_.packed.pack_each(context_, num_rows, config_.hidden_dim, dtype_, [&](int64_t i, float* space) {
    final_norm(rows[static_cast<size_t>(i)], space);
    return space;
  });
  const Matrix<float> logits = head();
  int64_t guide = count;
  for (int64_t i = 0; i < count; ++i) {
    const LogitRow& logit = wanted[static_cast<size_t>(i)];
    if (logit.unconditional_row < 0) continue;
    apply_guidance(logits.row(guide++), logit.guidance, logits.row_span(i));
  }
  ws_.times.head += watch_.restart();
  return logits.first_rows(count);
}

void Model::Pass::compare_chunk(std::span<const DriftProbe> probes, std::span<OutputCache* const> outputs,
                                std::span<Drift> drifts) {
  const auto count = static_cast<int64_t>(probes.size());
  const bool guided = std::any_of(probes.begin(), probes.end(),
                                  [](const DriftProbe& probe) { return probe.unconditional_row >= 0; });
  const int64_t kinds = guided ? 4 : 2;  // now, before, and both without the prompt
  const Matrix<float> head_rows = sized(ws_.head_rows, kinds * count, config_.hidden_dim);
  for_each_row(count, [&](int64_t i) {
    const DriftProbe& probe = probes[static_cast<size_t>(i)];
    const auto fill = [&](int32_t row, int64_t now, int64_t before) {
      const auto sequence = static_cast<size_t>(row_sequence_[static_cast<size_t>(row)]);
      final_norm(row, head_rows.row(now));
      std::copy_n(outputs[sequence]->rows().row(probe.cell), config_.hidden_dim, head_rows.row(before));
    };
    fill(probe.row, i, count + i);
    if (guided) {
      const int32_t other = probe.unconditional_row >= 0 ? probe.unconditional_row : probe.row;
      fill(other, 2 * count + i, 3 * count + i);
    }
  });
  ws_.packed.pack(context_, head_rows, {}, dtype_);
  const Matrix<float> logits = head();
  context_.threads.parallel_for(count, [&](int64_t i, int) {
    const DriftProbe& probe = probes[static_cast<size_t>(i)];
    if (probe.unconditional_row >= 0) {
      apply_guidance(logits.row(2 * count + i), probe.guidance, logits.row_span(i));
      apply_guidance(logits.row(3 * count + i), probe.guidance, logits.row_span(count + i));
    }
    drifts[static_cast<size_t>(i)] = lacuna::measure_drift(logits.row_span(i), logits.row_span(count + i));
  });
  ws_.times.head += watch_.restart();
}

void Model::Pass::final_norm(int64_t row, float* out) const {
  if (!ws_.residual_row.empty()) row = ws_.residual_row[static_cast<size_t>(row)];
  expects(row >= 0, "logits are asked of rows that the last layer computes whole");
  norm(residual_.row(row), parameters_.final_norm, out);
}

Matrix<float> Model::Pass::head() {
  const int64_t num_rows = ws_.packed.num_rows();
  const Matrix<float> logits = sized(ws_.logits, num_rows, config_.vocab_size);
  ws_.kept_logits.clear();
  multiply(context_, ws_.packed, parameters_.head().view(), nullptr, logits);
  if (config_.logit_soft_cap > 0) {
    for_each_row(num_rows, [&](int64_t i) {
      kernels_.soft_cap(logits.row(i), config_.vocab_size, 1, config_.logit_soft_cap);
    });
  }
  if (config_.logit_scale != 1) {
    for_each_row(num_rows, [&](int64_t i) {
      for (float& logit : logits.row_span(i)) logit *= config_.logit_scale;
    });
  }
  return logits;
}

}  // namespace lacuna
