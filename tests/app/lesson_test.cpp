// Lessons without a window: what is read, what is refused, what pages become.

#include "app/lesson/lesson.h"
#include "analysis/policy/kit/spec.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/lesson/page_view.h"
#include "tests/support/test.h"

namespace kvloupe::lesson {
namespace {

const fs::path kExample = fs::path(KVLOUPE_SOURCE_DIR) / "tests/app/lessons/example.md";

/// A head, then one page with this in it.
std::string page_with(const std::string& body) {
  return "# Title\n\nWhat it shows.\n\n## Page\n\n" + body + "\n";
}
constexpr int kBodyLine = 7;

/// The error of the one page with this in it, without the file.
std::string page_error(const std::string& body) {
  const Lesson lesson = parse_lesson("l.md", page_with(body));
  EXPECT_EQ(lesson.error, "");
  if (lesson.pages.size() != 1) return "pages: " + std::to_string(lesson.pages.size());
  const std::string& error = lesson.pages.front().error;
  if (error.empty()) return "accepted";
  EXPECT_THAT(error, StartsWith("l.md:"));
  return error.substr(5);
}

std::string head_error(const std::string& text) {
  const std::string error = parse_lesson("l.md", text).error;
  return error.empty() ? "accepted" : error.substr(5);
}

TEST(Lesson, TheExampleIsReadInAllItsParts) {
  const Lesson lesson = read_lesson(kExample);
  EXPECT_THAT(lesson.errors(), IsEmpty());
  EXPECT_EQ(lesson.name, "example");
  EXPECT_EQ(lesson.title, "Everything a lesson can hold");
  EXPECT_THAT(lesson.summary, StartsWith("This lesson uses every part"));
  EXPECT_EQ(lesson.run.prompt, "needle");
  EXPECT_EQ(lesson.run.generate, 16);
  EXPECT_EQ(lesson.run.block, 64);
  ASSERT_EQ(lesson.run.closed.size(), 2U);
  EXPECT_EQ(lesson.run.closed[0].policy, "h2o");
  EXPECT_EQ(lesson.run.closed[0].budget, "25%");
  EXPECT_FALSE(lesson.run.closed[0].own_words);
  EXPECT_EQ(lesson.run.closed[1].policy, "sink");
  EXPECT_TRUE(lesson.run.closed[1].own_words);
  ASSERT_EQ(lesson.needs.size(), 4U);
  EXPECT_EQ(lesson.needs[0].segment, "needle");
  EXPECT_EQ(lesson.needs[3].tokens, 64);

  ASSERT_EQ(lesson.pages.size(), 3U);
  const Page& first = lesson.pages[0];
  EXPECT_EQ(first.title, "Text and numbers");
  EXPECT_FALSE(first.step_slider);
  std::vector<BlockKind> kinds;
  for (const Block& block : first.text) kinds.push_back(block.kind);
  EXPECT_THAT(kinds, ElementsAre(BlockKind::paragraph, BlockKind::paragraph, BlockKind::bullet,
                                 BlockKind::bullet, BlockKind::numbered, BlockKind::numbered));
  EXPECT_EQ(first.text[5].number, 2);
  const auto& runs = first.text[0].runs;
  const auto with = [&](auto&& test) { return std::count_if(runs.begin(), runs.end(), test); };
  EXPECT_EQ(with([](const lesson::Run& r) { return r.bold && r.text == "bold"; }), 1);
  EXPECT_EQ(with([](const lesson::Run& r) { return r.italic && r.text == "emphasised"; }), 1);
  EXPECT_EQ(with([](const lesson::Run& r) { return r.code && r.text == "code"; }), 1);
  EXPECT_EQ(with([](const lesson::Run& r) {
              return r.link == "https://arxiv.org/abs/2309.17453" && r.text == "the paper";
            }),
            1);
  EXPECT_THAT(plain_text(first.text), HasSubstr("follows: *, {{."));
  EXPECT_THAT(plain_text(first.text), HasSubstr("An item of a list, which goes on here."));
  ASSERT_TRUE(first.task);
  EXPECT_EQ(first.task->when.text(), "token >= 0");
  EXPECT_TRUE(first.task->when.is_quick());
  EXPECT_THAT(plain_text(first.task->text), HasSubstr("… blocks"));

  EXPECT_TRUE(lesson.pages[1].step_slider);
  EXPECT_TRUE(lesson.pages[1].task->when.is_quick());
  EXPECT_TRUE(lesson.pages[2].view_json.empty());
  EXPECT_FALSE(lesson.pages[2].task);
}

TEST(Lesson, TheHeadIsChecked) {
  EXPECT_THAT(head_error(""), StartsWith("1: a lesson must start with its title"));
  EXPECT_THAT(head_error("Title\n\nx\n\n## P\n\nt\n"), StartsWith("1: a lesson must start"));
  EXPECT_THAT(head_error("# \n\nx\n\n## P\n\nt\n"), StartsWith("1: a lesson must start"));
  const auto keyed = [](const std::string& line) {
    return head_error("# T\n" + line + "\n\nx\n\n## P\n\nt\n");
  };
  EXPECT_EQ(keyed("prompt: needle"), "accepted");
  EXPECT_EQ(keyed("closed: h2o+kvmerger(recent=17%,heavy=12%) 64"), "accepted");
  EXPECT_THAT(keyed("promt: needle"),
              StartsWith("2: the key 'promt' does not exist; the nearest is 'prompt'"));
  EXPECT_THAT(keyed("What it shows."), HasSubstr("is not 'key: value'"));
  EXPECT_THAT(keyed("generate: many"), HasSubstr("'many' is not a whole number from 0 to 4096"));
  EXPECT_THAT(keyed("generate: 99999999999999999999"), HasSubstr("not a whole number"));
  EXPECT_THAT(keyed("block: 0"), HasSubstr("not a whole number"));
  EXPECT_THAT(keyed("prompt: ../../etc/passwd"), HasSubstr("not the name of a prompt"));
  EXPECT_THAT(keyed("prompt:"), HasSubstr("the value is missing"));
  EXPECT_THAT(keyed("closed: h2o"), HasSubstr("a policy and a budget"));
  EXPECT_THAT(keyed("closed: h3o 25%"), HasSubstr("h2o"));
  EXPECT_THAT(keyed("closed: h2o 0"), StartsWith("2: closed: "));
  EXPECT_EQ(keyed("writes: h2o 25%"), "accepted");
  EXPECT_THAT(keyed("writes: h2o"), StartsWith("2: writes: write a policy and a budget"));
  EXPECT_THAT(keyed("needs: segment:needle, tokns>=3"), HasSubstr("'tokns>=3' is not one of"));
  EXPECT_THAT(keyed("needs: tokens>=x"), HasSubstr("not a whole number"));
  EXPECT_THAT(head_error("# T\n\n## P\n\nt\n"), HasSubstr("one paragraph that says"));
  EXPECT_THAT(head_error("# T\n\na\n\nb\n\n## P\n\nt\n"),
              HasSubstr("only one paragraph is allowed"));
  EXPECT_THAT(head_error("# T\n\n{{tokens}}\n\n## P\n\nt\n"), StartsWith("3: "));
  EXPECT_THAT(head_error("# T\n\na\n"), HasSubstr("the lesson has no page"));
  EXPECT_THAT(head_error("# T\n\n```view\n{}\n```\n\n## P\n\nt\n"),
              StartsWith("3: a block must belong to a page"));
}

TEST(Lesson, WhatIsWrongWithAPageIsOneLineWithItsPlace) {
  const auto at = [](int line, const std::string& what) {
    return std::to_string(kBodyLine + line) + ": " + what;
  };
  EXPECT_EQ(page_error("Words."), "accepted");
  EXPECT_EQ(page_error(""), "5: the page is empty");
  // Text.
  EXPECT_THAT(page_error("a **b"), StartsWith(at(0, "** is not closed")));
  EXPECT_THAT(page_error("one\ntwo *three"), StartsWith(at(1, "* is not closed")));
  EXPECT_THAT(page_error("a `b"), StartsWith(at(0, "` is not closed")));
  EXPECT_EQ(page_error("2 * 3 and [brackets] and \\*"), "accepted");
  EXPECT_THAT(page_error("[words](ftp://x)"), HasSubstr("must start with https://"));
  EXPECT_THAT(page_error("[words](https://x y)"), HasSubstr("must not contain spaces or quotes"));
  EXPECT_THAT(page_error("[words](javascript:alert(1))"), HasSubstr("must start with https://"));
  EXPECT_THAT(page_error("### Small"), StartsWith(at(0, "a page has one title")));
  EXPECT_THAT(page_error("> quoted"), HasSubstr("quotations (>) are not allowed"));
  EXPECT_THAT(page_error("| a | b |"), HasSubstr("write a list"));
  EXPECT_THAT(page_error("![](x.png)"), HasSubstr("pictures are not allowed"));
  // Numbers.
  EXPECT_THAT(page_error("one\n{{tokens"), StartsWith(at(1, "{{ is not closed")));
  EXPECT_THAT(page_error("{{}}"), HasSubstr("the expression is empty"));
  EXPECT_THAT(
      page_error("{{tokns}}"),
      StartsWith(at(0, "{{tokns}}, column 1: 'tokns' is not a value; the nearest is 'tokens'")));
  EXPECT_THAT(page_error("{{tokens +}}"), HasSubstr("ends too early"));
  EXPECT_THAT(page_error("{{tokens | procent}}"),
              HasSubstr("'procent' is not a format; the nearest is 'percent'"));
  EXPECT_THAT(page_error("{{measure(\"retained_mas\")}}"), HasSubstr("retained_mass"));
  EXPECT_THAT(page_error("{{model | percent}}"), HasSubstr("is a text; use the format text"));
  EXPECT_THAT(page_error("{{tokens | text}}"), HasSubstr("is a number"));
  // Views.
  const auto view = [](const std::string& json) {
    return page_error("```view\n" + json + "\n```");
  };
  EXPECT_EQ(view("{}"), "accepted");
  EXPECT_EQ(view(R"({"selection": {"layer": {{sinks.layer}}}})"), "accepted");
  EXPECT_THAT(view("{\n\"tile_count\": 1,\n\"budget\" \"25%\"}"),
              StartsWith(at(3, "the view is not valid JSON here")));
  EXPECT_THAT(view("[]"), HasSubstr("must be an object"));
  EXPECT_THAT(view("{\n\"tiles\": [{\"view\": \"atention\"}]}"),
              StartsWith(at(2, "view: tiles[0].view \"atention\" is not a view")));
  EXPECT_THAT(view(R"({"tiles": [{"view": "sinks", "choices": {"show": "nothing"}}]})"),
              HasSubstr("nothing"));
  EXPECT_THAT(view(R"({"policy_a": "keydif"})"), HasSubstr("keydiff"));
  EXPECT_THAT(view(R"({"budget": "0%"})"), HasSubstr("budget"));
  EXPECT_THAT(view(R"({"trace": "x.h5"})"), HasSubstr("trace is not allowed in a view"));
  EXPECT_THAT(view(R"({"theme": "dark"})"), HasSubstr("theme is not allowed in a view"));
  EXPECT_THAT(view(R"({"lyout": 1})"), HasSubstr("lyout is not a field"));
  EXPECT_THAT(view(R"({"slider": "layers"})"), HasSubstr("slider has one value"));
  EXPECT_THAT(view(R"({"selection": {"layer": {{sinks.layer}})"), HasSubstr("not valid JSON"));
  EXPECT_THAT(view(R"({"selection": {"layer": {{sinks.layer)"), HasSubstr("{{ is not closed"));
  EXPECT_THAT(view(R"({"selection": {"layer": {{layer}}}})"),
              HasSubstr("must not depend on the view's own selection"));
  EXPECT_THAT(view(std::string(100, '[') + std::string(100, ']')), HasSubstr("nested too deeply"));
  EXPECT_THAT(view(std::string(100'000, ' ') + "{}"), HasSubstr("too long"));
  EXPECT_THAT(page_error("```view\n{}\n```\n\n```view\n{}\n```"),
              StartsWith(at(4, "a page has only one view")));
  // Tasks.
  const auto task = [](const std::string& text) {
    return page_error("```task\n" + text + "\n```");
  };
  EXPECT_EQ(task("Do it.\nwhen: budget < 0.1"), "accepted");
  EXPECT_THAT(task("Do it."), StartsWith(at(0, "the task has no line `when: EXPRESSION`")));
  EXPECT_THAT(task("when: budget < 0.1"), HasSubstr("the task has no text"));
  EXPECT_THAT(task("Do it.\nwhen: budgt < 0.1"),
              StartsWith(at(2, "when, column 7: 'budgt' is not a value")));
  EXPECT_THAT(task("Do it.\nwhen: budget < 10%"), HasSubstr("0.1 for 10 %"));
  EXPECT_THAT(task("Do it.\nwhen: budget = 0.1"), HasSubstr("for equality write =="));
  EXPECT_THAT(task("Do it.\nwhen: model"), HasSubstr("a condition must be a number"));
  EXPECT_THAT(task("Do it.\nwhen: score_is(\"h3o\")"),
              HasSubstr("'h3o' is not a score; the nearest is 'h2o'"));
  EXPECT_THAT(task("Do it.\nwhen: viewing(\"pcb\")"), HasSubstr("'pca'"));
  EXPECT_THAT(task("Do it.\nwhen: choice_is(\"sinks\", \"show\", \"none\")"), HasSubstr("none"));
  EXPECT_THAT(task("Do it.\nwhen: kept"), HasSubstr("kept(token)"));
  EXPECT_THAT(task("Do it.\nwhen: kept(1, 2)"), HasSubstr("the form of 'kept' is kept(token)"));
  EXPECT_THAT(task("Do it.\nwhen: kept(\"a\")"), HasSubstr("words in quotes"));
  EXPECT_THAT(task("Do it.\nwhen: 1\nwhen: 2"), HasSubstr("one line `when:`"));
  EXPECT_THAT(task("Do it.\nwhen: 1\nand more"), HasSubstr("a task must end"));
  EXPECT_THAT(page_error("```code\nx\n```"), HasSubstr("a block is ```view or ```task"));
  EXPECT_THAT(page_error("```task\nDo it.\nwhen: 1"),
              StartsWith(at(0, "the block '```task' is not closed")));
}

TEST(Lesson, TheOtherPagesStillWork) {
  const Lesson lesson =
      parse_lesson("l.md",
                   "# T\n\nWhat.\n\n## One\n\n```view\n{\"tiles\": \n\n## Two\n\n"
                   "Good {{tokens}}.\n\n## Three\n\n{{bad}}\n\n## Four\n\nGood.\n");
  EXPECT_EQ(lesson.error, "");
  ASSERT_EQ(lesson.pages.size(), 4U);
  EXPECT_THAT(lesson.pages[0].error, StartsWith("l.md:7: the block"));
  EXPECT_EQ(lesson.pages[1].error, "");
  EXPECT_THAT(lesson.pages[2].error, StartsWith("l.md:16: "));
  EXPECT_EQ(lesson.pages[3].error, "");
  EXPECT_EQ(lesson.errors().size(), 2U);
  // Also where the head is wrong.
  const Lesson headless = parse_lesson("l.md", "# T\nkey: x\n\nWhat.\n\n## One\n\nGood.\n");
  EXPECT_THAT(headless.error, StartsWith("l.md:2: "));
  ASSERT_EQ(headless.pages.size(), 1U);
  EXPECT_EQ(headless.pages[0].error, "");
}

TEST(Lesson, LineEndsAndMarksOfOtherSystemsDoNotMatter) {
  std::string text = test::file_text(kExample);
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\r\n");
  const Lesson lesson = parse_lesson("l.md", "\xEF\xBB\xBF" + text);
  EXPECT_THAT(lesson.errors(), IsEmpty());
  EXPECT_EQ(lesson.pages.size(), 3U);
}

TEST(Lesson, FilesThatAreNoLessons) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::string& bytes) {
    std::ofstream(folder / "x.md", std::ios::binary) << bytes;
    return read_lesson(folder / "x.md").error;
  };
  EXPECT_THAT(refusal(std::string("# T\n\nWh\0at\n", 11)),
              HasSubstr("x.md:3: contains a NUL byte"));
  EXPECT_THAT(refusal("# T\n\n\xFF\xFE\n"), HasSubstr("x.md:3: contains bytes that are not UTF-8"));
  EXPECT_THAT(refusal(std::string(2'000'000, 'x')), HasSubstr("x.md: is too large"));
  EXPECT_THAT(read_lesson(folder / "none.md").error, HasSubstr("none.md: no such lesson file"));
  EXPECT_THAT(read_lesson(folder.path()).error, HasSubstr("no such lesson file"));
  std::string many = "# T\n\nWhat.\n";
  for (int i = 0; i < 200; ++i) many += "\n## Page\n\nText.\n";
  const Lesson lesson = parse_lesson("l.md", many);
  EXPECT_THAT(lesson.error, HasSubstr("more than 100 pages"));
  EXPECT_EQ(lesson.pages.size(), 100U);
}

/// Every prefix, and thousands of files that are nearly the example: bytes changed, lines lost,
/// doubled, swapped, cut. None may do more than be refused with its place.
TEST(Lesson, MutationsOfALessonAreReadOrRefused) {
  const std::string good = test::file_text(kExample);
  int refused = 0;
  const auto read = [&](const std::string& text) {
    const Lesson lesson = parse_lesson("l.md", text);
    for (const std::string& error : lesson.errors()) {
      ASSERT_THAT(error, StartsWith("l.md:"));
      ASSERT_EQ(error.find('\n'), std::string::npos) << error;
      ASSERT_EQ(error.find('\0'), std::string::npos) << error;
    }
    refused += lesson.errors().empty() ? 0 : 1;
  };
  for (std::size_t length = 0; length < good.size(); length += 7) read(good.substr(0, length));
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  const std::string pieces[] = {
      "{{",       "}}",   "```",   "```view\n", "\"", "(", ")", "**",   "[",
      "](",       "\\",   "\n## ", "when:",     ",",  "%", "|", "\xC3", std::string(1, '\0'),
      "((((((((", "1e999"};
  for (int round = 0; round < 1500; ++round) {
    std::string text = good;
    for (std::size_t change = 0, count = 1 + below(4); change < count && !text.empty(); ++change) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(40));
          break;
        case 2:
          text.insert(at, pieces[below(std::size(pieces))]);
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), below(200)));
          break;
        default:
          text.resize(at);
      }
    }
    read(text);
  }
  EXPECT_GT(refused, 500);
}

