#include "app/scene/imgui_backend.h"

#include <GL/gl.h>
#include <fmt/format.h>
#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_OUTLINE_H
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>

#include "analysis/base/core/error.h"
#include "app/scene/cairo_backend.h"
#include "app/scene/polygon.h"

namespace kvloupe::figure {

namespace {

constexpr int page_side = 1024;
constexpr int keep_frames = 300;  // an image that was not drawn for so long is dropped

ImU32 packed(Colour c) { return IM_COL32(c.red, c.green, c.blue, c.alpha); }

/// Binds a texture and puts the old binding back.
class TextureBinding {
 public:
  explicit TextureBinding(GLuint texture) {
    glGetIntegerv(GL_TEXTURE_BINDING_2D, &before_);
    glBindTexture(GL_TEXTURE_2D, texture);
    glPixelStorei(GL_UNPACK_ALIGNMENT, 1);
    glPixelStorei(GL_UNPACK_ROW_LENGTH, 0);
  }
  ~TextureBinding() {
    glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
    glBindTexture(GL_TEXTURE_2D, static_cast<GLuint>(before_));
  }

 private:
  GLint before_ = 0;
};

GLuint make_texture(int width, int height, const void* rgba, bool smooth) {
  GLuint texture = 0;
  glGenTextures(1, &texture);
  const TextureBinding binding(texture);
  const GLint filter = smooth ? GL_LINEAR : GL_NEAREST;
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, filter);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, filter);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_S, GL_CLAMP_TO_EDGE);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_WRAP_T, GL_CLAMP_TO_EDGE);
  glTexImage2D(GL_TEXTURE_2D, 0, GL_RGBA8, width, height, 0, GL_RGBA, GL_UNSIGNED_BYTE, rgba);
  return texture;
}

ImTextureID id(GLuint texture) {
  return reinterpret_cast<ImTextureID>(static_cast<std::intptr_t>(texture));
}

Path moved(Path path, Point by, double scale) {
  for (Point& p : path.points) p = {by.x + p.x * scale, by.y + p.y * scale};
  return path;
}

/// A path on nothing, in pixels.
Pixels picture_of(const TextMetrics& fonts, const Path& path, int width, int height) {
  Scene scene;
  scene.width = width;
  scene.height = height;
  scene.background = {0, 0, 0, 0};
  scene.add(path);
  return render(scene, fonts, 1.0);
}

/// Coverage of a small picture: glyph or marker. Offset in pixels from its origin.
struct Coverage {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  std::vector<std::uint8_t> alpha;  // [height,width]
};

/// The place of a small picture in the atlas.
struct Sprite {
  int page = -1;  // −1: nothing to draw (a space)
  float left = 0, top = 0, width = 0, height = 0;
  float u0 = 0, v0 = 0, u1 = 0, v1 = 0;
};

/// Small white pictures packed into square pages, row by row.
class Atlas {
 public:
  ~Atlas() { clear(); }

  Sprite add(const Coverage& picture) {
    Sprite sprite;
    if (picture.width <= 0 || picture.height <= 0) return sprite;
    if (picture.width + 2 > page_side || picture.height + 2 > page_side) return sprite;
    if (x_ + picture.width + 1 > page_side) {
      x_ = 1;
      y_ += row_ + 1;
      row_ = 0;
    }
    if (pages_.empty() || y_ + picture.height + 1 > page_side) {
      const std::vector<std::uint8_t> blank(std::size_t{page_side} * page_side * 4, 0);
      pages_.push_back(make_texture(page_side, page_side, blank.data(), true));
      x_ = 1;
      y_ = 1;
      row_ = 0;
    }
    std::vector<std::uint8_t> rgba(picture.alpha.size() * 4, 255);
    for (std::size_t i = 0; i < picture.alpha.size(); ++i) rgba[i * 4 + 3] = picture.alpha[i];
    {
      const TextureBinding binding(pages_.back());
      glTexSubImage2D(GL_TEXTURE_2D, 0, x_, y_, picture.width, picture.height, GL_RGBA,
                      GL_UNSIGNED_BYTE, rgba.data());
    }
    constexpr float side = page_side;
    sprite = {static_cast<int>(pages_.size()) - 1,
              static_cast<float>(picture.left),
              static_cast<float>(picture.top),
              static_cast<float>(picture.width),
              static_cast<float>(picture.height),
              static_cast<float>(x_) / side,
              static_cast<float>(y_) / side,
              static_cast<float>(x_ + picture.width) / side,
              static_cast<float>(y_ + picture.height) / side};
    x_ += picture.width + 1;
    row_ = std::max(row_, picture.height);
    return sprite;
  }

