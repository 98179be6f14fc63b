#include "app/document/themed_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "app/scene/png_encoder.h"
#include "app/scene/svg_text.h"

namespace kvloupe::figure::document {

namespace {

constexpr int kDecimals = 2;  // of a point: less than a pixel of any screen

std::string number(double value) { return xml_number(value, kDecimals); }

std::uint32_t code(Colour c) {
  return static_cast<std::uint32_t>(c.red) << 24 | static_cast<std::uint32_t>(c.green) << 16 |
         static_cast<std::uint32_t>(c.blue) << 8 | c.alpha;
}

std::string hex(std::uint32_t colour) {
  return (colour & 0xFF) == 0xFF ? fmt::format("#{:06x}", colour >> 8)
                                 : fmt::format("#{:08x}", colour);
}

std::string path_data(const Path& path) {
  std::string out;
  append_svg_path(out, path, number);
  return out;
}

// What an item is but for its colours.

auto form(const std::optional<Stroke>& stroke) {
  const Stroke& one = stroke ? *stroke : Stroke{};
  return std::tuple(stroke.has_value(), one.width, one.dash, one.cap);
}
auto form(const Path& path) {
  return std::tuple(path.verbs, path.points, path.fill.has_value(), form(path.stroke));
}
auto form(const Markers& markers) {
  return std::tuple(markers.shape, markers.size, markers.points, markers.fill.has_value(),
                    form(markers.stroke));
}
auto form(const Text& text) {
  return std::tie(text.text, text.anchor, text.size, text.font, text.align, text.turned,
                  text.width);
}
auto form(const Image& image) {
  return std::tuple(image.rect, image.interpolation,
                    image.pixels ? image.pixels->rgba : std::vector<std::uint8_t>());
}
auto form(const PushClip& clip) { return clip.rect; }
auto form(const PopClip& /*clip*/) { return 0; }

bool same_but_colour(const Item& a, const Item& b) {
  const auto same = [&](const auto& one) {
    return form(one) == form(std::get<std::decay_t<decltype(one)>>(b));
  };
  return a.index() == b.index() && std::visit(same, a);
}

/// Alike enough to be drawn item by item: clips open and close at the same places.
bool same_kinds(const Scene& a, const Scene& b) {
  return a.items.size() == b.items.size() &&
         std::equal(
             a.items.begin(), a.items.end(), b.items.begin(),
             [](const Item& one, const Item& other) {
               const bool clip = std::holds_alternative<PushClip>(one);
               return one.index() == other.index() &&
                      (!clip || std::get<PushClip>(one).rect == std::get<PushClip>(other).rect);
             });
}

}  // namespace

int ThemeColours::number_of(Colour light, Colour dark) {
  return numbers_.emplace(std::pair{code(light), code(dark)}, static_cast<int>(numbers_.size()))
      .first->second;
}

std::string ThemeColours::attributes(const std::optional<Colour>& fill,
                                     const std::optional<Colour>& dark_fill,
                                     const std::optional<Stroke>& stroke,
                                     const std::optional<Stroke>& dark_stroke, std::string more) {
  std::string out;
  const auto paint = [&](const char* name, char letter, Colour light, Colour dark) {
    if (light == dark) {
      out += fmt::format(" {}=\"{}\"", name, hex(code(light)));
    } else {
      more += fmt::format("{}{}{}", more.empty() ? "" : " ", letter, number_of(light, dark));
    }
  };
  if (!fill) {
    out += " fill=\"none\"";
  } else {
    paint("fill", 'f', *fill, dark_fill.value_or(*fill));
  }
  if (stroke) {
    paint("stroke", 's', stroke->colour, dark_stroke ? dark_stroke->colour : stroke->colour);
    out += " stroke-width=\"" + number(stroke->width) + '"';
    if (stroke->cap == Cap::round) out += " stroke-linecap=\"round\" stroke-linejoin=\"round\"";
    if (!stroke->dash.empty()) {
      out += " stroke-dasharray=\"";
      for (std::size_t i = 0; i < stroke->dash.size(); ++i)
        out += (i > 0 ? " " : "") + number(stroke->dash[i]);
      out += '"';
    }
  }
  return more.empty() ? out : out + " class=\"" + more + '"';
}

std::string ThemeColours::css(Theme dark_theme) const {
  std::string light =
      "--paper: #ffffff; --ink: #1b1f24; --faint: #5a626b; --line: #dfe2e4; --ground: #f4f5f5; "
      "--accent: #0072b2; --mark: #e69f00; --light: inline; --dark: none; color-scheme: light;";
  std::string dark = dark_theme == Theme::high_contrast
                         ? "--paper: #000000; --ink: #ffffff; --faint: #d8d8d8; --line: #8c8c8c; "
                           "--ground: #1c1c1c; --accent: #6cb8ff; --mark: #ffb000; "
                         : "--paper: #15181c; --ink: #e6e8ea; --faint: #9ca4ad; --line: #343940; "
                           "--ground: #1d2126; --accent: #4fa8e0; --mark: #f2b32c; ";
  dark += "--light: none; --dark: inline; color-scheme: dark;";
  std::string classes;
  for (const auto& [pair, number] : numbers_) {
    light += fmt::format("--k{}:{};", number, hex(pair.first));
    dark += fmt::format("--k{}:{};", number, hex(pair.second));
    classes += fmt::format(".f{0}{{fill:var(--k{0})}}.s{0}{{stroke:var(--k{0})}}", number);
  }
  // Paper is always light.
  return fmt::format(
      ":root{{{0}}}\n@media screen and (prefers-color-scheme:dark){{"
      ":root:not([data-theme=light]){{{1}}}}}\n@media "
      "screen{{:root[data-theme=dark]{{{1}}}}}\n{2}\n",
      light, dark, classes);
}

std::string ThemedSvg::path(const Path& light, const Path& dark) {
  return "<path d=\"" + path_data(light) + '"' +
         colours_.attributes(light.fill, dark.fill, light.stroke, dark.stroke) + "/>";
}

std::string ThemedSvg::markers(const Markers& light, const Markers& dark) {
  if (light.points.empty()) return {};
  const auto one_at = [&](const std::string& transform) {
    return "<path d=\"" + path_data(marker_path(light.shape, light.size)) + '"' + transform +
           colours_.attributes(light.fill, dark.fill, light.stroke, dark.stroke) + "/>";
  };
  if (light.points.size() == 1) {  // a line of one corner is drawn nowhere
    const Point at = light.points.front();
    return one_at(" transform=\"translate(" + number(at.x) + ' ' + number(at.y) + ")\"");
  }
  const std::string one = one_at("");
  // Drawn at each corner of a line that is itself not drawn: a few bytes for each point.
  const auto [found, is_new] = marker_ids_.emplace(one, static_cast<int>(marker_ids_.size()));
  const std::string id = fmt::format("{}m{}", prefix_, found->second);
  std::string out = fmt::format(
      "<marker id=\"{}\" markerUnits=\"userSpaceOnUse\" markerWidth=\"1\" markerHeight=\"1\" "
      "overflow=\"visible\">{}</marker><polyline fill=\"none\" points=\"",
      id, one);
  for (std::size_t i = 0; i < light.points.size(); ++i) {
    out += (i > 0 ? " " : "") + number(light.points[i].x) + ',' + number(light.points[i].y);
  }
  out += fmt::format("\" marker-start=\"url(#{})\"", id);
  if (light.points.size() > 2) out += fmt::format(" marker-mid=\"url(#{})\"", id);
  return out + fmt::format(" marker-end=\"url(#{})\"/>", id);
}

std::string ThemedSvg::text(const Text& light, const Text& dark) {
  std::string classes;
  const auto add = [&](const char* name) {
    classes += (classes.empty() ? "" : " ") + std::string(name);
  };
  if (light.align == Align::centre) add("c");
  if (light.align == Align::right) add("e");
  if (light.font == Font::bold) add("b");
  if (light.font == Font::mono) add("m");
  std::string out = fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\"", number(light.anchor.x),
                                number(light.anchor.y), number(light.size));
  // Keeps its place where the reader's machine has other fonts.
  if (const std::string shaping = shaping_attributes(light); !shaping.empty()) {
    out += shaping;
  } else if (light.width > 0 && light.text.size() > 1) {
    out += " textLength=\"" + number(light.width) + '"';
  }
  if (light.turned) {
    out += fmt::format(" transform=\"rotate(-90 {} {})\"", number(light.anchor.x),
                       number(light.anchor.y));
  }
  out += colours_.attributes(light.colour, dark.colour, std::nullopt, std::nullopt, classes);
  return out + '>' + xml_text(light.text) + "</text>";
}

