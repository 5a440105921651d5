#include "options/parse_policies.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <span>
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

/// One NAME of a setting NAME=VALUE,..., and the function that takes its value.
struct Item {
  std::string_view name;
  std::function<void(std::string_view field, std::string_view value)> take;
};

/// A number from `least` to `most`.
template <typename To, typename T>
requires std::is_arithmetic_v<T> Item item(std::string_view name, To& to, T least, T most) {
  return {name, [=, &to](std::string_view field, std::string_view value) {
            to = static_cast<To>(number(field, name, value, least, most));
          }};
}

/// A number of passes, tokens or positions.
Item item(std::string_view name, int32_t& to, int32_t least) {
  return item(name, to, least, kMaxPasses);
}

/// True for `yes`, false for `no`.
Item item(std::string_view name, bool& to, std::string_view no, std::string_view yes) {
  return {name, [=, &to](std::string_view field, std::string_view value) {
            to = choice(field, name, value, no, yes);
          }};
}

/// Wording of the error for an unknown name.
struct UnknownItem {
  std::string_view field;
  std::string_view method = {};  ///< such as " tokens" for `grow`
  std::string_view before = {};  ///< in front of the list of names
  bool shows_setting = false;    ///< the problem's value is the whole setting, not the name
};

/// "a, b or c".
std::string listed(std::span<const Item> items) {
  std::string names;
  for (const Item& each : items) {
    if (!names.empty()) names += &each == &items.back() ? " or " : ", ";
    names += each.name;
  }
  return names;
}

/// Reads NAME=VALUE,NAME=VALUE,...; returns the names.
std::set<std::string, std::less<>> read_items(std::string_view text, std::initializer_list<Item> items,
                                              const UnknownItem& unknown) {
  return for_each_item(unknown.field, text, [&](std::string_view name, std::string_view value) {
    const auto known = std::ranges::find(items, name, &Item::name);
    if (known != items.end()) return known->take(unknown.field, value);
    refuse_setting(unknown.field, unknown.shows_setting ? text : name, "`{}`{} knows no '{}'; expected {}{}",
                   unknown.field, unknown.method, name, unknown.before, listed(items));
  });
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

/// Parses NAME, NAME=FIRST or NAME=FIRST,OTHER=VALUE,...: the first number has the rule's name.
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

/// The rule of this name, if it is a NumberedRule.
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

/// Reads the numbers that follow a cache's name, as in sparse-dllm=0.5,pool=3; false if `text` names another.
///   first  the item that may come without its name
bool read_cache(std::string_view text, std::string_view name, std::string_view first,
                std::initializer_list<Item> items) {
  if (text.substr(0, text.find_first_of("=,")) != name) return false;
  const std::string_view numbers = text.substr(name.size());
  if (numbers == ",") refuse_setting("cache", text, "`cache` '{}': nothing follows the last comma", text);
  const std::string named = (numbers.starts_with('=') ? std::string(first) : "") + std::string(numbers);
  read_items(named.starts_with(',') ? std::string_view(named).substr(1) : named, items,
             {.field = "cache", .method = fmt::format(" {}", name)});
  return true;
}

}  // namespace

