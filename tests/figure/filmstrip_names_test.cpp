// The names of a prompt's segments above the film strip, on pages from narrow to wide.

#include "app/document/document.h"
#include "app/document/figure_file.h"
#include "app/figure/segment_band.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/support/model_attribute.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

struct FilmstripNames : ::testing::Test {
  FilmstripNames() {
    test::SyntheticTraceOptions options{
        .layers = 1, .prompt_length = 300, .generated = 12, .question = 12};
    made_ = request::FigureMaker(test::open_synthetic_trace(folder_ / "trace.h5", options))
                .make(find_figure("filmstrip"), {}, test::unwatched);
  }
  using Names = std::map<std::string, std::pair<double, double>>;

  /// The names over their segments on a page so many points wide, with where they begin and end;
  /// those in the row above, and the lines down from there, are in `upper_` and `lines_`.
  Names names_at(double width, double height = 200.0) {
    const Scene scene = test::scene_of("filmstrip", made_, {.size = PageSize{width, height}});
    axes_ = scene.axes.front();
    Names names;
    upper_.clear();
    lines_.clear();
    for (const Item& item : scene.items) {
      if (const Text* text = std::get_if<Text>(&item)) {
        const Rect place = text->bounds();
        if (text->text != "question · answer" && !kSegments.contains(text->text)) continue;
        (text->anchor.y > axes_.plot.y - 8.0 ? names : upper_)[text->text] = {place.x,
                                                                              place.right()};
      } else if (const Path* path = std::get_if<Path>(&item)) {
        const std::vector<Point>& at = path->points;
        if (at.size() == 2 && at[0].x == at[1].x && at[1].y < axes_.plot.y &&
            at[0].y < at[1].y - 4.0)
          lines_.push_back(at[0].x);
      }
    }
    return names;
  }
  double middle_of(const std::string& name) const {
    const auto [first, end] = kSegments.at(name);
    return (page_x(first) + page_x(end)) / 2;
  }
  double page_x(double token) const { return axes_.to_page(token, axes_.y.first).x; }

  static inline const std::map<std::string, std::pair<int, int>> kSegments = {
      {"context", {0, 288}}, {"question", {288, 300}}, {"answer", {300, 312}}};
  const test::TemporaryFolder folder_;
  MadeFigure made_;
  Axes axes_;
  Names upper_;
  std::vector<double> lines_;
};

TEST_F(FilmstripNames, NoNameCouldAsWellBeThatOfAnotherSegment) {
  int without_question = 0;
  int with_all = 0;
  for (double width = 100.0; width <= 2000.0; width *= 1.02) {
    SCOPED_TRACE(width);
    const auto names = names_at(width);
    EXPECT_TRUE(names.contains("context"));
    for (const auto& [name, place] : names) {
      const auto [first, end] = kSegments.at(name);
      const double middle = (place.first + place.second) / 2;
      if (page_x(first) <= middle && middle <= page_x(end)) continue;
      for (const auto& [other, tokens] : kSegments) {
        const bool covered =
            place.first <= page_x(tokens.first) && page_x(tokens.second) <= place.second;
        EXPECT_EQ(covered, other == name) << name << " over " << other;
      }
    }
    without_question += names.contains("question") ? 0 : 1;
    with_all += names.size() == 3 ? 1 : 0;
  }
  EXPECT_GT(without_question, 0) << "the pages are all wide";
  EXPECT_GT(with_all, 0) << "the pages are all narrow";
}

TEST_F(FilmstripNames, WithRoomEveryNameIsOverTheMiddleOfItsSegment) {
  const auto names = names_at(2000.0);
  for (const auto& [name, tokens] : kSegments) {
    ASSERT_TRUE(names.contains(name)) << name;
    EXPECT_NEAR((names.at(name).first + names.at(name).second) / 2,
                (page_x(tokens.first) + page_x(tokens.second)) / 2, 1.0)
        << name;
  }
}

TEST_F(FilmstripNames, NamesKeepApart) {
  for (double width = 100.0; width <= 2000.0; width *= 1.1) {
    const auto names = names_at(width);
    for (const auto& [name, place] : names) {
      for (const auto& [other, beside] : names) {
        if (name < other) {
          EXPECT_TRUE(place.second < beside.first || beside.second < place.first)
              << name << " on " << other << ", " << width << " points wide";
        }
      }
    }
  }
}

