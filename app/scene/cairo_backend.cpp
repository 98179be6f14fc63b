#include "app/scene/cairo_backend.h"

#include <cairo-ft.h>
#include <cairo-pdf.h>
#include <cairo.h>
#include <fmt/format.h>
#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numbers>
#include <span>

#include "analysis/base/core/error.h"
#include "app/scene/png_encoder.h"
#include "app/scene/scene.h"
#include "app/scene/svg_text.h"
#include "version.h"

namespace kvloupe::figure {

namespace {

struct SurfaceCloser {
  void operator()(cairo_surface_t* surface) const { cairo_surface_destroy(surface); }
};
using Surface = std::unique_ptr<cairo_surface_t, SurfaceCloser>;
struct ContextCloser {
  void operator()(cairo_t* context) const { cairo_destroy(context); }
};
using Context = std::unique_ptr<cairo_t, ContextCloser>;

void check(cairo_status_t status, const char* what) {
  if (status == CAIRO_STATUS_NO_MEMORY) throw std::bad_alloc();
  if (status != CAIRO_STATUS_SUCCESS) {
    throw WorkError(std::string(what) + ": Cairo reports " + cairo_status_to_string(status));
  }
}

/// Cairo's view of the font files in use. Cairo may hold a face longer than this object does, so
/// the FreeType face goes away with Cairo's own.
class Faces {
 public:
  explicit Faces(const TextMetrics& fonts) : fonts_(fonts) {}
  ~Faces() {
    for (auto& [index, face] : faces_) cairo_font_face_destroy(face);
  }
  Faces(const Faces&) = delete;
  Faces& operator=(const Faces&) = delete;

  cairo_font_face_t* get(int index) {
    if (const auto it = faces_.find(index); it != faces_.end()) return it->second;
    const FontFace font = fonts_.face(index);
    auto handle = std::make_unique<Handle>();
    if (FT_Init_FreeType(&handle->library) != 0 ||
        FT_New_Face(handle->library, font.path.c_str(), font.index, &handle->face) != 0) {
      throw FileError(font.path, "can no longer be read as a font; reinstall its package");
    }
    cairo_font_face_t* face =
        cairo_ft_font_face_create_for_ft_face(handle->face, FT_LOAD_NO_HINTING);
    static const cairo_user_data_key_t key{};
    check(cairo_font_face_set_user_data(face, &key, handle.get(),
                                        [](void* data) { delete static_cast<Handle*>(data); }),
          "font");
    handle.release();
    return faces_[index] = face;
  }

 private:
  struct Handle {
    FT_Library library = nullptr;
    FT_Face face = nullptr;
    ~Handle() {
      if (face != nullptr) FT_Done_Face(face);
      if (library != nullptr) FT_Done_FreeType(library);
    }
  };
  const TextMetrics& fonts_;
  std::map<int, cairo_font_face_t*> faces_;
};

/// Premultiplied, in the machine's own byte order.
Surface to_surface(const Pixels& pixels) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_ARGB32, pixels.width, pixels.height));
  check(cairo_surface_status(surface.get()), "image");
  unsigned char* data = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  for (int y = 0; y < pixels.height; ++y) {
    auto* row = reinterpret_cast<std::uint32_t*>(data + static_cast<std::ptrdiff_t>(y) * stride);
    const std::uint8_t* from = pixels.rgba.data() + static_cast<std::size_t>(y) *
                                                        static_cast<std::size_t>(pixels.width) * 4;
    for (int x = 0; x < pixels.width; ++x, from += 4) {
      const std::uint32_t alpha = from[3];
      const auto part = [&](std::uint32_t c) { return (c * alpha + 127) / 255; };
      row[x] = alpha << 24 | part(from[0]) << 16 | part(from[1]) << 8 | part(from[2]);
    }
  }
  cairo_surface_mark_dirty(surface.get());
  return surface;
}

class CairoWriter {
 public:
  /// `for_others`: another program draws the written file; it is not drawn into pixels here.
  CairoWriter(cairo_t* context, const TextMetrics& fonts, bool for_others)
      : cr_(context), fonts_(fonts), faces_(fonts), for_others_(for_others) {}

  void operator()(const Path& path) {
    trace(path, {0, 0});
    paint(path.fill, path.stroke);
  }

