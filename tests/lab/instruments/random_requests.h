// Requests for instruments that read models with random weights.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "model/tiny_models.h"
#include "options/choose.h"

namespace lacuna {

inline constexpr int32_t kRandomPrompt = 5;  ///< tokens of each prompt

inline std::vector<std::unique_ptr<Decoder>> random_requests(const BackendModel& model,
                                                             const GenerationOptions& options,
                                                             int32_t count = 1) {
  std::vector<std::unique_ptr<Decoder>> made;
  for (int32_t i = 0; i < count; ++i) {
    made.push_back(make_decoder(model.config(), options, random_tokens(11 + i, kRandomPrompt, 80)));
  }
  return made;
}

}  // namespace lacuna
