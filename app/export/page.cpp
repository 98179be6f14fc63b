#include "app/export/page.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <utility>

#include "analysis/error.h"
#include "app/export/page_parts.h"
#include "app/export/places.h"
#include "app/export/themed_svg.h"
#include "app/figure/choice.h"
#include "app/plot/text_flow.h"
#include "app/plot/ticks.h"
#include "app/scene/svg_text.h"
#include "version.h"

namespace kvloupe::figure::html {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kHalfRow = 528.0;           // pixels: a wider figure has a row for itself
constexpr double kPixelsPerPoint = 1.6;      // figures of 8 pt text are read at 13 px
constexpr std::size_t kMostCells = 250'000;  // of a figure, over all its pictures
constexpr std::size_t kFewestCells = 1'000;

/// JSON inside a page: nothing in it can end the element it stands in.
std::string embedded(const Json& json) {
  std::string out;
  for (const char c : json.dump(-1, ' ', false, Json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      case '\x7f':
        out += "\\u007f";
        break;
      default:
        out += c;
    }
  }
  return out;
}

/// Consecutive numbers as ranges, "0-12 15".
std::string ranges(const std::vector<std::size_t>& list) {
  std::string out;
  for (std::size_t i = 0; i < list.size();) {
    std::size_t end = i + 1;
    while (end < list.size() && list[end] == list[end - 1] + 1) ++end;
    if (!out.empty()) out += ' ';
    out += std::to_string(list[i]);
    if (end > i + 1) out += '-' + std::to_string(list[end - 1]);
    i = end;
  }
  return out;
}

/// One figure on its way into the page.
struct Drawn {
  const PageFigure* figure = nullptr;
  std::size_t shown = 0;           // the picture that stands in the page
  std::string svg;                 // of that one
  std::vector<std::string> pool;   // items of all pictures; empty where there is one
  std::vector<std::string> items;  // of each picture, as ranges of the pool
  Json data;                       // what page.js gets
  std::size_t bytes = 0;           // of values
  bool thinned = false;
};

class PageWriter {
 public:
  explicit PageWriter(const Page& page) : page_(page) {}

  std::string write() {
    for (const Section& section : page_.sections) {
      for (const PageFigure& figure : section.figures) draw(section, figure);
    }
    std::size_t base = 0;
    for (const Drawn& one : drawn_) {
      base += one.svg.size();
      for (const std::string& item : one.pool) base += item.size() + 8;
    }
    for (std::size_t cells = kMostCells;; cells /= 2) {
      std::size_t values = 0;
      for (Drawn& one : drawn_) values += say(one, cells);
      const bool is_last = cells < kFewestCells;
      if (base + values > page_.most_bytes && !is_last) continue;
      std::string out = assemble();  // more than these: texts, style and script
      if (out.size() <= page_.most_bytes) return out;
      if (is_last) {
        throw PageTooLarge(fmt::format(
            "the page would take {:.1f} MB, more than the limit of {:.1f}; show fewer tokens or a "
            "smaller size",
            static_cast<double>(out.size()) / 1e6, static_cast<double>(page_.most_bytes) / 1e6));
      }
    }
  }

 private:
  void draw(const Section& section, const PageFigure& figure) {
    const std::size_t steps = section.slider_steps.size();
    if (figure.pictures.empty() || (figure.pictures.size() != 1 && figure.pictures.size() != steps))
      throw WorkError(fmt::format("figure \"{}\" has {} pictures for {} steps", figure.title,
                                  figure.pictures.size(), steps));
    Drawn one;
    one.figure = &figure;
    if (figure.pictures.size() > 1) one.shown = std::min(section.slider_at, steps - 1);
    ThemedSvg svg(fmt::format("g{}", drawn_.size()), colours_);
    std::map<std::string, std::size_t> places;
    for (std::size_t p = 0; p < figure.pictures.size(); ++p) {
      const Picture& picture = figure.pictures[p];
      std::vector<std::string> items = svg.items(picture.light, picture.dark);
      if (p == one.shown) {
        for (const std::string& item : items) one.svg += item + '\n';
      }
      if (figure.pictures.size() == 1) break;
      std::vector<std::size_t> list;
      for (std::string& item : items) {
        const auto [found, is_new] = places.emplace(std::move(item), one.pool.size());
        if (is_new) one.pool.push_back(found->first);
        list.push_back(found->second);
      }
      one.items.push_back(ranges(list));
    }
    drawn_.push_back(std::move(one));
  }

