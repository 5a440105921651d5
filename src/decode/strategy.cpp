#include "decode/strategy.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

namespace lacuna {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
void put(Json& json, const char* key, const T& value) {
  json[key] = value;
}

template <typename T>
void put(Json& json, const char* key, const std::optional<T>& value) {
  if (value) json[key] = *value;
}

/// The name of an enumerator, from all names in order.
template <typename Enum, size_t N>
std::string_view name(Enum value, const std::array<std::string_view, N>& names) {
  return names.at(static_cast<size_t>(value));
}

Json json_of(const CountRule& rule) {
  struct Visitor {
    Json operator()(const EvenSplit&) const { return {{"count", "even-split"}}; }
    Json operator()(const TimeSchedule& r) const { return {{"count", "time-schedule"}, {"eps", r.eps}}; }
    Json operator()(const LinearSchedule&) const { return {{"count", "linear-schedule"}}; }
    Json operator()(const AncestralSampling& r) const {
      return {{"count", "each-on-its-own"}, {"eps", r.eps}};
    }
    Json operator()(const Threshold& r) const { return {{"count", "threshold"}, {"tau", r.tau}}; }
    Json operator()(const Factor& r) const { return {{"count", "factor"}, {"f", r.f}}; }
    Json operator()(const Remasking&) const { return {{"count", "remasking"}}; }
    Json operator()(const CustomRule&) const { return {{"count", "custom"}}; }
    Json operator()(const Dynamic& r) const { return {{"count", "dynamic"}, {"tau", r.tau}}; }
    Json operator()(const EntropyBounded& r) const {
      return {{"count", "entropy-bounded"}, {"bound", r.bound}};
    }
  };
  return std::visit(Visitor(), rule);
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
      return {{"kind", c.literal ? "free-literal" : "free"}, {"block", c.block}, {"refresh", c.refresh}};
    }
    Json operator()(const DkvCache& c) const { return {{"kind", "dkv"}, {"refresh", c.refresh}}; }
  };
  return std::visit(Visitor(), cache);
}

Json json_of(const SureLock& lock) {
  Json json{{"eps", lock.eps}};
  put(json, "delta", lock.delta);
  json.update({{"gate", lock.gate},
               {"min_age", lock.min_age},
               {"gate_counts_unlocked", lock.gate_counts_unlocked},
               {"eager_prompt", lock.eager_prompt},
               {"unlock_every", lock.unlock_every},
               {"probes", lock.probes}});
  put(json, "unlock_eps", lock.unlock_eps);
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
  };
  return std::visit(Visitor(), sparse);
}

void put_sampling(Json& json, const TokenSampling& sampling) {
  json["temperature"] = sampling.temperature;
  json["top_p"] = sampling.top_p;
  json["top_k"] = sampling.top_k;
}

void put_fields(Json& json, const MaskedStrategy& strategy) {
  put(json, "block_length", strategy.block_length);
  put(json, "steps", strategy.steps);
  if (const auto* rule = std::get_if<UnmaskRule>(&strategy.commit)) json["unmask"] = json_of(*rule);
  if (const auto* rule = std::get_if<GuideRule>(&strategy.commit)) json["guide"] = json_of(*rule);
  put_sampling(json, strategy.sampling);
  put(json, "cfg_scale", strategy.cfg_scale);
  json["cache"] = json_of(strategy.cache);
  if (strategy.lock) json["lock"] = json_of(*strategy.lock);
  if (strategy.growth) json["growth"] = json_of(*strategy.growth);
  put(json, "logits_eos_inf", strategy.logits_eos_inf);
  put(json, "confidence_eos_eot_inf", strategy.confidence_eos_eot_inf);
  put(json, "suppress_mask", strategy.suppress_mask);
  put(json, "eos_exit", strategy.eos_exit);
}