  void operator()(const Markers& markers) {
    const Path one = marker_path(markers.shape, markers.size);
    // In lots: one path of many thousand overlapping outlines is slow to fill.
    constexpr std::size_t lot = 200;
    for (std::size_t i = 0; i < markers.points.size(); ++i) {
      trace(one, markers.points[i]);
      if ((i + 1) % lot == 0) paint(markers.fill, markers.stroke);
    }
    paint(markers.fill, markers.stroke);
  }

  void operator()(const Text& text) {
    const std::string words = valid(text.text);
    const std::vector<Glyph> layout = fonts_.layout(words, text.font);
    std::vector<std::size_t> starts;  // of clusters, in the order of reading
    for (const Glyph& glyph : layout) starts.push_back(glyph.byte);
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    starts.push_back(words.size());
    cairo_save(cr_);
    const Point start = text.start();
    cairo_translate(cr_, start.x, start.y);
    if (text.turned) cairo_rotate(cr_, -std::numbers::pi / 2);
    source(text.colour);
    for (std::size_t from = 0; from < layout.size();) {
      std::size_t end = from;
      while (end < layout.size() && layout[end].run == layout[from].run) ++end;
      show(words, text.size, {layout.data() + from, layout.data() + end}, starts);
      from = end;
    }
    cairo_restore(cr_);
  }

  void operator()(const Image& image) {
    if (!image.pixels || image.pixels->width <= 0 || image.pixels->height <= 0) return;
    const auto pixels = for_others_ ? enlarged(image) : image.pixels;
    const Surface surface = to_surface(*pixels);
    cairo_save(cr_);
    cairo_rectangle(cr_, image.rect.x, image.rect.y, image.rect.width, image.rect.height);
    cairo_clip(cr_);
    cairo_translate(cr_, image.rect.x, image.rect.y);
    cairo_scale(cr_, image.rect.width / pixels->width, image.rect.height / pixels->height);
    cairo_set_source_surface(cr_, surface.get(), 0, 0);
    cairo_pattern_set_filter(cairo_get_source(cr_), image.interpolation == Interpolation::smooth
                                                        ? CAIRO_FILTER_BILINEAR
                                                        : CAIRO_FILTER_NEAREST);
    cairo_pattern_set_extend(cairo_get_source(cr_), CAIRO_EXTEND_PAD);
    cairo_paint(cr_);
    cairo_restore(cr_);
  }

  void operator()(const PushClip& clip) {
    cairo_save(cr_);
    cairo_rectangle(cr_, clip.rect.x, clip.rect.y, clip.rect.width, clip.rect.height);
    cairo_clip(cr_);
  }

  void operator()(const PopClip&) { cairo_restore(cr_); }

 private:
  void source(Colour c) {
    cairo_set_source_rgba(cr_, c.red / 255.0, c.green / 255.0, c.blue / 255.0, c.alpha / 255.0);
  }

  void trace(const Path& path, Point offset) {
    std::size_t at = 0;
    const auto next = [&] {
      const Point p = path.points[at++];
      return Point{p.x + offset.x, p.y + offset.y};
    };
    for (const PathVerb verb : path.verbs) {
      switch (verb) {
        case PathVerb::move: {
          const Point p = next();
          cairo_move_to(cr_, p.x, p.y);
          break;
        }
        case PathVerb::line: {
          const Point p = next();
          cairo_line_to(cr_, p.x, p.y);
          break;
        }
        case PathVerb::curve: {
          const Point a = next();
          const Point b = next();
          const Point end = next();
          cairo_curve_to(cr_, a.x, a.y, b.x, b.y, end.x, end.y);
          break;
        }
        case PathVerb::close:
          cairo_close_path(cr_);
          break;
      }
    }
  }

  void paint(const std::optional<Colour>& fill, const std::optional<Stroke>& stroke) {
    if (fill) {
      source(*fill);
      cairo_fill_preserve(cr_);
    }
    if (stroke) {
      source(stroke->colour);
      cairo_set_line_width(cr_, stroke->width);
      cairo_set_dash(cr_, stroke->dash.data(), static_cast<int>(stroke->dash.size()), 0.0);
      const bool round = stroke->cap == Cap::round;
      cairo_set_line_cap(cr_, round ? CAIRO_LINE_CAP_ROUND : CAIRO_LINE_CAP_BUTT);
      cairo_set_line_join(cr_, round ? CAIRO_LINE_JOIN_ROUND : CAIRO_LINE_JOIN_MITER);
      cairo_set_miter_limit(cr_, kMiterLimit);
      cairo_stroke_preserve(cr_);
    }
    cairo_new_path(cr_);
  }