  /// Writes the read-outs of the figure at its places, at most `cells` of them; returns their
  /// bytes.
  std::size_t say(Drawn& one, std::size_t cells) {
    const std::vector<Picture>& pictures = one.figure->pictures;
    ValueTexts texts;
    Json geometry = Json::array();
    std::map<std::string, std::size_t> known;
    Json frames = Json::array();
    std::size_t bytes = 0;
    one.thinned = false;
    for (std::size_t p = 0; p < pictures.size(); ++p) {
      const Scene& scene = pictures[p].light;
      std::vector<int> of_axes;
      const auto tables = cell_tables(scene, cells / pictures.size(), of_axes);
      for (const CellTable& t : tables) one.thinned |= t.x_every > 1 || t.y_every > 1;
      Json places = places_json(scene, tables, of_axes);
      std::string text = places.dump(-1, ' ', false, Json::error_handler_t::replace);
      const std::size_t size = text.size();
      const auto [found, is_new] = known.emplace(std::move(text), geometry.size());
      if (is_new) {
        bytes += size;
        geometry.push_back(std::move(places));
      }
      Json frame = {{"g", found->second},
                    {"v", place_values(scene, tables, pictures[p].figure.get(), texts)}};
      if (!one.items.empty()) {
        frame["s"] = one.items[p];
        frame["c"] = scene.caption;
      }
      frames.push_back(std::move(frame));
    }
    one.data = {{"geometry", std::move(geometry)},
                {"frames", std::move(frames)},
                {"words", texts.words()},
                {"numbers", texts.numbers()}};
    one.bytes = bytes + texts.bytes();
    return one.bytes;
  }

  /// The place of these names in the page's list.
  int names_of(const Names* names) {
    if (names == nullptr) return -1;
    Json steps = Json::array();
    for (const Block& block : names->steps) {
      steps.push_back(block.first);
      steps.push_back(block.end);
    }
    Json parts = Json::array();
    for (const auto& [first, text] : names->parts) {
      parts.push_back(first);
      parts.push_back(text);
    }
    Json json = {{"tokens", names->tokens}, {"steps", steps}, {"segments", parts}};
    const auto found = std::find(names_.begin(), names_.end(), json);
    const auto at = static_cast<int>(found - names_.begin());
    if (found == names_.end()) names_.push_back(std::move(json));
    return at;
  }

  std::string data() {
    names_.clear();
    Json figures = Json::array();
    for (const Drawn& one : drawn_) {
      Json json = one.data;
      json["names"] = names_of(one.figure->names.get());
      if (!one.pool.empty()) json["pool"] = one.pool;
      figures.push_back(std::move(json));
    }
    Json sliders = Json::array();
    for (const Section& section : page_.sections) sliders.push_back(section.slider_steps);
    return embedded({{"names", names_}, {"sliders", std::move(sliders)}, {"figures", figures}});
  }

  void add_figure(std::string& out, std::size_t at, std::size_t section) const {
    const Drawn& one = drawn_[at];
    const PageFigure& figure = *one.figure;
    const Scene& scene = figure.pictures[one.shown].light;
    const double width = figure.width_px > 0 ? figure.width_px : scene.width * kPixelsPerPoint;
    const std::string heading =
        (figure.title.empty() ? "" : "<h3>" + xml_text(figure.title) + "</h3>\n") +
        (figure.about.empty() ? "" : "<p class=\"about\">" + xml_text(figure.about) + "</p>\n");
    out += fmt::format(
        "<figure{} data-figure=\"{}\" data-section=\"{}\" style=\"max-width:{}px\">\n{}"
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\" tabindex=\"0\" "
        "stroke-miterlimit=\"{}\"><g class=\"items\">\n{}</g></svg>\n<figcaption>",
        width > kHalfRow ? " class=\"wide\"" : "", at, section, xml_number(width, 0), heading,
        xml_number(scene.width, 2), xml_number(scene.height, 2),
        xml_text(figure.title.empty() ? scene.caption : figure.title), kMiterLimit, one.svg);
    if (!scene.caption.empty()) out += "<p class=\"caption\">" + xml_text(scene.caption) + "</p>";
    if (one.thinned) {
      out +=
          "<p class=\"note\">This figure has too many places for a web page: several places "
          "share the value that is shown.</p>";
    }
    if (!figure.settings.empty()) {
      out += "<details><summary>Settings</summary><dl>";
      for (const auto& [key, value] : figure.settings)
        out += fmt::format("<dt>{}</dt><dd{}>{}</dd>", xml_text(key),
                           key == "step" ? " class=\"of-step\"" : "", xml_text(value));
      out += "</dl></details>";
    }
    if (!figure.files.empty()) {
      out += "<p class=\"files\">";
      for (const auto& [label, address] : figure.files)
        out += fmt::format("<a href=\"{}\">{}</a> ", xml_text(address), xml_text(label));
      out += "</p>";
    }
    out += "</figcaption>\n</figure>\n";
  }