struct LessonOnATrace : ::testing::Test {
  void SetUp() override { traces.trace = test::open_synthetic_trace(folder / "t.h5"); }
  std::string problem_of(const std::string& body) {
    const Lesson lesson = parse_lesson("l.md", page_with(body));
    EXPECT_THAT(lesson.errors(), IsEmpty());
    return test::error_of<FileError>([&] { page_workspace(lesson, 0, traces, test::unwatched); },
                                     "accepted");
  }
  test::TemporaryFolder folder;
  LessonTraces traces;
};

TEST_F(LessonOnATrace, AViewIsFilledIn) {
  const Lesson lesson = parse_lesson(
      "l.md",
      page_with("```view\n{\"tiles\": [{\"view\": \"pca\"}, {\"view\": \"norms\"}],\n"
                " \"selection\": {\"layer\": {{sinks.layer}}, \"head\": {{sinks.head}}, \"step\": "
                "{{blocks - 1}}},\n"
                " \"policy_a\": \"h2o\", \"budget\": \"{{0.125 | percent}}\"}\n```") +
          "\n## Two\n\nText alone.\n");
  EXPECT_THAT(lesson.errors(), IsEmpty());
  const auto workspace = page_workspace(lesson, 0, traces, test::unwatched);
  const auto sinks = traces.store->sinks(*traces.trace, test::unwatched);
  EXPECT_EQ(workspace.trace, (folder / "t.h5").string());
  EXPECT_EQ(workspace.selection.layer, sinks->layer);
  EXPECT_EQ(workspace.selection.head, traces.trace->model().head_of(sinks->query_head));
  EXPECT_EQ(workspace.selection.step, 2);
  EXPECT_EQ(workspace.policy_a.text(), "h2o");
  EXPECT_EQ(workspace.budget.text(), "12.5%");
  EXPECT_EQ(workspace.tile_count, 2);
  EXPECT_EQ(workspace.tiles[1].view, "norms");
  // A page without a view keeps the one before it.
  EXPECT_EQ(page_workspace(lesson, 1, traces, test::unwatched), workspace);
}

