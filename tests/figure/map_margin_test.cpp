// A sink is seen beside its map at any size and length, and the numbers are those of the formula.

#include "app/plot/map_margin.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "app/export/figure_file.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/figure/csv_rows.h"
#include "tests/figure/text_dump.h"
#include "tests/naive/naive_measures.h"
#include "tests/support/made_layer.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

class Margins : public ::testing::Test {
 protected:
  void write(test::SyntheticTraceOptions options) {
    options.layers = 1;
    made_ = test::write_synthetic_trace(folder_ / "trace.h5", options);
    maker_ =
        std::make_unique<request::FigureMaker>(std::make_shared<const Trace>(folder_ / "trace.h5"));
  }
  MadeFigure make(const std::string& name, const request::FigureSettings& settings) const {
    return maker_->make(find_figure(name), settings, test::unwatched);
  }
  static request::FigureSettings of_query_head(int query_head) {
    request::FigureSettings settings;
    settings.query_head = query_head;
    return settings;
  }
  /// Σ over the queries that see `token` of the naive softmax, over how many they are.
  double naive_received(int query_head, int token) const {
    const LayerStates states = test::made_layer(made_, 0);
    const naive::QueryHeadStates head = {states, made_.model, made_.run.attention_scale,
                                         query_head};
    const int length = static_cast<int>(states.keys.front().rows());
    double sum = 0.0;
    int queries = 0;
    for (int query = token; query < length; ++query) {
      const int window = made_.model.sliding_window;
      std::vector<int> seen;
      for (int key = 0; key <= query; ++key) {
        if (window == 0 || query - key < window) seen.push_back(key);
      }
      if (seen.front() > token) break;
      sum += head.attention(query, seen).at(token);
      ++queries;
    }
    return sum / queries;
  }

  const test::TemporaryFolder folder_;
  test::SyntheticStates made_;
  std::unique_ptr<request::FigureMaker> maker_;
};

TEST_F(Margins, TheReadOutIsTheMeanOverTheQueriesThatSeeTheKey) {
  for (const int window : {0, 20}) {
    test::SyntheticTraceOptions options;
    options.sliding_window = window;
    write(options);
    const MadeFigure made = make("attention", of_query_head(1));
    const auto rows = test::csv_rows(*made.figure);
    for (const int token : {0, 1, 50, 103}) {
      const double expected = naive_received(1, token);
      Target strip;
      strip.token = token;  // of no query: the strip
      const std::string text = made.figure->value_text(strip);
      ASSERT_EQ(text.rfind("receives ", 0), 0U) << text;
      EXPECT_NEAR(std::stod(text.substr(9)), expected, 0.006 * expected + 1e-6) << token;
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const test::CsvRow& one) {
        return std::stod(one.at("key_token")) == token;
      });
      ASSERT_NE(row, rows.end());
      EXPECT_NEAR(std::stod(row->at("key_receives_mean")), expected, 1e-5) << token;
    }
  }
}

/// The strip's axes: tokens along x, a value along y, above the map.
const Axes* strip_of(const Scene& scene) {
  for (const Axes& axes : scene.axes) {
    if (axes.x.meaning == AxisMeaning::token && axes.y.meaning == AxisMeaning::value) return &axes;
  }
  return nullptr;
}
/// The wider column of a token.
const Axes* column_of(const Scene& scene, int token) {
  for (std::size_t i = 1; i < scene.axes.size(); ++i) {
    const Axes& axes = scene.axes[i];
    if (axes.y.meaning != AxisMeaning::token && axes.y.meaning != AxisMeaning::step) continue;
    if (axes.x.first == token && axes.x.last == token + 1) return &axes;
  }
  return nullptr;
}
/// The widest of the figure's filled bars of ink within a plot.
double widest_bar(const Scene& scene, const Rect& plot, Colour ink) {
  double widest = 0.0;
  for (const Item& item : scene.items) {
    const Path* path = std::get_if<Path>(&item);
    if (path == nullptr || !path->fill || *path->fill != ink) continue;
    const auto [low, high] =
        std::minmax_element(path->points.begin(), path->points.end(),
                            [](const Point& a, const Point& b) { return a.x < b.x; });
    if (low->y >= plot.y - 0.1 && low->y <= plot.bottom() + 0.1)
      widest = std::max(widest, high->x - low->x);
  }
  return widest;
}

