// A document as one web page.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/base/core/error.h"
#include "app/document/document.h"
#include "app/document/places.h"
#include "app/document/themed_svg.h"
#include "app/scene/svg_text.h"
#include "version.h"

namespace kvloupe::figure::document {

namespace {

using Json = nlohmann::ordered_json;

constexpr double kHalfRow = 528.0;           // pixels: a wider figure has a row for itself
constexpr double kPixelsPerPoint = 1.6;      // figures of 8 pt text are read at 13 px
constexpr std::size_t kMostCells = 250'000;  // of a figure, over all its pictures
constexpr std::size_t kFewestCells = 1'000;

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

/// <NAME>text</NAME>; `tag` may have attributes. Nothing for an empty text.
std::string element(std::string_view tag, const std::string& html) {
  if (html.empty()) return {};
  return fmt::format("<{}>{}</{}>", tag, html, tag.substr(0, tag.find(' ')));
}

/// Words in which the flags of a command line are not broken at their hyphens.
std::string words_html(const std::string& text) {
  std::string html;
  for (std::size_t from = 0; from <= text.size();) {
    const std::size_t end = std::min(text.find(' ', from), text.size());
    const std::string word = xml_text(std::string_view(text).substr(from, end - from));
    const bool flag = word.starts_with("--") || word.starts_with("(--");
    html += (from > 0 ? " " : "") + (flag ? element("span class=\"flag\"", word) : word);
    from = end + 1;
  }
  return html;
}

std::string run_html(const Run& run) {
  std::string out = run.code ? element("code", xml_text(run.text)) : words_html(run.text);
  if (run.italic) out = element("em", out);
  if (run.bold) out = element("strong", out);
  const auto links = [&](const char* start) { return run.link.starts_with(start); };
  if (links("https://") || links("http://") || links("mailto:") || links("./"))
    out = element("a href=\"" + xml_text(run.link) + "\"", out);
  return out;
}

/// Text blocks as HTML elements; neighbouring points of a list are one list.
std::string text_html(const TextBlocks& blocks) {
  using Kind = TextBlock::Kind;
  std::string out;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Kind kind = blocks[i].kind;
    const bool item = kind != Kind::paragraph;
    const char* list = kind == Kind::bullet ? "ul>\n" : "ol>\n";
    if (item && (i == 0 || blocks[i - 1].kind != kind)) out += std::string("<") + list;
    std::string runs;
    for (const Run& run : blocks[i].runs) runs += run_html(run);
    out += element(item ? "li" : "p", runs) + "\n";
    if (item && (i + 1 == blocks.size() || blocks[i + 1].kind != kind))
      out += std::string("</") + list;
  }
  return out;
}

std::string table_html(const Table& table) {
  std::string html = "<div>\n<table>\n<tr>";
  const auto cell = [&](const char* tag, std::size_t column, const std::string& text,
                        bool bold = false) {
    html +=
        fmt::format("<{0}{1}>{2}</{0}>", tag, table.columns[column].numbers ? " class=\"n\"" : "",
                    bold ? element("strong", xml_text(text)) : xml_text(text));
  };
  for (std::size_t c = 0; c < table.columns.size(); ++c) cell("th", c, table.columns[c].name);
  for (const Table::Row& row : table.rows) {
    html += "</tr>\n<tr>";
    for (std::size_t c = 0; c < row.cells.size(); ++c)
      cell("td", c, row.cells[c].text, row.cells[c].best);
  }
  html += "</tr>\n</table>\n";
  for (const std::string& note : table.notes)
    html += element("p class=\"note\"", xml_text(note)) + "\n";
  return html + "</div>\n";
}

std::string facts_html(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html;
  for (const auto& [name, value] : facts)
    html +=
        element("dt", xml_text(name)) +
        fmt::format("<dd{}>{}</dd>", name == "step" ? " class=\"of-step\"" : "", xml_text(value));
  return element("dl", html);
}

/// One figure on its way into the page.
struct Drawn {
  const PageFigure* figure = nullptr;
  std::size_t shown = 0;           // the picture that stands in the page
  std::string svg;                 // of that one
  std::vector<std::string> pool;   // items of all pictures; empty where there is one
  std::vector<std::string> items;  // of each picture, as ranges of the pool
  Json data;                       // what page.js gets
  bool thinned = false;
};

class PageWriter {
 public:
  explicit PageWriter(const Document& document) : page_(document) {}

  std::string write() {
    for (const Section& section : page_.sections) {
      for (const PageFigure& figure : section.figures) draw(section, figure);
    }
    if (!page_.script) return assemble();
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
    return bytes + texts.bytes();
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
    const auto line = [](const std::string& html) { return html + (html.empty() ? "" : "\n"); };
    out += fmt::format(
        "<figure{} data-figure=\"{}\" data-section=\"{}\" style=\"max-width:{}px\">\n{}{}"
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"{} "
        "stroke-miterlimit=\"{}\"><g class=\"items\">\n{}</g></svg>\n<figcaption>",
        width > kHalfRow ? " class=\"wide\"" : "", at, section, xml_number(width, 0),
        line(element("h3", xml_text(figure.title))),
        line(element("p class=\"about\"", xml_text(figure.about))), xml_number(scene.width, 2),
        xml_number(scene.height, 2), xml_text(figure.title.empty() ? scene.caption : figure.title),
        page_.script ? " tabindex=\"0\"" : "", kMiterLimit, one.svg);
    out += element("p class=\"caption\"", xml_text(scene.caption));
    if (one.thinned) {
      out +=
          "<p class=\"note\">This figure has too many places for a web page: several places "
          "share the value that is shown.</p>";
    }
    if (!figure.settings.empty())
      out += element("details", "<summary>Settings</summary>" + facts_html(figure.settings));
    std::string links;
    for (const auto& [label, address] : figure.files)
      links += element("a href=\"" + xml_text(address) + "\"", xml_text(label)) + " ";
    out += element("p class=\"files\"", links) + "</figcaption>\n</figure>\n";
  }

