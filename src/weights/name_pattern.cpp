#include "weights/name_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <string>
#include <utility>

namespace lacuna {
namespace {

constexpr size_t kMaxLength = 1000;
constexpr uint32_t kMaxDepth = 50;
constexpr size_t kMaxName = 400;

// Limits the steps of a match, and keeps PCRE2 from deciding some without steps.
constexpr std::string_view kSettings = "(*LF)(*NO_START_OPT)(*NO_AUTO_POSSESS)(*LIMIT_MATCH=100000)";

// The syntax that Python reads in the same way. PCRE2 itself checks parentheses and the ends of ranges.
constexpr std::string_view kSubset = R"((?x)
  (?(DEFINE)
    (?<escape> \\ (?: [dDwWsS] | \W ) )
    (?<char_of_set> (?&escape) | (?! \[ [:.=] ) [^\\] )
    (?<set> \[ \^? (?&char_of_set) (?: (?! \] ) (?&char_of_set) )* \] )
    (?<number> 0* (?: 1000 | \d{1,3} ) )
    (?<repeat> (?: [*+?] | \{ (?&number) (?: , (?&number)? )? \} ) \?? )
  )
  (?: [\^$|] | \( (?: \?: )? | (?: (?&escape) | (?&set) | [^\\(\[*+?{^$|] ) (?&repeat)? )*)";

/// Whether a text matches as a whole; empty if that takes too many steps.
std::optional<bool> matches_whole(const pcre2_code* code, std::string_view text) {
  const std::shared_ptr<pcre2_match_data> data(pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  if (!data) throw std::bad_alloc();
  const int found =
      pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0, data.get(), nullptr);
  if (found < 0 && found != PCRE2_ERROR_NOMATCH) return {};
  return found >= 0;
}

}  // namespace

/// Null for an expression that PCRE2 refuses.
NamePattern::Code NamePattern::compile(std::string_view text) {
  const std::shared_ptr<pcre2_compile_context> context(pcre2_compile_context_create(nullptr),
                                                       pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_parens_nest_limit(context.get(), kMaxDepth);
  const std::string source = std::string(kSettings) + std::string(text);
  int error = 0;
  PCRE2_SIZE offset = 0;
  return {pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(),
                        PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOLLAR_ENDONLY, &error, &offset,
                        context.get()),
          pcre2_code_free};
}

std::optional<NamePattern> NamePattern::parse(std::string_view text) {
  static const Code subset = compile(kSubset);
  if (text.size() > kMaxLength || !matches_whole(subset.get(), text).value_or(false)) return {};
  Code code = compile(text);
  if (code == nullptr) return {};
  return NamePattern(std::move(code));
}

std::optional<bool> NamePattern::matches(std::string_view name) const {
  if (name.size() > kMaxName) return {};
  return matches_whole(code_.get(), name);
}

}  // namespace lacuna
