// The page of a whole trace in headless Chromium: sets against `kvloupe replay --json`, sliders,
// pointer, keys, search, the address, hostile texts, an old browser, times. Skipped without
// Chromium.

#include "analysis/base/system/output_file.h"
#include "tests/app/chromium.h"
#include "tests/app/cli_call.h"
#include "tests/support/model_attribute.h"
#include "tests/support/synthetic_evaluation.h"
#include "tests/support/synthetic_trace.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

using nlohmann::json;
using test::call;

struct TracePageInBrowser : testing::Test {
  void SetUp() override {
    if (test::Chromium::program().empty())
      GTEST_SKIP() << "Chromium is not installed; apt-get install chromium";
    test::write_synthetic_trace(folder / "trace.h5", {.layers = 3});
    browser.emplace();
  }
  void TearDown() override {
    if (!browser) return;
    EXPECT_THAT(browser->complaints(), IsEmpty());
  }
  std::string path(const char* name) const { return (folder / name).string(); }
  void write(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"page",       path("trace.h5"),
                                      "-o",         path("page.html"),
                                      "--policies", "keydiff+recent(10%),h2o,snapkv",
                                      "--budgets",  "10%,25%,50%"};
    words.insert(words.end(), more.begin(), more.end());
    const auto called = call(words);
    ASSERT_EQ(called.code, 0) << called.error;
  }
  void open(const std::string& fragment = "") {
    if (!fragment.empty()) browser->value("location.href = 'about:blank'");
    browser->open((folder / "page.html").string() + fragment);
    for (int i = 0; i < 500 && browser->value("window.kvloupe === undefined") == true; ++i)
      browser->wait_for_frames();
    browser->wait_for_frames();
  }
  std::string shown(const std::string& id) {
    browser->wait_for_frames();
    return browser->text("document.getElementById('" + id + "').innerText");
  }
  void set(const std::string& id, const std::string& value) {
    browser->value(
        fmt::format("(() => {{ const one = document.getElementById('{}'); one.value = '{}'; "
                    "one.dispatchEvent(new Event('input')); }})()",
                    id, value));
    browser->wait_for_frames();
  }
  json state() { return browser->value("window.kvloupe.state()"); }
  void point(const std::string& id, double x, double y) {  // shares of its box
    const json box = browser->value(
        fmt::format("(() => {{ const one = document.querySelector('{}'); "
                    "one.scrollIntoView({{block: 'center'}}); const b = "
                    "one.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }})()",
                    id));
    browser->move(box[0].get<double>() + x * box[2].get<double>(),
                  box[1].get<double>() + y * box[3].get<double>());
    browser->wait_for_frames();
  }

  test::TemporaryFolder folder;
  std::optional<test::Chromium> browser;
};

TEST_F(TracePageInBrowser, KeptIsWhatReplaySays) {
  write();
  open();
  for (const char* policy : {"keydiff+recent(10%)", "h2o", "snapkv"}) {
    for (const char* budget : {"10%", "50%"}) {
      const json replay = json::parse(
          call({"replay", path("trace.h5"), "--policy", policy, "--budget", budget, "--json", "-"})
              .out);
      for (const json& head : replay["heads"]) {
        const json all = browser->value(
            fmt::format("kvloupe.about.steps.map((_, step) => kvloupe.kept({{policy: '{}', budget: "
                        "'{}', layer: {}, head: {}, step}}))",
                        policy, budget, head["layer"].get<int>(), head["head"].get<int>()));
        for (const json& step : head["steps"])
          ASSERT_EQ(all[step["step"].get<std::size_t>()], step["retained"]);
      }
      EXPECT_EQ(browser->value(fmt::format(
                    "kvloupe.kept({{policy: '{}', budget: {}, layer: 0, head: 0, step: 2}})",
                    policy, replay["budget"].get<int>())),
                replay["heads"][0]["steps"][2]["retained"]);
    }
  }
  EXPECT_EQ(
      browser->value(
          "(() => { try { kvloupe.kept({layer: 9}); } catch (error) { return error.name; } })()"),
      "RangeError");
}

TEST_F(TracePageInBrowser, PointerKeysAndSlidersMoveEverything) {
  write();
  open();
  const auto kept = [&] {
    return browser->value("document.querySelectorAll('#text .kept').length").get<int>();
  };
  EXPECT_EQ(browser->value("document.querySelectorAll('#text [data-t]').length"), 104);
  EXPECT_EQ(kept(), browser->value("kvloupe.kept({}).length").get<int>());
  const int before = kept();
  set("budget", "0");
  EXPECT_LT(kept(), before);
  EXPECT_THAT(shown("budget-said"), HasSubstr("10% = 9 entries"));
  set("step", "0");
  EXPECT_EQ(browser->value("document.querySelectorAll('#text .ahead').length"), 72);
  set("budget", "2");
  set("step", "10");
  // A token under the pointer is marked in the text and explained; a click holds it.
  point("#text [data-t=\"40\"]", 0.5, 0.5);
  EXPECT_EQ(browser->text("document.querySelector('#text .pointed').dataset.t"), "40");
  EXPECT_THAT(shown("why"),
              AllOf(HasSubstr("40 “"), HasSubstr("entered at step 1"), HasSubstr("rank ")));
  point("#strip", 70.5 / 104, 0.5);
  EXPECT_EQ(browser->text("document.querySelector('#text .pointed').dataset.t"), "70");
  EXPECT_THAT(shown("strip-said"), StartsWith("step "));
  point("#grid", 0.9, 0.5);
  EXPECT_THAT(shown("grid-said"), HasSubstr("layer 2, head "));
  browser->value("document.getElementById('text').focus()");
  for (int i = 0; i < 3; ++i) browser->press("ArrowRight");
  EXPECT_EQ(state()["token"], 2);
  EXPECT_THAT(shown("why"), HasSubstr("2 “"));
  browser->press("ArrowDown");
  browser->press("Escape");
  EXPECT_EQ(state()["token"], -1);
  browser->value("document.getElementById('grid').focus()");
  browser->press("ArrowRight");
  browser->press("ArrowDown");
  EXPECT_EQ(state()["head"], 3);
  // A against B.
  set("b", "1");
  EXPECT_EQ(browser->value("document.querySelectorAll('#text .both, #text .only-a').length"),
            browser->value("kvloupe.kept({}).length"));
  EXPECT_EQ(browser->value("document.querySelectorAll('#text .both, #text .only-b').length"),
            browser->value("kvloupe.kept({policy: 'h2o'}).length"));
  EXPECT_EQ(browser->value("document.getElementById('strip-b-part').hidden"), false);
  // Search, follow, measures.
  set("find", "W41 w42");
  EXPECT_EQ(shown("find-said"), "1 found");
  EXPECT_EQ(
      browser->value("[...document.querySelectorAll('#text .found')].map((one) => one.dataset.t)"),
      json({"41", "42"}));
  set("follow", "10-12,90");
  EXPECT_THAT(shown("follow-said"), StartsWith("4 tokens followed: all kept in "));
  set("follow", "x");
  EXPECT_THAT(shown("follow-said"), HasSubstr("names no tokens"));
  for (const json& name :
       browser->value("[...document.getElementById('measure').options].map((one) => one.value)")) {
    set("measure", name.get<std::string>());
    EXPECT_THAT(shown("grid-said"), HasSubstr("layer ")) << name;
  }
}

