// Bounds of a rendering: each template here would take minutes or gigabytes without them.
#include "jinja_render.h"

namespace lacuna::jinja_limits_test {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr std::string_view kSteps = "takes more than 1000000 steps";
constexpr std::string_view kBytes = "a text has more than 16777216 bytes";

TEST(JinjaLimits, BoundSteps) {
  EXPECT_EQ(
      refusal("{% for i in range(1000) %}\n{% for j in range(1000) %}{{ i * j }}{% endfor %}{% endfor %}"),
      "t.jinja: line 2: the template takes more than 1000000 steps");
  EXPECT_THAT(refusal("{% for i in [1, 2] %}{% endfor %}", "{}", {.max_steps = 3}),
              HasSubstr("more than 3 steps"));
  EXPECT_THAT(refusal("{{ [0] * 100000000 }}"), HasSubstr(kSteps));
  EXPECT_THAT(refusal("{{ range(1000000000) }}"), HasSubstr("range() has more than 100000 items"));
  EXPECT_THAT(refusal("{% set ns = namespace(l=[1, 2]) %}{% for i in range(64) %}{% set ns.l = ns.l + ns.l "
                      "%}{% endfor %}"),
              HasSubstr(kSteps));
}

TEST(JinjaLimits, BoundTexts) {
  EXPECT_THAT(refusal("{{ 'a' * 1000000000000 }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ 'a'.center(9000000000) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ 'a'|center(9000000000) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ 'a'.zfill(9000000000) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ 'a'|indent(9000000000, true) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ [1]|tojson(indent=9000000000) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ '\t'.expandtabs(9000000000) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ '%900000000d' % 1 }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ '{:900000000}'.format(1) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ '%.900000000f' % 1.5 }}"), HasSubstr("precision"));
  EXPECT_THAT(refusal("{{ '{:99999999999999999999}'.format(1) }}"), HasSubstr("width"));
  EXPECT_THAT(refusal("{% set x = 'a' * 100000 %}{{ x|replace('a', x) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{% set x = 'a' * 100000 %}{{ x|replace('', x) }}"), HasSubstr(kBytes));
  EXPECT_THAT(refusal("{% set x = 'a' * 100000 %}{% for i in range(999) %}{{ x }}{% endfor %}"),
              HasSubstr(kBytes));
  EXPECT_THAT(refusal("{{ 'ab' }}{{ 'cd' }}", "{}", {.max_output_bytes = 3}), HasSubstr("more than 3 bytes"));
}

TEST(JinjaLimits, BoundTheWorkOfTextsThatAreNotPrinted) {
  EXPECT_THAT(
      refusal("{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% set y = x + 'b' %}{% endfor %}"),
      HasSubstr(kSteps));
  EXPECT_THAT(
      refusal("{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% set y = x.find('b') %}{% endfor %}"),
      HasSubstr(kSteps));
  EXPECT_THAT(
      refusal("{% set x = 'é' * 1000000 %}{% for i in range(99999) %}{% set y = x[999999] %}{% endfor %}"),
      HasSubstr(kSteps));
  EXPECT_THAT(
      refusal("{% set x = 'a' * 1000000 %}{% for i in range(99999) %}{% set y = x == x ~ '' %}{% endfor %}"),
      HasSubstr(kSteps));
}

TEST(JinjaLimits, SearchInTimeOfTheTexts) {
  // A pattern that nearly fits everywhere.
  const std::string_view texts = "{% set x = 'a' * 1000000 %}{% set y = 'a' * 500000 ~ 'b' %}";
  EXPECT_EQ(render_text(std::string(texts) + "{{ x.find(y) }}{{ x.rfind(y) }}{{ x.count(y) }}{{ y in x }}"),
            "-1-10False");
  EXPECT_EQ(render_text(std::string(texts) +
                        "{{ x.split(y)|length }}{{ x.rsplit(y)|length }}{{ x.replace(y, '')|length }}"),
            "111000000");
}

TEST(JinjaLimits, BoundDepth) {
  EXPECT_THAT(refusal("{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}"),
              HasSubstr("nested deeper than 64"));
  EXPECT_THAT(refusal("{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}"),
              HasSubstr("nested deeper"));
  EXPECT_THAT(refusal("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}"),
              HasSubstr("nested deeper than 64"));
  EXPECT_EQ(render_text("{% macro m(n) %}{{ n }}{{ m(n - 1) if n }}{% endmacro %}{{ m(9) }}"), "9876543210");
  EXPECT_THAT(
      refusal("{% set n = namespace(a=[]) %}{% for i in range(9999) %}{% set n.a = [n.a] %}{% endfor %}"),
      HasSubstr("values are nested deeper than 200"));
  EXPECT_THAT(refusal("{% set n = namespace(a=[1]) %}{% for i in range(9999) %}{% set n.a = "
                      "n.a|map('string') %}{% endfor %}"),
              HasSubstr("values are nested deeper than 200"));
  std::string deep = "{\"x\": ";
  for (int i = 0; i < 5000; ++i) deep += "[";
  for (int i = 0; i < 5000; ++i) deep += "]";
  EXPECT_THAT(refusal("{{ x }}", deep + "}"), HasSubstr("deeper than 200"));
}

TEST(JinjaLimits, BoundMacrosWithinDeepExpressions) {
  std::string nested = "m(n)";
  for (int i = 0; i < 20; ++i) nested = "[" + nested + "]";
  EXPECT_THAT(refusal("{% macro m(n) %}{{ " + nested + " }}{% endmacro %}{{ m(0) }}"),
              AnyOf(HasSubstr("nested deeper than 64"), HasSubstr("nested deeper than 1500 steps")));
}

TEST(JinjaLimits, CountSharedValuesAsOftenAsTheyAreWritten) {
  const std::string shared =
      "{% set n = namespace(a=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}{% endfor %}";
  EXPECT_THAT(refusal(shared + "{{ n.a|tojson }}"), AnyOf(HasSubstr(kSteps), HasSubstr(kBytes)));
  EXPECT_THAT(refusal(shared + "{{ n.a }}"), AnyOf(HasSubstr(kSteps), HasSubstr(kBytes)));
  EXPECT_THAT(
      refusal(shared +
              "{% set m = namespace(a=[1]) %}{% for i in range(60) %}{% set m.a = [m.a, m.a] %}{% endfor %}"
              "{{ m.a == n.a }}"),
      HasSubstr(kSteps));
}

TEST(JinjaLimits, FreeNamespacesAndMacrosThatHoldThemselves) {
  EXPECT_THAT(refusal("{% set n = namespace() %}{% set n.a = [n] %}{{ n }}"), HasSubstr("too deeply"));
  EXPECT_EQ(render_text("{% set n = namespace() %}{% macro m() %}{{ n.m is defined }}{% endmacro %}{% set "
                        "n.m = m %}{{ n.m() }}"),
            "True");
}

TEST(JinjaLimits, BoundIntegers) {
  EXPECT_THAT(refusal("{{ 2 ** 63 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("{{ 9223372036854775807 + 1 }}"), HasSubstr("64 bits"));
  EXPECT_THAT(refusal("{{ ('9' * 30)|int }}"), HasSubstr("64 bits"));
  EXPECT_EQ(
      render_text("{{ 2 ** 62 }} {{ (0 - 9223372036854775807 - 1) % -1 }} {{ '9223372036854775807'|int }}"),
      "4611686018427387904 0 9223372036854775807");
}

}  // namespace
}  // namespace lacuna::jinja_limits_test