  GLuint page(int index) const { return pages_[static_cast<std::size_t>(index)]; }
  std::size_t pages() const { return pages_.size(); }
  void clear() {
    if (!pages_.empty()) glDeleteTextures(static_cast<GLsizei>(pages_.size()), pages_.data());
    pages_.clear();
    x_ = y_ = 1;
    row_ = 0;
  }

 private:
  std::vector<GLuint> pages_;
  int x_ = 1;
  int y_ = 1;
  int row_ = 0;
};

/// A filled or outlined marker centred on its origin, as Cairo draws it.
Coverage marker_coverage(const TextMetrics& fonts, MarkerShape shape, double size, double stroke) {
  const int reach = static_cast<int>(std::ceil(size * 0.65 + stroke / 2 + 1.0));
  const Colour white{255, 255, 255, 255};
  Path path = moved(marker_path(shape, size), {1.0 * reach, 1.0 * reach}, 1.0);
  if (stroke > 0) path.stroke = Stroke{white, stroke, {}, {}};
  if (stroke <= 0) path.fill = white;
  const Pixels pixels = picture_of(fonts, path, 2 * reach, 2 * reach);
  Coverage picture{-reach, -reach, pixels.width, pixels.height, {}};
  for (std::size_t i = 3; i < pixels.rgba.size(); i += 4) picture.alpha.push_back(pixels.rgba[i]);
  return picture;
}

/// A rectangle along the axes.
bool is_rectangle(const Polyline& line) {
  const std::vector<Point>& p = line.points;
  return p.size() == 4 && p[0].y == p[1].y && p[1].x == p[2].x && p[2].y == p[3].y &&
         p[3].x == p[0].x;
}

/// Rectangles of which painting one upon the other fills what the path does.
bool are_rectangles(const std::vector<Polyline>& lines, bool opaque) {
  const auto turns = [](const Polyline& line) {
    return (line.points[1].x > line.points[0].x) == (line.points[2].y > line.points[1].y);
  };
  return std::all_of(lines.begin(), lines.end(), [&](const Polyline& line) {
    return is_rectangle(line) && (lines.size() == 1 || (opaque && turns(line) == turns(lines[0])));
  });
}

void push_quad(ImDrawList& list, const Sprite& s, float x, float y, ImU32 colour) {
  list.PrimRectUV({x + s.left, y + s.top}, {x + s.left + s.width, y + s.top + s.height},
                  {s.u0, s.v0}, {s.u1, s.v1}, colour);
}

}  // namespace

struct ImguiBackend::Impl {
  using GlyphKey =
      std::tuple<int, std::uint32_t, int, int, bool>;  // face, glyph, size, shift, turned
  using MarkerKey = std::tuple<int, int, int>;         // shape, size, stroke (0: filled)
  struct Texture {
    GLuint id = 0;
    int last_frame = 0;
    int keep = keep_frames;
  };

  explicit Impl(const TextMetrics& fonts_) : fonts(fonts_) {
    if (FT_Init_FreeType(&library) != 0) throw WorkError("fonts: FreeType cannot start");
  }
  ~Impl() {
    for (auto& [face, handle] : faces) FT_Done_Face(handle);
    FT_Done_FreeType(library);
    for (auto& [key, texture] : textures) glDeleteTextures(1, &texture.id);
  }