TEST_F(TracePageInBrowser, TheAddressLeadsToOneHeadStepAndToken) {
  write();
  open(
      "#a=snapkv&b=h2o&budget=50%25&head=2.1&step=3&token=17&find=w4&follow=20-24&theme="
      "dark");
  const json at = state();
  EXPECT_EQ(json({at["a"], at["b"], at["budget"], at["head"], at["step"], at["token"]}),
            json({2, 1, 2, 5, 3, 17}));
  EXPECT_EQ(browser->value("document.documentElement.dataset.theme"), "dark");
  EXPECT_EQ(browser->text("document.querySelector('#text .held').dataset.t"), "17");
  set("step", "2");
  EXPECT_THAT(browser->text("location.hash"), AllOf(HasSubstr("step=2"), HasSubstr("head=2.1"),
                                                    HasSubstr("a=snapkv"), HasSubstr("token=17")));
  browser->value("location.hash = '#a=h2o&head=1.0&step=1'");
  browser->wait_for_frames();
  EXPECT_EQ(state()["a"], 1);
  open("#a=nothing&head=99.0&step=1e9&token=-7&theme=%3Cb%3E");  // what is not there stays as it is
  EXPECT_EQ(state()["a"], 0);
}

TEST_F(TracePageInBrowser, HostileTextsAnswersAndFrames) {
  test::write_token_texts(folder / "trace.h5",
                          {"</script><script>window.broken=1</script>",
                           "<img src=x onerror=window.broken=2>", "\x01", "שלום", "\n"});
  test::write_synthetic_evaluation(folder / "results.json");
  write({"--results", path("results.json")});
  const std::string html = test::file_text(folder / "page.html");
  open();
  EXPECT_EQ(browser->value("window.broken === undefined"), true);
  EXPECT_EQ(browser->text("document.querySelector('#text [data-t=\"1\"]').textContent"),
            "<img src=x onerror=window.broken=2>");
  EXPECT_EQ(browser->value("document.querySelectorAll('#text img, #text script').length"), 0);
  set("a", "1");
  EXPECT_THAT(shown("answers"), AllOf(HasSubstr("h2o"), HasSubstr("full"), HasSubstr("Expected")));
  // Nothing may be loaded, and in a frame without an origin the page works.
  EXPECT_EQ(browser->value("performance.getEntriesByType('resource').length"), 0);
  write_whole_file(folder / "outer.html",
                   "<!DOCTYPE html><iframe sandbox='allow-scripts' src='page.html' width='800' "
                   "height='600'></iframe>");
  browser->open(folder / "outer.html");
  EXPECT_THAT(browser->complaints(), IsEmpty());
}

TEST_F(TracePageInBrowser, AnOldBrowserGetsOneLine) {
  write();
  browser->call("Page.addScriptToEvaluateOnNewDocument",
                {{"source", "delete window.DecompressionStream;"}});
  browser->open(folder / "page.html");
  EXPECT_THAT(browser->text("document.getElementById('problems').innerText"),
              AllOf(HasSubstr("too old"), HasSubstr("DecompressionStream")));
  EXPECT_EQ(browser->value("document.querySelector('main').hidden"), true);
}

TEST_F(TracePageInBrowser, FitsAPhoneAndHasNamesForWhatIsShown) {
  write();
  browser->call("Emulation.setDeviceMetricsOverride",
                {{"width", 390}, {"height", 844}, {"deviceScaleFactor", 2}, {"mobile", true}});
  open("#theme=contrast");
  EXPECT_LE(browser->value("document.documentElement.scrollWidth").get<int>(), 390);
  EXPECT_EQ(browser->value("[...document.querySelectorAll('canvas')].every((one) => "
                           "one.getAttribute('aria-label') && one.tabIndex === 0)"),
            true);
  EXPECT_EQ(browser->value("[...document.querySelectorAll('select, input')].every((one) => "
                           "one.labels.length || one.getAttribute('aria-label'))"),
            true);
  EXPECT_EQ(browser->text("getComputedStyle(document.body).backgroundColor"), "rgb(0, 0, 0)");
}

}  // namespace
}  // namespace kvloupe
