#include "app/plot/pattern.h"
#include "app/document/figure_file.h"
#include "app/figure/token_state.h"
#include "app/plot/text_flow.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

double length_in(Pattern pattern, const Rect& rect) {
  double length = 0.0;
  pattern_lines(pattern, rect, kPatternSpacing, [&](Point a, Point b) {
    for (const Point p : {a, b}) {
      EXPECT_GE(p.x, rect.x - 1e-9);
      EXPECT_LE(p.x, rect.right() + 1e-9);
      EXPECT_GE(p.y, rect.y - 1e-9);
      EXPECT_LE(p.y, rect.bottom() + 1e-9);
    }
    EXPECT_NEAR(std::abs(a.x - b.x), std::abs(a.y - b.y), 1e-9);
    EXPECT_EQ((b.x - a.x) * (b.y - a.y) < 0.0, pattern == Pattern::rising);
    length += std::hypot(b.x - a.x, b.y - a.y);
  });
  return length;
}

TEST(Pattern, LinesFillEveryRectangleEvenlyAndGoOnInTheNext) {
  for (const Pattern pattern : {Pattern::rising, Pattern::falling}) {
    const Rect whole{-13.7, 5.3, 160.0, 90.0};
    EXPECT_NEAR(length_in(pattern, whole), 160.0 * 90.0 / kPatternSpacing, 120.0);
    const double parts = length_in(pattern, {-13.7, 5.3, 61.1, 90.0}) +
                         length_in(pattern, {-13.7 + 61.1, 5.3, 160.0 - 61.1, 33.3}) +
                         length_in(pattern, {-13.7 + 61.1, 5.3 + 33.3, 160.0 - 61.1, 56.7});
    EXPECT_NEAR(parts, length_in(pattern, whole), 1e-6);
  }
  EXPECT_EQ(length_in(Pattern::none, {0, 0, 50, 50}), 0.0);
  EXPECT_EQ(length_in(Pattern::rising, {3, 3, 0, 50}), 0.0);
}

TEST(Pattern, LevelLinesFillEveryRectangleEvenly) {
  const auto length = [](const Rect& rect) {
    double sum = 0.0;
    pattern_lines(Pattern::level, rect, kPatternSpacing, [&](Point a, Point b) {
      EXPECT_EQ(a.y, b.y);
      EXPECT_TRUE(a.y >= rect.y && a.y < rect.bottom());
      sum += b.x - a.x;
    });
    return sum;
  };
  const double whole = length({-13.7, 5.3, 160.0, 90.0});
  EXPECT_NEAR(whole, 160.0 * 90.0 / kPatternSpacing, 170.0);
  EXPECT_NEAR(length({-13.7, 5.3, 160.0, 40.0}) + length({-13.7, 45.3, 160.0, 50.0}), whole, 1e-6);
  EXPECT_EQ(length({3, 3, 0, 50}), 0.0);
}

TEST(Pattern, EachDotIsInOneRectangleOnly) {
  const auto dots = [](const Rect& rect) {
    std::set<std::pair<long, long>> found;
    pattern_dots(rect, kPatternSpacing, [&](Point at) {
      EXPECT_TRUE(rect.contains(at));
      found.insert({std::lround(1e6 * at.x), std::lround(1e6 * at.y)});
    });
    return found;
  };
  const auto whole = dots({-20.0, -11.0, 91.3, 60.0});
  EXPECT_NEAR(static_cast<double>(whole.size()), 91.3 * 60.0 / kPatternSpacing / kPatternSpacing,
              60.0);
  auto left = dots({-20.0, -11.0, 48.0, 60.0});
  const auto right = dots({28.0, -11.0, 43.3, 60.0});
  EXPECT_EQ(left.size() + right.size(), whole.size());
  left.insert(right.begin(), right.end());
  EXPECT_EQ(left, whole);
}

TEST(Pattern, NoTwoFatesOfAnAreaShareOne) {
  const std::set<Pattern> all{state_pattern(TokenState::retained),
                              state_pattern(TokenState::evicted), state_pattern(TokenState::merged),
                              state_pattern(TokenState::protected_),
                              state_pattern(TokenState::synthetic)};
  EXPECT_EQ(all.size(), 5U);
}

TEST(Pattern, ThemesHaveNamesAndHighContrastHasPatterns) {
  for (const Theme theme : kThemes) {
    EXPECT_EQ(theme_named(theme_name(theme)), theme);
    EXPECT_EQ(make_style(test::fonts(), theme).patterns, theme == Theme::high_contrast);
    EXPECT_TRUE(make_style(test::fonts(), theme, true).patterns);
    EXPECT_FALSE(make_style(test::fonts(), theme, false).patterns);
  }
  EXPECT_EQ(theme_named("pink"), std::nullopt);
}

struct PatternsOfFigures : testing::Test {
  PatternsOfFigures() {
    trace_ = test::open_synthetic_trace(folder_ / "t.h5", {.layers = 1, .clusters = 4});
  }
  MadeFigure make(const char* name, const std::string& policy, const std::string& policy_b = {},
                  const Choices& choices = {}) {
    request::FigureSettings settings{.policy = parse_policy(policy)};
    if (!policy_b.empty()) settings.policy_b = parse_policy(policy_b);
    settings.budget = parse_budget("24");
    settings.choices = choices;
    return request::FigureMaker(trace_).make(find_figure(name), settings, test::unwatched);
  }
  Scene draw(const MadeFigure& made, bool patterns) {
    return made.figure->draw({.style = make_style(test::fonts(), Theme::light, patterns),
                              .width = 500.0,
                              .height = 300.0,
                              .legend = false});
  }

