#pragma once

#include <memory>

#include "app/scene/scene.h"
#include "app/scene/text_metrics.h"

struct ImDrawList;

namespace kvloupe::figure {

/// Draws scenes into Dear ImGui. Keeps data on the graphics card: one texture per image key, and
/// its own glyphs and markers, rasterised from the pinned fonts at the current pixel size, so that
/// a letter is at the same place as on paper. An OpenGL 3.3 context must be current in the
/// constructor, draw(), end_frame() and the destructor; one thread only.
class ImguiBackend {
 public:
  /// `fonts` must outlive the back end.
  explicit ImguiBackend(const TextMetrics& fonts);
  ~ImguiBackend();
  ImguiBackend(const ImguiBackend&) = delete;
  ImguiBackend& operator=(const ImguiBackend&) = delete;

  /// The scene's top left is at (x, y) pixels, with `scale` pixels per point. The background is
  /// filled if `background` is set. Cheap enough to call every frame.
  void draw(const Scene& scene, ImDrawList& list, float x, float y, float scale,
            bool background = true);

  /// One line of text outside a scene, its baseline from (x, y) on, `pixels` to the em, the colour
  /// as ImGui packs it.
  void draw_text(ImDrawList& list, std::string_view text, Font font, float x, float y,
                 double pixels, std::uint32_t colour);

  /// Call once after every frame: drops textures that were not drawn for a few seconds.
  void end_frame();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvloupe::figure
