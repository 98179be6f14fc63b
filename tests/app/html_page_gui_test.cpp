// Web pages in a browser, headless Chromium, moved by pointer and keys: what they say, what they
// mark, the slider, the themes, print. Skipped where Debian's package chromium is not installed.

#include "analysis/base/system/output_file.h"
#include "app/document/document.h"
#include "tests/app/chromium.h"
#include "tests/figure/made_figures.h"
#include "tests/figure/made_page.h"
#include "tests/support/test.h"

namespace kvloupe::figure::document {
namespace {

struct HtmlInBrowserTest : ::testing::Test {
  void SetUp() override {
    if (test::Chromium::program().empty())
      GTEST_SKIP() << "Chromium is not installed; apt-get install chromium";
    browser.emplace();
  }
  void TearDown() override {
    if (!browser) return;
    EXPECT_THAT(browser->complaints(), IsEmpty());
    if (!HasFatalFailure() && browser->value("document.getElementById('data') !== null") == true) {
      EXPECT_EQ(browser->value("window.broken === undefined"),
                true);  // no name was run as a script
    }
  }

  void open(const std::string& html) {
    const auto path = folder / "page.html";
    write_whole_file(path, html);
    browser->open(path);
  }
  void open_made_page() { open(write_page(test::made_page(test::fonts()))); }

  static std::string svg(int figure) {
    return fmt::format("document.querySelector('[data-figure=\"{}\"] svg')", figure);
  }
  /// A point of a figure, in its points, as pixels of the window; scrolled into sight.
  std::pair<double, double> at(int figure, double x, double y) {
    browser->value(svg(figure) + ".scrollIntoView({block: 'center'})");
    const auto box = browser->value(fmt::format(
        "(() => {{ const b = {}.getBoundingClientRect(); return [b.left, b.top, b.width]; }})()",
        svg(figure)));
    const double scale = box[2].get<double>() / 200.0;
    return {box[0].get<double>() + x * scale, box[1].get<double>() + y * scale};
  }
  void point(int figure, double x, double y) {
    const auto [px, py] = at(figure, x, y);
    browser->move(px, py);
  }
  std::string tip() {
    return browser->text(
        "document.getElementById('tip').hidden ? '' : document.getElementById('tip').innerText");
  }
  /// Marks of the pointer in a figure, as "rect 12,3 4x5".
  std::vector<std::string> marks(int figure, const std::string& kind = ".mark") {
    const auto list = browser->value(
        "[..." + svg(figure) + ".querySelectorAll('.marks " + kind +
        "')].map(m => { const b = m.getBBox(); return m.tagName + ' ' + Math.round(b.x) + ',' + "
        "Math.round(b.y) + ' ' + Math.round(b.width) + 'x' + Math.round(b.height); })");
    return list.get<std::vector<std::string>>();
  }