  /// Middles of the lines of a pattern, and of dots: what the second scene has and the first has
  /// not.
  struct Marks {
    std::vector<Point> rising, falling, dots;
  };
  static Marks marks(const Scene& scene) {
    Marks found;
    for (const Item& item : scene.items) {
      if (const auto* path = std::get_if<Path>(&item); path && path->stroke && !path->fill) {
        for (std::size_t i = 0; i + 1 < path->points.size(); i += 2) {
          const Point a = path->points[i], b = path->points[i + 1];
          const double dx = b.x - a.x, dy = b.y - a.y;
          if (std::abs(std::abs(dx) - std::abs(dy)) > 1e-6 || std::abs(dx) < 1e-6) continue;
          (dx * dy < 0 ? found.rising : found.falling)
              .push_back({(a.x + b.x) / 2, (a.y + b.y) / 2});
        }
      } else if (const auto* markers = std::get_if<Markers>(&item);
                 markers && markers->shape == MarkerShape::circle) {
        found.dots.insert(found.dots.end(), markers->points.begin(), markers->points.end());
      }
    }
    return found;
  }

  /// The value at a place of the strip. The last axes with steps at the place are those of the
  /// plot.
  static std::string value_at(const MadeFigure& made, const Scene& scene, Point place) {
    for (const Axes& axes : scene.axes) {
      if (!axes.plot.contains(place)) continue;
      const Point data = axes.to_data(place);
      return made.figure->value_text({.token = static_cast<int>(std::floor(data.x)),
                                      .step = static_cast<int>(std::floor(data.y))});
    }
    return "nowhere";
  }

  test::TemporaryFolder folder_;
  std::shared_ptr<const Trace> trace_;
};

TEST_F(PatternsOfFigures, AFilmStripMarksEachFateByItsPatternAndNothingElse) {
  for (const char* policy : {"h2o+recent(30%)", "keydiff+recent(20%)", "h2o+kvmerger"}) {
    const MadeFigure made = make("filmstrip", policy);
    const Marks plain = marks(draw(made, false));
    EXPECT_TRUE(plain.rising.empty() && plain.falling.empty() && plain.dots.empty()) << policy;
    const Scene scene = draw(made, true);
    const Marks found = marks(scene);
    const bool merges = std::string(policy).find("merger") != std::string::npos;
    EXPECT_EQ(found.falling.empty(), !merges) << policy;
    if (!merges) {
      EXPECT_FALSE(found.rising.empty()) << policy;
      EXPECT_FALSE(found.dots.empty()) << policy;
    }
    for (const Point p : found.rising)
      EXPECT_EQ(value_at(made, scene, p), "evicted at this step") << policy;
    for (const Point p : found.falling)
      EXPECT_EQ(value_at(made, scene, p), "merged at this step") << policy;
    for (const Point p : found.dots) {
      if (const std::string value = value_at(made, scene, p); value != "nowhere") {
        EXPECT_EQ(value, "protected") << policy;
      }
    }
  }
}

TEST_F(PatternsOfFigures, WhatOnePolicyAloneKeepsHasLinesOfItsOwn) {
  for (const char* layout : {"heads", "steps", "text"}) {
    const MadeFigure made = make("policy-diff", "h2o", "sink", {{"show", layout}});
    const Marks plain = marks(draw(made, false));
    EXPECT_TRUE(plain.rising.empty() && plain.falling.empty()) << layout;
    const Scene scene = draw(made, true);
    const Marks found = marks(scene);
    EXPECT_FALSE(found.rising.empty()) << layout;
    EXPECT_FALSE(found.falling.empty()) << layout;
    const auto value = [&](Point place) {
      const auto target = scene.pick(place);
      return target ? made.figure->value_text(*target) : std::string("nowhere");
    };
    for (const Point p : found.rising) EXPECT_EQ(value(p), "kept by A only") << layout;
    for (const Point p : found.falling) EXPECT_EQ(value(p), "kept by B only") << layout;
  }
}

TEST_F(PatternsOfFigures, TheTextHasDotsUnderProtectedWords) {
  const MadeFigure made = make("tokens", "h2o+recent(30%)");
  const Marks found = marks(draw(made, true));
  EXPECT_FALSE(found.dots.empty());
  const Scene scene = draw(made, true);
  for (const Point p : found.dots) {
    const auto target = scene.pick(p);
    ASSERT_TRUE(target);
    EXPECT_TRUE(made.figure->value_text(*target).starts_with("protected"));
  }
  EXPECT_TRUE(marks(draw(made, false)).dots.empty());
}

TEST_F(PatternsOfFigures, TheFilesOfEveryFormatHaveThem) {
  const MadeFigure made = make("filmstrip", "h2o+recent(30%)");
  const FigureInfo& info = find_figure("filmstrip");
  FileOptions with{.patterns = true};
  for (const FileFormat format :
       {FileFormat::svg, FileFormat::pdf, FileFormat::png, FileFormat::html}) {
    EXPECT_NE(file_of(info, made, format, with, test::fonts()),
              file_of(info, made, format, {}, test::fonts()));
  }
  FileOptions high, without;
  high.theme = without.theme = Theme::high_contrast;
  without.patterns = false;
  const std::string page = file_of(info, made, FileFormat::html, high, test::fonts());
  EXPECT_NE(page.find("data-contrast=\"high\""), std::string::npos);
  EXPECT_NE(page.find("--paper: #000000"), std::string::npos);
  EXPECT_FALSE(marks(page_of(info, made, high, test::fonts())).rising.empty());
  EXPECT_TRUE(marks(page_of(info, made, without, test::fonts())).rising.empty());
}

}  // namespace
}  // namespace kvloupe::figure
