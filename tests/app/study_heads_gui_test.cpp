// Heads over the prompts of a study in the window: a point marks and selects its head, and a prompt
// of a head's profile opens its trace.

#include "analysis/study/run_study.h"
#include "tests/app/window_test.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct StudyHeadsWindow : WindowTest {
  void prepare() override {
    for (int i = 0; i < 3; ++i) {
      SyntheticTraceOptions options{.layers = 3, .seed = static_cast<std::uint64_t>(i) + 1};
      write_synthetic_trace(folder_ / ("t" + std::to_string(i) + ".h5"), options);
    }
    std::ofstream(folder_ / "study.json")
        << R"({"traces": ["*.h5"], "policies": ["h2o", "keydiff"], "budgets": ["30%"],
               "measures": ["perturbation_l1", "retained_mass", "role_sink"]})";
    run_study(folder_ / "study.json", folder_ / "out.sqlite", [](const std::string&) {});
    start();
    open_file(folder_ / "out.sqlite");
  }
  void show(const std::string& view, const figure::Choices& choices = {}) {
    w().state.tiles[0].view = view;
    w().state.tiles[0].choices = choices;
    driver_->settle();
    ASSERT_EQ(w().tiles[0].error(), "");
    ASSERT_NE(w().tiles[0].scene(), nullptr);
  }
};

TEST_F(StudyHeadsWindow, APointMarksItsHeadAndAClickSelectsIt) {
  show("head-scatter");
  int tried = 0;
  for (const figure::PickPoints& set : w().tiles[0].scene()->point_sets) {
    for (std::size_t i = 0; i < set.points.size(); ++i) {
      const figure::Target head = set.target(i);
      const auto [x, y] = on_screen(set.points[i]);
      driver_->move(x, y).frames(2);
      EXPECT_EQ(w().hovered().layer, head.layer);
      EXPECT_EQ(w().hovered().head, head.head);
      driver_->click(x, y).frames(2);
      EXPECT_EQ(w().state.selection.layer, head.layer);
      EXPECT_EQ(w().state.selection.head, head.head);
      ++tried;
    }
  }
  EXPECT_EQ(tried, 6);
}

TEST_F(StudyHeadsWindow, ThePointUnderThePointerIsMarkedInTheOtherViews) {
  w().state.tile_count = 2;
  w().state.tiles[1].view = "study-heads";
  show("head-scatter");
  ASSERT_EQ(w().tiles[1].error(), "");
  const figure::PickPoints& points = w().tiles[0].scene()->point_sets.back();
  const figure::Target head = points.target(0);
  driver_->move(2.0F, 2.0F).frames(3);
  const window::Picture before = driver_->picture();
  const auto [x, y] = on_screen(points.points.front());
  driver_->move(x, y).frames(3);
  const window::Picture after = driver_->picture();
  // The head's row in the second tile, and a row of another head.
  const window::Tile& tile = w().tiles[1];
  int marked = 0, others = 0;
  for (const figure::PickRegion& region : tile.scene()->regions) {
    const auto pixel = [&](double x, double y) {
      return std::pair{static_cast<int>(tile.origin().x + static_cast<float>(x) * tile.scale()),
                       static_cast<int>(tile.origin().y + static_cast<float>(y) * tile.scale())};
    };
    const figure::Rect& row = region.rect;
    const auto [x0, y0] = pixel(row.right(), row.y + 0.3 * row.height);
    const auto [x1, y1] = pixel(row.right(), row.y + 0.7 * row.height);
    const bool own = region.target.layer == head.layer && region.target.head == head.head;
    // A mark goes around the row. At the row's right end there is nothing else, such as the
    // readout.
    const double difference = WindowDriver::difference(before, after, x0 - 4, y0, x1 + 2, y1);
    if (own && difference > 0.0) ++marked;
    if (!own && difference > 0.0) ++others;
  }
  EXPECT_GT(marked, 0);
  EXPECT_EQ(others, 0);
}

TEST_F(StudyHeadsWindow, AProfileFollowsTheSelectionAndItsPromptsOpenTheirTraces) {
  w().state.selection.layer = 2;
  w().state.selection.head = 1;
  show("head-profile", {{"policy", "keydiff"}});
  const auto& figure = *w().tiles[0].figure()->figure;
  EXPECT_THAT(figure.caption(), HasSubstr("Head 2.1 with keydiff"));
  // The prompt with the largest value of the first measure is the last point of the first panel.
  const auto scene = w().tiles[0].scene();
  ASSERT_FALSE(scene->point_sets.empty());
  const figure::PickPoints& points = scene->point_sets.front();
  ASSERT_EQ(points.points.size(), 3U);
  std::string strongest;
  for (const auto& row : csv_rows(figure)) {
    if (row.at("section") == "prompt" && row.at("name") == "perturbation_l1")
      strongest = row.at("prompt");
  }
  EXPECT_THAT(figure.value_text(points.target(2)), HasSubstr(strongest + ": "));
  const auto [x, y] = on_screen(points.points[2]);
  driver_->click(x, y).settle();
  const auto trace = w().results.trace();
  ASSERT_NE(trace, nullptr) << w().notice;
  EXPECT_EQ(trace->path().filename(), strongest);
  EXPECT_EQ(w().state.selection.layer, 2);
  EXPECT_EQ(w().state.selection.head, 1);
  EXPECT_EQ(w().state.policy_a.text(), "keydiff");
  EXPECT_EQ(w().state.budget.text(), "30%");
  // The results stay open; the grid of the trace beside them marks the head of a point.
  show("head-scatter");
  const figure::PickPoints& heads = w().tiles[0].scene()->point_sets.front();
  const auto [x2, y2] = on_screen(heads.points.front());
  driver_->click(x2, y2).frames(2);
  EXPECT_EQ(w().state.selection.layer, heads.target(0).layer);
  EXPECT_EQ(w().state.selection.head, heads.target(0).head);
}

TEST_F(StudyHeadsWindow, ATraceThatIsGoneIsSaid) {
  show("head-profile");
  fs::remove(folder_ / "t0.h5");
  for (const figure::PickRegion& region : w().tiles[0].scene()->regions) {
    if (region.target.run != 0) continue;  // a context in t0.h5
    const auto [x, y] = on_screen(region.rect.centre());
    driver_->click(x, y).frames(2);
    EXPECT_THAT(w().notice, HasSubstr("t0.h5: the trace is neither beside the results nor"));
    EXPECT_EQ(w().results.trace(), nullptr);
    return;
  }
  FAIL() << "no context of t0.h5";
}

}  // namespace
}  // namespace kvloupe::test