  std::string assemble() {
    std::string body;
    std::size_t at = 0;
    if (!page_.in_turn) {
      body += "<ul class=\"contents\">\n";
      for (std::size_t s = 0; s < page_.sections.size(); ++s)
        body += fmt::format("<li><a href=\"#page-{}\">{}</a></li>\n", s + 1,
                            xml_text(page_.sections[s].title));
      body += "</ul>\n";
    }
    for (std::size_t s = 0; s < page_.sections.size(); ++s) {
      const Section& section = page_.sections[s];
      body += fmt::format("<section id=\"page-{}\" aria-label=\"{}\">\n", s + 1,
                          xml_text(section.title));
      if (!section.title.empty()) body += "<h2>" + xml_text(section.title) + "</h2>\n";
      body += text_html(section.text);
      for (const std::string& problem : section.problems)
        body += "<p class=\"problem\">" + xml_text(problem) + "</p>\n";
      if (!section.slider_steps.empty()) {
        const std::size_t last = section.slider_steps.size() - 1;
        const std::size_t shown = std::min(section.slider_at, last);
        body += fmt::format(
            "<p class=\"slider\"><label>Step <output>{}</output><input type=\"range\" min=\"0\" "
            "max=\"{}\" step=\"1\" value=\"{}\" aria-label=\"Step\"/></label></p>\n",
            section.slider_steps[shown], last, shown);
      }
      if (!section.figures.empty()) {
        body += "<div class=\"figures\">\n";
        for (std::size_t f = 0; f < section.figures.size(); ++f) add_figure(body, at++, s);
        body += "</div>\n";
      }
      if (!section.task.empty()) {
        body += "<aside><h4>In the program</h4>\n" + text_html(section.task) + "</aside>\n";
      }
      body += "</section>\n";
    }
    return page_html({.title = page_.title,
                      .summary = page_.summary,
                      .dark = page_.start_dark,
                      .high_contrast = page_.high_contrast,
                      .in_turn = page_.in_turn,
                      .colours = colours_.css(),
                      .body = std::move(body),
                      .data = data()});
  }

  const Page& page_;
  ThemeColours colours_;
  std::vector<Drawn> drawn_;
  std::vector<Json> names_;
};

}  // namespace

std::string write_page(const Page& page) { return PageWriter(page).write(); }

namespace {

// Maps on a screen: finer than a pixel of most, half the bytes of print.
constexpr double kMapPixelsPerPoint = 3.0;
// A figure that has the page for itself.
constexpr double kLargePixelsPerPoint = 2.2;
constexpr double kPageWidth = 1072.0;

/// The names of a figure's tokens; for several traces only if all hold the same tokens.
std::shared_ptr<const Names> names_of(const MadeFigure& made) {
  if (made.traces.empty()) return nullptr;
  const Trace& trace = *made.traces.front();
  const TokenTable& table = trace.tokens();
  for (const auto& other : made.traces) {
    if (other->tokens().ids != table.ids) return nullptr;
  }
  auto names = std::make_shared<Names>();
  if (!table.text.empty()) names->tokens = token_text(table, table.ids.size()).text;
  const GivenTokens given = given_tokens(trace);
  for (int token = 0; token < trace.length(); ++token) {
    std::string text = part_text(trace, given, token);
    if (names->parts.empty() || names->parts.back().second != text)
      names->parts.emplace_back(token, std::move(text));
  }
  names->steps = made.steps;
  return names;
}

}  // namespace

