#include "constraint/unicode_property.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/budget.h"

namespace lacuna {
namespace {

constexpr size_t kNumCategories = 30;

/// Short and long names of the general categories and of their groups. A group has the categories whose short
/// names begin with its own.
constexpr std::string_view kNames =
    "Cn=Unassigned Lu=Uppercase_Letter Ll=Lowercase_Letter Lt=Titlecase_Letter Lm=Modifier_Letter "
    "Lo=Other_Letter Mn=Nonspacing_Mark Mc=Spacing_Mark Me=Enclosing_Mark Nd=Decimal_Number Nl=Letter_Number "
    "No=Other_Number Pc=Connector_Punctuation Pd=Dash_Punctuation Ps=Open_Punctuation Pe=Close_Punctuation "
    "Pi=Initial_Punctuation Pf=Final_Punctuation Po=Other_Punctuation Sm=Math_Symbol Sc=Currency_Symbol "
    "Sk=Modifier_Symbol So=Other_Symbol Zs=Space_Separator Zl=Line_Separator Zp=Paragraph_Separator "
    "Cc=Control Cf=Format Cs=Surrogate Co=Private_Use "
    "L=Letter M=Mark M=Combining_Mark N=Number P=Punctuation S=Symbol Z=Separator C=Other ";

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
  std::vector<std::string_view> categories;
  if (name == "LC" || name == "Cased_Letter") categories = {"Lu", "Ll", "Lt"};
  for (std::string_view rest = kNames; !rest.empty(); rest.remove_prefix(rest.find(' ') + 1)) {
    const size_t equals = rest.find('=');
    const std::string_view brief = rest.substr(0, equals);
    const std::string_view full = rest.substr(equals + 1, rest.find(' ') - equals - 1);
    if (name == brief || name == full) categories.push_back(brief);
  }
  if (categories.empty()) return std::nullopt;
  Intervals found;
  for (const Intervals& own : category_intervals()) {
    const std::string_view category =
        utf8proc_category_string(static_cast<utf8proc_int32_t>(own.front().first));
    if (std::ranges::any_of(categories, [&](std::string_view each) { return category.starts_with(each); }))
      found.insert(found.end(), own.begin(), own.end());
  }
  return CodePointSet(std::move(found));
}

}  // namespace lacuna