TEST_F(Margins, ASinkIsAsWideInALongTextAndASmallTileAsInAny) {
  const TextMetrics fonts;
  for (const int length : {104, 1500}) {
    test::SyntheticTraceOptions options;
    options.prompt_length = length - options.generated;
    options.heads = 1;
    options.query_heads = 1;
    options.sink_logit = 12.0F;
    write(options);
    const FigureInfo& info = find_figure("attention");
    const MadeFigure made = make("attention", of_query_head(0));
    for (const char* size : {"85x85mm", "40x40mm", "178x60mm"}) {
      FileOptions file;
      file.size = parse_page_size(size);
      const Scene scene = page_of(info, made, file, fonts);
      EXPECT_TRUE(scene_problems(scene).empty()) << scene_problems(scene).front();
      const Axes* strip = strip_of(scene);
      ASSERT_NE(strip, nullptr) << size;
      EXPECT_GE(widest_bar(scene, strip->plot, palette(Theme::light).ink), 1.99) << size;
      const Axes* column = column_of(scene, 0);
      ASSERT_NE(column, nullptr) << size;
      EXPECT_GE(column->plot.width, 4.0) << size;
      // The column lies beside the map, not on it, and has its rows.
      const Axes& map = scene.axes.front();
      EXPECT_LT(column->plot.right(), map.plot.x);
      EXPECT_EQ(column->plot.y, map.plot.y);
      EXPECT_EQ(column->plot.height, map.plot.height);
      // Pointed at, both say which key it is.
      const auto in_column = scene.pick({column->plot.centre().x, column->plot.bottom() - 1e-6});
      ASSERT_TRUE(in_column);
      EXPECT_EQ(in_column->token, 0);
      EXPECT_EQ(in_column->other_token, length - 1);
      const auto in_strip = scene.pick({strip->plot.centre().x, strip->plot.centre().y});
      ASSERT_TRUE(in_strip);
      EXPECT_EQ(in_strip->other_token, -1);
      EXPECT_NEAR(in_strip->token, length / 2, 2);
    }
  }
}

TEST_F(Margins, FollowTheMapWhenItIsZoomed) {
  test::SyntheticTraceOptions options;
  write(options);
  const MadeFigure made = make("attention", of_query_head(0));
  DrawRequest request;
  const TextMetrics fonts;
  request.style = make_style(fonts);
  request.x_range = {30.0, 60.0};
  request.y_range = {40.0, 70.0};
  const Scene scene = made.figure->draw(request);
  EXPECT_TRUE(scene_problems(scene).empty());
  const Axes& map = scene.axes.front();
  const Axes* strip = strip_of(scene);
  ASSERT_NE(strip, nullptr);
  EXPECT_EQ(strip->x.first, 30.0);
  EXPECT_EQ(strip->x.last, 60.0);
  EXPECT_EQ(strip->plot.x, map.plot.x);
  EXPECT_EQ(strip->plot.width, map.plot.width);
  // The sink is out of sight in the map and still beside it, for the queries that are in sight.
  const Axes* column = column_of(scene, 0);
  ASSERT_NE(column, nullptr);
  EXPECT_EQ(column->y.first, 40.0);
  EXPECT_EQ(column->y.last, 70.0);
}

TEST_F(Margins, WithoutASinkNothingIsMarked) {
  test::SyntheticTraceOptions options;
  options.sink_logit = 0.0F;
  write(options);
  const TextMetrics fonts;
  for (const char* name : {"attention", "filmstrip"}) {
    const MadeFigure made = make(name, of_query_head(0));
    const Scene scene = page_of(find_figure(name), made, {}, fonts);
    EXPECT_EQ(column_of(scene, 0), nullptr) << name;
    for (const Item& item : scene.items) {
      const Markers* marks = std::get_if<Markers>(&item);
      EXPECT_FALSE(marks != nullptr && marks->shape == MarkerShape::triangle_down) << name;
    }
  }
}

TEST_F(Margins, TheFilmStripHasTheSinksColumnToo) {
  test::SyntheticTraceOptions options{.prompt_length = 992, .sink_logit = 12.0F};
  write(options);
  const TextMetrics fonts;
  request::FigureSettings settings = of_query_head(0);
  settings.policy = parse_policy("keynorm");
  const Scene scene = page_of(find_figure("filmstrip"), make("filmstrip", settings), {}, fonts);
  const Axes* column = column_of(scene, 0);
  ASSERT_NE(column, nullptr);
  EXPECT_GE(column->plot.width, 4.0);
  EXPECT_LT(column->plot.right(), scene.axes.front().plot.x);
  const auto target = scene.pick(column->plot.centre());
  ASSERT_TRUE(target);
  EXPECT_EQ(target->token, 0);
  EXPECT_GE(target->step, 0);
}

TEST(SinksAmong, LeaveOutTheLastThatFewQueriesSee) {
  std::vector<double> received(100, 0.0);
  received[0] = 0.9;
  received[40] = 0.31;
  received[60] = 0.29;
  received[99] = 1.0;
  EXPECT_EQ(sinks_among(received, 0, 99, 0), (std::vector<int>{0, 40}));
  EXPECT_EQ(sinks_among(received, 1, 99, 0), (std::vector<int>{40}));
  EXPECT_EQ(sinks_among(received, 0, 39, 0), (std::vector<int>{0}));
  EXPECT_TRUE(sinks_among(received, 0, 99, 4).empty());  // few see any key
  EXPECT_EQ(first_uncertain(100, 0), 93);
  EXPECT_EQ(first_uncertain(1000, 0), 951);
  EXPECT_EQ(first_uncertain(4, 0), 0);
}

}  // namespace
}  // namespace kvloupe::figure