TEST_F(FilmstripNames, EveryKindOfSegmentHasItsNameOnce) {
  int together = 0;
  for (double width = 220.0; width <= 2000.0; width *= 1.02) {
    SCOPED_TRACE(width);
    const auto names = names_at(width);
    const bool both = upper_.contains("question · answer");
    together += both ? 1 : 0;
    std::vector<double> expected;
    for (const std::string name : {"question", "answer"}) {
      const bool above = both || upper_.contains(name);
      EXPECT_NE(names.contains(name), above) << name;
      if (above) expected.push_back(middle_of(name));
    }
    ASSERT_EQ(lines_.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(lines_[i], expected[i], 0.1);
    for (const auto& [text, place] : upper_) {
      EXPECT_LE(place.second, axes_.plot.right() + 0.1);
      for (const double line : lines_) {
        EXPECT_TRUE(place.first <= line && line <= place.second);
        for (const auto& [name, under] : names)
          EXPECT_FALSE(under.first < line && line < under.second) << "a line through " << name;
      }
    }
  }
  EXPECT_GT(together, 0);
}

/// As in a trace of a conversation, or in one that was made to be slow.
TEST_F(FilmstripNames, ThousandsOfSegmentsOfManyKindsKeepTheirNamesApart) {
  TokenTable tokens;
  for (int kind = 0; kind < 200; ++kind) tokens.segment_names.push_back(std::to_string(kind));
  for (int token = 0; token < 100000; ++token)
    tokens.segment.push_back(static_cast<std::uint8_t>(token / 2 % 200));
  const SegmentBand band(tokens);
  const Style style = make_style(test::fonts());
  Axes axes;
  axes.plot = {10, 40, 900, 100};
  axes.y = {AxisMeaning::step, AxisScale::linear, 0, 1, ""};
  for (const double end : {100000.0, 1000.0, 60.0}) {
    axes.x = {AxisMeaning::token, AxisScale::linear, 0, end, "Token"};
    const bool two_rows = band.needs_two_rows(style, axes);
    EXPECT_EQ(two_rows, end == 1000.0) << "all are too narrow, many, or none";
    Scene scene = make_scene(style, 920, 150);
    band.draw(scene, style, axes, two_rows);
    EXPECT_THAT(scene_problems(scene), IsEmpty()) << end;
  }
}

/// As of a chat: the question goes on behind a token that is not a part of it.
TEST_F(FilmstripNames, NeighboursOfOneNameCountOnce) {
  TokenTable tokens{.segment_names = {"context", "question", "special", "answer"}};
  for (int token = 0; token < 400; ++token)
    tokens.segment.push_back(token < 380 ? 0 : token == 386 ? 2 : token < 392 ? 1 : 3);
  const SegmentBand band(tokens);
  const Style style = make_style(test::fonts());
  Axes axes;
  axes.x = {AxisMeaning::token, AxisScale::linear, 0, 400, "Token"};
  axes.y = {AxisMeaning::step, AxisScale::linear, 0, 1, ""};
  int joined = 0;
  for (double width = 220.0; width <= 900.0; width *= 1.05) {
    axes.plot = {10, 40, width, 100};
    Scene scene = make_scene(style, width + 20, 150);
    band.draw(scene, style, axes, true);
    for (const Text& text : test::items_of<Text>(scene)) {
      joined += text.text == "question · answer" ? 1 : 0;
      EXPECT_FALSE(text.text == "question · question") << width;
    }
  }
  EXPECT_GT(joined, 0);
}

TEST_F(FilmstripNames, AGivenAnswerIsNotShownAsTheModels) {
  made_ = {};  // closes the trace
  test::write_given(folder_ / "trace.h5", 12);
  const auto trace = std::make_shared<const Trace>(folder_ / "trace.h5");
  made_ = request::FigureMaker(trace).make(find_figure("filmstrip"), {}, test::unwatched);
  FileOptions options{.size = PageSize{2000.0, 200.0}};
  const Scene scene = test::scene_of("filmstrip", made_, options);
  int named = 0;
  std::size_t ticks = 0;
  for (const Item& item : scene.items) {
    if (const Text* text = std::get_if<Text>(&item))
      named += text->text == "answer · given" ? 1 : 0;
    const Path* path = std::get_if<Path>(&item);
    if (path == nullptr || path->points.empty() || path->fill) continue;
    const Rect plot = scene.axes.front().plot;
    if (path->points.front().y < plot.y - 4.0 && path->points.back().y == plot.y)
      ticks = path->points.size() / 2;
  }
  EXPECT_EQ(named, 1);
  EXPECT_EQ(ticks, given_tokens(*trace).others.size());
  EXPECT_THAT(scene.caption, HasSubstr("The answer (tokens 300"));
  const auto names =
      document::page_figure(find_figure("filmstrip"), made_, options, test::fonts()).names;
  EXPECT_THAT(names->parts, Contains(testing::Pair(
                                300, StartsWith("answer · given · the model would have chosen"))));
}

TEST_F(FilmstripNames, ALowStripHasNoSecondRow) {
  names_at(240.0, 90.0);
  EXPECT_TRUE(upper_.empty());
}

}  // namespace
}  // namespace kvloupe::figure
