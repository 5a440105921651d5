#include "decode/strategy.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <type_traits>

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

/// The name of an enumerator, from all names in order.
template <typename Enum, size_t N>
std::string_view name(Enum value, const std::array<std::string_view, N>& names) {
  return names.at(static_cast<size_t>(value));
}

/// The name of a rule, and its numbers.
struct RuleWriter {
  Json operator()(const EvenSplit&) const { return {{"count", "even-split"}}; }
  Json operator()(const TimeSchedule& r) const { return {{"count", "time-schedule"}, {"eps", r.eps}}; }
  Json operator()(const LinearSchedule&) const { return {{"count", "linear-schedule"}}; }
  Json operator()(const AncestralSampling& r) const { return {{"count", "each-on-its-own"}, {"eps", r.eps}}; }
  Json operator()(const Threshold& r) const { return {{"count", "threshold"}, {"tau", r.tau}}; }
  Json operator()(const Factor& r) const { return {{"count", "factor"}, {"f", r.f}}; }
  Json operator()(const Remasking&) const { return {{"count", "remasking"}}; }
  template <NumberedRule Rule>
  Json operator()(const Rule& rule) const {
    Json json{{"count", Rule::kName}};
    Rule::visit_numbers(rule, [&]<typename T>(std::string_view name, const T& number, auto, auto) {
      if constexpr (std::is_arithmetic_v<T>) {
        json[std::string(name)] = number;
      } else if (number) {
        json[std::string(name)] = *number;
      }
    });
    return json;
  }
  Json operator()(const CustomRule&) const { return {{"count", "custom"}}; }
  Json operator()(const Dynamic& r) const { return {{"count", "dynamic"}, {"tau", r.tau}}; }
  Json operator()(const EntropyBounded& r) const {
    return {{"count", "entropy-bounded"}, {"bound", r.bound}};
  }
};

Json json_of(const CountRule& rule) {
  return std::visit(RuleWriter(), rule);
}

Json json_of(const UnmaskRule& rule) {
  Json json = json_of(rule.policy.count);
  json["order"] =
      name(rule.policy.order, std::array<std::string_view, 3>{"confidence", "random", "left-to-right"});
  json["measure"] =
      name(rule.measure, std::array<std::string_view, 3>{"probability", "margin", "negative-entropy"});
  json["alg_temp"] = rule.policy.order_temperature;
  return json;
}

Json json_of(const GuideRule& rule) {
  struct Visitor {
    Json operator()(const MatchTopK& m) const { return {{"top_k", m.k}}; }
    Json operator()(const MatchRelative& m) const { return {{"relative", m.ratio}}; }
    Json operator()(const MatchTauLiteral& m) const { return {{"tau_literal", m.tau}}; }
  };
  return {{"match", std::visit(Visitor(), rule.match)},
          {"fallback", name(rule.fallback, std::array<std::string_view, 2>{"draft", "guide"})},
          {"block", rule.block}};
}

Json json_of(const CachePolicy& cache) {
  struct Visitor {
    Json operator()(const NoCache&) const { return {{"kind", "none"}}; }
    Json operator()(const PrefixCache& c) const { return {{"kind", "prefix"}, {"refresh", c.refresh}}; }
    Json operator()(const DualCache& c) const { return {{"kind", "dual"}, {"refresh", c.refresh}}; }
    Json operator()(const FreeCache& c) const {
      Json json{{"kind", c.literal ? "free-literal" : "free"}, {"block", c.block}, {"refresh", c.refresh}};
      if (c.delay > 0) json["delay"] = c.delay;
      return json;
    }
    Json operator()(const DkvCache& c) const { return {{"kind", "dkv"}, {"refresh", c.refresh}}; }
    Json operator()(const SparseDllm& c) const {
      return {{"kind", "sparse-dllm"}, {"keep", c.keep}, {"pool", c.pool}, {"refresh", c.refresh}};
    }
    Json operator()(const DllmCache& c) const {
      return {{"kind", "dllm-cache"}, {"ratio", c.ratio}, {"answer", c.answer}, {"refresh", c.refresh}};
    }
    Json operator()(const D2Cache& c) const {
      return {{"kind", "d2cache"}, {"current", c.current}, {"rollout", c.rollout},
              {"sigma", c.sigma},  {"inflate", c.inflate}, {"refresh", c.refresh}};
    }
  };
  return std::visit(Visitor(), cache);
}

Json json_of(const SureLock& lock) {
  Json json{{"eps", lock.eps}};
  if (lock.delta) json["delta"] = *lock.delta;
  json.update({{"gate", lock.gate},
               {"min_age", lock.min_age},
               {"gate_counts_unlocked", lock.gate_counts_unlocked},
               {"eager_prompt", lock.eager_prompt},
               {"unlock_every", lock.unlock_every},
               {"probes", lock.probes}});
  if (lock.unlock_eps) json["unlock_eps"] = *lock.unlock_eps;
  json.update({{"min_locked_passes", lock.min_locked_passes},
               {"cooldown", lock.cooldown},
               {"strictness", lock.strictness}});
  return json;
}

