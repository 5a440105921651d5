#include "options/parse_policies.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "options/names.h"

namespace lacuna {
namespace {

/// The value after "name=", if there is one.
std::optional<std::string_view> value_of(std::string_view item) {
  const size_t equals = item.find('=');
  if (equals == std::string_view::npos) return {};
  return item.substr(equals + 1);
}

template <typename T>
T number(std::string_view field, std::string_view name, std::string_view text, T least, T most) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least && value <= most)) {
    refuse_setting(field, text, "`{}` {} is '{}'; expected a number from {} to {}", field, name, text, least,
                   most);
  }
  return value;
}

/// True for `yes`, false for `no`.
bool choice(std::string_view field, std::string_view name, std::string_view text, std::string_view no,
            std::string_view yes) {
  if (text != no && text != yes) {
    refuse_setting(field, text, "`{}` {} is '{}'; expected {} or {}", field, name, text, no, yes);
  }
  return text == yes;
}

constexpr int32_t kMaxPasses = 1 << 20;

/// Calls apply(name, value) for each of NAME=VALUE,NAME=VALUE,...; returns the names.
template <typename Apply>
std::set<std::string, std::less<>> for_each_item(std::string_view field, std::string_view text,
                                                 Apply&& apply) {
  std::set<std::string, std::less<>> seen;
  if (text.ends_with(','))
    refuse_setting(field, text, "`{}` '{}': nothing follows the last comma", field, text);
  for (std::string_view rest = text; !rest.empty();) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    const std::string_view name = item.substr(0, item.find('='));
    const std::optional<std::string_view> value = value_of(item);
    if (!value)
      refuse_setting(field, text, "`{}` '{}': '{}' has no value; expected NAME=VALUE,...", field, text, item);
    apply(name, *value);
    if (!seen.emplace(name).second)
      refuse_setting(field, text, "`{}` '{}': {} is given twice", field, text, name);
  }
  return seen;
}

void apply_lock_item(std::string_view name, std::string_view value, SureLock& lock) {
  const auto real = [&](double least, double most) { return number("lock", name, value, least, most); };
  const auto whole = [&](int32_t least) { return number<int32_t>("lock", name, value, least, kMaxPasses); };
  if (name == "eps") {
    lock.eps = real(0, 1e6);
  } else if (name == "delta") {
    lock.delta = real(1e-6, 1e6);
  } else if (name == "gate") {
    lock.gate = value == "off" ? 100 : real(0, 100);
  } else if (name == "min-age") {
    lock.min_age = whole(0);
  } else if (name == "population") {
    lock.gate_counts_unlocked = choice("lock", name, value, "candidates", "unlocked");
  } else if (name == "prompt") {
    lock.eager_prompt = choice("lock", name, value, "paper", "eager");
  } else if (name == "unlock-every") {
    lock.unlock_every = whole(1);
  } else if (name == "budget") {
    lock.probes = whole(1);
  } else if (name == "unlock-eps") {
    lock.unlock_eps = real(0, 1e6);
  } else if (name == "interval") {
    lock.min_locked_passes = whole(0);
  } else if (name == "cooldown") {
    lock.cooldown = whole(0);
  } else if (name == "strictness") {
    lock.strictness = real(0, 1);
  } else {
    refuse_setting(
        "lock", name,
        "`lock` knows no '{}'; expected eps, delta, gate, min-age, population, prompt, unlock-every, budget, "
        "unlock-eps, interval, cooldown or strictness",
        name);
  }
}

/// Parses the value of "name=value"; `fallback` if the text has no "=".
double unmask_value(std::string_view text, double fallback, double most) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return fallback;
  const std::string_view digits = text.substr(equals + 1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !(value > 0 && value <= most)) {
    refuse_setting("unmask", text, "`unmask` {}: '{}' is not a number in (0, {}]", text, digits, most);
  }
  return value;
}

