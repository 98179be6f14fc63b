#include "app/window/picture_file.h"

#include <png.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "analysis/error.h"

namespace kvloupe::window {

void write_png(const Picture& picture, const std::filesystem::path& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(picture.width);
  image.height = static_cast<png_uint_32>(picture.height);
  image.format = PNG_FORMAT_RGB;

  const std::string temporary = path.string() + ".tmp";
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (!file) {
    throw FileError(path.string(), std::string("cannot be written (") + std::strerror(errno) +
                                       "); choose a folder that exists and is writable");
  }
  const bool encoded =
      png_image_write_to_stdio(&image, file, 0, picture.rgb.data(), 0, nullptr) != 0;
  const bool closed = std::fclose(file) == 0;
  std::error_code error;
  if (encoded && closed) std::filesystem::rename(temporary, path, error);
  if (!encoded || !closed || error) {
    std::filesystem::remove(temporary, error);
    throw FileError(path.string(), "cannot be written completely; free some disk space");
  }
}

}  // namespace kvloupe::window
