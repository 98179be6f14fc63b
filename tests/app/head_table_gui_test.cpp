// The table of heads, by mouse and keys.

#include "app/figure/figures/overview_measures.h"
#include "tests/app/window_test.h"
#include "tests/figure/made_figures.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

struct HeadTableTest : WindowTest {
  void prepare() override {
    start();
    const auto trace = folder_.path() / "small.h5";
    write_synthetic_trace(trace, {.layers = 5, .clusters = 4});
    open_and_settle(trace);
    driver_->key(GLFW_KEY_T, true).settle();
    ASSERT_TRUE(table().is_open());
    ASSERT_EQ(table().rows().size(), 10U);
  }
  window::HeadTable& table() { return w().sheets.head_table; }
  std::vector<float> column(std::size_t at) {
    std::vector<float> values;
    for (const auto& row : table().rows()) values.push_back(row.values.at(at));
    return values;
  }
  void click_title(std::size_t at) {
    const ImVec2 place = table().title_places().at(at);
    driver_->click(place.x, place.y).frames(2);
  }
};

TEST_F(HeadTableTest, HasTheNumbersOfTheGrid) {
  const std::vector<std::string> measures = table().measures();
  ASSERT_EQ(measures.size(), 4U);
  for (std::size_t i = 0; i < measures.size(); ++i) {
    w().state.grid_measure = measures[i];
    driver_->settle();
    const auto made = w().grid.figure();
    ASSERT_NE(made, nullptr);
    for (const auto& row : table().rows()) {
      ASSERT_TRUE(std::isfinite(row.values[i])) << measures[i];
      const std::string shown = made->figure->value_text({.layer = row.layer, .head = row.head});
      EXPECT_NE(shown.find(window::three_digits(static_cast<double>(row.values[i]))),
                std::string::npos)
          << measures[i] << " " << row.layer << "." << row.head << ": " << shown << ", not "
          << row.values[i];
    }
  }
}

TEST_F(HeadTableTest, IsSortedByAClickOnATitle) {
  click_title(2);
  std::vector<float> values = column(1);
  EXPECT_TRUE(std::is_sorted(values.rbegin(), values.rend())) << "the largest first";
  click_title(2);
  values = column(1);
  EXPECT_TRUE(std::is_sorted(values.begin(), values.end()));
  EXPECT_EQ(std::set<float>(values.begin(), values.end()).size() > 1, true);
  click_title(0);
  EXPECT_EQ(table().rows().front().layer, 0);
  EXPECT_EQ(table().rows().back().layer, 4);
}

TEST_F(HeadTableTest, AClickOnALineSelectsTheHeadAndArrowsGoOn) {
  click_title(2);
  const auto row = table().rows().front();
  w().state.selection.layer = row.layer == 0 ? 1 : 0;
  driver_->frames(2);
  const ImVec2 place = table().first_line_place();
  driver_->click(place.x, place.y).settle();
  EXPECT_EQ(w().state.selection.layer, row.layer);
  EXPECT_EQ(w().state.selection.head, row.head);
  driver_->key(row.layer == 0 ? GLFW_KEY_DOWN : GLFW_KEY_UP);
  EXPECT_NE(w().state.selection.layer, row.layer) << "the table takes no keys from the window";
  driver_->key(GLFW_KEY_ESCAPE);
  EXPECT_FALSE(table().is_open());
}

TEST_F(HeadTableTest, ALimitHidesHeadsAndWhatIsShownIsCopied) {
  std::vector<float> values = column(0);
  std::sort(values.begin(), values.end());
  table().limit = {0, true, std::to_string(values[6])};
  driver_->settle();
  const std::size_t left = table().rows().size();
  EXPECT_LE(left, 4U);
  EXPECT_GE(left, 3U);
  for (const float value : column(0)) EXPECT_GE(value, std::stof(table().limit.number));
  driver_->press_on("##head-table", {"Copy as CSV"});
  const auto rows = csv_rows(ImGui::GetClipboardText());
  ASSERT_EQ(rows.size(), left);
  for (std::size_t i = 0; i < left; ++i) {
    EXPECT_EQ(rows[i].at("layer"), std::to_string(table().rows()[i].layer));
    EXPECT_EQ(std::stof(rows[i].at(table().measures()[0])), table().rows()[i].values[0])
        << "all digits";
  }
  table().limit.number = "half";
  driver_->settle();
  EXPECT_EQ(table().rows().size(), 10U) << "not a number";
}

TEST_F(HeadTableTest, ColumnsComeAndGo) {
  table().toggle_measure(figure::kEffectiveTokensMeasure);
  table().toggle_measure(figure::kOverlapMeasure);
  driver_->settle();
  EXPECT_EQ(table().measures().size(), 6U);
  for (const float value : column(4)) EXPECT_GE(value, 1.0F);
  for (const float value : column(5)) EXPECT_TRUE(std::isnan(value)) << "policy B is off";
  w().state.policy_b_on = true;
  driver_->settle();
  for (const float value : column(5)) EXPECT_TRUE(value >= 0.0F && value <= 1.0F);
  table().toggle_measure(table().measures().front());
  driver_->settle();
  EXPECT_EQ(table().measures().front(), figure::kAttentionKeptMeasure);
}

}  // namespace
}  // namespace kvloupe::test