  test::TemporaryFolder folder;
  std::optional<test::Chromium> browser;
};

TEST_F(HtmlInBrowserTest, PointingSaysWhatIsThereAndMarksItInEveryFigure) {
  open_made_page();
  // Token 9, step 3 of the strip: 8 × 14 points a cell, from (20, 10).
  point(0, 20 + 9.5 * 8, 10 + 3.5 * 14);
  EXPECT_THAT(tip(), AllOf(StartsWith("Token 9 “word9”, step 3"), HasSubstr("<b>needle</b>"),
                           HasSubstr("step 3 reads token 18"), HasSubstr("T9 0.00900 S3")));
  EXPECT_THAT(marks(0), ElementsAre("rect 92,10 8x70", "rect 20,52 160x14"));
  EXPECT_THAT(marks(1), ElementsAre("rect 172,20 16x12"));
  EXPECT_THAT(marks(2), SizeIs(1));
  EXPECT_THAT(marks(0, ".cross"), SizeIs(1));
  EXPECT_THAT(marks(1, ".cross"), IsEmpty());
  EXPECT_EQ(browser->text("getComputedStyle(document.querySelector('.mark')).stroke"),
            "rgb(230, 159, 0)");
  // A name that would break a page is shown as it is.
  point(1, 10 + 18 + 8, 26);
  EXPECT_THAT(tip(), HasSubstr("“</script><script>window.broken = 1</script>”"));
  EXPECT_THAT(marks(0), ElementsAre("rect 28,10 8x70"));
  // A point of a scatter plot, and what its axes say.
  point(2, 25 + 7 * 5, 20 + 17);
  EXPECT_THAT(tip(), AllOf(StartsWith("Token 5"), HasSubstr("T5 0.00500"),
                           HasSubstr("Along −0.500, Attention ")));
  // Nothing is said beside the figures.
  browser->move(5, 5);
  EXPECT_EQ(tip(), "");
  EXPECT_THAT(marks(1), IsEmpty());
}

TEST_F(HtmlInBrowserTest, HeadsAndMapsSayTheirs) {
  open_made_page();
  EXPECT_EQ(browser->value(svg(3) + ".clientWidth"), 0);  // on the second page
  browser->value("document.querySelector('nav .next').click()");
  point(3, 20 + 45, 10 + 50);
  EXPECT_THAT(tip(), AllOf(StartsWith("Layer 2, head 1"), HasSubstr("L2 H1")));
  EXPECT_THAT(marks(3), ElementsAre("rect 50,50 30x20", "rect 130,50 30x20"));
  point(4, 20 + 4 * 2.5, 10 + 4 * 7.5);
  EXPECT_THAT(tip(), AllOf(StartsWith("Key 2 "), HasSubstr(", query 7 “word7”"),
                           HasSubstr("T2 0.00200 Q7 12\u2009345")));
  EXPECT_THAT(marks(4), SizeIs(2));
}

TEST_F(HtmlInBrowserTest, KeysMoveThePointedTarget) {
  open_made_page();
  browser->value(svg(0) + ".focus()");
  browser->press("ArrowRight");
  EXPECT_THAT(tip(), StartsWith("Token 0 “word0”, step 0"));
  browser->press("ArrowRight");
  browser->press("ArrowDown");
  EXPECT_THAT(tip(), HasSubstr("T1 0.00100 S1"));
  browser->press("ArrowRight", true);
  EXPECT_THAT(tip(), HasSubstr("T11 0.0110 S1"));
  browser->press("End");
  EXPECT_THAT(tip(), HasSubstr("T19 0.0190 S1"));
  browser->press("Home");
  EXPECT_THAT(tip(), HasSubstr("T0 "));
  EXPECT_EQ(browser->value("document.activeElement === " + svg(0)), true);
  EXPECT_EQ(browser->text("getComputedStyle(document.activeElement).outlineStyle"), "solid");
  // Enter holds it, also when the pointer is elsewhere; Esc lets go.
  browser->press("Enter");
  browser->press("ArrowRight");
  EXPECT_THAT(marks(1, ".held"), ElementsAre("rect 10,20 16x12"));
  browser->press("Escape");
  EXPECT_THAT(marks(1, ".held"), IsEmpty());
  EXPECT_EQ(tip(), "");
  // Texts go by words and lines, points by their places.
  browser->value(svg(1) + ".focus()");
  for (int i = 0; i < 4; ++i) browser->press("ArrowRight");
  EXPECT_THAT(tip(), HasSubstr("T3 "));
  browser->press("ArrowDown");
  EXPECT_THAT(tip(), HasSubstr("T13 "));
  browser->press("ArrowUp");
  EXPECT_THAT(tip(), HasSubstr("T3 "));
  browser->value(svg(2) + ".focus()");
  browser->press("ArrowLeft");
  browser->press("ArrowRight");
  EXPECT_THAT(tip(), HasSubstr("T1 "));
  // Tab goes on to what comes next.
  browser->press("Tab");
  EXPECT_EQ(browser->text("document.activeElement.tagName.toLowerCase()"), "summary");
}

TEST_F(HtmlInBrowserTest, AClickHoldsAndASecondLetsGo) {
  open_made_page();
  const auto [x, y] = at(1, 18, 26);
  browser->click(x, y);
  browser->move(5, 5);
  EXPECT_THAT(marks(0, ".held"), SizeIs(1));
  browser->click(x, y);
  browser->move(5, 5);
  EXPECT_THAT(marks(0, ".held"), IsEmpty());
}

TEST_F(HtmlInBrowserTest, TheSliderChangesThePictureByMouseAndKeys) {
  open_made_page();
  const auto shown = [&] {
    return browser->text("[..." + svg(0) +
                         ".querySelectorAll('text')].map(t => t.textContent)"
                         ".filter(t => t.startsWith('step')).join()");
  };
  const auto step = [&] {
    return browser->text("document.querySelector('.slider output').textContent");
  };
  EXPECT_EQ(shown(), "step 2");
  browser->value("document.querySelector('.slider input').focus()");
  browser->press("ArrowRight");
  EXPECT_EQ(shown(), "step 3");
  EXPECT_EQ(step(), "13");
  browser->press("Home");
  EXPECT_EQ(shown(), "step 0");
  const auto box = browser->value(
      "(() => { const b = document.querySelector('.slider input').getBoundingClientRect();"
      " return [b.right - 4, b.top + b.height / 2]; })()");
  browser->click(box[0].get<double>(), box[1].get<double>());
  EXPECT_EQ(shown(), "step 4");
  EXPECT_EQ(step(), "14");
  EXPECT_EQ(browser->text("document.querySelector('[data-figure=\"0\"] .caption').textContent"),
            "What Strip 4 shows, in <words> & signs.");
  // The read-out belongs to the picture shown, and other figures do not change.
  point(0, 24, 12);
  EXPECT_THAT(tip(), HasSubstr("T0 0 S0"));
  EXPECT_EQ(browser->value(svg(1) + ".querySelectorAll('text').length"), 20);
}

TEST_F(HtmlInBrowserTest, PagesTurn) {
  open_made_page();
  const auto heading = [&] {
    return browser->text(
        "[...document.querySelectorAll('h2')].filter(h => h.offsetHeight)"
        ".map(h => h.textContent).join()");
  };
  EXPECT_EQ(heading(), "Over steps");
  EXPECT_EQ(browser->text("document.querySelector('nav output').textContent"), "1 of 2");
  browser->press("ArrowRight");
  EXPECT_EQ(heading(), "Heads");
  EXPECT_EQ(browser->text("location.hash"), "#page-2");
  browser->press("ArrowRight");
  EXPECT_EQ(heading(), "Heads");
  browser->value("document.querySelector('nav .back').click()");
  EXPECT_EQ(heading(), "Over steps");
  EXPECT_EQ(browser->value("document.querySelector('nav .back').disabled"), true);
}

TEST_F(HtmlInBrowserTest, ThemesFollowTheSystemAndTheButton) {
  open_made_page();
  const auto paper = [&] {
    return browser->text("getComputedStyle(document.body).backgroundColor");
  };
  const auto ink = [&] {
    return browser->text("getComputedStyle(" + svg(0) + ".querySelector('text')).fill");
  };
  EXPECT_EQ(paper(), "rgb(255, 255, 255)");
  EXPECT_EQ(ink(), "rgb(27, 31, 36)");
  browser->medium("screen", "dark");
  EXPECT_EQ(paper(), "rgb(21, 24, 28)");
  EXPECT_EQ(ink(), "rgb(230, 232, 234)");
  EXPECT_EQ(browser->text("document.getElementById('theme').textContent"), "Light");
  browser->value("document.getElementById('theme').click()");
  EXPECT_EQ(paper(), "rgb(255, 255, 255)");
  EXPECT_EQ(ink(), "rgb(27, 31, 36)");
  browser->value("document.getElementById('theme').click()");
  EXPECT_EQ(paper(), "rgb(21, 24, 28)");
  browser->medium("print", "dark");  // paper is light
  EXPECT_EQ(paper(), "rgb(255, 255, 255)");
  EXPECT_EQ(ink(), "rgb(27, 31, 36)");
}

TEST_F(HtmlInBrowserTest, PrintsEveryPageWithoutControls) {
  open_made_page();
  browser->medium("print", "light");
  const std::string shown = browser->text("document.body.innerText");
  for (const char* words : {"Over steps", "Heads", "Find it.", "What Map 0 shows"})
    EXPECT_THAT(shown, HasSubstr(words));
  EXPECT_THAT(shown, Not(HasSubstr("Next")));
  EXPECT_EQ(browser->value("document.getElementById('theme').offsetHeight"), 0);
  EXPECT_GT(browser->value(svg(4) + ".clientWidth").get<int>(), 100);
  EXPECT_THAT(browser->pdf(), StartsWith("%PDF-"));
}

TEST_F(HtmlInBrowserTest, ItsMarkupIsReadAsXmlToo) {
  open_made_page();
  const std::string source = write_page(test::made_page(test::fonts()));
  EXPECT_EQ(browser->text("(() => { const d = new DOMParser().parseFromString(" +
                          nlohmann::json(source).dump() +
                          ", 'application/xhtml+xml'); const e = d.querySelector('parsererror');"
                          " return e ? e.textContent : ''; })()"),
            "");
}

TEST_F(HtmlInBrowserTest, EveryFigureOpensAndSaysWhatItsTargetsSay) {
  const request::FigureMaker maker(test::open_synthetic_trace(folder / "t.h5", {.lm_head = true}));
  int opened = 0;
  for (const FigureInfo& info : figure_catalog()) {
    if (info.needs.evaluation || info.needs.fewest_traces > 1 || info.needs.both_loops) continue;
    SCOPED_TRACE(info.name);
    const MadeFigure made = maker.make(info, {}, test::unwatched);
    open(figure_page(info, made, {}, test::fonts()));
    EXPECT_THAT(browser->complaints(), IsEmpty());
    ++opened;
    const Scene scene = page_of(info, made, {}, test::fonts());
    // The middle of the first thing that can be pointed at.
    Point place;
    if (!scene.point_sets.empty()) {
      place = scene.point_sets.front().points.front();
    } else if (!scene.regions.empty()) {
      // Not quite the middle, where two cells below a row may meet.
      const Rect& rect = scene.regions.front().rect;
      place = {rect.x + 0.493 * rect.width, rect.centre().y};
    } else if (!scene.axes.empty()) {
      place = {scene.axes[0].plot.x + 0.3 * scene.axes[0].plot.width,
               scene.axes[0].plot.y + 0.55 * scene.axes[0].plot.height};
    }
    const auto target = scene.pick(place);
    if (!target) continue;
    const std::string value = made.figure->value_text(*target);
    const double scale = 200.0 / scene.width;  // at() is for figures of 200 points
    point(0, place.x * scale, place.y * scale);
    EXPECT_THAT(tip(), HasSubstr(value));
    EXPECT_NE(tip(), "");
  }
  EXPECT_GT(opened, 30);
}

}  // namespace
}  // namespace kvloupe::figure::document
