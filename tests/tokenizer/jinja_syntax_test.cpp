// Lexer and parser of templates.
#include "jinja_render.h"

namespace lacuna::jinja_syntax_test {
namespace {

using testing::HasSubstr;

TEST(JinjaLexer, RemovesWhiteSpaceAsTheTagsSay) {
  EXPECT_EQ(render_text("a \n {%- if true -%} \n b \n {%- endif %} c"), "ab c");
  EXPECT_EQ(render_text("a\n  {% if true %}\n  b\n  {% endif %}\nc"),
            "a\n  b\nc");  // trim_blocks and lstrip_blocks
  EXPECT_EQ(render_text("a\n  {%+ if true +%}\n  b{% endif %}"), "a\n  \n  b");
  EXPECT_EQ(render_text("a {% if true %}b{% endif %}"), "a b");
  EXPECT_EQ(render_text("  {{ 1 }}\n  {{- 2 -}}\n  3"), "  123");
  EXPECT_EQ(render_text("a\n {# x #}\nb{#- y -#}\n c"), "a\nbc");
  EXPECT_EQ(render_text("  {% set x = 1 %}  {{ x }}"), "  1");
}

TEST(JinjaLexer, DropsOneNewlineAtTheEndAndKnowsThemAll) {
  EXPECT_EQ(render_text("a\n"), "a");
  EXPECT_EQ(render_text("a\n\n"), "a\n");
  EXPECT_EQ(render_text("a\r\nb\rc\r\n"), "a\nb\nc");
  EXPECT_EQ(render_text("{{ 'a\r\nb' }}"), "a\nb");
}

TEST(JinjaLexer, LeavesRawTextAlone) {
  EXPECT_EQ(render_text("{% raw %}{{ x }}{% y %}{# z #}{% endraw %}"), "{{ x }}{% y %}{# z #}");
  EXPECT_EQ(render_text("a {%- raw -%} b {%- endraw -%} c"), "abc");
}

TEST(JinjaLexer, ReadsLiterals) {
  EXPECT_EQ(render_text(R"({{ 'a\n\t\\\'"\x41\u00e9\U0001F642\101\q' 'b' "c" }})"),
            "a\n\t\\'\"Aé🙂A\\qbc");
  EXPECT_EQ(render_text("{{ [1_000, 0x1F, 0b11, 0o17, 1.5, 1e3, 2.5e-3, 0] }}"),
            "[1000, 31, 3, 15, 1.5, 1000.0, 0.0025, 0]");
  EXPECT_EQ(render_text("{{ [true, True, false, none, None] }}"), "[True, True, False, None, None]");
  EXPECT_EQ(render_text("{{ {'a': {'b': 1}}}}"), "{'a': {'b': 1}}");
  EXPECT_EQ(render_text("{{ (1,) }}{{ () }}{{ 1, 2 }}"), "(1,)()(1, 2)");
}

TEST(JinjaLexer, RefusesWhatIsNotClosed) {
  EXPECT_EQ(refusal("a\n{# b"), "t.jinja: line 2: a comment is not closed by '#}'");
  EXPECT_THAT(refusal("{% raw %}x"), HasSubstr("'{% endraw %}'"));
  EXPECT_THAT(refusal("{{ 'a }}"), HasSubstr("a string is not closed"));
  EXPECT_THAT(refusal("{{ a"), HasSubstr("'}}'"));
  EXPECT_THAT(refusal("{{ (a] }}"), HasSubstr("unexpected ']'; expected ')'"));
  EXPECT_THAT(refusal("{{ a ? b }}"), HasSubstr("'?' is no part of an expression"));
  EXPECT_THAT(refusal("{{ 99999999999999999999 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("{{ '\\ud800' }}"), HasSubstr("no character"));
  EXPECT_THAT(refusal("\xff"), HasSubstr("UTF-8"));
  EXPECT_THAT(refusal(std::string((1 << 20) + 1, 'x')), HasSubstr("at most 1048576"));
}

TEST(JinjaParser, KnowsWhatBindsTighter) {
  EXPECT_EQ(render_text("{{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}"), "7 9 64 4");
  EXPECT_EQ(render_text("{{ 1 ~ 2 * 3 }} {{ 7 // 2 * 2 }} {{ 'a' ~ 1 == 'a1' }}"), "16 6 True");
}

TEST(JinjaParser, KnowsTheOrderOfLogic) {
  EXPECT_EQ(render_text("{{ not true or true }} {{ true or false and false }} {{ not 1 == 2 }}"),
            "True True True");
  EXPECT_EQ(render_text("{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 'a' in 'abc' == true }}"), "True False False");
  EXPECT_EQ(render_text("{{ 'a' if false else 'b' if false else 'c' }}{{ 'x' if false }}"), "c");
  EXPECT_EQ(
      render_text(
          "{{ -1|abs }} {{ 'a' ~ 'b'|upper }} {{ [3, 1]|sort|first }} {{ 'x' is string and 1 is not none }}"),
      "1 aB 1 True");
  EXPECT_EQ(render_text("{{ x is defined and x.y }}|{{ 3 is divisibleby 3 }}|{{ 'a' is in ['a'] }}"),
            "False|True|True");
}

TEST(JinjaParser, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(refusal("{% if a %}"), "t.jinja: line 1: the template ends before '{% endif %}'");
  EXPECT_THAT(refusal("{% import 'x' as y %}"),
              HasSubstr("there is no statement 'import' here; supported: for, if"));
  EXPECT_THAT(refusal("{% endif %}"), HasSubstr("'endif'"));
  EXPECT_THAT(refusal("{{ a|nope }}"), HasSubstr("there is no filter 'nope'; supported: abs, "));
  EXPECT_THAT(refusal("{{ a is nope }}"), HasSubstr("there is no test 'nope'; supported: "));
  EXPECT_THAT(refusal("{{ a b }}"), HasSubstr("'b' stands where '}}' is expected"));
  EXPECT_THAT(refusal("{{ }}"), HasSubstr("'}}' stands where an expression is expected"));
  EXPECT_THAT(refusal("{% set 1 = 2 %}"), HasSubstr("only names"));
  EXPECT_THAT(refusal("{% break %}"), HasSubstr("for statement"));
  EXPECT_THAT(refusal("{% macro m(a=1, b) %}{% endmacro %}"), HasSubstr("without a default"));
  EXPECT_THAT(refusal("{% macro m(a, a) %}{% endmacro %}"), HasSubstr("named twice"));
  EXPECT_THAT(refusal("{{ f(a=1, 2) }}"), HasSubstr("in the order"));
  EXPECT_THAT(refusal("{% for loop in x %}{% endfor %}"), HasSubstr("'loop'"));
}

TEST(JinjaParser, LetsBranchesThatAreNotRunNameUnknownFilters) {
  EXPECT_EQ(render_text("{% if false %}{{ a|nope }}{% endif %}{{ 1 if true else a|nope }}"), "1");
}

TEST(JinjaParser, BoundsNesting) {
  const auto nested = [](int levels) {
    return "{{ " + std::string(static_cast<size_t>(levels), '(') + "1" +
           std::string(static_cast<size_t>(levels), ')') + " }}";
  };
  EXPECT_EQ(render_text(nested(25)), "1");
  EXPECT_THAT(refusal(nested(70)), HasSubstr("more than 64 levels of nesting"));
  std::string blocks;
  for (int i = 0; i < 70; ++i) blocks += "{% if true %}";
  EXPECT_THAT(refusal(blocks), HasSubstr("more than 64 levels of nesting"));
  std::string nots = "{{ ";
  for (int i = 0; i < 100000; ++i) nots += "not ";
  EXPECT_THAT(refusal(nots + "1 }}"), HasSubstr("more than 64 levels of nesting"));
  EXPECT_THAT(refusal("{{ " + std::string(100000, '-') + "1 }}"),
              HasSubstr("more than 64 levels of nesting"));
}

TEST(JinjaParser, TakesLongChains) {
  std::string sum = "{{ 0", filters = "{{ 'a'", conditions = "{{ 1";
  for (int i = 0; i < 5000; ++i) {
    sum += " + 1";
    filters += "|upper|lower";
    conditions += " and 1";
  }
  EXPECT_EQ(render_text(sum + " }}"), "5000");
  EXPECT_EQ(render_text(filters + " }}"), "a");
  EXPECT_EQ(render_text(conditions + " }}"), "1");
}

}  // namespace
}  // namespace lacuna::jinja_syntax_test
