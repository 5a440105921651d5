// draw() for uploaded rows of logits.
#pragma once

#include <algorithm>
#include <vector>

#include "backend/cuda/kernels/draw.h"
#include "bench/gpu/device_vectors.h"

namespace lacuna::cuda {

struct DrawnRows {
  std::vector<DrawStatistics> statistics;
  std::vector<float> logits;  ///< prepared, if no rule filters
};

///   logits  [*, vocabulary]
///   tokens  forbidden and undrawn tokens of the rules
inline DrawnRows drawn(const std::vector<float>& logits, int64_t vocabulary,
                       const std::vector<DrawRequest>& requests, const std::vector<DrawRule>& rules,
                       const std::vector<int32_t>& tokens = {0}) {
  Stream stream;
  const DeviceBuffer rows = upload(stream, logits);
  const DeviceBuffer asked = upload(stream, requests);
  const DeviceBuffer ruled = upload(stream, rules);
  const DeviceBuffer lists = upload(stream, tokens);
  const DeviceBuffer out(requests.size() * sizeof(DrawStatistics));
  const DeviceBuffer parts(requests.size() * num_slices(vocabulary) * sizeof(DrawPart));
  const DrawArguments arguments{.logits = rows.as<float>(),
                                .requests = asked.as<DrawRequest>(),
                                .rules = ruled.as<DrawRule>(),
                                .tokens = lists.as<int32_t>(),
                                .parts = parts.as<DrawPart>(),
                                .out = out.as<DrawStatistics>(),
                                .vocabulary = vocabulary,
                                .stride = vocabulary};
  const bool filters = std::ranges::any_of(rules, [](const DrawRule& rule) { return rule.filters; });
  draw(stream, arguments, static_cast<uint32_t>(requests.size()), filters);
  if (!filters) prepare_rows(stream, arguments, static_cast<uint32_t>(requests.size()));
  return {download<DrawStatistics>(stream, out), download<float>(stream, rows)};
}

}  // namespace lacuna::cuda