  FT_Face face(int index) {
    if (const auto it = faces.find(index); it != faces.end()) return it->second;
    FT_Face handle = nullptr;
    const FontFace font = fonts.face(index);
    if (FT_New_Face(library, font.path.c_str(), font.index, &handle) != 0) {
      throw FileError(font.path, "can no longer be read as a font; reinstall its package");
    }
    return faces[index] = handle;
  }

  /// size in 1/64 pixel, shift in quarter pixels along the text.
  const Sprite& glyph(int face_index, std::uint32_t index, int size, int shift, bool turned) {
    const GlyphKey key{face_index, index, size, shift, turned};
    if (const auto it = glyphs.find(key); it != glyphs.end()) return it->second;
    Coverage picture;
    const FT_Face f = face(face_index);
    FT_Set_Char_Size(f, 0, size, 72, 72);
    if (FT_Load_Glyph(f, index, FT_LOAD_NO_HINTING | FT_LOAD_NO_BITMAP) == 0 &&
        f->glyph->format == FT_GLYPH_FORMAT_OUTLINE) {
      FT_Outline_Translate(&f->glyph->outline, shift * 16, 0);
      if (turned) {
        FT_Matrix quarter{0, -0x10000, 0x10000, 0};
        FT_Outline_Transform(&f->glyph->outline, &quarter);
      }
      if (FT_Render_Glyph(f->glyph, FT_RENDER_MODE_NORMAL) == 0) {
        const FT_Bitmap& b = f->glyph->bitmap;
        picture = {f->glyph->bitmap_left,
                   -f->glyph->bitmap_top,
                   static_cast<int>(b.width),
                   static_cast<int>(b.rows),
                   {}};
        picture.alpha.resize(std::size_t{b.width} * b.rows);
        for (unsigned y = 0; y < b.rows; ++y) {
          std::copy_n(b.buffer + static_cast<std::ptrdiff_t>(y) * b.pitch, b.width,
                      picture.alpha.begin() + static_cast<std::ptrdiff_t>(y) * b.width);
        }
      }
    }
    return glyphs[key] = atlas.add(picture);
  }

  const Sprite& marker(MarkerShape shape, double size, double stroke) {
    // A stroke's key is at least 1, so that 0 says filled.
    const MarkerKey key{static_cast<int>(shape), static_cast<int>(std::lround(size * 8)),
                        stroke > 0 ? std::max(1, static_cast<int>(std::lround(stroke * 8))) : 0};
    if (const auto it = markers.find(key); it != markers.end()) return it->second;
    return markers[key] = atlas.add(marker_coverage(fonts, shape, size, stroke));
  }

  void draw(ImDrawList& list, const Path& path) {
    const std::vector<Polyline> lines = flatten(path, 0.1 / scale);
    if (path.fill) fill(list, path, lines);
    if (!path.stroke) return;
    for (const Polyline& line : lines) stroke(list, line, *path.stroke);
  }

  /// Other shapes than rectangles are painted by Cairo, as on paper, where they can be seen.
  void fill(ImDrawList& list, const Path& path, const std::vector<Polyline>& lines) {
    if (are_rectangles(lines, path.fill->alpha == 255)) {
      for (const Polyline& line : lines)
        list.AddRectFilled(place(line.points[0]), place(line.points[2]), packed(*path.fill));
      return;
    }
    const ImVec2 least = list.GetClipRectMin(), most = list.GetClipRectMax();
    double left = most.x, top = most.y, right = least.x, bottom = least.y;
    for (const Polyline& line : lines) {
      for (const Point p : line.points) {
        const ImVec2 q = place(p);
        left = std::min(left, std::floor(q.x - 1.0));
        right = std::max(right, std::ceil(q.x + 1.0));
        top = std::min(top, std::floor(q.y - 1.0));
        bottom = std::max(bottom, std::ceil(q.y + 1.0));
      }
    }
    left = std::max(left, std::floor(1.0 * least.x));
    top = std::max(top, std::floor(1.0 * least.y));
    const int width = static_cast<int>(std::min(right, std::ceil(1.0 * most.x)) - left);
    const int height = static_cast<int>(std::min(bottom, std::ceil(1.0 * most.y)) - top);
    if (width <= 0 || height <= 0) return;
    Path own = moved(path, {origin_x - left, origin_y - top}, scale);
    own.stroke.reset();
    std::string key(reinterpret_cast<const char*>(own.points.data()),
                    own.points.size() * sizeof(Point));
    key.append(reinterpret_cast<const char*>(own.verbs.data()), own.verbs.size());
    key += fmt::format("/fill {} {} {}", width, height, packed(*own.fill));
    Texture& texture = textures[std::move(key)];
    if (texture.id == 0) {
      const Pixels pixels = picture_of(fonts, own, width, height);
      texture.id = make_texture(width, height, pixels.rgba.data(), false);
      texture.keep = 2;
    }
    texture.last_frame = frame;
    const ImVec2 at{static_cast<float>(left), static_cast<float>(top)};
    list.AddImage(id(texture.id), at,
                  {at.x + static_cast<float>(width), at.y + static_cast<float>(height)});
  }