/// Parses NAME, NAME=FIRST or NAME=FIRST,OTHER=VALUE,...: the first number is called as the rule is.
template <NumberedRule Rule>
Rule parse_numbers(std::string_view text) {
  Rule rule;
  const size_t end = text.find_first_of("=,");
  if (end == std::string_view::npos) return rule;
  const std::string_view items = text[end] == ',' ? text.substr(end + 1) : text;
  if (items.empty()) refuse_setting("unmask", text, "`unmask` '{}': nothing follows the last comma", text);
  for_each_item("unmask", items, [&](std::string_view item, std::string_view value) {
    bool is_known = false;
    std::string known;
    Rule::visit_numbers(rule, [&](std::string_view name, auto& to, auto least, auto most) {
      if (known.empty()) name = Rule::kName;
      known += (known.empty() ? "" : ", ") + std::string(name);
      if (name != with_dashes(item)) return;
      to = number("unmask", item, value, least, most);
      is_known = true;
    });
    if (!is_known)
      refuse_setting("unmask", item, "`unmask` {} knows no '{}'; expected {}", Rule::kName, item, known);
  });
  return rule;
}

/// The rule of this name, if it is one of several numbers.
template <typename... Rules>
std::optional<CountRule> numbered_rule(std::string_view name, std::string_view text,
                                       std::type_identity<std::variant<Rules...>> /*rules*/) {
  std::optional<CountRule> found;
  const auto try_rule = [&]<typename Rule>(std::type_identity<Rule>) {
    if constexpr (NumberedRule<Rule>) {
      if (name == Rule::kName) found = parse_numbers<Rule>(text);
    }
  };
  (try_rule(std::type_identity<Rules>()), ...);
  return found;
}

}  // namespace

UnmaskRule parse_unmask(std::string_view text, const CountRule& family_rule, double eps) {
  const std::string name = with_dashes(text.substr(0, text.find('=')));
  UnmaskRule rule;
  UnmaskPolicy& unmask = rule.policy;
  ConfidenceMeasure& measure = rule.measure;
  unmask.count = family_rule;
  const std::string head = with_dashes(text.substr(0, text.find_first_of("=,")));
  if (const std::optional<CountRule> numbered = numbered_rule(head, text, std::type_identity<CountRule>())) {
    unmask.count = *numbered;
    measure = unmask.traits().measure;
    return rule;
  }
  const bool by_probability = name == "low-confidence" || name == "low-confidence-static" ||
                              name == "maskgit" || name == "maskgit-plus";
  if (name == "margin" || name == "topk-margin") {
    measure = ConfidenceMeasure::kMargin;
  } else if (name == "entropy") {
    measure = ConfidenceMeasure::kNegativeEntropy;
  } else if (name == "random") {
    unmask.order = UnmaskOrder::kRandom;
  } else if (name == "sequential") {
    unmask.order = UnmaskOrder::kLeftToRight;
  } else if (name == "dynamic" || name == "low-confidence-dynamic") {
    unmask.count = Dynamic{unmask_value(text, 0.85, 1)};
  } else if (name == "entropy-bounded") {
    unmask.count = EntropyBounded{unmask_value(text, 0.35, 1e6)};
    measure = ConfidenceMeasure::kNegativeEntropy;
  } else if (name == "origin") {
    unmask.count = AncestralSampling{static_cast<float>(eps)};
  } else if (name == "p2") {
    unmask.count = Remasking{};
  } else if (name == "threshold") {
    unmask.count = Threshold{unmask_value(text, 0.9, 1)};
  } else if (name == "factor") {
    unmask.count = Factor{unmask_value(text, 1, 1e6)};
  } else if (!by_probability) {
    refuse_setting("unmask", text, "`unmask` is '{}'; expected {}", text, kUnmaskNames);
  }
  const bool takes_value = unmask.traits().runs_until_done || std::holds_alternative<Dynamic>(unmask.count) ||
                           std::holds_alternative<EntropyBounded>(unmask.count);
  if (!takes_value && text.find('=') != std::string_view::npos) {
    refuse_setting("unmask", text, "`unmask` {}: '{}' takes no value", text, name);
  }
  return rule;
}

