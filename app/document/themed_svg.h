#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/scene/scene.h"
#include "app/scene/style.h"

namespace kvloupe::figure::document {

/// The colours of a page. A colour that differs between the themes is a CSS variable, so that one
/// drawing serves both.
class ThemeColours {
 public:
  /// Attributes of an element with this fill and stroke, in the light and in the dark theme; `more`
  /// gives further classes.
  std::string attributes(const std::optional<Colour>& fill, const std::optional<Colour>& dark_fill,
                         const std::optional<Stroke>& stroke,
                         const std::optional<Stroke>& dark_stroke, std::string more = {});
  /// Style rules: the variables of the light theme and of this dark one, those of the page itself
  /// included, and the classes that use them.
  std::string css(Theme dark_theme) const;

 private:
  int number_of(Colour light, Colour dark);
  std::map<std::pair<std::uint32_t, std::uint32_t>, int> numbers_;
};

/// The items of a scene drawn in both themes, each as SVG; joined they are the content of an <svg>.
/// An item that differs in more than colours is written twice, with the classes "light" and "dark".
/// `prefix` makes the ids unique for each figure; equal items get equal text, so that the pictures
/// of one figure can share them.
class ThemedSvg {
 public:
  ThemedSvg(std::string prefix, ThemeColours& colours)
      : prefix_(std::move(prefix)), colours_(colours) {}
  std::vector<std::string> items(const Scene& light, const Scene& dark);

 private:
  std::string item(const Item& light, const Item& dark);
  std::string path(const Path& light, const Path& dark);
  std::string markers(const Markers& light, const Markers& dark);
  std::string text(const Text& light, const Text& dark);
  std::string image(const Image& image);
  std::string clip(const PushClip& clip);

  std::string prefix_;
  ThemeColours& colours_;
  std::map<std::string, int> marker_ids_;
  std::map<std::string, int> clip_ids_;
};

}  // namespace kvloupe::figure::document
