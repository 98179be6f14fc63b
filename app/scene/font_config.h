#pragma once

#include <fontconfig/fontconfig.h>

#include <filesystem>
#include <memory>

namespace kvloupe::figure {

struct FontPatternDelete {
  void operator()(FcPattern* pattern) const { FcPatternDestroy(pattern); }
};
using FontPattern = std::unique_ptr<FcPattern, FontPatternDelete>;

/// Fonts that come with the program, read when the next text is measured. A folder that does not
/// exist changes nothing; an empty path takes the fonts away again.
void use_font_folder(const std::filesystem::path& folder);

/// The font that fits best, null where there is none; completes `wanted` with what Fontconfig's
/// settings say. A family that comes with the program is taken from there, so that figures look the
/// same on every machine. Thread-safe.
FontPattern best_font(FcPattern* wanted);

}  // namespace kvloupe::figure
