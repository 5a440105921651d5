#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>

#include "base/budget.h"
#include "base/error.h"

namespace lacuna {
namespace {

// Limits far above any tokenizer's expression.
constexpr size_t kPatternBytesMax = size_t{1} << 16;
constexpr uint32_t kHeapLimitKib = 64 * 1024;

/// Counts the work of matching by callouts before every item of the expression. PCRE2's own match limit
/// restarts at each start position, and its JIT code does not count most steps.
struct WorkMeter {
  static constexpr int64_t kPerLook = 1 << 16;

  int64_t& left;
  int64_t next_look = left - kPerLook;  // value of `left` at which the thread's Budget is charged next
  std::exception_ptr cancelled = {};    // the Budget's exception, which must not unwind PCRE2's frames
  PCRE2_SIZE position = 0;              // position of the last callout

  /// Charges the Budget; false if it is spent or the work is cancelled.
  bool look() noexcept {
    try {
      charge();
    } catch (...) {
      cancelled = std::current_exception();
      return false;
    }
    return true;
  }
  void charge() {
    const int64_t spent = next_look + kPerLook - left;
    next_look = left - kPerLook;
    spend_steps(static_cast<size_t>(spent));
  }

  static int count(pcre2_callout_block* block, void* data) {
    auto& meter = *static_cast<WorkMeter*>(data);
    const PCRE2_SIZE now = block->current_position;
    meter.left -= 1 + static_cast<int64_t>(std::max(now, meter.position) - std::min(now, meter.position));
    meter.position = now;
    if (meter.left >= meter.next_look) return 0;
    if (meter.left < 0 || !meter.look()) return PCRE2_ERROR_CALLOUT;
    return 0;
  }
};

template <auto release>
struct Releases {
  template <typename T>
  void operator()(T* object) const {
    release(object);
  }
};
using CompileContext = std::unique_ptr<pcre2_compile_context, Releases<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Releases<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Releases<pcre2_match_data_free>>;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// The inside of "[:name:]" as Oniguruma defines it; `text` is ":name:]". PCRE2's [:punct:] lacks most
// symbols.
std::string_view posix_class(std::string_view text, const std::string& name) {
  struct PosixClass {
    std::string_view text;
    std::string_view properties;
  };
  constexpr std::array kClasses = std::to_array<PosixClass>({
      {":alnum:]", R"(\p{Alphabetic}\p{Nd})"},
      {":alpha:]", R"(\p{Alphabetic})"},
      {":digit:]", R"(\p{Nd})"},
      {":lower:]", R"(\p{Lowercase})"},
      {":punct:]", R"(\p{P}\p{S})"},
      {":space:]", R"(\p{White_Space})"},
      {":upper:]", R"(\p{Uppercase})"},
  });
  for (const PosixClass& known : kClasses) {
    if (known.text == text) return known.properties;
  }
  throw InputError("{}: character class '[{}' is not supported", name, text);
}

// Rewrites syntax that Oniguruma reads differently: PCRE2's \s has U+180E, its \w lacks marks and connectors.
std::string to_pcre2_syntax(std::string_view pattern, const std::string& name) {
  // For Oniguruma, only Latin-1's superscripts and fractions are word characters, not those of other blocks.
  constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
  std::string result;
  bool in_class = false;
  size_t class_begin = 0;  // first position where `]` closes the class
  for (size_t position = 0; position < pattern.size(); ++position) {
    const char character = pattern[position];
    const std::string_view rest = pattern.substr(position + 1);
    if (character == '\\' && !rest.empty()) {
      ++position;
      switch (rest.front()) {
        case 's':
          result += R"(\p{White_Space})";
          break;
        case 'S':
          result += R"(\P{White_Space})";
          break;
        case 'w':
          result += in_class ? std::string(kWord) : fmt::format("[{}]", kWord);
          break;
        case 'W':
          if (in_class) throw InputError("{}: \\W inside a character class is not supported", name);
          result += fmt::format("[^{}]", kWord);
          break;
        case 'h':
        case 'H':
          throw InputError("{}: \\{} is not supported", name, rest.front());
        default:
          result += character, result += rest.front();
      }
      continue;
    }
    result += character;
    if (!in_class && character == '[') {
      in_class = true;
      class_begin = position + 1 + (rest.starts_with('^') ? 1 : 0) + 1;
    } else if (in_class && character == ']' && position >= class_begin) {
      in_class = false;
    } else if (in_class && character == '[' && rest.starts_with(':')) {
      const std::string_view class_name = rest.substr(0, rest.find(']') + 1);
      result.pop_back();
      result += posix_class(class_name, name);
      position += class_name.size();
    } else if (in_class && (character == '[' || (character == '&' && rest.starts_with('&')))) {
      throw InputError("{}: nested character classes and '&&' are not supported", name);
    }
  }
  return result;
}

}  // namespace

void Regex::CodeDeleter::operator()(pcre2_real_code_8* code) const {
  pcre2_code_free(code);
}

Regex::Regex(std::string_view pattern, Syntax syntax, std::string name) : name_(std::move(name)) {
  const bool literal = syntax == Syntax::kLiteral;
  const std::string source = literal ? std::string(pattern) : to_pcre2_syntax(pattern, name_);
  const CompileContext context(pcre2_compile_context_create(nullptr));
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_max_pattern_length(context.get(), kPatternBytesMax);
  const uint32_t options = PCRE2_UTF | PCRE2_AUTO_CALLOUT |
                           (literal ? PCRE2_LITERAL : PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), options, &error,
                            &offset, context.get()));
  if (!code_) throw InputError("{} is not a usable regular expression: {}", name_, message_of(error));
  // Fails on machines without JIT support; PCRE2 then uses its slower interpreter.
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);
}

int64_t Regex::work_for(std::string_view text) {
  constexpr int64_t kAnyText = 10'000;
  constexpr int64_t kEachByte = 256;
  return kAnyText + kEachByte * static_cast<int64_t>(text.size());
}

std::vector<TextRange> Regex::find_all(std::string_view text, int64_t& work_left) const {
  const MatchContext context(pcre2_match_context_create(nullptr));
  const MatchData data(pcre2_match_data_create(1, nullptr));  // only the whole match is needed
  if (!context || !data) throw std::bad_alloc();
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  WorkMeter meter{work_left};
  pcre2_set_callout(context.get(), &WorkMeter::count, &meter);

  const auto match = [&](size_t start, uint32_t options) {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), start,
                       PCRE2_NO_UTF_CHECK | options, data.get(), context.get());
  };
  std::vector<TextRange> matches;
  size_t start = 0;
  while (start <= text.size()) {
    int found = match(start, 0);
    // JIT code has a small stack of its own; the interpreter uses the heap.
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = match(start, PCRE2_NO_JIT);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (meter.cancelled) std::rethrow_exception(meter.cancelled);
    if (found == PCRE2_ERROR_CALLOUT) throw InputError("{} takes too many steps to split the text", name_);
    if (found < 0) throw InputError("{} cannot split the text: {}", name_, message_of(found));
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data.get());
    const TextRange range{offsets[0], offsets[1]};
    // \K inside a look-around can do this.
    if (range.begin > range.end || range.begin < start) throw InputError("{} matches backwards", name_);
    if (range.empty() && !matches.empty() && matches.back().end == range.end) {
      if (start == text.size()) break;
      start += first_character_bytes(text.substr(start));
      continue;
    }
    matches.push_back(range);
    start = range.end;
  }
  meter.charge();
  return matches;
}

}  // namespace lacuna
