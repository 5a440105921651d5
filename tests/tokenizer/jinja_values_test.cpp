// Operators, filters, tests and methods. The expected texts are those of jinja2 3.1.6;
// tests/reference/check_jinja.py compares many more.
#include "jinja_render.h"

namespace lacuna::jinja_values_test {
namespace {

using testing::HasSubstr;

// The text of one expression.
std::string value_of(const std::string& expression, const std::string& values = "{}") {
  return render_text("{{ " + expression + " }}", values);
}

TEST(JinjaOperators, ComputeAsPython) {
  EXPECT_EQ(value_of("[7 // -2, 7 % -3, -7 % 3, 7 / 2, 2 ** -1, 7.5 // 2, -7.5 % 2, -1e16 // 3.0]"),
            "[-4, -2, 2, 3.5, 0.5, 3.0, 0.5, -3333333333333335.0]");
  EXPECT_EQ(value_of("[true + 1, 1 == 1.0, true == 1, 'a' == 1, 1 < 1.5, [1, 2] < [1, 3]]"),
            "[2, True, True, False, True, True]");
  EXPECT_EQ(value_of("'ab' * 2 ~ [1] * 2 ~ ([1] + ['a']) ~ (1, 2)"), "abab[1, 1][1, 'a'](1, 2)");
  EXPECT_EQ(value_of("[1 in [1], 'b' in 'abc', 'x' in {'x': 1}, 1 not in (2, 3), '' in 'a']"),
            "[True, True, True, True, True]");
  EXPECT_EQ(value_of("{1: 'a', true: 'b', 1.0: 'c', '1': 'd'}"), "{1: 'c', '1': 'd'}");
  EXPECT_EQ(value_of("{range(3): 1, range(0, 3, 1): 2, range(0): 3, range(5, 5): 4, (range(0, 5, 2),): 5}"),
            "{range(0, 3): 2, range(0, 0): 4, (range(0, 5, 2),): 5}");
  EXPECT_EQ(value_of("{(range(0, 5, 2),): 5}[(range(0, 6, 2),)] ~ ({'a': 1}.values() in {1: 2})"), "5False");
  EXPECT_THAT(refusal("{{ 1 / 0 }}"), HasSubstr("division by zero"));
  EXPECT_THAT(refusal("{{ 'a' < 1 }}"), HasSubstr("'<' does not take str and int"));
  EXPECT_THAT(refusal("{{ {[]: 1} }}"), HasSubstr("a list cannot be a key"));
}

TEST(JinjaOperators, TakeItemsAndSlicesOfCharacters) {
  EXPECT_EQ(value_of("x[1] ~ x[-1] ~ x[1:3] ~ x[::-1] ~ x[:-1:2]", R"({"x": "aé日🙂"})"),
            "é🙂é日🙂日éaa日");
  EXPECT_EQ(value_of("[1, 2, 3, 4][::-2] ~ (1, 2, 3)[1:] ~ [1, 2][5:] ~ 'abc'[-9:2]"), "[4, 2](2, 3)[]ab");
  EXPECT_EQ(value_of("[] [3] is defined or {}.x is defined"), "False");
  EXPECT_EQ(value_of("{'items': 1}['items'] ~ ({'items': 1}.items is callable) ~ {'a': 1}.a"), "1True1");
  EXPECT_THAT(refusal("{{ 'abc'[::0] }}"), HasSubstr("0"));
}

TEST(JinjaPrinting, IsPythons) {
  EXPECT_EQ(value_of("[1.0, 1e16, 1e15, 1e-5, 0.0001, 123456.789, -0.0, 1e300 * 1e10]"),
            "[1.0, 1e+16, 1000000000000000.0, 1e-05, 0.0001, 123456.789, -0.0, inf]");
  EXPECT_EQ(value_of(R"(["it's", 'a"b', "a'\"", "\n\t\\", "\x07é\u200b", none, true, {'a': (1,)}])"),
            R"(["it's", 'a"b', 'a\'"', '\n\t\\', '\x07é\u200b', None, True, {'a': (1,)}])");
  EXPECT_EQ(value_of("undefined_name") + value_of("none"), "None");
}

TEST(JinjaUndefined, IsEmptyAndHasNoAttributes) {
  EXPECT_EQ(value_of("[x, x|length, x|list, x ~ 'a', x == y, x in [1], x|default(3), x or 4]"),
            "[Undefined, 0, [], 'a', True, False, 3, 4]");
  EXPECT_EQ(render_text("{% for i in x %}a{% else %}b{% endfor %}{{ x is iterable }}{{ x is sequence }}"),
            "bTrueTrue");
  for (const std::string source :
       {"x.y", "x[0]", "x + 1", "1 + x", "x()", "x < 1", "-x", "x|tojson", "x|int"}) {
    EXPECT_THAT(refusal("{{ " + source + " }}"), HasSubstr("'x' is undefined")) << source;
  }
}

TEST(JinjaJson, IsThatOfTransformers) {
  const std::string values =
      R"({"t": {"b": [1, 2.0, null, true], "a": {"é<&'>": "\"\\\n\u0001"}, "e": [], "o": {}}})";
  EXPECT_EQ(value_of("t|tojson", values),
            R"({"b": [1, 2.0, null, true], "a": {"é<&'>": "\"\\\n\u0001"}, "e": [], "o": {}})");
  EXPECT_EQ(value_of("t.b|tojson(indent=2)", values), "[\n  1,\n  2.0,\n  null,\n  true\n]");
  EXPECT_EQ(value_of("t|tojson(separators=(',', ':'), sort_keys=true, ensure_ascii=true)", values),
            R"({"a":{"\u00e9<&'>":"\"\\\n\u0001"},"b":[1,2.0,null,true],"e":[],"o":{}})");
  EXPECT_EQ(value_of("'🙂'|tojson(true)"), R"("\ud83d\ude42")");
  EXPECT_EQ(value_of("{1: 2, none: 3, true: 4, 1.5: 5}|tojson"), R"({"1": 4, "null": 3, "1.5": 5})");
  EXPECT_THAT(refusal("{{ range(3)|tojson }}"), HasSubstr("range"));
}

TEST(JinjaFilters, OfTexts) {
  EXPECT_EQ(value_of("'straße ΑΣ'|upper ~ 'ΑΣ ΑΣΑ'|lower ~ 'ǆa ßb'|capitalize"), "STRASSE ΑΣας ασαǅa ßb");
  EXPECT_EQ(value_of("\"it's a-b (c)\"|title ~ \"it's\".title()"), "It's A-B (C)It'S");
  EXPECT_EQ(value_of("' a '|trim ~ 'xax'|trim('x') ~ 'aaa'|replace('a', 'b', 2) ~ [1, none]|join('-')"),
            "aabba1-None");
  EXPECT_EQ(value_of("'a\n\nb\n'|indent(2) ~ '|' ~ 'a\nb'|indent('>', true)"), "a\n\n  b\n|>a\n>b");
  EXPECT_EQ(value_of("'a b c d e f g'|truncate(7, leeway=0) ~ 'abcdefgh'|truncate(5, true, '-', 0)"),
            "a b...abcd-");
  EXPECT_EQ(value_of("'<a>'|e ~ ('<b>'|safe + '<c>') ~ '%s|%5.1f|%-3d|%r' | format('x', 1.25, 7, 'y')"),
            "&lt;a&gt;<b>&lt;c&gt;x|  1.2|7  |'y'");
}

TEST(JinjaFilters, OfSequences) {
  const std::string values = R"({"m": [{"r": "b", "n": 2}, {"r": "A", "n": 1}, {"r": "b"}]})";
  EXPECT_EQ(
      value_of(
          "m|map(attribute='r')|list ~ m|map(attribute='n', default=0)|sum ~ m|selectattr('n')|list|length",
          values),
      "['b', 'A', 'b']32");
  EXPECT_EQ(value_of("m|selectattr('r', 'equalto', 'b')|map(attribute='n')|list", values), "[2, Undefined]");
  EXPECT_EQ(
      value_of("m|rejectattr('n', 'defined')|list ~ m|sort(attribute='r')|map(attribute='r')|join", values),
      "[{'r': 'b'}]Abb");
  EXPECT_EQ(value_of("[3, 1, 2]|sort(reverse=true) ~ ['b', 'A']|sort ~ ['b', 'A']|sort(case_sensitive=true) "
                     "~ ['a', 'A']|unique|list"),
            "[3, 2, 1]['A', 'b']['A', 'b']['a']");
  EXPECT_EQ(value_of("[[1, 2]|first, 'ab'|last, []|first is defined, [1, 5]|max, ['b', 'A']|min, [1, 2, "
                     "3]|batch(2)|list]"),
            "[1, 'b', False, 5, 'A', [[1, 2], [3]]]");
  EXPECT_EQ(value_of("{'b': 1, 'a': 2}|dictsort ~ {'b': 1}|items|list ~ [1, 2]|reverse|list ~ 'ab'|reverse"),
            "[('a', 2), ('b', 1)][('b', 1)][2, 1]ba");
  EXPECT_EQ(render_text("{% if []|select %}generators are true{% endif %}"), "generators are true");
  EXPECT_EQ(value_of("range(9)|select('divisibleby', 3)|list ~ ['1', 'x']|map('int', 7)|list"),
            "[0, 3, 6][1, 7]");
}

TEST(JinjaFilters, OfNumbers) {
  EXPECT_EQ(
      value_of(
          "['42.7'|int, 'x'|int, ' 1_0 '|int, 'ff'|int(0, 16), 3.9|int, '1e2'|float, none|float, true|int]"),
      "[42, 0, 10, 255, 3, 100.0, 0.0, 1]");
  EXPECT_EQ(value_of("[2.5|round, 3.5|round, 2.675|round(2), 1.21|round(1, 'ceil'), 15|round(-1), -1.5|abs]"),
            "[2.0, 4.0, 2.67, 1.3, 20, 1.5]");
}

TEST(JinjaMethods, OfTexts) {
  EXPECT_EQ(
      value_of("'a  b c'.split() ~ 'a,b,c'.split(',', 1) ~ 'a,b,c'.rsplit(',', 1) ~ 'a\r\nb\n'.splitlines()"),
      "['a', 'b', 'c']['a', 'b,c']['a,b', 'c']['a', 'b']");
  EXPECT_EQ(
      value_of(
          "['aXbX'.find('X', 2), 'aXbX'.rfind('X'), 'ab'.find('z'), 'aaa'.count('aa'), 'abc'.index('c')]"),
      "[3, 3, -1, 1, 2]");
  EXPECT_EQ(value_of("'a-b-c'.partition('-') ~ 'a-b-c'.rpartition('-') ~ 'abc'.removeprefix('ab') ~ "
                     "'abc'.removesuffix('x')"),
            "('a', '-', 'b-c')('a-b', '-', 'c')cabc");
  EXPECT_EQ(value_of("['abc'.startswith(('x', 'ab')), 'abc'.endswith('c', 0, 2), '12'.isdigit(), "
                     "'aB'.islower(), ' '.isspace()]"),
            "[True, False, True, False, True]");
  EXPECT_THAT(refusal("{{ '{} {1}'.format(1, 2) }}"), HasSubstr("numbers some of its fields"));
  EXPECT_EQ(value_of("'{0:>4}|{a!r:5}|{b[0].c}|{:,}' .replace('{:,}', '') .format(1, a='x', b=[{'c': 2}])"),
            "   1|'x'  |2|");
  EXPECT_EQ(value_of("'ab'.center(5, '*') ~ 'a'.ljust(3) ~ '|' ~ '-5'.zfill(4) ~ 'a\tb'.expandtabs(4)"),
            "**ab*a  |-005a   b");
}

TEST(JinjaMethods, OfDictionariesAndLists) {
  EXPECT_EQ(value_of("[d.get('a'), d.get('x'), d.get('x', 5), d.keys(), d.values()|list, d.items()|first]",
                     R"({"d": {"a": 1}})"),
            "[1, None, 5, dict_keys(['a']), [1], ('a', 1)]");
  EXPECT_EQ(value_of("[1, 2, 1].count(1) ~ [1, 2].index(2)"), "21");
  EXPECT_EQ(value_of("[].append is defined or {}.update is defined or {}.pop is defined"), "False");
  EXPECT_EQ(value_of("''.__class__ is defined or {}.__class__ is defined or [].__init__ is defined"),
            "False");
}

TEST(JinjaTests, AreThoseOfJinja) {
  EXPECT_EQ(value_of("[1 is number, true is number, 1.5 is float, 1 is integer, true is integer, 'a' is "
                     "string, {} is mapping]"),
            "[True, True, True, True, False, True, True]");
  EXPECT_EQ(value_of("['a' is sequence, {} is sequence, 5 is iterable, 'ab' is lower, 1 is sameas 1, none is "
                     "none, 3 is odd]"),
            "[True, True, False, True, True, True, True]");
  EXPECT_EQ(value_of("[2 is gt 1, 2 is lt(1), 'a' is eq 'a', 'trim' is filter, 'odd' is test, false is "
                     "false, 1 is true]"),
            "[True, False, True, True, True, True, False]");
}

}  // namespace
}  // namespace lacuna::jinja_values_test