namespace {

/// The numbers that follow the name in sparse-dllm=0.5,pool=3.
SparseDllm parse_sparse_dllm(std::string_view text, std::string_view items) {
  SparseDllm sparse;
  if (items == ",") refuse_setting("cache", text, "`cache` '{}': nothing follows the last comma", text);
  const std::string named = items.starts_with('=') ? "keep" + std::string(items) : std::string(items);
  for_each_item("cache", named.starts_with(',') ? std::string_view(named).substr(1) : named,
                [&](std::string_view name, std::string_view value) {
                  if (name == "keep") {
                    sparse.keep = number("cache", name, value, SparseDllm::kMinKeep, 1.0);
                  } else if (name == "pool") {
                    sparse.pool = number<int32_t>("cache", name, value, 1, SparseDllm::kMaxPool);
                  } else {
                    refuse_setting("cache", name, "`cache` sparse-dllm knows no '{}'; expected keep or pool",
                                   name);
                  }
                });
  return sparse;
}

}  // namespace

CachePolicy parse_cache(std::string_view text, int32_t refresh, int32_t cache_block, bool shifted_logits) {
  if (text == "none") return NoCache{};
  if (text == "prefix") return PrefixCache{refresh};
  if (text == "dual") return DualCache{refresh};
  if (text == "free" || text == "free-literal")
    return FreeCache{cache_block, text == "free-literal", refresh};
  if (text == "dkv") {
    // The refresh intervals of the paper's settings.
    const int32_t usual = shifted_logits ? 4 : 8;
    return DkvCache{refresh > 0 ? refresh : usual};
  }
  constexpr std::string_view kSparse = "sparse-dllm";
  if (text.substr(0, text.find_first_of("=,")) == kSparse) {
    SparseDllm sparse = parse_sparse_dllm(text, text.substr(kSparse.size()));
    sparse.refresh = refresh;
    return sparse;
  }
  refuse_setting("cache", text,
                 "`cache` is '{}'; expected none, prefix, dual, free, free-literal, dkv or sparse-dllm",
                 text);
}

SureLock parse_lock(std::string_view text) {
  SureLock lock;
  const std::set<std::string, std::less<>> seen = for_each_item(
      "lock", text,
      [&](std::string_view name, std::string_view value) { apply_lock_item(name, value, lock); });
  const auto given = [&](std::string_view name) { return seen.find(name) != seen.end(); };
  if (!given("eps") && !given("delta"))
    refuse_setting("lock", text, "`lock` '{}': expected eps=EPS or delta=DELTA", text);
  if (!given("eps")) lock.eps = 0;  // nothing to fall back on
  for (const std::string_view name : {"budget", "unlock-eps", "interval", "cooldown", "strictness"}) {
    if (given(name) && lock.unlock_every == 0) {
      refuse_setting("lock", text, "`lock` '{}': {} has no effect without unlock-every", text, name);
    }
  }
  for (const std::string_view name : {"population", "prompt"}) {
    if (given(name) && lock.gate >= 100) {
      refuse_setting("lock", text, "`lock` '{}': {} has no effect without a gate", text, name);
    }
  }
  return lock;
}

namespace {

void apply_token_growth_item(std::string_view name, std::string_view value, TokenGrowth& growth) {
  if (name == "start") {
    growth.start = number<int32_t>("grow", name, value, 1, kMaxPasses);
  } else if (name == "budget") {
    growth.budget = number<int32_t>("grow", name, value, 1, kMaxPasses);
  } else if (name == "rest") {
    growth.drops_rest = choice("grow", name, value, "keep", "drop");
  } else {
    refuse_setting("grow", name, "`grow` tokens knows no '{}'; expected start, budget or rest", name);
  }
}

void apply_end_mass_item(std::string_view name, std::string_view value, EndMassGrowth& growth) {
  const auto whole = [&](int32_t least) { return number<int32_t>("grow", name, value, least, kMaxPasses); };
  const auto probability = [&] { return number("grow", name, value, 0.0, 1.0); };
  if (name == "start") {
    growth.start = whole(1);
  } else if (name == "by") {
    growth.by = whole(2);
  } else if (name == "tail") {
    growth.tail = whole(1);
  } else if (name == "enough") {
    growth.enough = probability();
  } else if (name == "plenty") {
    growth.plenty = probability();
  } else if (name == "unsure") {
    growth.unsure = probability();
  } else {
    refuse_setting("grow", name,
                   "`grow` end-mass knows no '{}'; expected start, by, tail, enough, plenty or unsure", name);
  }
}

}  // namespace

