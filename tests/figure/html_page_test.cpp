// The structure of web pages, without a browser: what stands in the file.

#include "app/document/document.h"
#include "app/document/places.h"
#include "app/document/themed_svg.h"
#include "app/plot/frame.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/made_page.h"
#include "tests/figure/page_reader.h"
#include "tests/figure/well_formed.h"
#include "tests/support/test.h"

namespace kvloupe::figure::document {
namespace {

using nlohmann::json;

std::size_t count(std::string_view text, std::string_view word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1))
    ++found;
  return found;
}

struct HtmlPageTest : ::testing::Test {
  Document page = test::made_page(test::fonts());
  std::string html = write_page(page);
  json data = test::page_data(html);
};

TEST_F(HtmlPageTest, IsWellFormedAndLoadsNothing) {
  EXPECT_THAT(test::why_not_well_formed(html), IsEmpty());
  EXPECT_THAT(html.substr(0, html.find("<script")), Not(HasSubstr(" src=")));
  EXPECT_THAT(html, Not(HasSubstr("<link")));
  EXPECT_THAT(html, Not(HasSubstr("@import")));
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  // Whatever is referred to is in the file.
  const std::regex reference("(href|url)[=(]\"?([^\")]*)");
  for (auto at = std::sregex_iterator(html.begin(), html.end(), reference);
       at != std::sregex_iterator(); ++at) {
    const std::string to = (*at)[2].str();
    const bool link = to.starts_with("https://example.org");  // which a reader may follow
    EXPECT_TRUE(to.starts_with("#") || to.starts_with("data:") || link) << to;
  }
}

TEST_F(HtmlPageTest, TheCheckerFindsWhatIsWrong) {
  EXPECT_THAT(test::why_not_well_formed("<p>a &amp; b</p>"), IsEmpty());
  for (const char* wrong : {"<p>", "<p></b>", "<p a=b></p>", "<p>a & b</p>", "<p a=\"<\"></p>",
                            "<p>]]></p>", "<p a=\"1\" a=\"2\"/>", "</p>", "<p>\x01</p>"}) {
    EXPECT_THAT(test::why_not_well_formed(wrong), Not(IsEmpty())) << wrong;
  }
}

TEST_F(HtmlPageTest, HostileTextsStayTexts) {
  EXPECT_EQ(count(html, "<script"), 2U);  // data and script
  EXPECT_EQ(count(html, "</script>"), 2U);
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("javascript:window")));
  const auto names = test::hostile_names();
  ASSERT_EQ(data["names"].size(), 1U);  // once for all figures
  const json& tokens = data["names"][0]["tokens"];
  ASSERT_EQ(tokens.size(), names->tokens.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    if (t == 5) {
      EXPECT_EQ(tokens[t].get<std::string>(), "\uFFFD\uFFFD");  // was no UTF-8
    } else {
      EXPECT_EQ(tokens[t].get<std::string>(), names->tokens[t]);
    }
  }
  EXPECT_THAT(html, HasSubstr("external(&quot;a&lt;b&gt;.txt&quot;)"));
  EXPECT_THAT(html, HasSubstr("Sinks &amp; &lt;others&gt;"));
}

TEST_F(HtmlPageTest, TextBlocksAreTheirElements) {
  EXPECT_THAT(html, HasSubstr("<p>Plain, <strong>bold</strong><code> and &lt;code&gt;</code></p>"));
  EXPECT_THAT(html, HasSubstr("<ul>\n<li>one</li>\n<li><a href=\"https://example.org/"
                              "?a=1&amp;b=&quot;2&quot;\">two</a></li>\n</ul>\n<ol>\n<li>three</li>"
                              "\n</ol>"));
  EXPECT_THAT(html, HasSubstr("<h2>Over steps</h2>"));
  EXPECT_THAT(html, HasSubstr("<aside><h4>In the program</h4>\n<p>Find it.</p>"));
}

TEST_F(HtmlPageTest, EveryPlaceSaysWhatTheFigureSays) {
  const test::SayingFigure figure;
  const auto expect = [&](std::size_t f, const std::vector<Target>& targets) {
    SCOPED_TRACE(f);
    const std::vector<std::string> texts = test::page_texts(data["figures"][f]);
    ASSERT_EQ(texts.size(), targets.size());
    for (std::size_t i = 0; i < texts.size(); ++i)
      EXPECT_EQ(texts[i], figure.value_text(targets[i])) << i;
  };
  std::vector<Target> strip, tokens, heads, map;
  for (const auto& [s, t] : test::cells(5, 20)) strip.push_back({.token = t, .step = s});
  for (int t = 0; t < 20; ++t) tokens.push_back({.token = t});
  for (const auto& [l, h] : test::cells(3, 2)) heads.push_back({.layer = l, .head = h});
  for (const auto& [q, k] : test::cells(20, 20)) map.push_back({.token = k, .other_token = q});
  expect(0, strip);
  expect(1, tokens);
  expect(2, tokens);
  expect(3, heads);  // once for both panels
  expect(4, map);
  EXPECT_EQ(data["figures"][1]["geometry"][0]["regions"].size(), 20U * 10U);
  EXPECT_EQ(data["figures"][2]["geometry"][0]["sets"][0]["points"].size(), 20U * 3U);
  EXPECT_EQ(data["figures"][3]["geometry"][0]["axes"][2]["t"], -1);  // a bar of colours
}

