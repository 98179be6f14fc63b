#pragma once

#include <fontconfig/fontconfig.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace kvloupe::figure {

/// A font of a file.
struct FoundFont {
  std::string path;
  int index = 0;
  std::string family;
};

/// Fonts that come with the program, read when the next text is measured. A folder that does not
/// exist changes nothing; an empty path takes the fonts away again.
void use_font_folder(const std::filesystem::path& folder);

/// The font that fits best, nothing where there is none: of this family, with a weight and a slant
/// of Fontconfig's; or the one that has most of the characters. A family that comes with the
/// program is taken from there, so that figures look the same on every machine. Thread-safe.
std::optional<FoundFont> find_family(const char* family, int weight, int slant = FC_SLANT_ROMAN);
std::optional<FoundFont> find_characters(std::u32string_view characters);

}  // namespace kvloupe::figure