  /// The text as Cairo takes it: invalid UTF-8, and NUL, as U+FFFD.
  static std::string valid(const std::string& text) {
    std::string out;
    for (std::size_t byte = 0; byte < text.size();) {
      const std::size_t from = byte;
      const std::uint32_t character = next_character(text, byte);
      if (character == 0xFFFD || character == 0) {
        out += "\xEF\xBF\xBD";
      } else {
        out.append(text, from, byte - from);
      }
    }
    return out;
  }

  /// Glyphs of one run, tied to their characters so that PDF text can be searched and copied.
  /// `starts`: where each cluster of the text starts, and its end.
  void show(const std::string& text, double size, std::span<const Glyph> run,
            const std::vector<std::size_t>& starts) {
    std::vector<cairo_glyph_t> glyphs;
    std::map<std::size_t, int> counts;  // of glyphs, by the byte where their cluster starts
    for (const Glyph& glyph : run) {
      glyphs.push_back({glyph.index, (glyph.x + glyph.right) * size, -glyph.up * size});
      ++counts[glyph.byte];
    }
    std::vector<cairo_text_cluster_t> clusters;
    std::size_t end = 0;
    for (const auto& [byte, count] : counts) {
      end = *std::upper_bound(starts.begin(), starts.end(), byte);
      clusters.push_back({static_cast<int>(end - byte), count});
    }
    const std::string part = text.substr(counts.begin()->first, end - counts.begin()->first);
    cairo_set_font_face(cr_, faces_.get(run.front().face));
    cairo_set_font_size(cr_, size);
    cairo_font_options_t* options = cairo_font_options_create();
    cairo_font_options_set_hint_style(options, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_OFF);
    cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
    cairo_set_font_options(cr_, options);
    cairo_font_options_destroy(options);
    cairo_show_text_glyphs(cr_, part.data(), static_cast<int>(part.size()), glyphs.data(),
                           static_cast<int>(glyphs.size()), clusters.data(),
                           static_cast<int>(clusters.size()),
                           run.front().right_to_left ? CAIRO_TEXT_CLUSTER_FLAG_BACKWARD
                                                     : static_cast<cairo_text_cluster_flags_t>(0));
  }

  cairo_t* cr_;
  const TextMetrics& fonts_;
  Faces faces_;
  bool for_others_;
};

void draw(cairo_t* context, const Scene& scene, CairoWriter& writer) {
  if (scene.background.alpha > 0) {
    const Colour b = scene.background;
    cairo_set_source_rgba(context, b.red / 255.0, b.green / 255.0, b.blue / 255.0, b.alpha / 255.0);
    cairo_paint(context);
  }
  for (const Item& item : scene.items) std::visit(writer, item);
  check(cairo_status(context), "figure");
}

void describe(cairo_surface_t* surface, const Scene& scene) {
  std::string settings;
  for (const auto& [key, value] : scene.metadata) {
    if (!settings.empty()) settings += "; ";
    settings += key + ": " + value;
  }
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, scene.title.c_str());
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_SUBJECT, scene.caption.c_str());
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_KEYWORDS, settings.c_str());
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATOR, "kvloupe " KVLOUPE_VERSION);
  // Without a date of its own the file would differ from one export to the next.
  cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATE_DATE, "2000-01-01T00:00:00Z");
}

void add_links(cairo_t* context, const std::vector<PdfLink>& links) {
  for (const PdfLink& link : links) {
    const std::string attributes =
        fmt::format("rect=[{:.2f} {:.2f} {:.2f} {:.2f}] uri='{}'", link.rect.x, link.rect.y,
                    link.rect.width, link.rect.height, link.address);
    cairo_tag_begin(context, CAIRO_TAG_LINK, attributes.c_str());
    cairo_tag_end(context, CAIRO_TAG_LINK);
  }
}

}  // namespace

