#pragma once

#include <imgui.h>

#include <set>
#include <string_view>

namespace kvloupe::figure {
class ImguiBackend;
class TextMetrics;
}  // namespace kvloupe::figure

namespace kvloupe::window {

/// Inter for the interface, JetBrains Mono for token text, DejaVu Sans and other fonts that
/// Fontconfig finds for missing glyphs.
class Fonts {
 public:
  /// Adds the characters of `utf8` to those that can be shown; takes effect at the next build.
  void need(std::string_view utf8);
  /// True when need() or a new scale calls for build().
  bool stale(float scale) const { return stale_ || scale != scale_; }
  /// Fills ImGui's atlas. Only outside a frame. Throws WorkError if no font is found.
  void build(float scale);

  ImFont* text = nullptr;       // Inter 15 px
  ImFont* secondary = nullptr;  // Inter 13 px
  ImFont* heading = nullptr;    // Inter semi-bold 15 px
  ImFont* italic = nullptr;     // Inter italic 15 px
  ImFont* title = nullptr;      // Inter semi-bold 20 px
  ImFont* mono = nullptr;       // JetBrains Mono 14 px
  float scale() const { return scale_; }

  // These draw text that ImGui cannot draw: letters that join or stack (shaped_text.h).
  const figure::TextMetrics* metrics = nullptr;
  figure::ImguiBackend* backend = nullptr;

 private:
  std::set<char32_t> extra_;
  bool stale_ = true;
  float scale_ = 0.0F;
};

}  // namespace kvloupe::window
