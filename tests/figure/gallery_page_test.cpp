// The index of a gallery: what it shows of each figure, in which order, and where its links go.

#include "app/export/gallery_page.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "analysis/error.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/request/figure_service.h"
#include "tests/figure/page_reader.h"
#include "tests/figure/well_formed.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::figure::html {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class GalleryPageTest : public ::testing::Test {
 protected:
  GalleryPageTest() {
    test::write_synthetic_trace(folder / "t.h5", {});
    trace = std::make_shared<const Trace>(folder / "t.h5");
  }
  GalleryPiece piece(const std::string& name, std::vector<std::string> endings) const {
    const FigureInfo& info = find_figure(name);
    const MadeFigure made = request::FigureMaker(trace).make(info, {}, test::unwatched);
    GalleryPiece out;
    out.info = &info;
    out.name = name;
    out.endings = std::move(endings);
    out.figure = index_figure(info, made, {}, fonts);
    return out;
  }
  static GalleryPiece skipped(const std::string& name, const std::string& why) {
    GalleryPiece out;
    out.info = &find_figure(name);
    out.name = name;
    out.skipped = why;
    return out;
  }

  test::TemporaryFolder folder;
  std::shared_ptr<const Trace> trace;
  TextMetrics fonts;
};

TEST_F(GalleryPageTest, ShowsEachFigureUnderItsTopicWithLinksToItsFiles) {
  std::vector<GalleryPiece> pieces;
  pieces.push_back(piece("pca", {"svg", "png"}));  // its topic comes after those of the others
  pieces.push_back(piece("loss-table", {"csv", "tex", "html"}));
  pieces.push_back(piece("filmstrip", {"svg"}));
  pieces.back().name = "filmstrip-x";
  pieces.back().shows = "x";
  pieces.push_back(skipped("drift", "it compares two runs; give <both>"));
  const std::string page = gallery_page("Figures of t.h5", "policy A h2o", pieces, Theme::light);
  EXPECT_THAT(test::why_not_well_formed(page), IsEmpty());
  EXPECT_THAT(page, HasSubstr("<h1>Figures of t.h5</h1>"));
  EXPECT_THAT(page, HasSubstr("<p class=\"summary\">policy A h2o</p>"));
  EXPECT_THAT(page, HasSubstr("data-sections=\"all\""));
  std::size_t at = 0;
  for (const char* text :
       {"<li><a href=\"#page-1\">Kept entries</a></li>",
        "<li><a href=\"#page-4\">Not in this gallery", "<h2>Kept entries</h2>", "(x)</h3>",
        "<h2>Comparisons</h2>",
        "<h3>Relative loss by policy and budget</h3>\n<p class=\"about\">A table: how much",
        "<a href=\"loss-table.csv\">CSV</a> <a href=\"loss-table.tex\">LaTeX</a> "
        "<a href=\"loss-table.html\">page with values</a>",
        "<h2>Keys (KeyDiff)</h2>", "<a href=\"pca.svg\">SVG</a> <a href=\"pca.png\">PNG</a>",
        "<h2>Not in this gallery</h2>",
        "<li><strong>drift</strong>: it compares two runs; give &lt;both&gt;.</li>"}) {
    const std::size_t found = page.find(text, at);
    ASSERT_NE(found, std::string::npos) << text;
    at = found;
  }
  EXPECT_THAT(page, Not(HasSubstr("drift.svg")));
  // Self-contained: nothing is loaded, each picture and its caption stand in the page.
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  const nlohmann::json data = test::page_data(page);
  EXPECT_EQ(data["figures"].size(), 3U);
  for (const auto& figure : data["figures"])
    EXPECT_EQ(figure["frames"][0]["v"], "") << "values are on the figures' own pages";
}

TEST_F(GalleryPageTest, FollowsTheThemeAndNeedsAFigure) {
  EXPECT_THAT(gallery_page("t", "", {piece("pca", {"svg"})}, Theme::dark),
              HasSubstr("data-theme=\"dark\""));
  EXPECT_THROW(gallery_page("t", "", {skipped("drift", "no")}, Theme::light), WorkError);
}

TEST_F(GalleryPageTest, DotsOfHeadsAreHeadsOnAPage) {
  const MadeFigure made = [&] {
    return request::FigureMaker(trace).make(find_figure("predicted-loss"), {}, test::unwatched);
  }();
  const auto data =
      test::page_data(figure_page(find_figure("predicted-loss"), made, {}, fonts))["figures"][0];
  const auto& set = data["geometry"][0]["sets"][0];
  const std::size_t dots = set["points"].size() / 3;
  ASSERT_GT(dots, 0U);
  ASSERT_EQ(set["heads"].size(), 2 * dots);
  const std::vector<std::string> texts = test::page_texts(data);
  for (std::size_t i = 0; i < dots; ++i) {
    EXPECT_EQ(set["points"][3 * i + 2], -1) << "no token";
    EXPECT_EQ(texts[i], made.figure->value_text({.layer = set["heads"][2 * i].get<int>(),
                                                 .head = set["heads"][2 * i + 1].get<int>()}));
  }
}

}  // namespace
}  // namespace kvloupe::figure::html
