// Chat templates: what the language does, where a message's parts stand, and what is refused.
// tests/python/test_chat.py compares many models' templates with Transformers.
#include "capture/tokenizer/chat_template.h"

#include "analysis/base/core/error.h"
#include "capture/tokenizer/jinja_template.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

std::string rendered(const std::string& source) {
  return run_jinja_template(source, {{"a", "x y"}, {"n", 7}, {"l", {1, 2, 3}}, {"none_", nullptr}});
}

TEST(ChatTemplate, TagsTakeTheWhiteSpaceThatTransformersTakes) {
  EXPECT_EQ(rendered("1\n  {% if true %}\n2\n  {% endif %}\n3\n"), "1\n2\n3");
  EXPECT_EQ(rendered("1 \n {%- if true -%} \n 2 \n {%- endif -%} \n 3"), "123");
  EXPECT_EQ(rendered("1\n  {%+ if true +%}\n2{% endif %}"), "1\n  \n2");
  EXPECT_EQ(rendered("1\n {# {{ no }} #}\n2 {#- - -#} 3\r\n4"), "1\n23\n4");
  EXPECT_EQ(rendered("x {% if true %}\n y{% endif %} z"), "x  y z");
  EXPECT_EQ(rendered("{{ '%}' }} { {{ \"}}\" ~ '\\n\\'' }} }\n\n"), "%} { }}\n' }\n");
}

TEST(ChatTemplate, ExpressionsBindAsInJinja) {
  for (const auto& [expression, value] : std::vector<std::pair<std::string, std::string>>{
           {"1 + 2 * 3 - -n % 4", "6"},
           {"(0 - n) // 2", "-4"},
           {"not n == 7 or a is defined", "True"},
           {"a + 'z' | trim", "x yz"},
           {"b is defined and b.c", "False"},
           {"b.c if b else l[-1]", "3"},
           {"'y' in a and 4 not in l", "True"},
           {"l[1:] | length ~ l[::-1][0] ~ l[:-1] | last", "232"},
           {"none_ is none and b is not defined", "True"},
           {"b", ""},
           {"a.split(' ')[-1] | upper", "Y"},
           {"{'k': [1, 'ä\"']} | tojson", "{\"k\": [1, \"ä\\\"\"]}"},
           {"b | default('d') ~ '' | d(n, true)", "d7"},
           {"a.replace('x', 'zz').strip('y z')", ""},
           {"'x' if false", ""},
           {"l | join('-')", "1-2-3"},
           {"1 if n > 6 and n <= 7 and n != 8 else 0", "1"},
           {"none_", "None"}}) {
    EXPECT_EQ(rendered("{{ " + expression + " }}"), value) << expression;
  }
}

TEST(ChatTemplate, StatementsHaveTheirScopes) {
  EXPECT_EQ(rendered("{% set v = 0 %}{% set s = namespace(v=0) %}{% for i in l %}{% set v = i %}"
                     "{% set s.v = s.v + i %}{{ loop.index }}{{ '.' if loop.last else ',' }}{% "
                     "endfor %}{{ v }}{{ s.v }}"),
            "1,2,3.06");
  EXPECT_EQ(rendered("{% if n == 6 %}6{% elif n == 7 %}{{ unknown_function() if false }}7{% else "
                     "%}8{% endif %}"),
            "7");
  EXPECT_EQ(rendered("{% macro m(p, q='Q') %}{{ p }}{{ q }}{{ v }}{% endmacro %}{% set v = 1 %}{{ "
                     "m('P') }}{{ m(q=2, p=3) }}"),
            "PQ1321");
  EXPECT_EQ(rendered("{% for x in [] %}{{ no() }}{% endfor %}{% if false %}{% for k, v in "
                     "d.items() %}{% endfor %}{% endif %}."),
            ".");
}

ChatTemplate chat(const std::string& source) {
  return {source, {{"bos_token", "<s>"}}, "model", "", ""};
}

/// The segments with their texts.
std::string parts_of(const Prompt& prompt) {
  std::string all;
  for (std::size_t i = 0; i < prompt.segments.size(); ++i) {
    const std::size_t begin = prompt.segments[i].begin;
    const std::size_t end =
        i + 1 < prompt.segments.size() ? prompt.segments[i + 1].begin : prompt.text.size();
    all += "[" + prompt.segments[i].name + " " + prompt.text.substr(begin, end - begin) + "]";
  }
  return all;
}

TEST(ChatTemplate, SegmentsStayWithTheirTexts) {
  const ChatTemplate trims = chat("{{ bos_token }}U:{{ messages[0].content | trim }}\nA:");
  EXPECT_EQ(parts_of(trims.apply(parse_text("  c\n@@needle\nn\n@@question\nq? "))),
            "[template <s>U:][context c\n][needle n\n][question q?][template \nA:]");
  EXPECT_EQ(parts_of(trims.apply(parse_text("c\n@@question\nq?\n@@answer\n It is"))),
            "[template <s>U:][context c\n][question q?][template \nA:][answer  It is]");
  EXPECT_EQ(parts_of(trims.apply(parse_text(" \n@@question\nq?"))),
            "[template <s>U:][question q?][template \nA:]");
  EXPECT_EQ(parts_of(trims.apply(parse_text(""))), "[template <s>U:][template \nA:]");
  EXPECT_EQ(parts_of(chat("{{ messages[0].content }}").apply(parse_text("U:c"))), "[context U:c]");
}

TEST(ChatTemplate, ATemplateThatChangesTheMessageIsRefused) {
  for (const char* source : {"x", "{{ messages[0].content ~ messages[0].content }}",
                             "{{ 'y' if 'c' in messages[0].content }}{{ messages[0].content }}"}) {
    EXPECT_THAT(error_of<FileError>([&] { (void)chat(source).apply(parse_text("cc")); }),
                HasSubstr("does not write a message once"));
  }
}

}  // namespace
}  // namespace kvloupe::test
