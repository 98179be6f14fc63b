// The report as one file of HTML.

#include <fmt/format.h>

#include <algorithm>

#include "analysis/error.h"
#include "app/export/page.h"
#include "app/export/themed_svg.h"
#include "app/report/report.h"
#include "app/scene/page_size.h"
#include "app/scene/svg_text.h"

namespace kvloupe::report {

using figure::xml_text;

namespace {

// Colours of the pages of figures and lessons (app/export/page.css).
constexpr const char* kStyle = R"(
:root{--paper:#fff;--ink:#1b1f24;--faint:#5a626b;--line:#dfe2e4;--ground:#f4f5f5;--accent:#0072b2;
--light:inline;--dark:none;color-scheme:light}
@media screen and (prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e6e8ea;--faint:#9ca4ad;
--line:#343940;--ground:#1d2126;--accent:#4fa8e0;--light:none;--dark:inline;color-scheme:dark}}
*{box-sizing:border-box}
body{margin:0 auto;padding:24px;max-width:920px;background:var(--paper);color:var(--ink);
font:15px/1.5 Inter,"DejaVu Sans",system-ui,sans-serif;overflow-wrap:break-word}
h1{font-size:24px;line-height:1.25;margin:0 0 4px}
h2{font-size:17px;margin:28px 0 8px}
p{margin:0 0 8px;max-width:80ch}
.faint,figcaption,footer,.note{color:var(--faint);font-size:13px}
.do{border-left:3px solid var(--accent);background:var(--ground);padding:12px 16px;margin:16px 0}
.do p:last-child{margin:0}.do p:first-child{font-weight:600}
ul{margin:0 0 8px;padding-left:20px;max-width:80ch}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:0}
dt{color:var(--faint)}dd{margin:0;min-width:0}
table{border-collapse:collapse;margin:0 0 4px}
th,td{padding:2px 16px 2px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}
th{font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums}
.flag{white-space:nowrap}
.beside{display:flex;flex-wrap:wrap;gap:8px 32px;align-items:flex-start}
figure{margin:8px 0;max-width:100%}
pre{background:var(--ground);padding:8px 12px;margin:0;white-space:pre-wrap;overflow-wrap:anywhere;
font:13px/1.5 "JetBrains Mono","DejaVu Sans Mono",monospace}
footer{margin-top:24px;border-top:1px solid var(--line);padding-top:8px}
svg{display:block;width:100%;height:auto}
svg text{font-family:Inter,"DejaVu Sans",system-ui,sans-serif}
svg .b{font-weight:600}svg .m{font-family:"JetBrains Mono","DejaVu Sans Mono",monospace}
svg .c{text-anchor:middle}svg .e{text-anchor:end}svg .px{image-rendering:pixelated}
svg .light{display:var(--light)}svg .dark{display:var(--dark)}
@media print{body{padding:0;font-size:11px}}
)";

constexpr double kPixelsPerPoint = 1.75;
constexpr double kWidest = 872.0;  // pixels
constexpr double kAlone = 420.0;   // points: a figure without a table beside it

class Writer {
 public:
  explicit Writer(const figure::TextMetrics& fonts) : fonts_(fonts) {}

  std::string page(const Report& report) {
    std::string body = fmt::format("<h1>{}</h1>\n<p class=\"faint\">{}</p>\n",
                                   xml_text(report.title), xml_text(report.subtitle));
    body += "<div class=\"do\">\n" + paragraphs(report.recommendation) + "</div>\n";
    if (!report.cautions.empty()) {
      body += "<ul>\n";
      for (const std::string& one : report.cautions) body += "<li>" + words(one) + "</li>\n";
      body += "</ul>\n";
    }
    for (const ReportPart& one : report.parts) body += part(one);
    return fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta "
        "charset=\"utf-8\"/>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
        "'none'; img-src data:; style-src 'unsafe-inline'\"/>\n<meta name=\"viewport\" "
        "content=\"width=device-width, "
        "initial-scale=1\"/>\n<title>{}</title>\n<style>{}{}</style>\n"
        "</head>\n<body>\n{}<footer>{}</footer>\n</body>\n</html>\n",
        xml_text(report.title), kStyle, colours_.css(), body, xml_text(report.foot));
  }

