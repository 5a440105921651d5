#include "constraint/unicode_property.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/budget.h"

namespace lacuna {
namespace {

constexpr size_t kNumCategories = 30;

/// Names of the general categories, indexed by utf8proc's category.
struct CategoryName {
  std::string_view brief, full;
};
constexpr std::array<CategoryName, kNumCategories> kCategories{{{"Cn", "Unassigned"},
                                                                {"Lu", "Uppercase_Letter"},
                                                                {"Ll", "Lowercase_Letter"},
                                                                {"Lt", "Titlecase_Letter"},
                                                                {"Lm", "Modifier_Letter"},
                                                                {"Lo", "Other_Letter"},
                                                                {"Mn", "Nonspacing_Mark"},
                                                                {"Mc", "Spacing_Mark"},
                                                                {"Me", "Enclosing_Mark"},
                                                                {"Nd", "Decimal_Number"},
                                                                {"Nl", "Letter_Number"},
                                                                {"No", "Other_Number"},
                                                                {"Pc", "Connector_Punctuation"},
                                                                {"Pd", "Dash_Punctuation"},
                                                                {"Ps", "Open_Punctuation"},
                                                                {"Pe", "Close_Punctuation"},
                                                                {"Pi", "Initial_Punctuation"},
                                                                {"Pf", "Final_Punctuation"},
                                                                {"Po", "Other_Punctuation"},
                                                                {"Sm", "Math_Symbol"},
                                                                {"Sc", "Currency_Symbol"},
                                                                {"Sk", "Modifier_Symbol"},
                                                                {"So", "Other_Symbol"},
                                                                {"Zs", "Space_Separator"},
                                                                {"Zl", "Line_Separator"},
                                                                {"Zp", "Paragraph_Separator"},
                                                                {"Cc", "Control"},
                                                                {"Cf", "Format"},
                                                                {"Cs", "Surrogate"},
                                                                {"Co", "Private_Use"}}};

/// Groups of categories: those whose short names begin with the letter.
constexpr std::array<CategoryName, 8> kGroups{{{"L", "Letter"},
                                               {"M", "Mark"},
                                               {"N", "Number"},
                                               {"P", "Punctuation"},
                                               {"S", "Symbol"},
                                               {"Z", "Separator"},
                                               {"C", "Other"},
                                               {"M", "Combining_Mark"}}};

using Intervals = std::vector<CodePointSet::Interval>;

const std::array<Intervals, kNumCategories>& category_intervals() {
  static const std::array<Intervals, kNumCategories> kIntervals = [] {
    std::array<Intervals, kNumCategories> all;
    for (uint32_t code_point = 0; code_point <= 0x10FFFF; ++code_point) {
      const auto category = static_cast<size_t>(utf8proc_category(static_cast<utf8proc_int32_t>(code_point)));
      Intervals& own = all[std::min(category, kNumCategories - 1)];
      if (!own.empty() && own.back().last + 1 == code_point) {
        own.back().last = code_point;
      } else {
        own.push_back({code_point, code_point});
      }
    }
    return all;
  }();
  return kIntervals;
}

}  // namespace

std::optional<CodePointSet> unicode_property(std::string_view name) {
  constexpr size_t kSteps = 20'000;
  spend_steps(kSteps);
  for (const std::string_view prefix : {"General_Category=", "gc="}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name == "Any") return CodePointSet::all();
  if (name == "ASCII") return CodePointSet({{0, 0x7F}});
  if (name == "Assigned") return CodePointSet(category_intervals()[0]).complement();
  const bool is_cased = name == "LC" || name == "Cased_Letter";
  const auto* group = std::ranges::find_if(
      kGroups, [&](const CategoryName& each) { return name == each.brief || name == each.full; });
  Intervals found;
  bool is_known = false;
  for (size_t i = 0; i < kNumCategories; ++i) {
    const auto& [brief, full] = kCategories[i];
    const bool is_named = name == brief || name == full ||
                          (group != kGroups.end() && brief[0] == group->brief[0]) ||
                          (is_cased && (brief == "Lu" || brief == "Ll" || brief == "Lt"));
    if (!is_named) continue;
    is_known = true;
    const Intervals& own = category_intervals()[i];
    found.insert(found.end(), own.begin(), own.end());
  }
  if (!is_known) return std::nullopt;
  return CodePointSet(std::move(found));
}

}  // namespace lacuna
