#pragma once

#include <string>
#include <string_view>

#include "app/scene/scene.h"

namespace kvloupe::figure {

/// For text and attributes of XML and HTML: & < > " as entities; characters that XML cannot hold,
/// and bytes that are not UTF-8, become U+FFFD.
std::string xml_text(std::string_view text);

/// Attributes of a `text` element in a script that the reader's program shapes: all of its font's
/// rules, and the width it has on paper, whatever font it finds. Empty for other text.
std::string shaping_attributes(const Text& text);

/// A length without trailing zeros, with at most this many decimals.
std::string xml_number(double value, int decimals = 3);

/// Appends the path as SVG path data, every point moved by `offset`. `number(double)` writes a
/// coordinate.
template <class Number>
void append_svg_path(std::string& out, const Path& path, const Number& number, Point offset = {}) {
  std::size_t at = 0;
  const auto points = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const Point p = path.points[at++];
      if (i > 0) out += ' ';
      out += number(p.x + offset.x) + ' ' + number(p.y + offset.y);
    }
  };
  for (const PathVerb verb : path.verbs) {
    switch (verb) {
      case PathVerb::move:
        out += 'M';
        points(1);
        break;
      case PathVerb::line:
        out += 'L';
        points(1);
        break;
      case PathVerb::curve:
        out += 'C';
        points(3);
        break;
      case PathVerb::close:
        out += 'Z';
        break;
    }
  }
}

/// How far the corner of a stroke may reach, in its widths: sharper corners are cut off. Else the
/// corner of a steep curve reaches beyond its point. A triangle's corner of 60° takes 2.
inline constexpr double kMiterLimit = 2.2;

}  // namespace kvloupe::figure
