#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "app/export/page.h"

namespace kvloupe::figure::html {

/// Text blocks as HTML elements; neighbouring points of a list are one list.
std::string text_html(const std::vector<TextBlock>& blocks);

struct PageParts {
  std::string title, summary;  // plain text
  bool dark = false;
  bool high_contrast = false;
  bool in_turn = true;  // several sections one at a time
  std::string colours;  // style rules
  std::string body;     // sections, as HTML
  std::string data;     // JSON that cannot end its element
};

/// The whole file, also well-formed XML: head, style, body, data, script. It cannot load other
/// files.
std::string page_html(const PageParts& parts);

/// page.css and page.js, as of the build of the program.
std::string_view page_style();
std::string_view page_script();

}  // namespace kvloupe::figure::html