TEST_F(LessonOnATrace, WhatTheTraceLacksIsNamedWithItsPlace) {
  const auto view = [&](const std::string& json) {
    return problem_of("```view\n" + json + "\n```");
  };
  EXPECT_EQ(view(R"({"selection": {"layer": 1}})"), "accepted");
  EXPECT_THAT(view(R"({"selection": {"layer": 7}})"), StartsWith("l.md:8: view: layer 7"));
  EXPECT_THAT(view(R"({"selection": {"head": 2}})"), HasSubstr("head 2"));
  EXPECT_THAT(view(R"({"selection": {"query_head": 3}})"), HasSubstr("query-head 3"));
  EXPECT_THAT(view(R"({"selection": {"step": 500}})"), HasSubstr("step 500"));
  EXPECT_THAT(view(R"({"selection": {"token": 500}})"), HasSubstr("token 500"));
  EXPECT_THAT(view("{\"selection\":\n {\"token\": {{segment_first(\"needle\")}}}}"),
              StartsWith("l.md:9: {{segment_first(\"needle\")}} is not available in this trace"));
  EXPECT_THAT(view(R"({"selection": {"layer": {{sinks.strength}}}})"),
              HasSubstr("must be a whole number"));
}

TEST_F(LessonOnATrace, NeedsAreComparedWithTheTrace) {
  const auto missing = [&](const std::string& needs) {
    const Lesson lesson =
        parse_lesson("l.md", "# T\nneeds: " + needs + "\n\nWhat.\n\n## P\n\nText.\n");
    EXPECT_THAT(lesson.errors(), IsEmpty());
    return missing_need(lesson, traces);
  };
  EXPECT_EQ(missing("generated, predictions, tokens>=104, segment:context"), "");
  EXPECT_THAT(missing("tokens>=105"), HasSubstr("at least 105 tokens; this trace has 104"));
  EXPECT_THAT(missing("segment:needle"), HasSubstr("a segment needle"));
  EXPECT_THAT(missing("closed\nclosed: sink(n=0) 25%\nclosed: h2o 10%"),
              HasSubstr("closed-loop runs of the same prompt (sink(0) 25%, h2o 10%); make each "
                        "with kvloupe-capture "
                        "run --model MODEL --from " +
                        traces.trace->path().string()));
  EXPECT_THAT(missing("closed\nwrites: h2o 10%"), HasSubstr("--generate 8 --policy POLICY"));
  test::SyntheticTraceOptions bare{.generated = 0, .predictions = false};
  traces.trace = test::open_synthetic_trace(folder / "bare.h5", bare);
  EXPECT_THAT(missing("generated"), HasSubstr("--generate"));
  EXPECT_THAT(missing("predictions"), HasSubstr("predictions"));
}