  void stroke(ImDrawList& list, const Polyline& line, const Stroke& style) {
    const float width = std::max(1.0F, static_cast<float>(style.width) * scale);
    const ImU32 colour = packed(style.colour);
    for (const Polyline& piece : dashed(line, style.dash)) {
      const auto& p = piece.points;
      if (p.size() == 2 && (p[0].x == p[1].x || p[0].y == p[1].y)) {  // crisp on the pixel grid
        ImVec2 a = place(p[0]);
        ImVec2 b = place(p[1]);
        const float w = std::round(width);
        if (p[0].x == p[1].x) {
          const float left = std::round(a.x - w / 2);
          list.AddRectFilled({left, std::min(a.y, b.y)}, {left + w, std::max(a.y, b.y)}, colour);
        } else {
          const float top = std::round(a.y - w / 2);
          list.AddRectFilled({std::min(a.x, b.x), top}, {std::max(a.x, b.x), top + w}, colour);
        }
        continue;
      }
      std::vector<ImVec2> points;
      points.reserve(p.size());
      for (const Point q : p) points.push_back(place(q));
      list.AddPolyline(points.data(), static_cast<int>(points.size()), colour,
                       piece.closed ? ImDrawFlags_Closed : ImDrawFlags_None, width);
    }
  }

  void draw(ImDrawList& list, const Markers& batch) {
    const auto pass = [&](const Sprite& sprite, Colour colour) {
      if (sprite.page < 0) return;
      list.PushTextureID(id(atlas.page(sprite.page)));
      constexpr std::size_t chunk = 4096;  // 16-bit vertex indices
      for (std::size_t from = 0; from < batch.points.size(); from += chunk) {
        const std::size_t count = std::min(chunk, batch.points.size() - from);
        list.PrimReserve(static_cast<int>(count * 6), static_cast<int>(count * 4));
        for (std::size_t i = from; i < from + count; ++i) {
          const ImVec2 p = place(batch.points[i]);
          push_quad(list, sprite, p.x, p.y, packed(colour));
        }
      }
      list.PopTextureID();
    };
    const double size = batch.size * static_cast<double>(scale);
    if (batch.fill) pass(marker(batch.shape, size, 0.0), *batch.fill);
    if (batch.stroke) {
      pass(marker(batch.shape, size,
                  std::max(1.0, batch.stroke->width * static_cast<double>(scale))),
           batch.stroke->colour);
    }
  }

  void draw(ImDrawList& list, const Text& text) {
    draw_text(list, text.text, text.font, place(text.start()),
              text.size * static_cast<double>(scale), text.turned, packed(text.colour));
  }

