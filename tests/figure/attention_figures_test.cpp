// The figures of attention by distance, of attention lost and of scores beside later attention:
// their CSV and captions beside plain loops.

#include "app/document/figure_file.h"
#include "app/figure/comparison.h"
#include "app/plot/map_margin.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/text_dump.h"
#include "tests/naive/naive_geometry.h"
#include "tests/naive/naive_later.h"
#include "tests/naive/naive_measures.h"
#include "tests/naive/naive_roles.h"
#include "tests/support/test.h"

namespace kvloupe::figure {
namespace {

struct AttentionFigures : ::testing::Test, test::TraceFigures {
  std::vector<std::vector<double>> attention(int layer, int query_head) const {
    return naive::full_attention(trace->query(layer, query_head),
                                 trace->key(layer, trace->model().head_of(query_head)),
                                 trace->run().attention_scale, trace->window(layer));
  }
  /// Mean over the query heads of a head (or one), of queries from `first` on: by token.
  std::vector<double> later(int layer, int head, int first, int query_head = -1) const {
    std::vector<double> mean(static_cast<std::size_t>(trace->length()), 0.0);
    const int group = trace->model().group_size();
    const int from = query_head >= 0 ? query_head : head * group;
    const int count = query_head >= 0 ? 1 : group;
    for (int q = from; q < from + count; ++q) {
      const auto own = attention(layer, q);
      for (std::size_t token = 0; token < mean.size(); ++token)
        mean[token] += naive::later_attention(own, static_cast<int>(token), first) / count;
    }
    return mean;
  }
};

TEST_F(AttentionFigures, TheKernelOfEachDistanceIsThatOfThePlainLoops) {
  for (const std::string show : {"logit", "attention"}) {
    for (const std::string axis : {"log", "linear"}) {
      request::FigureSettings settings{.layer = 1, .head = 1};
      settings.choices["show"] = show;
      settings.choices["axis"] = axis;
      const MadeFigure made = make("distance-kernel", settings);
      std::map<int, naive::ByDistance> twins;
      for (const int q : {2, 3}) {
        twins[q] = naive::by_distance(trace->query(1, q), trace->key(1, 1), trace->layer_model(1),
                                      trace->run().attention_scale, 0, attention(1, q));
      }
      std::map<std::string, int> counts;
      for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
        ++counts[row.at("line")];
        const double distance = std::stod(row.at("distance"));
        // Wider places are means over several distances.
        if (distance > 8.0 || distance != std::floor(distance) || axis == "linear") continue;
        const naive::ByDistance& twin = twins.at(row.at("line")[11] - '0');
        const bool measured = row.at("line").find("measured") != std::string::npos;
        const auto& expected = show == "logit"
                                   ? (measured ? twin.logit : twin.kernel)
                                   : (measured ? twin.attention : twin.kernel_attention);
        EXPECT_NEAR(std::stod(row.at(show)), expected[distance], 1e-4)
            << row.at("line") << " at " << distance;
      }
      ASSERT_EQ(counts.size(), 4U);
      EXPECT_GT(counts["query head 2"], axis == "log" ? 50 : 100);
      EXPECT_GT(counts["query head 3 measured"], 15);
      EXPECT_THAT(made.figure->caption(), HasSubstr("layer 1, head 1"));
    }
  }
  request::FigureSettings one{.layer = 0, .query_head = 1};
  for (const test::CsvRow& row : test::csv_rows(*make("distance-kernel", one).figure))
    EXPECT_EQ(row.at("line").substr(0, 12), "query head 1");
}

TEST_F(AttentionFigures, WidePlacesAreMeansOverTheirPairs) {
  request::FigureSettings settings{.layer = 0, .query_head = 0};
  settings.choices["axis"] = "linear";
  const naive::ByDistance twin =
      naive::by_distance(trace->query(0, 0), trace->key(0, 0), trace->layer_model(0),
                         trace->run().attention_scale, 0, attention(0, 0));
  int places = 0;
  for (const test::CsvRow& row : test::csv_rows(*make("distance-kernel", settings).figure)) {
    if (row.at("line") != "query head 0 measured") continue;
    // 104 distances in places of three; the last has two.
    const double middle = std::stod(row.at("distance"));
    const int first = 3 * places++;
    const int end = std::min(first + 3, 104);
    ASSERT_DOUBLE_EQ(middle, 0.5 * (first + end - 1));
    double sum = 0.0, pairs = 0.0;
    for (int distance = first; distance < end; ++distance) {
      sum += (104 - distance) * twin.logit[distance];
      pairs += 104 - distance;
    }
    EXPECT_NEAR(std::stod(row.at("logit")), sum / pairs, 1e-4);
  }
  EXPECT_EQ(places, 35);
}

TEST_F(AttentionFigures, CurvesOfLostAttentionAreThoseOfThePlainLoops) {
  constexpr int kPrefix = 52;
  const std::vector<std::string> specs = {"keydiff", "h2o", "snapkv(8)+adakv"};
  const std::vector<int> budgets = {5, 15, 30};
  // For every head, policy and budget: percent evicted and lost.
  struct Loss {
    double evicted, lost;
  };
  std::map<std::string, std::vector<std::vector<Loss>>> all;  // by policy, [budgets][heads]
  std::vector<std::vector<double>> received;                  // [heads] of counted tokens
  for (int layer = 0; layer < 2; ++layer) {
    const LayerStates own = test::made_layer(states_of_trace, layer);
    for (int head = 0; head < 2; ++head) {
      const std::vector<double> mean = later(layer, head, kPrefix);
      received.emplace_back(mean.begin() + 4, mean.begin() + kPrefix);
      double sum = 0.0;
      for (const double one : received.back()) sum += one;
      for (const std::string& spec : specs) {
        all[spec].resize(budgets.size());
        for (std::size_t b = 0; b < budgets.size(); ++b) {
          naive::NaiveReplay naive(own, trace->layer_model(layer), trace->attention(layer), layer,
                                   parse_policy(spec), budgets[b]);
          const auto retained = naive.step({0, kPrefix})[head].retained;
          Loss loss{0.0, 0.0};
          for (int token = 4; token < kPrefix; ++token) {
            if (retained.count(token) > 0) continue;
            loss.evicted += 100.0 / (kPrefix - 4);
            loss.lost += 100.0 * mean[token] / sum;
          }
          all[spec][b].push_back(loss);
        }
      }
    }
  }
  request::FigureSettings settings{.layer = 1, .head = 0};
  settings.choices["policies"] = "keydiff,h2o,snapkv(8)+adakv";
  settings.choices["budgets"] = "5,15,30";
  const MadeFigure one = make("attention-lost", settings);
  std::map<std::string, std::vector<std::pair<double, double>>> lines;
  for (const test::CsvRow& row : test::csv_rows(*one.figure)) {
    lines[row.at("line")].emplace_back(std::stod(row.at("evicted_percent")),
                                       std::stod(row.at("lost_percent")));
  }
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines["chance"], (std::vector<std::pair<double, double>>{{0, 0}, {100, 100}}));
  for (const std::string& spec : specs) {
    ASSERT_EQ(lines[spec].size(), 4U) << spec;  // and nothing evicted
    for (std::size_t b = 0; b < 3; ++b) {
      EXPECT_NEAR(lines[spec][3 - b].first, all[spec][b][2].evicted, 1e-4) << spec;
      EXPECT_NEAR(lines[spec][3 - b].second, all[spec][b][2].lost, 1e-3) << spec;
    }
  }
  std::vector<double> sorted = received[2];
  std::sort(sorted.begin(), sorted.end());
  ASSERT_EQ(lines["optimum"].size(), 49U);
  double sum = 0.0, lost = 0.0;
  for (const double value : sorted) sum += value;
  for (std::size_t evicted = 0; evicted <= 48; ++evicted) {
    EXPECT_NEAR(lines["optimum"][evicted].second, 100.0 * lost / sum, 1e-3);
    if (evicted < 48) lost += sorted[evicted];
  }
  // All heads: medians; four heads, the middle of the two in the middle.
  settings.choices["show"] = "heads";
  const MadeFigure heads = make("attention-lost", settings);
  std::map<std::string, std::size_t> places;
  for (const test::CsvRow& row : test::csv_rows(*heads.figure)) {
    const std::string line = row.at("line");
    const std::size_t comma = line.find(", ");
    const auto own = all.find(line.substr(0, comma));
    if (own == all.end()) continue;
    const std::size_t place = places[line]++;
    if (place == 0) continue;
    std::vector<double> values;
    double x = 0.0;
    for (const Loss& loss : own->second[3 - place]) {
      values.push_back(loss.lost);
      x += loss.evicted / 4.0;
    }
    std::sort(values.begin(), values.end());
    // The quartiles of four lie a quarter of the way from their neighbours in the middle.
    const double expected = comma == std::string::npos ? 0.5 * (values[1] + values[2])
                            : line.find("first") != std::string::npos
                                ? 0.25 * values[0] + 0.75 * values[1]
                                : 0.75 * values[2] + 0.25 * values[3];
    EXPECT_NEAR(std::stod(row.at("evicted_percent")), x, 1e-4) << line;
    EXPECT_NEAR(std::stod(row.at("lost_percent")), expected, 1e-3) << line;
  }
  EXPECT_EQ(places.size(), 9U);
  EXPECT_THAT(heads.figure->caption(), HasSubstr("median over the 4 heads"));
  // It says itself when its policies act: no word of the selected block.
  EXPECT_THAT(heads.figure->caption(), Not(HasSubstr("Query-aware")));
}