std::optional<CanvasGrowth> parse_growth(std::string_view text) {
  if (text == "none") return {};
  const std::string_view method = text.substr(0, text.find(','));
  std::string_view items = text.substr(method.size());
  if (items == ",") refuse_setting("grow", text, "`grow` '{}': nothing follows the last comma", text);
  if (!items.empty()) items.remove_prefix(1);
  if (method == "tokens") {
    TokenGrowth growth;
    for_each_item("grow", items, [&](std::string_view name, std::string_view value) {
      apply_token_growth_item(name, value, growth);
    });
    return growth;
  }
  if (method == "end-mass") {
    EndMassGrowth growth;
    for_each_item("grow", items, [&](std::string_view name, std::string_view value) {
      apply_end_mass_item(name, value, growth);
    });
    return growth;
  }
  refuse_setting("grow", text,
                 "`grow` is '{}'; expected none, tokens or end-mass, the last two also with NAME=VALUE",
                 text);
}

GuideMatch parse_guide_match(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('='));
  const std::optional<std::string_view> value = value_of(text);
  const auto real = [&](double usual, double most) {
    return value ? number("guide_match", name, *value, 0.0, most) : usual;
  };
  if (text == "exact") return MatchTopK{1};
  if (name == "top-k") {
    return MatchTopK{value ? number<int32_t>("guide_match", name, *value, 1, 1 << 20) : 2};
  }
  if (name == "relative") return MatchRelative{real(0.5, 1)};
  if (name == "tau-literal") return MatchTauLiteral{real(0.5, 1e6)};
  refuse_setting("guide_match", text,
                 "`guide_match` is '{}'; expected exact, top-k=K, relative=R or tau-literal=T", text);
}

GuideFallback parse_guide_fallback(std::string_view text) {
  if (text == "dlm") return GuideFallback::kDraft;
  if (text == "ar") return GuideFallback::kGuide;
  refuse_setting("guide_fallback", text, "`guide_fallback` is '{}'; expected dlm or ar", text);
}

void parse_sampler(std::string_view text, UniformStrategy& strategy) {
  constexpr std::string_view kField = "sampler";
  if (text == "adaptive") {
    strategy.sampler = UniformSampler::kAdaptive;
  } else if (text == "ancestral") {
    strategy.sampler = UniformSampler::kAncestral;
  } else if (text == "greedy") {
    strategy.sampler = UniformSampler::kGreedy;
  } else if (text.substr(0, text.find('=')) == "threshold") {
    strategy.sampler = UniformSampler::kThreshold;
    if (text == "threshold") return;
    for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
      if (name == "threshold") {
        strategy.threshold.tau = number(kField, name, value, 0.0, 1.0);
      } else if (name == "least") {
        strategy.threshold.least = number<int32_t>(kField, name, value, 0, kMaxPasses);
      } else {
        refuse_setting(kField, text, "`sampler` threshold has no '{}'; expected least", name);
      }
    });
  } else {
    refuse_setting(kField, text, "`sampler` is '{}'; expected adaptive, ancestral, greedy or threshold=0.9",
                   text);
  }
}

BoundaryRefresh parse_boundary(std::string_view text) {
  constexpr std::string_view kField = "boundary";
  BoundaryRefresh boundary;
  for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
    if (name == "blocks") {
      boundary.blocks = number<int32_t>(kField, name, value, 2, kMaxPasses);
    } else if (name == "full-every") {
      boundary.full_every = number<int32_t>(kField, name, value, 1, kMaxPasses);
    } else {
      refuse_setting("boundary", text, "`boundary` knows no '{}'; expected blocks or full-every", name);
    }
  });
  return boundary;
}

DriftRefresh parse_drift(std::string_view text) {
  constexpr std::string_view kField = "drift";
  DriftRefresh drift;
  for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
    if (name == "tau") {
      drift.tau = number(kField, name, value, 0.0, 2.0);
    } else if (name == "page") {
      drift.page = number<int32_t>(kField, name, value, 1, kMaxPasses);
    } else if (name == "budget") {
      drift.budget = number<int32_t>(kField, name, value, 1, kMaxPasses);
    } else {
      refuse_setting("drift", text, "`drift` knows no '{}'; expected tau, page or budget", name);
    }
  });
  return drift;
}