void put_fields(Json& json, const BlockStrategy& strategy) {
  put(json, "block_length", strategy.block_length);
  put(json, "sub_block_length", strategy.sub_block_length);
  put(json, "steps", strategy.steps);
  json["unmask"] = json_of(strategy.unmask);
  put_sampling(json, strategy.sampling);
  put(json, "ignore_eos", strategy.ignore_eos);
  put(json, "caches_block", strategy.caches_block);
  if (strategy.commit) {
    json["commit"] = name(*strategy.commit, std::array<std::string_view, 2>{"fused", "apart"});
  }
  if (strategy.edit) json["edit"] = {{"tau", strategy.edit->tau}, {"most", strategy.edit->most}};
  json["sparse"] = json_of(strategy.sparse);
  put(json, "commits_sparsely", strategy.commits_sparsely);
  put(json, "sparse_after", strategy.sparse_after);
  put(json, "accepts_exactly", strategy.accepts_exactly);
  if (strategy.lock) json["lock"] = json_of(*strategy.lock);
}

void put_fields(Json& json, const UniformStrategy& strategy) {
  put(json, "block_length", strategy.block_length);
  put(json, "steps", strategy.steps);
  put(json, "context", strategy.context);
  put(json, "min_length", strategy.min_length);
  put(json, "ignore_eos", strategy.ignore_eos);
  json["sampler"] =
      name(strategy.sampler, std::array<std::string_view, 4>{"adaptive", "ancestral", "greedy", "threshold"});
  put(json, "tokens_per_step", strategy.tokens_per_step);
  json["threshold"] = {{"tau", strategy.threshold.tau}, {"least", strategy.threshold.least}};
  json["schedule"] = name(strategy.schedule, std::array<std::string_view, 2>{"cosine", "linear"});
  put(json, "noise_shows_special", strategy.noise_shows_special);
  put_sampling(json, strategy.sampling);
  json["cache"] = name(strategy.cache, std::array<std::string_view, 3>{"none", "prefix", "uniform"});
  put(json, "refresh", strategy.refresh);
  if (const auto& boundary = strategy.boundary) {
    json["boundary"] = {{"blocks", boundary->blocks}, {"full_every", boundary->full_every}};
  }
  if (const auto& drift = strategy.drift) {
    json["drift"] = {{"tau", drift->tau}, {"page", drift->page}, {"budget", drift->budget}};
  }
  put(json, "leaves_at_fixed_point", strategy.leaves_at_fixed_point);
  put(json, "whole_last_layer", strategy.whole_last_layer);
  if (const auto& correction = strategy.self_correct) {
    json["self_correct"] = {{"most", correction->most},
                            {"temperature", correction->temperature},
                            {"patience", correction->patience},
                            {"tokens", correction->tokens},
                            {"full_every", correction->full_every}};
  }
}

void put_fields(Json& json, const CanvasStrategy& strategy) {
  put(json, "block_length", strategy.block_length);
  put(json, "steps", strategy.steps);
  put(json, "entropy_bound", strategy.entropy_bound);
  put(json, "stop_entropy", strategy.stop_entropy);
  put(json, "temperature", strategy.temperature);
  put(json, "soft_embedding_slack", strategy.soft_embedding_slack);
  put(json, "ignore_eos", strategy.ignore_eos);
}

void put_fields(Json& json, const SlotStrategy& strategy) {
  json["rules"] = name(strategy.rules, std::array<std::string_view, 3>{"paper", "released", "lacuna"});
  put(json, "block_length", strategy.block_length);
  put(json, "slot_size", strategy.slot_size);
  put(json, "slot_threshold", strategy.slot_threshold);
  put(json, "token_threshold", strategy.token_threshold);
  put(json, "verifies_fills", strategy.verifies_fills);
  put(json, "recomputes_kv", strategy.recomputes_kv);
  put(json, "accepts_exactly", strategy.accepts_exactly);
  put(json, "revoke", strategy.revoke);
  put_sampling(json, strategy.sampling);
  put(json, "suppress_mask", strategy.suppress_mask);
}

void put_fields(Json& json, const CausalStrategy& strategy) {
  put_sampling(json, strategy.sampling);
  put(json, "ignore_eos", strategy.ignore_eos);
  put(json, "block_length", strategy.block_length);
}

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
  std::visit([&](const auto& chosen) { put_fields(json, chosen); }, strategy);
  return json;
}

std::string describe(const Strategy& strategy) {
  return to_json(strategy).dump();
}

}  // namespace lacuna
