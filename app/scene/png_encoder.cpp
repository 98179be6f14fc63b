#include "app/scene/png_encoder.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <csetjmp>
#include <cstdio>

#include "analysis/base/core/error.h"

namespace kvloupe::figure {

namespace {

/// Data for the callbacks of libpng. A C++ exception must not pass through its frames: an error is
/// kept here, and libpng jumps back to write_png().
struct Writer {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string bytes;
  char problem[200] = "";
  Writer() = default;
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto& writer = *static_cast<Writer*>(png_get_error_ptr(png));
  std::snprintf(writer.problem, sizeof writer.problem, "%s", message);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}
void on_write(png_structp png, png_bytep data, png_size_t length) {
  try {
    static_cast<Writer*>(png_get_io_ptr(png))
        ->bytes.append(reinterpret_cast<const char*>(data), length);
    return;
  } catch (...) {  // jumps only once the handler is left
  }
  png_error(png, "out of memory");
}
void on_flush(png_structp) {}

struct Header {
  png_uint_32 width = 0;
  png_uint_32 height = 0;
  bool opaque = false;
  png_uint_32 pixels_per_metre = 0;  // 0: not said
};

/// The calls of libpng, between which nothing has to be destroyed. False where it gave up.
bool write_png(Writer& writer, const Header& header, const std::vector<png_text>& texts,
               const std::vector<png_const_bytep>& rows) {
  if (setjmp(png_jmpbuf(writer.png)) != 0) return false;
  png_set_write_fn(writer.png, &writer, on_write, on_flush);
  png_set_IHDR(writer.png, writer.info, header.width, header.height, 8,
               header.opaque ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGBA, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (header.pixels_per_metre > 0) {
    png_set_pHYs(writer.png, writer.info, header.pixels_per_metre, header.pixels_per_metre,
                 PNG_RESOLUTION_METER);
  }
  if (!texts.empty())
    png_set_text(writer.png, writer.info, texts.data(), static_cast<int>(texts.size()));
  png_write_info(writer.png, writer.info);
  if (header.opaque) png_set_filler(writer.png, 0, PNG_FILLER_AFTER);  // drops the fourth byte
  for (png_const_bytep row : rows) png_write_row(writer.png, row);
  png_write_end(writer.png, nullptr);
  return true;
}

}  // namespace

std::string encode_png(const Pixels& pixels, const PngOptions& options) {
  const std::size_t stride = static_cast<std::size_t>(pixels.width) * 4;
  Header header{.width = static_cast<png_uint_32>(pixels.width),
                .height = static_cast<png_uint_32>(pixels.height),
                .opaque = true};
  for (std::size_t i = 3; i < pixels.rgba.size() && header.opaque; i += 4)
    header.opaque = pixels.rgba[i] == 255;
  if (options.pixels_per_point > 0) {
    header.pixels_per_metre =
        static_cast<png_uint_32>(std::lround(options.pixels_per_point * 72 / 0.0254));
  }
  std::vector<png_text> texts;
  for (const auto& [key, value] : options.metadata) {
    png_text text{};
    const bool ascii =
        std::all_of(value.begin(), value.end(), [](unsigned char c) { return c < 0x80; });
    text.compression = ascii ? PNG_TEXT_COMPRESSION_NONE : PNG_ITXT_COMPRESSION_NONE;
    text.key = const_cast<char*>(key.c_str());
    text.text = const_cast<char*>(value.c_str());
    (ascii ? text.text_length : text.itxt_length) = value.size();
    texts.push_back(text);
  }
  std::vector<png_const_bytep> rows;
  for (std::size_t y = 0; y < header.height; ++y) rows.push_back(pixels.rgba.data() + y * stride);

  Writer writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, on_error, on_warning);
  if (writer.png == nullptr) throw WorkError("PNG: libpng cannot start");
  writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr || !write_png(writer, header, texts, rows))
    throw WorkError(std::string("PNG: ") + writer.problem);
  return std::move(writer.bytes);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j > bytes.size() ? '=' : digits[group >> (18 - 6 * j) & 63];
    }
  }
  return out;
}

}  // namespace kvloupe::figure