std::string ThemedSvg::image(const Image& image) {
  if (!image.pixels) return {};
  return fmt::format(
      "<image x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" preserveAspectRatio=\"none\"{} "
      "href=\"data:image/png;base64,{}\"/>",
      number(image.rect.x), number(image.rect.y), number(image.rect.width),
      number(image.rect.height),
      image.interpolation == Interpolation::nearest ? " class=\"px\"" : "",
      base64(encode_png(*image.pixels)));
}

std::string ThemedSvg::clip(const PushClip& clip) {
  const std::string rect =
      fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>", number(clip.rect.x),
                  number(clip.rect.y), number(clip.rect.width), number(clip.rect.height));
  const auto [found, is_new] = clip_ids_.emplace(rect, static_cast<int>(clip_ids_.size()));
  return fmt::format("<clipPath id=\"{0}c{1}\">{2}</clipPath><g clip-path=\"url(#{0}c{1})\">",
                     prefix_, found->second, rect);
}

std::string ThemedSvg::item(const Item& light, const Item& dark) {
  if (std::holds_alternative<PopClip>(light)) return "</g>";
  if (const auto* one = std::get_if<PushClip>(&light)) return clip(*one);
  if (const auto* one = std::get_if<Path>(&light)) return path(*one, std::get<Path>(dark));
  if (const auto* one = std::get_if<Markers>(&light)) return markers(*one, std::get<Markers>(dark));
  if (const auto* one = std::get_if<Text>(&light)) return text(*one, std::get<Text>(dark));
  return image(std::get<Image>(light));
}

std::vector<std::string> ThemedSvg::items(const Scene& light, const Scene& dark) {
  std::vector<std::string> out;
  if (same_kinds(light, dark)) {
    for (std::size_t i = 0; i < light.items.size(); ++i) {
      const Item& one = light.items[i];
      const Item& other = dark.items[i];
      if (same_but_colour(one, other)) {
        out.push_back(item(one, other));
      } else {
        out.push_back("<g class=\"light\">" + item(one, one) + "</g>");
        out.push_back("<g class=\"dark\">" + item(other, other) + "</g>");
      }
    }
    return out;
  }
  for (const auto& [scene, theme] : {std::pair{&light, "light"}, {&dark, "dark"}}) {
    out.push_back(fmt::format("<g class=\"{}\">", theme));
    for (const Item& one : scene->items) out.push_back(item(one, one));
    out.push_back("</g>");
  }
  return out;
}

}  // namespace kvloupe::figure::document