TEST_F(AttentionFigures, ScoresStandBesideTheAttentionThatCameLater) {
  request::FigureSettings settings{.layer = 1,
                                   .head = 1,
                                   .step = 1,
                                   .policy = parse_policy("h2o+recent(4)"),
                                   .policy_b = parse_policy("keydiff"),
                                   .budget = parse_budget("24")};
  const MadeFigure made = make("score-vs-attention", settings);
  const std::vector<double> received = later(1, 1, 64);
  std::map<std::string, naive::Vector> scores, paid;
  std::map<std::string, double> said;
  std::map<std::string, int> states_seen;
  for (const test::CsvRow& row : test::csv_rows(*made.figure)) {
    const auto token = static_cast<std::size_t>(std::stoi(row.at("token")));
    ASSERT_LT(token, 64U);
    EXPECT_NEAR(std::stod(row.at("later_attention")), received[token], 1e-6);
    scores[row.at("policy")].push_back(std::stod(row.at("score")));
    paid[row.at("policy")].push_back(received[token]);
    said[row.at("policy")] = std::stod(row.at("correlation"));
    ++states_seen[row.at("policy") + " " + row.at("state")];
  }
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(states_seen["h2o+recent(4) protected"], 4);
  EXPECT_EQ(states_seen["h2o+recent(4) retained"], 20);
  EXPECT_EQ(states_seen["h2o+recent(4) evicted"], 32);  // 24 + 32 were there
  EXPECT_EQ(states_seen["keydiff evicted"], 32);
  for (const auto& [policy, own] : scores) {
    ASSERT_EQ(own.size(), 56U);
    naive::Vector a, b;
    for (std::size_t i = 0; i < own.size(); ++i) {
      a.push_back(naive::rank_of(own, i));
      b.push_back(naive::rank_of(paid[policy], i));
    }
    EXPECT_NEAR(said[policy], naive::correlation(a, b), 0.005) << policy;
    EXPECT_THAT(made.figure->caption(),
                HasSubstr(fmt::format("{}: Spearman’s ρ {}", policy,
                                      said[policy] < 0 ? fmt::format("−{:.2f}", -said[policy])
                                                       : fmt::format("{:.2f}", said[policy]))));
  }
  const std::string text = made.figure->value_text({.token = 63});
  EXPECT_THAT(text, HasSubstr("A: score "));
  EXPECT_THAT(text, HasSubstr("protected"));
  EXPECT_THAT(text, HasSubstr("later attention "));
  EXPECT_EQ(made.figure->value_text({.token = 70}), "");
  // After the last step nothing comes.
  settings.step = 10;
  const MadeFigure last = make("score-vs-attention", settings);
  EXPECT_THAT(last.figure->caption(), HasSubstr("No query comes after step 10"));
  for (const test::CsvRow& row : test::csv_rows(*last.figure)) {
    EXPECT_EQ(row.at("later_attention"), "");
    EXPECT_EQ(row.at("correlation"), "");
  }
  settings.step = 1;
  settings.policy = parse_policy("full");
  settings.policy_b.reset();
  EXPECT_THROW(make("score-vs-attention", settings), WorkError);
}