Json json_of(const CanvasGrowth& growth) {
  struct Visitor {
    Json operator()(const TokenGrowth& g) const {
      return {{"kind", "tokens"}, {"start", g.start}, {"budget", g.budget}, {"drops_rest", g.drops_rest}};
    }
    Json operator()(const EndMassGrowth& g) const {
      return {{"kind", "end-mass"}, {"start", g.start},   {"by", g.by},        {"tail", g.tail},
              {"enough", g.enough}, {"plenty", g.plenty}, {"unsure", g.unsure}};
    }
  };
  return std::visit(Visitor(), growth);
}

Json json_of(const SparsePolicy& sparse) {
  struct Visitor {
    Json operator()(const ExactAttention&) const { return {{"kind", "exact"}}; }
    Json operator()(const Mage& s) const {
      return {{"kind", "mage"}, {"budget", s.budget}, {"dense_layers", s.dense_layers}};
    }
    Json operator()(const Quest& s) const {
      return {{"kind", "quest"},
              {"budget", s.budget},
              {"page_size", s.page_size},
              {"dense_layers", s.dense_layers}};
    }
    Json operator()(const SparseD& s) const {
      return {{"kind", "sparsed"},
              {"budget", s.budget},
              {"exact_share", s.exact_share},
              {"dense_layers", s.dense_layers}};
    }
    Json operator()(const FlashBlock& s) const {
      return {{"kind", "flashblock"}, {"updates", s.updates}, {"dense_layers", s.dense_layers}};
    }
    Json operator()(const Losa& s) const {
      return {{"kind", "losa"},
              {"budget", s.budget},
              {"page_size", s.page_size},
              {"active_share", s.active_share},
              {"dense_layers", s.dense_layers}};
    }
  };
  return std::visit(Visitor(), sparse);
}

Json json_of(const TokenEditing& edit) {
  return {{"tau", edit.tau}, {"most", edit.most}};
}

Json json_of(const SuffixDropout& dropout) {
  return {{"decay", dropout.decay}, {"scale", dropout.scale}};
}

Json json_of(const Pipeline& pipeline) {
  return {{"add", pipeline.add}, {"full", pipeline.full}};
}

Json json_of(BlockStrategy::Commit commit) {
  return name(commit, std::array<std::string_view, 2>{"fused", "apart"});
}

Json json_of(UniformSampler sampler) {
  return name(sampler, std::array<std::string_view, 4>{"adaptive", "ancestral", "greedy", "threshold"});
}

Json json_of(const PreferenceThreshold& threshold) {
  return {{"tau", threshold.tau}, {"least", threshold.least}};
}

Json json_of(NoiseCurve curve) {
  return name(curve, std::array<std::string_view, 2>{"cosine", "linear"});
}

Json json_of(UniformCacheKind cache) {
  return name(cache, std::array<std::string_view, 3>{"none", "prefix", "uniform"});
}

Json json_of(const BoundaryRefresh& boundary) {
  return {{"blocks", boundary.blocks}, {"full_every", boundary.full_every}};
}

Json json_of(const DriftRefresh& drift) {
  return {{"tau", drift.tau}, {"page", drift.page}, {"budget", drift.budget}};
}

Json json_of(const SelfCorrection& correction) {
  return {{"most", correction.most},
          {"temperature", correction.temperature},
          {"patience", correction.patience},
          {"tokens", correction.tokens},
          {"full_every", correction.full_every}};
}

Json json_of(RefusionRules rules) {
  return name(rules, std::array<std::string_view, 3>{"paper", "released", "lacuna"});
}

template <typename Number>
requires std::is_arithmetic_v<Number> Json json_of(Number number) {
  return number;
}

/// Writes the fields of a strategy. An empty optional or list is left out.
struct Writer {
  Json& json;

  template <typename T, typename... Range>
  void operator()(std::string_view key, const T& value, const Range&...) const {
    json[std::string(key)] = json_of(value);
  }
  template <typename T, typename... Range>
  void operator()(std::string_view key, const std::optional<T>& value, const Range&...) const {
    if (value) json[std::string(key)] = json_of(*value);
  }
  void operator()(std::string_view key, const std::vector<std::string>& texts) const {
    if (!texts.empty()) json[std::string(key)] = texts;
  }
  void operator()(std::string_view, const std::variant<UnmaskRule, GuideRule>& rule) const {
    const bool is_guide = std::holds_alternative<GuideRule>(rule);
    json[is_guide ? "guide" : "unmask"] = std::visit([](const auto& each) { return json_of(each); }, rule);
  }
};

}  // namespace

Paradigm paradigm_of(const Strategy& strategy) {
  struct Visitor {
    Paradigm operator()(const MaskedStrategy&) const { return Paradigm::kMasked; }
    Paradigm operator()(const BlockStrategy&) const { return Paradigm::kBlocks; }
    Paradigm operator()(const UniformStrategy&) const { return Paradigm::kUniform; }
    Paradigm operator()(const CanvasStrategy&) const { return Paradigm::kCanvases; }
    Paradigm operator()(const SlotStrategy&) const { return Paradigm::kSlots; }
    Paradigm operator()(const CausalStrategy&) const { return Paradigm::kCausal; }
  };
  return std::visit(Visitor(), strategy);
}

nlohmann::ordered_json to_json(const Strategy& strategy) {
  Json json{{"paradigm", name_of(paradigm_of(strategy))}};
  std::visit([&](const auto& chosen) { visit_fields(chosen, Writer{json}); }, strategy);
  return json;
}

std::string describe(const Strategy& strategy) {
  return to_json(strategy).dump();
}

}  // namespace lacuna