SelfCorrection parse_self_correction(std::string_view text) {
  constexpr std::string_view kField = "self_correct";
  SelfCorrection correction;
  if (text == "on") return correction;
  for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
    const auto whole = [&](int32_t least) { return number<int32_t>(kField, name, value, least, kMaxPasses); };
    if (name == "most") {
      correction.most = whole(1);
    } else if (name == "temperature") {
      correction.temperature = static_cast<float>(number(kField, name, value, 0.0, 1e3));
    } else if (name == "patience") {
      correction.patience = whole(0);
    } else if (name == "tokens") {
      correction.tokens = whole(1);
    } else if (name == "full-every") {
      correction.full_every = whole(1);
    } else {
      refuse_setting(
          "self_correct", text,
          "`self_correct` knows no '{}'; expected on, or most, temperature, patience, tokens or full-every",
          name);
    }
  });
  return correction;
}

TokenEditing parse_editing(std::string_view text, TokenEditing editing) {
  constexpr std::string_view kField = "edit";
  for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
    if (name == "tau") {
      editing.tau = number(kField, name, value, 0.0, 1.0);
    } else if (name == "most") {
      editing.most = number<int32_t>(kField, name, value, 0, kMaxPasses);
    } else {
      refuse_setting("edit", text, "`edit` knows no '{}'; expected tau or most", name);
    }
  });
  return editing;
}

std::optional<Pipeline> parse_pipeline(std::string_view text) {
  constexpr std::string_view kField = "pipeline";
  if (text == "none") return {};
  Pipeline pipeline;
  if (text == "on") return pipeline;
  if (text.find('=') == std::string_view::npos) {
    refuse_setting(kField, text, "`pipeline` is '{}'; expected on, none, or shares as in add=0.1,full=0.95",
                   text);
  }
  for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
    if (name == "add") {
      pipeline.add = number(kField, name, value, 0.0, 1.0);
    } else if (name == "full") {
      pipeline.full = number(kField, name, value, 0.0, 1.0);
    } else {
      refuse_setting(kField, text, "`pipeline` knows no '{}'; expected add or full", name);
    }
  });
  return pipeline;
}

SparsePolicy parse_sparse(std::string_view text) {
  constexpr std::string_view kField = "sparse";
  constexpr int32_t kMaxCells = 1 << 30;
  if (text == "exact") return ExactAttention{};
  const std::string_view method = text.substr(0, text.find('='));
  if (method != "mage" && method != "quest" && method != "sparsed") {
    refuse_setting(
        "sparse", text,
        "`sparse` is '{}'; expected exact, mage=K, quest=K,page=16 or sparsed=K,exact=0.2, each also with "
        "dense-layers=2",
        text);
  }
  int32_t budget = 0;
  int32_t dense_layers = kDenseLayers;
  int32_t page_size = Quest().page_size;
  double exact_share = SparseD().exact_share;
  for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
    if (name == method) {
      budget = number<int32_t>(kField, name, value, 1, kMaxCells);
    } else if (name == "dense-layers") {
      dense_layers = number<int32_t>(kField, name, value, 0, kMaxCells);
    } else if (name == "page" && method == "quest") {
      page_size = number<int32_t>(kField, name, value, 1, kMaxCells);
    } else if (name == "exact" && method == "sparsed") {
      exact_share = number(kField, name, value, 0.0, 1.0);
    } else {
      refuse_setting("sparse", text,
                     "`sparse` {} has no '{}'; expected dense-layers, for quest also page, for sparsed exact",
                     method, name);
    }
  });
  if (method == "mage") return Mage{budget, dense_layers};
  if (method == "sparsed") return SparseD{budget, exact_share, dense_layers};
  if (budget < page_size) {
    refuse_setting("sparse", text, "`sparse` '{}': the budget is less than a page of {} cells", text,
                   page_size);
  }
  return Quest{budget, page_size, dense_layers};
}

RefusionRules parse_refusion_rules(std::string_view text) {
  if (text == "lacuna") return RefusionRules::kLacuna;
  if (text == "paper") return RefusionRules::kPaper;
  if (text == "released") return RefusionRules::kReleased;
  refuse_setting("refusion", text, "`refusion` is '{}'; expected lacuna, paper or released", text);
}

}  // namespace lacuna
