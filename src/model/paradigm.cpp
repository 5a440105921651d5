#include "model/paradigm.h"

#include <array>

#include "base/error.h"

namespace lacuna {
namespace {

struct NamedParadigm {
  Paradigm paradigm;
  std::string_view name;
};

constexpr std::array<NamedParadigm, 6> kParadigms = {{{Paradigm::kCausal, "causal"},
                                                      {Paradigm::kSlots, "slots"},
                                                      {Paradigm::kMasked, "masked"},
                                                      {Paradigm::kBlocks, "blocks"},
                                                      {Paradigm::kUniform, "uniform"},
                                                      {Paradigm::kCanvases, "canvases"}}};

}  // namespace

std::string_view name_of(Paradigm paradigm) {
  for (const NamedParadigm& known : kParadigms) {
    if (known.paradigm == paradigm) return known.name;
  }
  expects(false, "every paradigm has a name");
  return {};
}

std::optional<Paradigm> paradigm_named(std::string_view name) {
  for (const NamedParadigm& known : kParadigms) {
    if (known.name == name) return known.paradigm;
  }
  return {};
}

}  // namespace lacuna