TEST_F(LessonOnATrace, ThePageOfEachTileIsTheFigureThatExportWouldMake) {
  const Lesson lesson = parse_lesson("l.md", page_with(R"(```view
{"tiles": [{"view": "filmstrip", "policy": "A"}, {"view": "filmstrip", "policy": "B"},
           {"view": "policy-diff", "policy": "A", "x_range": [0, 50]}],
 "selection": {"layer": 1, "head": 1, "query_head": 2, "token": 5, "first_token": 3, "last_token": 40},
 "policy_a": "tova", "policy_b": "h2o", "policy_b_on": true, "budget": "12"}
```)"));
  EXPECT_THAT(lesson.errors(), IsEmpty());
  const auto figures = page_figures(page_workspace(lesson, 0, traces, test::unwatched));
  ASSERT_EQ(figures.size(), 3U);
  EXPECT_EQ(figures[0].settings.policy.text(), "tova");
  EXPECT_FALSE(figures[0].settings.policy_b);
  EXPECT_EQ(figures[1].settings.policy.text(), "h2o");
  EXPECT_EQ(figures[2].settings.policy.text(), "tova");
  EXPECT_EQ(figures[2].settings.policy_b->text(), "h2o");
  EXPECT_EQ(figures[2].options.x_range, (std::pair{0.0, 50.0}));
  EXPECT_EQ(figures[0].settings.layer, 1);
  EXPECT_EQ(figures[0].settings.query_head, 2);
  EXPECT_EQ(figures[0].settings.tokens, (std::pair{3, 40}));
  for (const PageFigure& figure : figures)
    EXPECT_NE(make_figure(figure, traces, test::unwatched).figure, nullptr);
}

TEST_F(LessonOnATrace, AFigureOfTwoLoopsTakesTheRunOfItsPolicy) {
  const test::SyntheticTraceOptions options;
  for (const char* policy : {"h2o", "tova"}) {
    const fs::path path = folder / (std::string(policy) + ".h5");
    test::write_synthetic_closed_loop(path, options, policy, 24);
    traces.closed.push_back(std::make_shared<const Trace>(path));
  }
  PageFigure figure;
  figure.info = &figure::find_figure("drift");
  figure.settings.budget = parse_budget("24");
  for (const auto& [policy, file] :
       {std::pair{"tova", "tova.h5"}, {"h2o", "h2o.h5"}, {"keydiff", "h2o.h5"}}) {
    figure.settings.policy = parse_policy(policy);
    const auto made = make_figure(figure, traces, test::unwatched);
    EXPECT_THAT(made.settings, Contains(std::pair<std::string, std::string>(
                                   "trace", std::string("t.h5, ") + file)));
  }
  traces.closed.clear();
  EXPECT_THROW(make_figure(figure, traces, test::unwatched), WorkError);
}

TEST(LessonNumbers, AreWrittenAsPeopleDo) {
  const double none = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(formatted(0.41234, Format::number), "0.412");
  EXPECT_EQ(formatted(-1.5, Format::number), "−1.50");
  EXPECT_EQ(formatted(0.41234, Format::percent), "41\u00A0%");
  EXPECT_EQ(formatted(1.0, Format::percent), "100\u00A0%");
  EXPECT_EQ(formatted(0.0, Format::percent), "0\u00A0%");
  EXPECT_EQ(formatted(0.0264, Format::percent), "2.6\u00A0%");
  EXPECT_EQ(formatted(0.00034, Format::percent), "0.03\u00A0%");
  EXPECT_EQ(formatted(0.09949, Format::percent), "9.9\u00A0%");
  EXPECT_EQ(formatted(0.0996, Format::percent), "10\u00A0%");
  EXPECT_EQ(formatted(12345.6, Format::whole), "12\u2009346");
  EXPECT_EQ(formatted(999.0, Format::bytes), "999\u00A0B");
  EXPECT_EQ(formatted(2048.0, Format::bytes), "2.05\u00A0kB");
  EXPECT_EQ(formatted(1.31072e10, Format::bytes), "13.1\u00A0GB");
  EXPECT_EQ(formatted(none, Format::percent), "–");
  EXPECT_EQ(formatted(none, Format::whole), "–");
  EXPECT_EQ(formatted(std::string("word"), Format::text), "word");
  EXPECT_EQ(formatted(std::string(), Format::text), "–");
}

TEST(LessonList, ComesFromTheFilesOfAFolder) {
  const test::TemporaryFolder folder;
  fs::copy_file(kExample, folder / "02-example.md");
  std::ofstream(folder / "01-broken.md") << "no title";
  std::ofstream(folder / "README.md") << "not a lesson";
  std::ofstream(folder / "03-notes.txt") << "not a lesson";
  const std::vector<Lesson> lessons = find_lessons(folder.path());
  ASSERT_EQ(lessons.size(), 2U);
  EXPECT_EQ(lessons[0].name, "01-broken");
  EXPECT_NE(lessons[0].error, "");
  EXPECT_EQ(lessons[1].name, "02-example");
  EXPECT_THAT(lessons[1].errors(), IsEmpty());
  EXPECT_THROW(find_lessons(folder / "none"), FileError);
}

}  // namespace
}  // namespace kvloupe::lesson