  void draw_text(ImDrawList& list, std::string_view text, Font font, ImVec2 start, double pixels,
                 bool turned, ImU32 colour) {
    const int size = static_cast<int>(std::lround(pixels * 64.0));
    if (size <= 0) return;
    int page = -1;
    for (const Glyph& g : fonts.layout(text, font)) {
      // Across the text the baseline sits on a pixel; along it, glyphs sit on quarter pixels.
      const double along = (g.x + g.right) * pixels;
      const auto above = static_cast<float>(g.up * pixels);  // the baseline: a mark on a letter
      double exact =
          turned ? static_cast<double>(start.y) - along : static_cast<double>(start.x) + along;
      const double steps = turned ? std::floor(-exact * 4 + 0.5) : std::floor(exact * 4 + 0.5);
      const int shift = static_cast<int>(steps - std::floor(steps / 4) * 4);
      const auto whole = static_cast<float>(std::floor(steps / 4));
      const Sprite& sprite = glyph(g.face, g.index, size, shift, turned);
      if (sprite.page < 0) continue;
      if (sprite.page != page) {
        if (page >= 0) list.PopTextureID();
        page = sprite.page;
        list.PushTextureID(id(atlas.page(page)));
      }
      list.PrimReserve(6, 4);
      if (turned) {
        push_quad(list, sprite, std::round(start.x - above), -whole, colour);
      } else {
        push_quad(list, sprite, whole, std::round(start.y - above), colour);
      }
    }
    if (page >= 0) list.PopTextureID();
  }

  void draw(ImDrawList& list, const Image& image) {
    if (!image.pixels || image.pixels->width <= 0 || image.pixels->height <= 0) return;
    const bool smooth = image.interpolation == Interpolation::smooth;
    Texture& texture = textures[image.key + (smooth ? "/smooth" : "/nearest")];
    if (texture.id == 0) {
      texture.id = make_texture(image.pixels->width, image.pixels->height,
                                image.pixels->rgba.data(), smooth);
    }
    texture.last_frame = frame;
    list.AddImage(id(texture.id), place({image.rect.x, image.rect.y}),
                  place({image.rect.right(), image.rect.bottom()}));
  }

  void draw(ImDrawList& list, const PushClip& clip) {
    list.PushClipRect(place({clip.rect.x, clip.rect.y}),
                      place({clip.rect.right(), clip.rect.bottom()}), true);
  }
  void draw(ImDrawList& list, const PopClip&) { list.PopClipRect(); }

  ImVec2 place(Point p) const {
    return {origin_x + static_cast<float>(p.x) * scale, origin_y + static_cast<float>(p.y) * scale};
  }

  const TextMetrics& fonts;
  FT_Library library = nullptr;
  std::map<int, FT_Face> faces;
  Atlas atlas;
  std::map<GlyphKey, Sprite> glyphs;
  std::map<MarkerKey, Sprite> markers;
  std::unordered_map<std::string, Texture> textures;
  int frame = 0;
  float origin_x = 0;
  float origin_y = 0;
  float scale = 1;
};

ImguiBackend::ImguiBackend(const TextMetrics& fonts) : impl_(std::make_unique<Impl>(fonts)) {}
ImguiBackend::~ImguiBackend() = default;

void ImguiBackend::draw(const Scene& scene, ImDrawList& list, float x, float y, float scale,
                        bool background) {
  impl_->origin_x = x;
  impl_->origin_y = y;
  impl_->scale = scale;
  if (background) {
    list.AddRectFilled(impl_->place({0, 0}), impl_->place({scene.width, scene.height}),
                       packed(scene.background));
  }
  for (const Item& item : scene.items) {
    std::visit([&](const auto& one) { impl_->draw(list, one); }, item);
  }
}

void ImguiBackend::draw_text(ImDrawList& list, std::string_view text, Font font, float x, float y,
                             double pixels, std::uint32_t colour) {
  impl_->draw_text(list, text, font, {x, y}, pixels, false, colour);
}

void ImguiBackend::end_frame() {
  ++impl_->frame;
  std::erase_if(impl_->textures, [&](auto& entry) {
    if (impl_->frame - entry.second.last_frame < entry.second.keep) return false;
    glDeleteTextures(1, &entry.second.id);
    return true;
  });
  // Many text sizes were used since the start: begin again with those in use.
  if (impl_->atlas.pages() > 6) {
    impl_->atlas.clear();
    impl_->glyphs.clear();
    impl_->markers.clear();
  }
}

}  // namespace kvloupe::figure
