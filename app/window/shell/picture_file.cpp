#include "app/window/shell/picture_file.h"

#include <cstddef>

#include "analysis/output_file.h"
#include "app/scene/png_encoder.h"

namespace kvloupe::window {

void write_png(const Picture& picture, const std::filesystem::path& path) {
  figure::Pixels pixels{picture.width, picture.height, {}};
  const std::size_t count = picture.rgb.size() / 3;
  pixels.rgba.resize(count * 4);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t c = 0; c < 3; ++c) pixels.rgba[4 * i + c] = picture.rgb[3 * i + c];
    pixels.rgba[4 * i + 3] = 255;
  }
  write_whole_file(path, figure::encode_png(pixels));
}

}  // namespace kvloupe::window