TEST_F(AttentionFigures, AClosedLoopTraceLacksTheAttentionTheyShow) {
  test::write_synthetic_closed_loop(folder / "closed.h5", {}, "h2o", 24);
  const auto closed = std::make_shared<const Trace>(folder / "closed.h5");
  for (const char* name : {"distance-kernel", "attention-lost", "score-vs-attention"}) {
    EXPECT_THAT(test::error_of<WorkError>([&] {
                  request::FigureMaker(closed).make(find_figure(name), {}, test::unwatched);
                }),
                HasSubstr("closed-loop trace"));
  }
}

// A sink is seen beside its map at any size and length, and the numbers are those of the formula.

struct Margins : ::testing::Test {
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
    return request::FigureSettings{.query_head = query_head};
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
    test::SyntheticTraceOptions options{.sliding_window = window};
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
  for (const Path& path : test::items_of<Path>(scene)) {
    if (!path.fill || *path.fill != ink) continue;
    const auto [low, high] =
        std::minmax_element(path.points.begin(), path.points.end(),
                            [](const Point& a, const Point& b) { return a.x < b.x; });
    if (low->y >= plot.y - 0.1 && low->y <= plot.bottom() + 0.1)
      widest = std::max(widest, high->x - low->x);
  }
  return widest;
}

TEST_F(Margins, ASinkIsAsWideInALongTextAndASmallTileAsInAny) {
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
      const Scene scene = page_of(info, made, {.size = parse_page_size(size)}, test::fonts());
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
  request.style = make_style(test::fonts());
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
  test::SyntheticTraceOptions options{.sink_logit = 0.0F};
  write(options);
  for (const char* name : {"attention", "filmstrip"}) {
    const MadeFigure made = make(name, of_query_head(0));
    const Scene scene = test::scene_of(name, made);
    EXPECT_EQ(column_of(scene, 0), nullptr) << name;
    for (const Markers& marks : test::items_of<Markers>(scene)) {
      EXPECT_FALSE(marks.shape == MarkerShape::triangle_down) << name;
    }
  }
}

TEST_F(Margins, TheFilmStripHasTheSinksColumnToo) {
  test::SyntheticTraceOptions options{.prompt_length = 992, .sink_logit = 12.0F};
  write(options);
  request::FigureSettings settings = of_query_head(0);
  settings.policy = parse_policy("keynorm");
  const Scene scene = test::scene_of("filmstrip", make("filmstrip", settings));
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
