// The names of a prompt's segments above the film strip, on pages from narrow to wide.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "app/export/figure_file.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure {
namespace {

class FilmstripNames : public ::testing::Test {
 protected:
  FilmstripNames() {
    test::SyntheticTraceOptions options;
    options.layers = 1;
    options.prompt_length = 300;
    options.question = 12;
    options.generated = 12;
    test::write_synthetic_trace(folder_ / "trace.h5", options);
    Progress progress;
    made_ = request::FigureMaker(std::make_shared<const Trace>(folder_ / "trace.h5"))
                .make(find_figure("filmstrip"), {}, progress);
  }
  /// The names on a page so many points wide, with where they begin and end.
  std::map<std::string, std::pair<double, double>> names_at(double width) {
    FileOptions options;
    options.size = PageSize{width, 200.0};
    const Scene scene = page_of(find_figure("filmstrip"), made_, options, fonts_);
    axes_ = scene.axes.front();
    std::map<std::string, std::pair<double, double>> names;
    for (const Item& item : scene.items) {
      const Text* text = std::get_if<Text>(&item);
      if (text != nullptr && kSegments.contains(text->text)) {
        const Rect place = text->bounds();
        names[text->text] = {place.x, place.right()};
      }
    }
    return names;
  }
  double page_x(double token) const { return axes_.to_page(token, axes_.y.first).x; }

  static inline const std::map<std::string, std::pair<int, int>> kSegments = {
      {"context", {0, 288}}, {"question", {288, 300}}, {"answer", {300, 312}}};
  const test::TemporaryFolder folder_;
  const TextMetrics fonts_;
  MadeFigure made_;
  Axes axes_;
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

}  // namespace
}  // namespace kvloupe::figure
