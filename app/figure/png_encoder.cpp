#include "app/figure/png_encoder.h"

#include <png.h>

#include <algorithm>
#include <cmath>

#include "analysis/error.h"

namespace kvloupe::figure {

namespace {

[[noreturn]] void on_error(png_structp, png_const_charp message) {
  throw WorkError(std::string("PNG: ") + message);
}
void on_warning(png_structp, png_const_charp) {}
void on_write(png_structp png, png_bytep data, png_size_t length) {
  static_cast<std::string*>(png_get_io_ptr(png))
      ->append(reinterpret_cast<const char*>(data), length);
}
void on_flush(png_structp) {}

struct Writer {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

}  // namespace

std::string encode_png(const Pixels& pixels, const PngOptions& options) {
  const std::size_t stride = static_cast<std::size_t>(pixels.width) * 4;
  bool opaque = true;
  for (std::size_t i = 3; i < pixels.rgba.size() && opaque; i += 4) opaque = pixels.rgba[i] == 255;

  std::string bytes;
  Writer writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, on_warning);
  if (writer.png == nullptr) throw WorkError("PNG: libpng cannot start");
  writer.info = png_create_info_struct(writer.png);
  png_set_write_fn(writer.png, &bytes, on_write, on_flush);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(pixels.width),
               static_cast<png_uint_32>(pixels.height), 8,
               opaque ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_RGBA, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (options.pixels_per_point > 0) {
    const auto per_metre =
        static_cast<png_uint_32>(std::lround(options.pixels_per_point * 72 / 0.0254));
    png_set_pHYs(writer.png, writer.info, per_metre, per_metre, PNG_RESOLUTION_METER);
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
  if (!texts.empty())
    png_set_text(writer.png, writer.info, texts.data(), static_cast<int>(texts.size()));
  png_write_info(writer.png, writer.info);
  std::vector<std::uint8_t> row(stride);
  for (int y = 0; y < pixels.height; ++y) {
    const std::uint8_t* from = pixels.rgba.data() + static_cast<std::size_t>(y) * stride;
    if (opaque) {
      for (std::size_t x = 0; x < static_cast<std::size_t>(pixels.width); ++x) {
        std::copy_n(from + x * 4, 3, row.data() + x * 3);
      }
    } else {
      std::copy_n(from, stride, row.data());
    }
    png_write_row(writer.png, row.data());
  }
  png_write_end(writer.png, nullptr);
  return bytes;
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