  std::string body() const {
    std::string body = element("p class=\"summary\"", xml_text(page_.summary)) +
                       (page_.summary.empty() ? "" : "\n");
    std::string list;
    for (const std::string& one : page_.lead) list += element("p", words_html(one)) + "\n";
    body += element("div class=\"lead\"", list);
    list.clear();
    for (const std::string& one : page_.cautions) list += element("li", words_html(one)) + "\n";
    body += element("ul", list);
    list.clear();
    for (std::size_t s = 0; s < page_.sections.size(); ++s) {
      if (page_.sections[s].title.empty()) continue;
      list += fmt::format("<li><a href=\"#page-{}\">{}</a></li>\n", s + 1,
                          xml_text(page_.sections[s].title));
    }
    if (!page_.in_turn) body += "<ul class=\"contents\">\n" + list + "</ul>\n";
    std::size_t figure = 0;
    for (std::size_t s = 0; s < page_.sections.size(); ++s) add_section(body, s, figure);
    return body;
  }

  void add_section(std::string& body, std::size_t at, std::size_t& figure) const {
    const Section& section = page_.sections[at];
    body += fmt::format("<section id=\"page-{}\" aria-label=\"{}\">\n", at + 1,
                        xml_text(section.title));
    if (!section.title.empty()) body += element("h2", xml_text(section.title)) + "\n";
    body += text_html(section.text);
    for (const std::string& problem : section.problems)
      body += element("p class=\"problem\"", xml_text(problem)) + "\n";
    body += facts_html(section.facts);
    if (!section.slider_steps.empty()) {
      const std::size_t last = section.slider_steps.size() - 1;
      const std::size_t shown = std::min(section.slider_at, last);
      body += fmt::format(
          "<p class=\"slider\"><label>Step <output>{}</output><input type=\"range\" min=\"0\" "
          "max=\"{}\" step=\"1\" value=\"{}\" aria-label=\"Step\"/></label></p>\n",
          section.slider_steps[shown], last, shown);
    }
    if (!section.figures.empty() || section.table) {
      body += "<div class=\"figures\">\n";
      for (std::size_t f = 0; f < section.figures.size(); ++f) add_figure(body, figure++, at);
      if (section.table) body += table_html(*section.table);
      body += "</div>\n";
    }
    std::string commands;
    for (const std::string& command : section.commands) commands += xml_text(command) + "\n";
    body += element("pre", commands);
    if (!section.task.empty())
      body += "<aside><h4>In the program</h4>\n" + text_html(section.task) + "</aside>\n";
    body += "</section>\n";
  }

  /// The whole file.
  std::string assemble() {
    const std::string title = xml_text(page_.title);
    const bool script = page_.script;
    std::string out = fmt::format(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"{}{}{}>\n"
        "<head>\n<meta charset=\"utf-8\"/>\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
        "style-src 'unsafe-inline'{}\"/>\n"
        "<meta name=\"generator\" content=\"kvloupe " KVLOUPE_VERSION
        "\"/>\n<title>{}</title>\n<style>\n{}{}</style>\n</head>\n<body{}>\n<header><h1>{}</h1>",
        page_.theme != Theme::light ? " data-theme=\"dark\"" : "",
        page_.theme == Theme::high_contrast ? " data-contrast=\"high\"" : "",
        page_.in_turn ? "" : " data-sections=\"all\"", script ? "; script-src 'unsafe-inline'" : "",
        title, colours_.css(page_.theme), page_style(), script ? "" : " class=\"sheet\"", title);
    std::string links;
    for (const auto& [words, address] : page_.links)
      links += element("a href=\"" + xml_text(address) + "\"", xml_text(words));
    out += element("p class=\"site\"", links);
    if (!script)
      return out + "</header>\n<main>\n" + body() + "</main>\n" +
             element("footer", xml_text(page_.foot)) + "\n</body>\n</html>\n";
    out += "<button type=\"button\" id=\"theme\">Dark</button></header>\n<main>\n" + body();
    out +=
        "</main>\n<nav aria-label=\"Pages\"></nav>\n"
        "<footer><p class=\"keys\">Point at a token, a head or a step to see its value here and "
        "its "
        "place in every figure. With the keys: Tab goes to a figure, arrows move, Home and End "
        "jump, Enter holds the value, Esc releases it.</p><p>Values have three significant digits. "
        "Made with kvloupe "
        "" KVLOUPE_VERSION
        ".</p></footer>\n"
        "<div id=\"tip\" role=\"status\" hidden=\"hidden\"></div>\n"
        "<script type=\"application/json\" id=\"data\">";
    out += data();
    // The script holds < and &: a CDATA section for readers of XML, a comment for all others.
    out += "</script>\n<script>//<![CDATA[\n";
    out += page_script();
    return out + "//]]></script>\n</body>\n</html>\n";
  }

  const Document& page_;
  ThemeColours colours_;
  std::vector<Drawn> drawn_;
  std::vector<Json> names_;
};

}  // namespace

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

std::string write_page(const Document& document) { return PageWriter(document).write(); }

}  // namespace kvloupe::figure::document
