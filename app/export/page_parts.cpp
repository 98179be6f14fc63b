#include "app/export/page_parts.h"

#include <fmt/format.h>

#include "app/scene/svg_text.h"
#include "version.h"

namespace kvloupe::figure::html {

namespace {

bool may_be_linked(std::string_view link) {
  return link.starts_with("https://") || link.starts_with("http://") || link.starts_with("mailto:");
}

std::string run_html(const Run& run) {
  std::string out = xml_text(run.text);
  if (run.code) out = "<code>" + out + "</code>";
  if (run.italic) out = "<em>" + out + "</em>";
  if (run.bold) out = "<strong>" + out + "</strong>";
  if (may_be_linked(run.link)) out = "<a href=\"" + xml_text(run.link) + "\">" + out + "</a>";
  return out;
}

/// The list a block is a point of; nullptr: none.
const char* list_of(const TextBlock& block) {
  return block.kind == TextBlock::Kind::bullet     ? "ul"
         : block.kind == TextBlock::Kind::numbered ? "ol"
                                                   : nullptr;
}

const char* element_of(TextBlock::Kind kind) {
  switch (kind) {
    case TextBlock::Kind::heading:
      return "h3";
    case TextBlock::Kind::code:
      return "pre";
    case TextBlock::Kind::bullet:
    case TextBlock::Kind::numbered:
      return "li";
    case TextBlock::Kind::paragraph:
      break;
  }
  return "p";
}

}  // namespace

std::string text_html(const std::vector<TextBlock>& blocks) {
  std::string out;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const char* list = list_of(blocks[i]);
    const bool opens = list && (i == 0 || blocks[i - 1].kind != blocks[i].kind);
    const bool closes = list && (i + 1 == blocks.size() || blocks[i + 1].kind != blocks[i].kind);
    if (opens) out += fmt::format("<{}>\n", list);
    const char* element = element_of(blocks[i].kind);
    out += fmt::format("<{}>", element);
    for (const Run& run : blocks[i].runs) out += run_html(run);
    out += fmt::format("</{}>\n", element);
    if (closes) out += fmt::format("</{}>\n", list);
  }
  return out;
}

std::string page_html(const PageParts& parts) {
  const std::string title = xml_text(parts.title);
  std::string out =
      "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"" +
      std::string(parts.dark ? " data-theme=\"dark\"" : "") +
      std::string(parts.high_contrast ? " data-contrast=\"high\"" : "") +
      std::string(parts.in_turn ? "" : " data-sections=\"all\"") +
      ">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
      "style-src 'unsafe-inline'; script-src 'unsafe-inline'\"/>\n"
      "<meta name=\"generator\" content=\"kvloupe " KVLOUPE_VERSION "\"/>\n";
  out += "<title>" + title + "</title>\n<style>\n";
  out += parts.colours;
  out += page_style();
  out += "</style>\n</head>\n<body>\n<header><h1>" + title +
         "</h1><button type=\"button\" id=\"theme\">Dark</button></header>\n<main>\n";
  if (!parts.summary.empty()) out += "<p class=\"summary\">" + xml_text(parts.summary) + "</p>\n";
  out += parts.body;
  out +=
      "</main>\n<nav aria-label=\"Pages\"></nav>\n"
      "<footer><p class=\"keys\">Point at a token, a head or a step to see its value here and its "
      "place in every figure. With the keys: Tab goes to a figure, arrows move, Home and End "
      "jump, Enter holds the value, Esc releases it.</p><p>Values have three significant digits. "
      "Made with kvloupe "
      "" KVLOUPE_VERSION
      ".</p></footer>\n"
      "<div id=\"tip\" role=\"status\" hidden=\"hidden\"></div>\n"
      "<script type=\"application/json\" id=\"data\">";
  out += parts.data;
  // The script holds < and &: a CDATA section for readers of XML, a comment for all others.
  out += "</script>\n<script>//<![CDATA[\n";
  out += page_script();
  out += "//]]></script>\n</body>\n</html>\n";
  return out;
}

}  // namespace kvloupe::figure::html
