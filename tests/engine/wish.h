// A request of the engine's tests.
#pragma once

#include <memory>
#include <vector>

#include "decode/make_decoder.h"
#include "model/model.h"
#include "options/choose.h"

namespace lacuna {

struct Wish {
  std::vector<TokenId> prompt;
  GenerationOptions options;
};

///   guide  null: none
inline std::unique_ptr<Decoder> make_decoder(const Model& model, const Wish& wish,
                                             const Model* guide = nullptr) {
  DecoderContext context;
  if (guide != nullptr) {
    context.guide =
        GuideContext{&guide->config(), wish.prompt, shared_vocabulary(model.config(), guide->config())};
  }
  return make_decoder(model.config(), wish.options, wish.prompt, context);
}

}  // namespace lacuna
