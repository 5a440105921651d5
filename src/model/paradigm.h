// Text generation paradigms.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lacuna {

/// Generation paradigm of a model; each has its own decoder.
enum class Paradigm : uint8_t {
  kCausal,    ///< from left to right (Qwen)
  kSlots,     ///< ReFusion: causal slots in any order
  kMasked,    ///< any masked position of the canvas at any step (LLaDA, Dream)
  kBlocks,    ///< block diffusion: blocks from left to right, masked positions of a block in any order
  kUniform,   ///< GIDD, Sumi: blocks of random tokens or masks, any of which a step may replace
  kCanvases,  ///< DiffusionGemma: canvases of random tokens from left to right; finished ones are read
              ///< causally
};

/// "causal", "slots", "masked", "blocks", "uniform" or "canvases".
std::string_view name_of(Paradigm paradigm);
/// The inverse of name_of(); empty for any other text.
std::optional<Paradigm> paradigm_named(std::string_view name);

}  // namespace lacuna