CachePolicy parse_cache(std::string_view text, int32_t refresh, int32_t cache_block, bool shifted_logits) {
  if (text == "none") return NoCache{};
  if (text == "prefix") return PrefixCache{refresh};
  if (text == "dual") return DualCache{refresh};
  if (text == "free" || text == "free-literal")
    return FreeCache{cache_block, text == "free-literal", refresh};
  constexpr std::string_view kDelayed = "delayed";
  if (text.substr(0, text.find('=')) == kDelayed) {
    FreeCache free{cache_block, false, refresh, shifted_logits ? 1 : 2};  // of the published scripts
    const std::string_view passes = text.substr(kDelayed.size());
    if (!passes.empty()) free.delay = number("cache", kDelayed, passes.substr(1), 1, kMaxPasses);
    return free;
  }
  if (text == "dkv") {
    // The refresh intervals of the paper's settings.
    const int32_t usual = shifted_logits ? 4 : 8;
    return DkvCache{refresh > 0 ? refresh : usual};
  }
  SparseDllm sparse{.refresh = refresh};
  if (read_cache(text, "sparse-dllm", "keep",
                 {item("keep", sparse.keep, SparseDllm::kMinKeep, 1.0),
                  item("pool", sparse.pool, 1, SparseDllm::kMaxPool)}))
    return sparse;
  // The intervals of the published scripts for GSM8K.
  DllmCache dllm = shifted_logits ? DllmCache{.answer = 2, .refresh = 25} : DllmCache{};
  if (refresh > 0) dllm.refresh = refresh;
  if (read_cache(
          text, "dllm-cache", "ratio",
          {item("ratio", dllm.ratio, SparseDllm::kMinKeep, 1.0), item("answer", dllm.answer, 1, kMaxPasses)}))
    return dllm;
  D2Cache d2{.refresh = refresh};
  if (read_cache(text, "d2cache", "current",
                 {item("current", d2.current, 1, kMaxGenLength), item("rollout", d2.rollout, 0.0, 1.0),
                  item("sigma", d2.sigma, D2Cache::kMinSigma, D2Cache::kMaxSigma),
                  item("inflate", d2.inflate, 0, kMaxGenLength)}))
    return d2;
  refuse_setting("cache", text,
                 "`cache` is '{}'; expected none, prefix, dual, free, free-literal, delayed, dkv, "
                 "sparse-dllm, dllm-cache or d2cache",
                 text);
}

