#include "tokenizer/jinja.h"

#include "jinja_render.h"

namespace lacuna::jinja_test {
namespace {

using jinja::Piece;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(JinjaStatements, LoopOverItemsWithTheirPosition) {
  EXPECT_EQ(render_text("{% for x in 'abc' %}{{ loop.index }}{{ x }}{{ ',' if not loop.last }}{% endfor %}"),
            "1a,2b,3c");
  EXPECT_EQ(
      render_text(
          "{% for x in [1,2,3] %}{{ loop.previtem }}<{{ loop.nextitem }}{{ loop.revindex0 }} {% endfor %}"),
      "<22 1<31 2<0 ");
  EXPECT_EQ(
      render_text("{% for x in range(4) %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x // 2) }} {% endfor %}"),
      "aTrue bFalse aTrue bFalse ");
  EXPECT_EQ(
      render_text("{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", R"({"d": {"b": 1, "a": 2}})"),
      "b=1;a=2;");
}

TEST(JinjaStatements, ChooseItemsAndCountThoseThatAreChosen) {
  EXPECT_EQ(render_text(
                "{% for x in range(9) if x is odd %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}"),
            "1:1/4 2:3/4 3:5/4 4:7/4 ");
}

TEST(JinjaStatements, RunElseWhereNoBodyEndedByItself) {
  EXPECT_EQ(render_text("{% for x in [] %}x{% else %}none{% endfor %}"), "none");
  EXPECT_EQ(render_text("{% for x in [1] %}x{% else %}none{% endfor %}"), "x");
  EXPECT_EQ(render_text("{% for x in [1, 2] %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
            "1");
  EXPECT_EQ(render_text("{% for x in [1] %}{% break %}{% else %}none{% endfor %}"),
            "none");  // as jinja2 does
  EXPECT_EQ(
      render_text("{% for x in [1, 2, 3] %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}"),
      "13");
}

TEST(JinjaStatements, CallLoopsThatAreRecursive) {
  EXPECT_EQ(
      render_text("{% for x in t recursive %}{{ loop.depth }}{{ x.n }}({{ loop(x.c) if x.c }}){% endfor %}",
                  R"({"t": [{"n": "a", "c": [{"n": "b"}]}, {"n": "c"}]})"),
      "1a(2b())1c()");
  EXPECT_THAT(refusal("{% for x in [1] %}{{ loop([2]) }}{% endfor %}"), HasSubstr("recursive"));
}

TEST(JinjaStatements, SetVariablesOfTheirBodyAlone) {
  EXPECT_EQ(render_text("{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}"), "21");
  EXPECT_EQ(render_text("{% set x = 1 %}{% if true %}{% set x = 2 %}{% endif %}{{ x }}"), "2");
  EXPECT_EQ(render_text("{% set a, (b, c) = 1, 'xy' %}{{ a }}{{ b }}{{ c }}"), "1xy");
  EXPECT_EQ(render_text(
                "{% set n = namespace(x=1) %}{% for i in [5] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"),
            "6");
  EXPECT_EQ(render_text("{% set x | upper %}a{{ 1 }}{% endset %}[{{ x }}]"), "[A1]");
  EXPECT_EQ(render_text("{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}"), "3");
  EXPECT_THAT(refusal("{% set n = {} %}{% set n.x = 1 %}"), HasSubstr("no namespace"));
  EXPECT_THAT(refusal("{% set a, b = [1] %}"), HasSubstr("1 values cannot be assigned to 2 names"));
  EXPECT_THAT(refusal("{% set n = namespace() %}{% set n._x = 1 %}"), HasSubstr("underscore"));
}

TEST(JinjaStatements, CallMacros) {
  EXPECT_EQ(
      render_text(
          "{% macro m(a, b=a ~ '!') %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, b=2) }}{{ m() }}"),
      "[11!][12][!]");
  EXPECT_EQ(render_text("{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, z=4) }}"),
            "(2, 3){'z': 4}");
  EXPECT_EQ(render_text(
                "{% macro m(x) %}<{{ caller(x) }}>{% endmacro %}{% call(y) m(7) %}{{ y + 1 }}{% endcall %}"),
            "<8>");
  EXPECT_EQ(render_text("{% macro m() %}{{ x }}{% endmacro %}{% set x = 3 %}{{ m() }}"), "3");
  EXPECT_THAT(refusal("{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}"),
              HasSubstr("'m' takes at most 1 arguments; 2 are given"));
  EXPECT_THAT(refusal("{% macro m(a) %}{% endmacro %}{{ m(b=2) }}"), HasSubstr("takes no argument 'b'"));
}

TEST(JinjaStatements, FilterBlocksAndIgnoreGenerationTags) {
  EXPECT_EQ(render_text("{% filter upper | replace('A', 'x') %}abc{% endfilter %}"), "xBC");
  EXPECT_EQ(render_text("a{% generation %}b{{ 1 }}{% endgeneration %}c"), "ab1c");
}

TEST(JinjaFunctions, AreThoseOfChatTemplates) {
  EXPECT_EQ(render_text("{{ range(3)|list }}{{ range(5, 0, -2)|list }}{{ range(2) }}"),
            "[0, 1, 2][5, 3, 1]range(0, 2)");
  EXPECT_EQ(render_text("{{ dict(a=1) }}{{ dict([('x', 2)], y=3) }}"), "{'a': 1}{'x': 2, 'y': 3}");
  EXPECT_EQ(render_text("{% set j = joiner('|') %}{{ j() }}a{{ j() }}b"), "a|b");
  EXPECT_EQ(
      render_text("{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}"),
      "1212");
  EXPECT_EQ(refusal("{{ 1 }}\n{{ raise_exception('No ' ~ 'way') }}"),
            "t.jinja: line 2: the template refuses this conversation: No way");
}

TEST(JinjaFunctions, WriteTheLocalTime) {
  setenv("TZ", "UTC", 1);
  tzset();
  EXPECT_EQ(render_text("{{ strftime_now('%d %b %Y|%H:%M:%S|%-d|%z%Z|%%|é') }}"),
            "02 Jan 2026|03:04:05|2||%|é");
  EXPECT_THAT(refusal("{{ strftime_now('%999999999d') }}"), HasSubstr("two digits"));
}

// Templates of published models do this with their messages.
TEST(JinjaTemplates, RenderConversations) {
  constexpr std::string_view kTemplate =
      "{%- for message in messages %}\n"
      "    {%- set content = message.content | trim %}\n"
      "    {{- bos_token if loop.first }}\n"
      "    {{- '<|' + message['role'] + '|>\\n' + content + '\\n' }}\n"
      "{%- endfor %}\n"
      "{%- if add_generation_prompt %}\n"
      "    {{- '<|assistant|>\\n' }}\n"
      "{%- endif %}\n";
  EXPECT_THAT(render_pieces(
                  kTemplate,
                  R"({"messages": [{"role": "user", "content": " Hi <s>"}], "add_generation_prompt": true})",
                  R"({"bos_token": "<s>"})"),
              ElementsAre(Piece{"<s><|", false}, Piece{"user", true}, Piece{"|>\n", false},
                          Piece{"Hi <s>", true}, Piece{"\n<|assistant|>\n", false}));
}

TEST(JinjaPieces, FollowTheBytesOfTheCaller) {
  const std::string values = R"({"x": "<Ab>", "n": 7, "l": ["p", "q"], "d": {"k": "v"}})";
  const auto pieces = [&](std::string_view source) { return render_pieces(source, values); };
  EXPECT_THAT(pieces("{{ 'a' + x + 'b' }}"),
              ElementsAre(Piece{"a", false}, Piece{"<Ab>", true}, Piece{"b", false}));
  EXPECT_THAT(pieces("{{ ('a' ~ x)[:3] }}"), ElementsAre(Piece{"a", false}, Piece{"<A", true}));
  EXPECT_THAT(pieces("{{ ('--' ~ x ~ '--').strip('-') }}"), ElementsAre(Piece{"<Ab>", true}));
  EXPECT_THAT(pieces("{{ ('a,' ~ x).split(',') | join('+') }}"),
              ElementsAre(Piece{"a+", false}, Piece{"<Ab>", true}));
  EXPECT_THAT(pieces("{{ 'a.b' | replace('.', x) }}"),
              ElementsAre(Piece{"a", false}, Piece{"<Ab>", true}, Piece{"b", false}));
  EXPECT_THAT(pieces("{{ x | replace('A', 'o') }}"),
              ElementsAre(Piece{"<", true}, Piece{"o", false}, Piece{"b>", true}));
  EXPECT_THAT(pieces("{{ ('a' ~ x) | upper }}"), ElementsAre(Piece{"A", false}, Piece{"<AB>", true}));
  EXPECT_THAT(pieces("{{ (x ~ 'c') | reverse }}"), ElementsAre(Piece{"c", false}, Piece{">bA<", true}));
  EXPECT_THAT(pieces("{% set t %}a{{ x }}{% endset %}{{ t * 2 }}"),
              ElementsAre(Piece{"a", false}, Piece{"<Ab>", true}, Piece{"a", false}, Piece{"<Ab>", true}));
  EXPECT_THAT(pieces("{{ '[%s]' | format(x) }}{{ '({})'.format(x) }}"),
              ElementsAre(Piece{"[", false}, Piece{"<Ab>", true}, Piece{"](", false}, Piece{"<Ab>", true},
                          Piece{")", false}));
  EXPECT_THAT(pieces("{{ ['a', x] | tojson }}"), ElementsAre(Piece{R"(["a", "<Ab>"])", true}));
  EXPECT_THAT(pieces("{{ ['a', x] }}"), ElementsAre(Piece{"['a', '<Ab>']", true}));
  EXPECT_THAT(pieces("{{ ['a'] | tojson }}{{ d }}"),
              ElementsAre(Piece{R"(["a"])", false}, Piece{"{'k': 'v'}", true}));
  EXPECT_THAT(pieces("{{ n }}+{{ n + 1 }}"),
              ElementsAre(Piece{"7", true}, Piece{"+", false}, Piece{"8", true}));
  EXPECT_THAT(pieces("{% for c in x %}{{ c }}.{% endfor %}"),
              ElementsAre(Piece{"<", true}, Piece{".", false}, Piece{"A", true}, Piece{".", false},
                          Piece{"b", true}, Piece{".", false}, Piece{">", true}, Piece{".", false}));
  EXPECT_THAT(pieces("{% for k in d %}{{ k }}{% endfor %}"), ElementsAre(Piece{"k", true}));
  EXPECT_THAT(pieces("{{ 'lit' if x == '<Ab>' }}"), ElementsAre(Piece{"lit", false}));
  EXPECT_THAT(pieces("{{ '' }}"), IsEmpty());
}

TEST(JinjaValues, AreWhatTheCallerGives) {
  EXPECT_EQ(render_text("{{ a }} {{ b }} {{ c }} {{ d }} {{ e }}",
                        R"({"a": 1.0, "b": true, "c": null, "d": [1, "x"], "e": -3})"),
            "1.0 True None [1, 'x'] -3");
  const auto made = jinja::Template::parse("{{ x }}", "t.jinja");
  EXPECT_THAT(made.render({{"x", "in"}}, {{"x", "own"}}, 0), ElementsAre(Piece{"own", false}));
  EXPECT_THAT(made.render(nullptr, nullptr, 0), IsEmpty());
  EXPECT_THROW(made.render(nlohmann::ordered_json::array({1}), nullptr, 0), InputError);
  EXPECT_THROW(made.render({{"x", UINT64_MAX}}, nullptr, 0), InputError);
  EXPECT_EQ(jinja::text_of(made.render({{"x", "a\xff"}}, nullptr, 0)), "a\ufffd");
}

TEST(JinjaErrors, NameTheLine) {
  EXPECT_EQ(refusal("a\n\n{{ x.y }}"), "t.jinja: line 3: 'x' is undefined");
  EXPECT_EQ(refusal("{% if a %}\n{% else %}\n{{ {}.x.y }}{% endif %}"),
            "t.jinja: line 3: 'dict object' has no attribute 'x'");
  EXPECT_EQ(refusal("{{ [1].append(2) }}"),
            "t.jinja: line 1: 'append' would modify a list, which templates may not; use a namespace or '+'");
  EXPECT_EQ(refusal("{{ 1 + 'a' }}"), "t.jinja: line 1: '+' does not take int and str");
  EXPECT_EQ(refusal("{{ x() }}"), "t.jinja: line 1: 'x' is undefined");
}

}  // namespace
}  // namespace lacuna::jinja_test