std::string write_pdf(const Scene& scene, const TextMetrics& fonts) {
  return write_pdf({PdfPage{scene, {}, {}}}, fonts);
}

std::string write_pdf(const std::vector<PdfPage>& pages, const TextMetrics& fonts) {
  std::string bytes;
  const auto append = [](void* closure, const unsigned char* data, unsigned length) {
    static_cast<std::string*>(closure)->append(reinterpret_cast<const char*>(data), length);
    return CAIRO_STATUS_SUCCESS;
  };
  {
    const Scene& first = pages.at(0).scene;
    const Surface surface(
        cairo_pdf_surface_create_for_stream(append, &bytes, first.width, first.height));
    describe(surface.get(), first);
    const Context context(cairo_create(surface.get()));
    CairoWriter writer(context.get(), fonts, true);  // one for all pages: fonts are embedded once
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const PdfPage& page = pages[i];
      cairo_pdf_surface_set_size(surface.get(), page.scene.width, page.scene.height);
      for (const std::string& chapter : page.chapters) {
        cairo_pdf_surface_add_outline(surface.get(), CAIRO_PDF_OUTLINE_ROOT, chapter.c_str(),
                                      fmt::format("page={} pos=[0 0]", i + 1).c_str(),
                                      static_cast<cairo_pdf_outline_flags_t>(0));
      }
      draw(context.get(), page.scene, writer);
      add_links(context.get(), page.links);
      cairo_show_page(context.get());
    }
    check(cairo_status(context.get()), "PDF");
    cairo_surface_finish(surface.get());
    check(cairo_surface_status(surface.get()), "PDF");
  }
  return bytes;
}

Pixels render(const Scene& scene, const TextMetrics& fonts, double pixels_per_point) {
  Pixels pixels;
  pixels.width = std::max(1, static_cast<int>(std::lround(scene.width * pixels_per_point)));
  pixels.height = std::max(1, static_cast<int>(std::lround(scene.height * pixels_per_point)));
  const Surface surface(
      cairo_image_surface_create(CAIRO_FORMAT_ARGB32, pixels.width, pixels.height));
  check(cairo_surface_status(surface.get()), "PNG");
  {
    const Context context(cairo_create(surface.get()));
    cairo_scale(context.get(), pixels.width / scene.width, pixels.height / scene.height);
    CairoWriter writer(context.get(), fonts, false);
    draw(context.get(), scene, writer);
  }
  cairo_surface_flush(surface.get());
  const unsigned char* data = cairo_image_surface_get_data(surface.get());
  const int stride = cairo_image_surface_get_stride(surface.get());
  pixels.rgba.resize(static_cast<std::size_t>(pixels.width) *
                     static_cast<std::size_t>(pixels.height) * 4);
  std::uint8_t* out = pixels.rgba.data();
  for (int y = 0; y < pixels.height; ++y) {
    const auto* row =
        reinterpret_cast<const std::uint32_t*>(data + static_cast<std::ptrdiff_t>(y) * stride);
    for (int x = 0; x < pixels.width; ++x, out += 4) {
      const std::uint32_t p = row[x];
      const std::uint32_t alpha = p >> 24;
      const auto part = [&](int shift) {
        const std::uint32_t c = p >> shift & 0xFF;
        return static_cast<std::uint8_t>(
            alpha == 0 ? 0 : std::min(255U, (c * 255 + alpha / 2) / alpha));
      };
      out[0] = part(16);
      out[1] = part(8);
      out[2] = part(0);
      out[3] = static_cast<std::uint8_t>(alpha);
    }
  }
  return pixels;
}

std::string write_png(const Scene& scene, const TextMetrics& fonts, double pixels_per_point) {
  PngOptions options;
  options.pixels_per_point = pixels_per_point;
  options.metadata.emplace_back("Title", scene.title);
  if (!scene.caption.empty()) options.metadata.emplace_back("Description", scene.caption);
  options.metadata.emplace_back("Software", "kvloupe " KVLOUPE_VERSION);
  for (const auto& entry : scene.metadata) options.metadata.push_back(entry);
  return encode_png(render(scene, fonts, pixels_per_point), options);
}

}  // namespace kvloupe::figure