TEST_F(HtmlPageTest, PicturesOfASliderShareWhatTheyHaveInCommon) {
  const json& strip = data["figures"][0];
  ASSERT_EQ(strip["frames"].size(), 5U);
  EXPECT_EQ(strip["geometry"].size(), 1U);  // the same axes in all
  EXPECT_LT(strip["pool"].size(), 5U * 5U);
  EXPECT_EQ(data["sliders"][0], json({10, 11, 12, 13, 14}));
  EXPECT_THAT(data["sliders"][1], IsEmpty());
  for (std::size_t s = 0; s < 5; ++s) {
    const std::string svg = test::page_picture(strip, s);
    EXPECT_THAT(test::why_not_well_formed("<g>" + svg + "</g>"), IsEmpty());
    EXPECT_THAT(svg, HasSubstr(fmt::format(">step {}</text>", s)));
    EXPECT_THAT(svg, HasSubstr(">Token</text>"));
  }
  // In the page, and so on paper, stands the one that the slider starts at.
  EXPECT_THAT(html.substr(0, html.find("<script")), HasSubstr(">step 2</text>"));
  EXPECT_EQ(count(html.substr(0, html.find("<script")), ">step "), 1U);
  EXPECT_THAT(html, HasSubstr("<output>12</output>"));
}

TEST_F(HtmlPageTest, WhatDiffersBetweenTheThemesIsThereForBoth) {
  const std::string ink = "--k\\d+:#1b1f24;";  // the palette's
  EXPECT_TRUE(std::regex_search(html, std::regex(ink)));
  EXPECT_TRUE(std::regex_search(html, std::regex("data-theme=dark\\]\\{[^}]*:#e6e8ea;")));
  EXPECT_TRUE(
      std::regex_search(html, std::regex("<g class=\"light\"><text[^>]*>light</text></g>\\s*"
                                         "<g class=\"dark\"><text[^>]*>dark words</text></g>")));
  // A drawing with other items in the dark is there twice.
  ThemeColours colours;
  ThemedSvg svg("x", colours);
  Picture picture = test::text_picture(test::fonts());
  picture.dark.items.pop_back();
  const auto items = svg.items(picture.light, picture.dark);
  EXPECT_EQ(items.size(), picture.light.items.size() + picture.dark.items.size() + 4);
}

TEST_F(HtmlPageTest, ALargeMapIsThinnedOutAndSaysSo) {
  Document large = page;
  large.sections[1].figures[1].pictures = {test::map_picture(test::fonts(), 3000)};
  large.most_bytes = 1'000'000;
  const std::string out = write_page(large);
  EXPECT_LT(out.size(), 1'000'000U);
  EXPECT_EQ(count(out, "too many places"), 1U);
  EXPECT_EQ(count(html, "too many places"), 0U);
  const json figure = test::page_data(out)["figures"][4];
  const json table = figure["geometry"][0]["tables"][0];
  const int every = table[2].get<int>();
  EXPECT_GT(every, 1);
  const int kept = (3000 + every - 1) / every;
  const auto texts = test::page_texts(figure);
  ASSERT_EQ(texts.size(), static_cast<std::size_t>(kept) * static_cast<std::size_t>(kept));
  const test::SayingFigure says;
  EXPECT_EQ(texts[3 * kept + 5], says.value_text({.token = 5 * every + every / 2,
                                                  .other_token = 3 * every + every / 2}));
}

TEST_F(HtmlPageTest, WhatCannotBeAPageIsRefused) {
  Document wrong = page;
  wrong.sections[0].figures[0].pictures.pop_back();
  EXPECT_THROW(write_page(wrong), WorkError);
  wrong.sections[0].figures[0].pictures.clear();
  EXPECT_THROW(write_page(wrong), WorkError);
  wrong = page;
  wrong.most_bytes = 10'000;
  EXPECT_THAT(test::error_of<WorkError>([&] { write_page(wrong); }), HasSubstr("MB"));
}

TEST(ValueTexts, AnyRowOfTextsIsReadBack) {
  ValueTexts texts;
  std::vector<std::string> wanted;
  for (int i = 0; i < 30'000; ++i) {
    wanted.push_back(
        i % 7 == 0 ? "" : fmt::format("score {}, rank {} of −{:.4f}", i * 0.5, i % 90, i * 1.7));
    wanted.insert(wanted.end(), static_cast<std::size_t>(i % 3), "the same");
  }
  wanted.insert(wanted.end(), 200'000, "long");
  wanted.insert(wanted.end(), {"3", "3.", "v3.5x", "1\u2009234", "7\u2009", "0.5.5"});
  for (const std::string& one : wanted) texts.add(one);
  json figure = {
      {"frames", {{{"v", texts.take()}}}}, {"words", texts.words()}, {"numbers", texts.numbers()}};
  EXPECT_EQ(test::page_texts(figure), wanted);
  EXPECT_LT(texts.words().size(), 20U);
  texts.add("the same");  // a new stream knows nothing of the one before
  figure["frames"][0]["v"] = texts.take();
  EXPECT_EQ(test::page_texts(figure), std::vector<std::string>{"the same"});
}

// The index of a gallery: what it shows of each figure, in which order, and where its links go.

struct GalleryPageTest : ::testing::Test {
  GalleryPageTest() { trace = test::open_synthetic_trace(folder / "t.h5", {}); }
  GalleryPiece piece(const std::string& name, std::vector<std::string> endings) const {
    const FigureInfo& info = find_figure(name);
    const MadeFigure made = request::FigureMaker(trace).make(info, {}, test::unwatched);
    GalleryPiece out;
    out.info = &info;
    out.name = name;
    out.endings = std::move(endings);
    out.figure = page_figure(info, made, {}, test::fonts());
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
  const auto data = test::page_data(
      figure_page(find_figure("predicted-loss"), made, {}, test::fonts()))["figures"][0];
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
}  // namespace kvloupe::figure::document
