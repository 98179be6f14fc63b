// A lesson on paper, and `kvloupe lesson` as a person calls it.

#include "app/lesson/handout.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "analysis/error.h"
#include "app/job/assets.h"
#include "app/lesson/set_text.h"
#include "tests/app/cli_call.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::lesson {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

constexpr const char* kLesson = R"(# Sinks on paper

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

class HandoutTest : public ::testing::Test {
 protected:
  void SetUp() override {
    test::write_synthetic_trace(folder / "t.h5");
    std::ofstream(folder / "l.md") << kLesson;
  }
  int call(const std::vector<std::string>& words) {
    const test::Called called = test::call({"lesson"}, words);
    error = called.error;
    output = called.out;
    return called.code;
  }
  std::string path(const char* name) const { return (folder / name).string(); }
  /// The text that a reader of the PDF can select.
  std::string text_of(const char* pdf) const {
    const std::string out = path("text.txt");
    EXPECT_EQ(std::system(("pdftotext -layout " + path(pdf) + " " + out).c_str()), 0)
        << "no pdftotext";
    return content(out);
  }
  std::string about(const char* pdf, const char* program) const {
    const std::string out = path("about.txt");
    EXPECT_EQ(std::system((std::string(program) + " " + path(pdf) + " > " + out).c_str()), 0);
    return content(out);
  }
  test::TemporaryFolder folder;
  std::string error, output;
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
  const std::string fonts = about("l.pdf", "pdffonts");
  EXPECT_THAT(fonts, HasSubstr("Inter"));
  EXPECT_THAT(fonts, HasSubstr("JetBrains"));
  EXPECT_THAT(fonts, Not(HasSubstr(" no  "))) << "a font is not embedded:\n" << fonts;
  EXPECT_THAT(about("l.pdf", "pdfinfo -url"), HasSubstr("https://arxiv.org/abs/2309.17453"));
}

TEST_F(HandoutTest, IsTheSameEveryTime) {
  ASSERT_EQ(call({path("l.md"), "--pdf", path("a.pdf"), "--trace", path("t.h5")}), 0) << error;
  ASSERT_EQ(call({path("l.md"), "--pdf", path("b.pdf"), "--trace", path("t.h5")}), 0) << error;
  EXPECT_EQ(content(path("a.pdf")), content(path("b.pdf")));
}

TEST_F(HandoutTest, ABrokenPageSaysSoInItsPlaceAndTheOthersAreThere) {
  std::string text = kLesson;
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

class SetText : public ::testing::Test {
 protected:
  Fragment set(const std::string& text, double width) {
    return set_text(style, read_text({{1, text}}), look, width);
  }
  static std::vector<std::string> texts(const Fragment& fragment) {
    std::vector<std::string> all;
    for (const figure::Item& item : fragment.items) {
      if (const auto* text = std::get_if<figure::Text>(&item)) all.push_back(text->text);
    }
    return all;
  }
  figure::TextMetrics fonts;
  figure::Style style = figure::make_style(fonts);
  TextLook look;
};

TEST_F(SetText, LinesFitAndNoWordIsLost) {
  const std::string words =
      "Many heads give **most of their** attention to the first `token`, *which* says nothing.";
  for (const double width : {60.0, 100.0, 180.0, 2000.0}) {
    const Fragment fragment = set(words, width);
    std::string joined;
    for (const figure::Item& item : fragment.items) {
      const auto* text = std::get_if<figure::Text>(&item);
      if (text == nullptr) continue;
      EXPECT_LE(text->anchor.x + text->width, width + 0.01) << text->text;
      joined += text->text;
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
  const Fragment fragment = set(std::string(200, 'm'), 100.0);
  EXPECT_GT(fragment.height, 5 * look.leading);
  std::size_t letters = 0;
  for (const std::string& text : texts(fragment)) letters += text.size();
  EXPECT_EQ(letters, 200U);
}

}  // namespace
}  // namespace kvloupe::lesson
