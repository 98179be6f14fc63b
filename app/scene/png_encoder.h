#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/scene/scene.h"

namespace kvloupe::figure {

struct PngOptions {
  double pixels_per_point = 0.0;                              // stated in pHYs; 0: not stated
  std::vector<std::pair<std::string, std::string>> metadata;  // tEXt, or iTXt beyond Latin-1
};

/// The bytes of a PNG file. The same pixels and options give the same bytes.
std::string encode_png(const Pixels& pixels, const PngOptions& options = {});

/// RFC 4648, for data URIs.
std::string base64(std::string_view bytes);

}  // namespace kvloupe::figure