SureLock parse_lock(std::string_view text) {
  SureLock lock;
  const Item gate = item("gate", lock.gate, 0.0, 100.0);
  const auto seen = read_items(text,
                               {item("eps", lock.eps, 0.0, 1e6),
                                item("delta", lock.delta, 1e-6, 1e6),
                                {"gate",
                                 [&](std::string_view field, std::string_view value) {
                                   value == "off" ? void(lock.gate = 100) : gate.take(field, value);
                                 }},
                                item("min-age", lock.min_age, 0),
                                item("population", lock.gate_counts_unlocked, "candidates", "unlocked"),
                                item("prompt", lock.eager_prompt, "paper", "eager"),
                                item("unlock-every", lock.unlock_every, 1),
                                item("budget", lock.probes, 1),
                                item("unlock-eps", lock.unlock_eps, 0.0, 1e6),
                                item("interval", lock.min_locked_passes, 0),
                                item("cooldown", lock.cooldown, 0),
                                item("strictness", lock.strictness, 0.0, 1.0)},
                               {.field = "lock"});
  const auto given = [&](std::string_view name) { return seen.find(name) != seen.end(); };
  if (!given("eps") && !given("delta"))
    refuse_setting("lock", text, "`lock` '{}': expected eps=EPS or delta=DELTA", text);
  if (!given("eps")) lock.eps = 0;  // delta alone: never lock without an estimate
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

std::optional<CanvasGrowth> parse_growth(std::string_view text) {
  if (text == "none") return {};
  const std::string_view method = text.substr(0, text.find(','));
  std::string_view items = text.substr(method.size());
  if (items == ",") refuse_setting("grow", text, "`grow` '{}': nothing follows the last comma", text);
  if (!items.empty()) items.remove_prefix(1);
  if (method == "tokens") {
    TokenGrowth growth;
    read_items(items,
               {item("start", growth.start, 1), item("budget", growth.budget, 1),
                item("rest", growth.drops_rest, "keep", "drop")},
               {.field = "grow", .method = " tokens"});
    return growth;
  }
  if (method == "end-mass") {
    EndMassGrowth growth;
    read_items(items,
               {item("start", growth.start, 1), item("by", growth.by, 2), item("tail", growth.tail, 1),
                item("enough", growth.enough, 0.0, 1.0), item("plenty", growth.plenty, 0.0, 1.0),
                item("unsure", growth.unsure, 0.0, 1.0)},
               {.field = "grow", .method = " end-mass"});
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
  BoundaryRefresh boundary;
  read_items(text, {item("blocks", boundary.blocks, 2), item("full-every", boundary.full_every, 1)},
             {.field = "boundary", .shows_setting = true});
  return boundary;
}

DriftRefresh parse_drift(std::string_view text) {
  DriftRefresh drift;
  read_items(text,
             {item("tau", drift.tau, 0.0, 2.0), item("page", drift.page, 1), item("budget", drift.budget, 1)},
             {.field = "drift", .shows_setting = true});
  return drift;
}

SelfCorrection parse_self_correction(std::string_view text) {
  SelfCorrection correction;
  if (text == "on") return correction;
  read_items(text,
             {item("most", correction.most, 1), item("temperature", correction.temperature, 0.0, 1e3),
              item("patience", correction.patience, 0), item("tokens", correction.tokens, 1),
              item("full-every", correction.full_every, 1)},
             {.field = "self_correct", .before = "on, or ", .shows_setting = true});
  return correction;
}

TokenEditing parse_editing(std::string_view text, TokenEditing editing) {
  read_items(text, {item("tau", editing.tau, 0.0, 1.0), item("most", editing.most, 0)},
             {.field = "edit", .shows_setting = true});
  return editing;
}

SuffixDropout parse_suffix_dropout(std::string_view text) {
  SuffixDropout dropout;
  if (text == "on") return dropout;
  read_items(text, {item("decay", dropout.decay, 0.0, 1e3), item("scale", dropout.scale, 0.0, 1e3)},
             {.field = "suffix_dropout", .before = "on, or ", .shows_setting = true});
  return dropout;
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
  read_items(text, {item("add", pipeline.add, 0.0, 1.0), item("full", pipeline.full, 0.0, 1.0)},
             {.field = kField, .shows_setting = true});
  return pipeline;
}

SparsePolicy parse_sparse(std::string_view text) {
  constexpr std::string_view kField = "sparse";
  constexpr int32_t kMaxCells = 1 << 30;
  if (text == "exact") return ExactAttention{};
  const std::string_view method = text.substr(0, text.find('='));
  constexpr std::array<std::string_view, 5> kMethods = {"mage", "quest", "sparsed", "flashblock", "losa"};
  if (std::ranges::find(kMethods, method) == kMethods.end()) {
    refuse_setting(
        "sparse", text,
        "`sparse` is '{}'; expected exact, mage=K, quest=K,page=16, sparsed=K,exact=0.2, flashblock=N or "
        "losa=K,active=0.3125,page=16, each also with dense-layers=2",
        text);
  }
  int32_t budget = 0;
  int32_t dense_layers = method == "flashblock" ? FlashBlock().dense_layers : kDenseLayers;
  int32_t page_size = Quest().page_size;
  double active_share = Losa().active_share;
  double exact_share = SparseD().exact_share;
  for_each_item(kField, text, [&](std::string_view name, std::string_view value) {
    if (name == method) {
      budget = number<int32_t>(kField, name, value, 1, kMaxCells);
    } else if (name == "dense-layers") {
      dense_layers = number<int32_t>(kField, name, value, 0, kMaxCells);
    } else if (name == "page" && (method == "quest" || method == "losa")) {
      page_size = number<int32_t>(kField, name, value, 1, kMaxCells);
    } else if (name == "exact" && method == "sparsed") {
      exact_share = number(kField, name, value, 0.0, 1.0);
    } else if (name == "active" && method == "losa") {
      active_share = number(kField, name, value, Losa::kMinActive, 1.0);
    } else {
      refuse_setting("sparse", text,
                     "`sparse` {} has no '{}'; expected dense-layers, for quest and losa also page, for "
                     "sparsed exact, for losa active",
                     method, name);
    }
  });
  if (method == "mage") return Mage{budget, dense_layers};
  if (method == "sparsed") return SparseD{budget, exact_share, dense_layers};
  if (method == "flashblock") return FlashBlock{budget, dense_layers};
  if (budget < page_size) {
    refuse_setting("sparse", text, "`sparse` '{}': the budget is less than a page of {} cells", text,
                   page_size);
  }
  if (method == "losa") return Losa{budget, page_size, active_share, dense_layers};
  return Quest{budget, page_size, dense_layers};
}

RefusionRules parse_refusion_rules(std::string_view text) {
  if (text == "lacuna") return RefusionRules::kLacuna;
  if (text == "paper") return RefusionRules::kPaper;
  if (text == "released") return RefusionRules::kReleased;
  refuse_setting("refusion", text, "`refusion` is '{}'; expected lacuna, paper or released", text);
}

}  // namespace lacuna
