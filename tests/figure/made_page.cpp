#include "tests/figure/made_page.h"

#include <fmt/format.h>

#include "app/plot/frame.h"
#include "app/plot/ticks.h"

namespace kvloupe::test {

using namespace figure;
using figure::document::Document;
using figure::document::Names;
using figure::document::PageFigure;
using figure::document::Picture;
using figure::document::Section;
using figure::document::TextBlock;

namespace {

constexpr int kTokens = 20;
constexpr int kSteps = 5;
const Rect kPlot{20, 10, 160, 70};

template <typename Draw>
Picture both_themes(const TextMetrics& fonts, const Draw& draw) {
  Picture picture;
  for (const Theme theme : {Theme::light, Theme::dark}) {
    const Style style = make_style(fonts, theme);
    Scene scene = make_scene(style, 200, 100);
    draw(scene, style);
    (theme == Theme::light ? picture.light : picture.dark) = std::move(scene);
  }
  picture.figure = std::make_shared<SayingFigure>();
  return picture;
}

Axis cells(AxisMeaning meaning, int count, const char* label) {
  return {meaning, AxisScale::linear, 0.0, static_cast<double>(count), label};
}

PageFigure figure_of(std::string title, std::vector<Picture> pictures) {
  PageFigure figure;
  figure.title = std::move(title);
  figure.settings = {{"policy", "external(\"a<b>.txt\")"}};
  figure.pictures = std::move(pictures);
  for (std::size_t p = 0; p < figure.pictures.size(); ++p)
    figure.pictures[p].light.caption =
        fmt::format("What {} {} shows, in <words> & signs.", figure.title, p);
  figure.names = hostile_names();
  return figure;
}

}  // namespace

std::string SayingFigure::value_text(const Target& t) const {
  if (t.token == 7) return {};
  std::string text;
  if (t.layer >= 0) text += fmt::format("L{} H{}", t.layer, t.head);
  if (t.token >= 0) text += fmt::format("T{} {}", t.token, format_number(t.token / 1000.0));
  if (t.other_token >= 0) text += fmt::format(" Q{} {}", t.other_token, format_count(12345));
  if (t.step >= 0) text += fmt::format(" S{}", t.step);
  return text;
}

Picture strip_picture(const TextMetrics& fonts, int step) {
  return both_themes(fonts, [&](Scene& scene, const Style& style) {
    const Axes axes{kPlot, cells(AxisMeaning::token, kTokens, "Token"),
                    cells(AxisMeaning::step, kSteps, "Step")};
    scene.axes.push_back(axes);
    scene.add(PushClip{kPlot});
    Path path;
    path.rect({axes.to_page(step, step).x, axes.to_page(0, step).y, 30, 10});
    path.fill = style.colours.retained.with_alpha(0.5);
    scene.add(std::move(path));
    scene.add(PopClip{});
    scene.add(make_text(style, "Token", {100, 95}));
    scene.add(make_text(style, fmt::format("step {}", step), {20, 8}));
  });
}

Picture text_picture(const TextMetrics& fonts) {
  return both_themes(fonts, [&](Scene& scene, const Style& style) {
    for (int t = 0; t < kTokens; ++t) {
      const Rect rect{10.0 + 18 * (t % 10), 20.0 + 20 * (t / 10), 16, 12};
      scene.add(
          make_text(style, fmt::format("w{}", t), {rect.x, rect.bottom() - 3}, 8, Font::mono));
      scene.regions.push_back({rect, {.token = t}});
    }
  });
}

Picture points_picture(const TextMetrics& fonts) {
  return both_themes(fonts, [&](Scene& scene, const Style& style) {
    Axes axes{kPlot,
              {AxisMeaning::value, AxisScale::linear, -1, 1, "Along"},
              {AxisMeaning::value, AxisScale::log, 100, 1, "Attention"}};
    scene.axes.push_back(axes);
    Markers markers{.fill = style.colours.evicted};
    PickPoints points;
    for (int t = 0; t < kTokens; ++t) {
      const Point at{25.0 + 7 * t, 20.0 + 17 * (t % 4)};
      markers.points.push_back(at);
      points.points.push_back(at);
      points.tokens.push_back(t);
    }
    scene.add(std::move(markers));
    Markers one{.shape = MarkerShape::star,
                .stroke = Stroke{style.colours.ink, 0.7, {}, Cap::butt},
                .points = {{190, 10}}};
    scene.add(std::move(one));
    scene.point_sets.push_back(std::move(points));
  });
}

Picture heads_picture(const TextMetrics& fonts) {
  return both_themes(fonts, [&](Scene& scene, const Style& style) {
    scene.axes.push_back({{20, 10, 60, 60},
                          cells(AxisMeaning::head, 2, "Head"),
                          cells(AxisMeaning::layer, 3, "Layer")});
    // The same cells again, and a bar of colours.
    scene.axes.push_back({{100, 10, 60, 60},
                          cells(AxisMeaning::head, 2, "Head"),
                          cells(AxisMeaning::layer, 3, "Layer")});
    scene.axes.push_back(
        {{170, 10, 6, 60}, Axis{}, Axis{AxisMeaning::value, AxisScale::linear, 1, 0, "ℒ"}});
    scene.add(make_text(style, style.theme == Theme::light ? "light" : "dark words", {20, 90}));
  });
}

Picture map_picture(const TextMetrics& fonts, int tokens) {
  return both_themes(fonts, [&](Scene& scene, const Style&) {
    const Rect square{20, 10, 80, 80};
    scene.axes.push_back({square, cells(AxisMeaning::token, tokens, "Key"),
                          cells(AxisMeaning::token, tokens, "Query")});
    auto pixels = std::make_shared<Pixels>();
    pixels->width = pixels->height = 2;
    pixels->rgba.assign(16, 128);
    scene.add(Image{pixels, square, "map", Interpolation::nearest});
  });
}

std::shared_ptr<const Names> hostile_names() {
  auto names = std::make_shared<Names>();
  for (int t = 0; t < kTokens; ++t) names->tokens.push_back(fmt::format(" word{}", t));
  names->tokens[1] = "</script><script>window.broken = 1</script>";
  names->tokens[2] = "\"'`${window.broken = 1}\\";
  names->tokens[3] = "]]><img src=x onerror=window.broken=1>&amp;";
  names->tokens[4] = std::string("\x01\x7f\0", 3);
  names->tokens[5] = "\xff\xfe";
  names->tokens[6] = "\u2028<!--";
  names->parts = {{0, "context"}, {8, "<b>needle</b>"}, {12, "context"}};
  names->steps = make_blocks(16, 4, 16);
  return names;
}

Document made_page(const TextMetrics& fonts) {
  Document page;
  page.title = "Sinks & <others>";
  page.summary = "One paragraph.";
  Section first;
  first.title = "Over steps";
  using Kind = TextBlock::Kind;
  first.text = {{Kind::paragraph,
                 {{.text = "Plain, "},
                  {.text = "bold", .bold = true},
                  {.text = " and <code>", .code = true}}},
                {Kind::bullet, {{.text = "one"}}},
                {Kind::bullet, {{.text = "two", .link = "https://example.org/?a=1&b=\"2\""}}},
                {Kind::numbered, {{.text = "three", .link = "javascript:window.broken=1"}}}};
  std::vector<Picture> strips;
  for (int s = 0; s < kSteps; ++s) {
    strips.push_back(strip_picture(fonts, s));
    first.slider_steps.push_back(s + 10);
  }
  first.slider_at = 2;
  first.figures = {figure_of("Strip", std::move(strips)), figure_of("Text", {text_picture(fonts)}),
                   figure_of("Points", {points_picture(fonts)})};
  first.task = {{Kind::paragraph, {{.text = "Find it."}}}};
  Section second;
  second.title = "Heads";
  second.figures = {figure_of("Heads", {heads_picture(fonts)}),
                    figure_of("Map", {map_picture(fonts, kTokens)})};
  page.sections = {std::move(first), std::move(second)};
  return page;
}

}  // namespace kvloupe::test
