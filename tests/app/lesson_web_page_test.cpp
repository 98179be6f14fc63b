// A lesson as a web page: its texts, figures, sliders, and what could not be shown.

#include "analysis/base/system/output_file.h"
#include "app/document/set_text.h"
#include "app/job/assets.h"
#include "app/lesson/site.h"
#include "app/lesson/written_lesson.h"
#include "tests/app/cli_call.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/page_reader.h"
#include "tests/figure/well_formed.h"
#include "tests/support/test.h"

namespace kvloupe::lesson {
namespace {

constexpr const char* kLesson = R"(# Heads & tails

What it shows.

## Text and steps

The prompt has **{{prompt_tokens | int}}** tokens; `a < b`.

- one
- two

```view
{"tiles": [{"view": "filmstrip"}, {"view": "tokens"}], "tile_count": 2,
 "selection": {"layer": 1, "head": 0, "step": 1}, "budget": "50%", "slider": "steps"}
```

```task
Go on.
when: step > 1
```

## One map

```view
{"tiles": [{"view": "attention"}], "tile_count": 1}
```

## A page that is wrong

```view
{"tiles": [{"view": "no-such-view"}], "tile_count": 1}
```
)";

struct LessonWebPageTest : ::testing::Test {
  void SetUp() override {
    test::write_synthetic_trace(folder / "t.h5");
    write_whole_file(folder / "heads.md", kLesson);
  }
  test::TemporaryFolder folder;
};

TEST_F(LessonWebPageTest, HoldsTextsFiguresAndASlider) {
  LessonTraces traces;
  traces.trace = std::make_shared<const Trace>(folder / "t.h5");
  const WrittenLesson page =
      make_web_page(read_lesson(folder / "heads.md"), traces, test::fonts(), test::unwatched);
  EXPECT_THAT(test::why_not_well_formed(page.bytes), IsEmpty());
  EXPECT_LT(page.bytes.size(), 1'000'000U);
  EXPECT_THAT(page.bytes,
              AllOf(HasSubstr("<h1>Heads &amp; tails</h1>"), HasSubstr("What it shows."),
                    HasSubstr("<strong>96</strong>"), HasSubstr("<code>a &lt; b</code>"),
                    HasSubstr("<ul>\n<li>one</li>\n<li>two</li>\n</ul>"), HasSubstr("Go on.")));
  const nlohmann::json data = test::page_data(page.bytes);
  ASSERT_THAT(data["figures"], SizeIs(3));
  // Three blocks of 32 tokens, then eight that were generated.
  ASSERT_THAT(data["sliders"], SizeIs(3));
  EXPECT_THAT(data["sliders"][0], SizeIs(11));
  EXPECT_THAT(data["sliders"][1], IsEmpty());
  EXPECT_THAT(data["figures"][0]["frames"], SizeIs(1));  // a film strip holds all steps
  EXPECT_THAT(data["figures"][1]["frames"], SizeIs(11));
  EXPECT_THAT(page.bytes, HasSubstr("<output>1</output>"));
  EXPECT_THAT(data["figures"][1]["frames"][4]["c"].get<std::string>(), HasSubstr("after step 4"));
  EXPECT_NE(test::page_texts(data["figures"][1], 0), test::page_texts(data["figures"][1], 10));
  EXPECT_THAT(data["names"][0]["steps"], SizeIs(22));
  // The error is shown in the place of its page, and the other pages are there.
  ASSERT_THAT(page.problems, SizeIs(1));
  EXPECT_THAT(page.problems[0], AllOf(HasSubstr("heads.md:3"), HasSubstr("no-such-view")));
  EXPECT_THAT(page.bytes, HasSubstr("<p class=\"problem\">"));
}

TEST_F(LessonWebPageTest, ASliderHasTheWantedStepAndBothEnds) {
  EXPECT_THAT(slider_steps(4, 2, 32), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(slider_steps(1, 0, 32), ElementsAre(0));
  EXPECT_THAT(slider_steps(101, 40, 5), ElementsAre(0, 25, 40, 75, 100));
  for (const int wanted : {0, 1, 57, 332, 333}) {
    const std::vector<int> steps = slider_steps(334, wanted, 32);
    EXPECT_THAT(steps, SizeIs(32));
    EXPECT_EQ(steps.front(), 0);
    EXPECT_EQ(steps.back(), 333);
    EXPECT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    EXPECT_THAT(steps, Contains(wanted));
  }
}

TEST_F(LessonWebPageTest, TheCommandWritesItAndSaysWhatIsWrong) {
  const test::Called called = test::call(
      {"lesson", folder / "heads.md", "--html", folder / "heads.html", "--trace", folder / "t.h5"});
  EXPECT_EQ(called.code, 1);
  EXPECT_THAT(called.error, HasSubstr("no-such-view"));
  EXPECT_GT(std::filesystem::file_size(folder / "heads.html"), 50'000U);
}

TEST_F(LessonWebPageTest, PagesOfDocsKeepEveryLineOfTablesAndLists) {
  for (const std::string_view text : {glossary_text(), claims_text()}) {
    std::size_t rows = 0, rules = 0, items = 0, titles = 0;
    std::istringstream in{std::string(text)};
    for (std::string line; std::getline(in, line);) {
      rows += line.starts_with("| ") ? 1 : 0;
      rules += line.starts_with("| ---") ? 1 : 0;
      items += line.starts_with("- ") ? 1 : 0;
      titles += line.starts_with("##") ? 1 : 0;
    }
    const figure::document::Document page = page_of_docs(text);
    std::size_t found_rows = 0, found_items = 0, found_titles = 0;
    for (const figure::document::Section& section : page.sections) {
      found_titles += section.title.empty() ? 0 : 1;
      if (section.table) found_rows += section.table->rows.size() + 2;
      for (const auto& block : section.text)
        found_items += block.kind == figure::document::TextBlock::Kind::bullet ? 1 : 0;
    }
    EXPECT_EQ(found_rows, rows);
    EXPECT_EQ(found_items, items);
    EXPECT_EQ(found_titles, titles);
    EXPECT_GT(rules + items, 0U);
    const std::string bytes = figure::document::write_page(page);
    EXPECT_THAT(test::why_not_well_formed(bytes), IsEmpty());
    EXPECT_THAT(bytes, Not(AnyOf(HasSubstr(".md"), HasSubstr("**"), HasSubstr("]("))));
  }
  const auto page = page_of_docs(
      "# A\n\nSee [that](x.md#y) and [this](https://a.b/c).\n\n"
      "| name | n |\n| --- | ---: |\n| **all** |  |\n| `a \\| b` | 1 |\n");
  EXPECT_EQ(page.title, "A");
  ASSERT_THAT(page.sections, SizeIs(1));
  const Table& table = *page.sections[0].table;
  EXPECT_FALSE(table.columns[0].numbers);
  EXPECT_TRUE(table.columns[1].numbers);
  ASSERT_THAT(table.rows, SizeIs(2));
  EXPECT_EQ(table.rows[0].cells[0].text, "all");
  EXPECT_EQ(table.rows[1].cells[0].text, "a | b");
  const std::string bytes = figure::document::write_page(page);
  EXPECT_THAT(bytes, AllOf(HasSubstr("See that and <a href=\"https://a.b/c\">this</a>"),
                           Not(HasSubstr("x.md"))));
}

TEST_F(LessonWebPageTest, ASiteTakesNoOtherOption) {
  const test::Called called =
      test::call({"lesson", folder / "heads.md", "--site", folder / "site"});
  EXPECT_EQ(called.code, 2);
  EXPECT_THAT(called.error, HasSubstr("give it alone"));
  write_whole_file(folder / "file", "x");
  EXPECT_EQ(test::call({"lesson", "--site", folder / "file"}).code, 1);
}

// A lesson on paper, and `kvloupe lesson` as a person calls it.

constexpr const char* kHandout = R"(# Sinks on paper

What this handout shows, in one paragraph.

## Where heads rest

```view
{"tiles": [{"view": "attention"}, {"view": "norms"}], "selection": {"layer": {{sinks.layer}}}}
```

The trace holds **{{tokens | int}} tokens**, the first reads `{{token_text(0) | text}}`. See
[the paper](https://arxiv.org/abs/2309.17453) for *more*.

- One item,
- another.

```task
Drag the budget below 10 %.
when: budget < 0.1
```

## Nothing to see

{{segment_first("needle")}} is not known, but this text is.
)";

struct HandoutTest : ::testing::Test, test::Caller {
  void SetUp() override {
    command = {"lesson"};
    test::write_synthetic_trace(folder / "t.h5");
    std::ofstream(folder / "l.md") << kHandout;
  }
  std::string path(const char* name) const { return (folder / name).string(); }
  /// The text that a reader of the PDF can select.
  std::string text_of(const char* pdf) const {
    const std::string out = path("text.txt");
    EXPECT_EQ(std::system(("pdftotext -layout " + path(pdf) + " " + out).c_str()), 0)
        << "no pdftotext";
    return test::file_text(out);
  }
  std::string about(const char* pdf, const char* program) const {
    const std::string out = path("about.txt");
    EXPECT_EQ(std::system((std::string(program) + " " + path(pdf) + " > " + out).c_str()), 0);
    return test::file_text(out);
  }
  test::TemporaryFolder folder;
};

TEST_F(HandoutTest, HoldsTheTextWithItsNumbersTheFiguresAndTheSource) {
  ASSERT_EQ(call({path("l.md"), "--pdf", path("l.pdf"), "--trace", path("t.h5")}), 0) << error;
  EXPECT_EQ(error, "");
  const std::string text = text_of("l.pdf");
  for (const char* words :
       {"Sinks on paper", "What this handout shows, in one paragraph.", "1 Where heads rest",
        "104 tokens", "<s>", "One item,", "Figure 1", "Figure 2", "Drag the budget below 10 %.",
        "2 Nothing to see", "– is not known, but this text is.", "Trace t.h5 · model",
        "kvloupe "}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  EXPECT_THAT(text, ::testing::ContainsRegex("1 ?/ ?2"));
  EXPECT_THAT(text, Not(HasSubstr("{{")));
  EXPECT_THAT(text, Not(HasSubstr("when:")));
  const std::string info = about("l.pdf", "pdfinfo");
  EXPECT_THAT(info, HasSubstr("Title:           Sinks on paper"));
  EXPECT_THAT(info, HasSubstr("A4"));
  const std::string embedded = about("l.pdf", "pdffonts");
  EXPECT_THAT(embedded, HasSubstr("Inter"));
  EXPECT_THAT(embedded, HasSubstr("JetBrains"));
  EXPECT_THAT(embedded, Not(HasSubstr(" no  "))) << "a font is not embedded:\n" << embedded;
  EXPECT_THAT(about("l.pdf", "pdfinfo -url"), HasSubstr("https://arxiv.org/abs/2309.17453"));
}

TEST_F(HandoutTest, IsTheSameEveryTime) {
  ASSERT_EQ(call({path("l.md"), "--pdf", path("a.pdf"), "--trace", path("t.h5")}), 0) << error;
  ASSERT_EQ(call({path("l.md"), "--pdf", path("b.pdf"), "--trace", path("t.h5")}), 0) << error;
  EXPECT_EQ(test::file_text(path("a.pdf")), test::file_text(path("b.pdf")));
}

TEST_F(HandoutTest, ABrokenPageSaysSoInItsPlaceAndTheOthersAreThere) {
  std::string text = kHandout;
  text +=
      "\n## Broken\n\nBehind {{tokens\n\n## Far away\n\n```view\n{\"selection\": {\"layer\": "
      "9}}\n```\n";
  std::ofstream(folder / "l.md") << text;
  EXPECT_EQ(call({path("l.md"), "--pdf", path("l.pdf"), "--trace", path("t.h5")}), 1);
  const std::string first = path("l.md") + ":28: {{ is not closed by }}";
  EXPECT_THAT(error, HasSubstr("kvloupe: " + first + "\n"));
  EXPECT_THAT(error, HasSubstr("l.md:33: view: layer 9"));
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 2);
  const std::string paper = text_of("l.pdf");
  EXPECT_THAT(paper, HasSubstr("3 Broken"));
  EXPECT_THAT(paper, HasSubstr("is not closed by"));
  EXPECT_THAT(paper, HasSubstr("104 tokens"));
  EXPECT_THAT(paper, HasSubstr("Figure 2"));
}

TEST_F(HandoutTest, AFigureThatTheTraceDoesNotGiveLeavesTheRest) {
  std::ofstream(folder / "l.md")
      << "# T\n\nWhat.\n\n## P\n\nText {{tokens}}.\n\n```view\n{\"tiles\": "
         "[{\"view\": \"drift\"}, {\"view\": \"norms\"}]}\n```\n";
  EXPECT_EQ(call({path("l.md"), "--pdf", path("l.pdf"), "--trace", path("t.h5")}), 1);
  EXPECT_THAT(error,
              HasSubstr("l.md:10: figure drift: compares a full run with a closed-loop run"));
  EXPECT_THAT(text_of("l.pdf"), HasSubstr("Figure 2"));
}

TEST_F(HandoutTest, WrongCommandLinesSayWhatToDo) {
  EXPECT_EQ(call({"--pdf", path("x.pdf")}), 2);
  EXPECT_THAT(error, HasSubstr("a name is missing"));
  EXPECT_EQ(call({path("none.md"), "--pdf", path("x.pdf"), "--trace", path("t.h5")}), 1);
  EXPECT_THAT(error, HasSubstr("none.md: no such lesson file"));
  EXPECT_EQ(call({path("l.md"), "--pdf", path("no/such/x.pdf"), "--trace", path("t.h5")}), 1);
  EXPECT_EQ(call({path("l.md"), "--pdf", path("x.pdf"), "--trace", path("none.h5")}), 1);
  EXPECT_THAT(error, HasSubstr("none.h5"));
  EXPECT_EQ(call({path("l.md"), "--pdf", path("x.pdf"), "--trace", path("t.h5"), "--trace",
                  path("t.h5")}),
            1);
  EXPECT_THAT(error, HasSubstr("was run with the full cache"));
  const std::string example = std::string(KVLOUPE_SOURCE_DIR) + "/tests/app/lessons/example.md";
  EXPECT_EQ(call({example, "--pdf", path("x.pdf"), "--trace", path("t.h5")}), 1);
  EXPECT_THAT(error, HasSubstr("t.h5: lesson example needs a segment needle"));
  EXPECT_FALSE(fs::exists(path("x.pdf")));
}

TEST_F(HandoutTest, TheTableOfValuesIsWritten) {
  EXPECT_EQ(call({"--values"}), 0);
  EXPECT_EQ(output, values_markdown());
}

TEST_F(HandoutTest, LessonsAreListedAndAWrongNameIsAnsweredWithTheNearest) {
  if (!fs::exists(fs::path(KVLOUPE_SOURCE_DIR) / "assets/lessons"))
    GTEST_SKIP() << "there are no lessons in assets/lessons";
  const std::vector<Lesson> lessons = find_lessons();
  ASSERT_FALSE(lessons.empty());
  ASSERT_EQ(call({}), 0) << error;
  for (const Lesson& one : lessons) {
    EXPECT_THAT(output, HasSubstr(one.name + " "));
    EXPECT_THAT(output, HasSubstr("  " + one.title + "\n"));
  }
  const std::string& name = lessons.back().name;
  EXPECT_EQ(call({name + "x", "--pdf", path("x.pdf")}), 2);
  EXPECT_THAT(error, HasSubstr("the nearest are " + name));
  EXPECT_EQ(find_lesson(name).name, name);
  EXPECT_EQ(find_lesson(name.substr(3)).name, name) << "without its number";
}

TEST(Assets, AreFoundBesideTheProgram) {
  EXPECT_TRUE(fs::exists(job::find_asset("prompts/needle.txt")));
  EXPECT_TRUE(fs::is_directory(job::find_asset("demo-model")));
  EXPECT_THROW(job::find_asset("no-such-thing"), FileError);
}

struct SetText : ::testing::Test {
  figure::document::Fragment set(const std::string& text, double width) {
    return set_text(style, blocks_of(read_text({{1, text}})), look, width);
  }
  static std::vector<std::string> texts(const figure::document::Fragment& fragment) {
    std::vector<std::string> all;
    for (const figure::Text& text : test::items_of<figure::Text>(fragment))
      all.push_back(text.text);
    return all;
  }
  figure::Style style = figure::make_style(test::fonts());
  figure::document::TextLook look;
};

TEST_F(SetText, LinesFitAndNoWordIsLost) {
  const std::string words =
      "Many heads give **most of their** attention to the first `token`, *which* says nothing.";
  for (const double width : {60.0, 100.0, 180.0, 2000.0}) {
    const auto fragment = set(words, width);
    std::string joined;
    for (const figure::Text& text : test::items_of<figure::Text>(fragment)) {
      EXPECT_LE(text.anchor.x + text.width, width + 0.01) << text.text;
      joined += text.text;
    }
    std::erase(joined, ' ');
    EXPECT_EQ(joined, "Manyheadsgivemostoftheirattentiontothefirsttoken,whichsaysnothing.");
  }
  EXPECT_EQ(set(words, 2000.0).height, look.leading);
}

TEST_F(SetText, SpacesStandWhereTheyWereWritten) {
  std::string line;
  for (const std::string& text : texts(set("a **b c** d`e`. f [g h](https://x.org), i", 2000.0)))
    line += text;
  EXPECT_EQ(line, "a b c de. f g h, i");
}

TEST_F(SetText, AWordLongerThanALineIsCut) {
  const auto fragment = set(std::string(200, 'm'), 100.0);
  EXPECT_GT(fragment.height, 5 * look.leading);
  std::size_t letters = 0;
  for (const std::string& text : texts(fragment)) letters += text.size();
  EXPECT_EQ(letters, 200U);
}

}  // namespace
}  // namespace kvloupe::lesson