 private:
  /// A text in which the flags of the command line are not broken at their hyphens.
  static std::string words(const std::string& text) {
    std::string html;
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t end = std::min(text.find(' ', from), text.size());
      const std::string word = xml_text(std::string_view(text).substr(from, end - from));
      const bool flag = word.starts_with("--") || word.starts_with("(--");
      html += (from > 0 ? " " : "") + (flag ? "<span class=\"flag\">" + word + "</span>" : word);
      from = end + 1;
    }
    return html;
  }

  static std::string paragraphs(const std::vector<std::string>& texts) {
    std::string html;
    for (const std::string& text : texts) html += "<p>" + words(text) + "</p>\n";
    return html;
  }

  static std::string table(const ReportTable& table) {
    std::string html = "<div>\n<table>\n<tr>";
    const auto cell = [&](const char* tag, std::size_t column, const std::string& text) {
      html += fmt::format("<{0}{1}>{2}</{0}>", tag, table.numbers[column] ? " class=\"n\"" : "",
                          xml_text(text));
    };
    for (std::size_t c = 0; c < table.columns.size(); ++c) cell("th", c, table.columns[c]);
    html += "</tr>\n";
    for (const auto& row : table.rows) {
      html += "<tr>";
      for (std::size_t c = 0; c < row.size(); ++c) cell("td", c, row[c]);
      html += "</tr>\n";
    }
    html += "</table>\n";
    for (const std::string& note : table.notes)
      html += "<p class=\"note\">" + xml_text(note) + "</p>\n";
    return html + "</div>\n";
  }

  std::string drawn(const ReportFigure& figure, bool alone) {
    figure::FileOptions options;
    if (alone)
      options.width = std::max(kAlone, figure.info->width_mm * figure::kPointsPerMillimetre);
    options.pixels_per_point = 3.0;  // of maps
    const figure::Scene light = figure::page_of(*figure.info, figure.made, options, fonts_);
    options.theme = figure::Theme::dark;
    options.patterns = figure::has_patterns(figure::Theme::light);
    const figure::Scene dark = figure::page_of(*figure.info, figure.made, options, fonts_);
    std::string items;
    figure::html::ThemedSvg svg(fmt::format("f{}", figures_++), colours_);
    for (const std::string& item : svg.items(light, dark)) items += item + '\n';
    const std::string caption = figure.made.figure->caption();
    return fmt::format(
        "<figure style=\"width:{:.0f}px\"><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 "
        "{} {}\" role=\"img\" aria-label=\"{}\" stroke-miterlimit=\"{}\">\n{}</svg>\n"
        "<figcaption>{}</figcaption></figure>\n",
        std::min(kWidest, light.width * kPixelsPerPoint), figure::xml_number(light.width),
        figure::xml_number(light.height), xml_text(figure.info->title), figure::kMiterLimit, items,
        xml_text(caption));
  }

  std::string part(const ReportPart& part) {
    std::string html =
        "<section>\n<h2>" + xml_text(part.title) + "</h2>\n" + paragraphs(part.paragraphs);
    if (!part.facts.empty()) {
      html += "<dl>\n";
      for (const auto& [name, value] : part.facts)
        html += "<dt>" + xml_text(name) + "</dt><dd>" + xml_text(value) + "</dd>\n";
      html += "</dl>\n";
    }
    if (part.figure || part.table) {
      html += "<div class=\"beside\">\n";
      if (part.figure) html += drawn(*part.figure, !part.table);
      if (part.table) html += table(*part.table);
      html += "</div>\n";
    }
    if (!part.commands.empty()) {
      html += "<pre>";
      for (const std::string& command : part.commands) html += xml_text(command) + "\n";
      html += "</pre>\n";
    }
    return html + "</section>\n";
  }

  const figure::TextMetrics& fonts_;
  figure::html::ThemeColours colours_;
  int figures_ = 0;
};

}  // namespace

std::string report_html(const Report& report, const figure::TextMetrics& fonts) {
  return Writer(fonts).page(report);
}

void check_report_name(const std::string& name) {
  if (name.ends_with(".html") || name.ends_with(".pdf")) return;
  throw UsageError("-o " + name + ": the name of a report must end in .html or .pdf");
}

std::string report_file(const Report& report, const std::string& name,
                        const figure::TextMetrics& fonts) {
  check_report_name(name);
  return name.ends_with(".pdf") ? report_pdf(report, fonts) : report_html(report, fonts);
}

}  // namespace kvloupe::report