PageFigure page_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                       const TextMetrics& fonts) {
  FileOptions drawn = options;
  drawn.title = drawn.caption = false;  // the page has them as text of its own
  drawn.pixels_per_point = std::min(options.pixels_per_point, kMapPixelsPerPoint);
  PageFigure out;
  Picture picture;
  drawn.theme = Theme::light;
  drawn.patterns = options.patterns.value_or(has_patterns(options.theme));  // equal in both
  picture.light = page_of(info, made, drawn, fonts);
  drawn.theme = options.theme == Theme::high_contrast ? options.theme : Theme::dark;
  picture.dark = page_of(info, made, drawn, fonts);
  picture.figure = made.figure;
  out.title = info.title;
  out.settings = picture.light.metadata;
  out.names = names_of(made);
  if (options.size && options.size->in_pixels)
    out.width_px = options.size->width * options.size->pixels_per_point;
  out.pictures.push_back(std::move(picture));
  return out;
}

std::string figure_page(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts) {
  Page page;
  page.title = info.title;
  page.start_dark = options.theme != Theme::light;
  page.high_contrast = options.theme == Theme::high_contrast;
  Section section;
  section.figures.push_back(page_figure(info, made, options, fonts));
  PageFigure& figure = section.figures.back();
  figure.title.clear();  // it is the page's
  if (figure.width_px <= 0) {
    figure.width_px =
        std::min(kPageWidth, figure.pictures.front().light.width * kLargePixelsPerPoint);
  }
  page.sections.push_back(std::move(section));
  return write_page(page);
}

namespace {

/// Two figures of a column's width stand side by side.
constexpr double kIndexPixelsPerPoint = 2.0;
constexpr double kIndexWidth = 1072.0;

/// "SVG" for "svg"; a page is called so.
std::string link_text(const std::string& ending) {
  if (ending == "html") return "page with values";
  if (ending == "tex") return "LaTeX";
  std::string text = ending;
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  return text;
}

Section section_of(Topic topic, std::vector<GalleryPiece>& pieces) {
  Section section;
  section.title = heading(topic);
  for (GalleryPiece& piece : pieces) {
    if (piece.info->topic != topic || !piece.skipped.empty()) continue;
    PageFigure figure = std::move(piece.figure);
    figure.title =
        piece.info->title + (piece.shows.empty() ? std::string() : " (" + piece.shows + ")");
    figure.about = piece.info->tooltip + (piece.info->tooltip.ends_with('.') ? "" : ".");
    for (const std::string& ending : piece.endings)
      figure.files.emplace_back(link_text(ending), piece.name + "." + ending);
    section.figures.push_back(std::move(figure));
  }
  return section;
}

}  // namespace

PageFigure index_figure(const FigureInfo& info, const MadeFigure& made, const FileOptions& options,
                        const TextMetrics& fonts) {
  PageFigure figure = page_figure(info, made, options, fonts);
  for (Picture& picture : figure.pictures) picture.figure = nullptr;
  if (figure.width_px <= 0) {
    figure.width_px =
        std::min(kIndexWidth, figure.pictures.front().light.width * kIndexPixelsPerPoint);
  }
  return figure;
}

std::string gallery_page(std::string title, std::string summary, std::vector<GalleryPiece> pieces,
                         Theme theme) {
  Page page;
  page.title = std::move(title);
  page.summary = std::move(summary);
  page.in_turn = false;
  page.start_dark = theme != Theme::light;
  page.high_contrast = theme == Theme::high_contrast;
  // It holds every picture; none of them may be left out for the sake of the page's size.
  page.most_bytes = std::numeric_limits<std::size_t>::max() / 2;
  for (const Topic topic : topics()) {
    Section section = section_of(topic, pieces);
    if (!section.figures.empty()) page.sections.push_back(std::move(section));
  }
  Section skipped;
  skipped.title = "Not in this gallery";
  for (const GalleryPiece& piece : pieces) {
    if (piece.skipped.empty()) continue;
    skipped.text.push_back(TextBlock{
        .kind = TextBlock::Kind::bullet,
        .runs = {{.text = piece.name, .bold = true}, {.text = ": " + piece.skipped + "."}}});
  }
  if (page.sections.empty()) throw WorkError("there is no figure for an index");
  if (!skipped.text.empty()) page.sections.push_back(std::move(skipped));
  return write_page(page);
}

}  // namespace kvloupe::figure::html
