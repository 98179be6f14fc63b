#include "app/window/widgets/fonts.h"

#include <fontconfig/fontconfig.h>
#include <imgui_freetype.h>

#include <map>
#include <memory>
#include <vector>

#include "analysis/error.h"
#include "app/scene/font_config.h"

namespace kvloupe::window {

namespace {

// The characters beyond Latin that the interface itself shows: symbols as the papers write them.
constexpr std::string_view kSymbols =
    "ℒΣθσαβεμκλΔ‖₀₁₂₊₋⁰¹²³⁻ᵀ−×·÷±≤≥≈≠∈∪∩∞√∅ℓ⌊⌋–—…‘’“”•′←→↑↓↔↵⌫⏎⇧✓★▲△◆◇●○■□\u2009\u202F⁴⁵⁶⁷⁸⁹";

using figure::FontPattern;

struct FontFile {
  std::string path;
  int index = 0;
  bool operator<(const FontFile& other) const {
    return path != other.path ? path < other.path : index < other.index;
  }
};

/// The file of the best match; an empty path where there is none.
FontFile match(FcPattern* pattern) {
  const FontPattern found = figure::best_font(pattern);
  FcChar8* path = nullptr;
  FontFile file;
  if (found && FcPatternGetString(found.get(), FC_FILE, 0, &path) == FcResultMatch) {
    file.path = reinterpret_cast<const char*>(path);
    FcPatternGetInteger(found.get(), FC_INDEX, 0, &file.index);
    file.index &= 0xFFFF;  // the high bits name a variation
  }
  return file;
}

FontFile find_family(const char* family, int weight, int slant = FC_SLANT_ROMAN) {
  const FontPattern pattern(FcPatternCreate());
  FcPatternAddString(pattern.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>(family));
  FcPatternAddInteger(pattern.get(), FC_WEIGHT, weight);
  FcPatternAddInteger(pattern.get(), FC_SLANT, slant);
  FcPatternAddBool(pattern.get(), FC_SCALABLE, FcTrue);
  const FontFile file = match(pattern.get());
  if (file.path.empty()) {
    throw WorkError(std::string("no font for the window (") + family +
                    "); install fonts-inter, fonts-jetbrains-mono and fonts-dejavu-core");
  }
  return file;
}

/// A font that has the character, or an empty path.
FontFile find_character(char32_t character) {
  const std::unique_ptr<FcCharSet, decltype(&FcCharSetDestroy)> set(FcCharSetCreate(),
                                                                    &FcCharSetDestroy);
  FcCharSetAddChar(set.get(), character);
  const FontPattern pattern(FcPatternCreate());
  FcPatternAddCharSet(pattern.get(), FC_CHARSET, set.get());
  FcPatternAddBool(pattern.get(), FC_SCALABLE, FcTrue);
  return match(pattern.get());
}

std::u32string decode(std::string_view utf8) {
  std::u32string out;
  const auto* at = reinterpret_cast<const FcChar8*>(utf8.data());
  int left = static_cast<int>(utf8.size());
  while (left > 0) {
    FcChar32 character = 0;
    const int bytes = FcUtf8ToUcs4(at, &character, left);
    if (bytes <= 0) {  // not UTF-8: ImGui shows its replacement for this byte
      ++at;
      --left;
      continue;
    }
    out.push_back(character);
    at += bytes;
    left -= bytes;
  }
  return out;
}

}  // namespace

void Fonts::need(std::string_view utf8) {
  for (const char32_t character : decode(utf8)) {
    // ImGui as Debian builds it holds 16-bit characters.
    if (character < 0x180 || character > IM_UNICODE_CODEPOINT_MAX) continue;
    if (extra_.insert(character).second) stale_ = true;
  }
}

void Fonts::build(float scale) {
  need(kSymbols);
  const FontFile inter = find_family("Inter", FC_WEIGHT_REGULAR);
  const FontFile semi_bold = find_family("Inter", FC_WEIGHT_DEMIBOLD);
  const FontFile oblique = find_family("Inter", FC_WEIGHT_REGULAR, FC_SLANT_ITALIC);
  const FontFile mono_file = find_family("JetBrains Mono", FC_WEIGHT_REGULAR);
  const FontFile fallback = find_family("DejaVu Sans", FC_WEIGHT_REGULAR);

  ImFontAtlas& atlas = *ImGui::GetIO().Fonts;
  atlas.Clear();
  atlas.FontBuilderIO = ImGuiFreeType::GetBuilderForFreeType();
  atlas.TexGlyphPadding = 1;

  ImFontGlyphRangesBuilder builder;
  static const ImWchar kLatin[] = {0x20, 0x17F, 0};
  builder.AddRanges(kLatin);
  for (const char32_t character : extra_) builder.AddChar(static_cast<ImWchar>(character));
  ImVector<ImWchar> ranges;
  builder.BuildRanges(&ranges);

  // Characters that none of our own fonts has, by the font that has them.
  std::map<FontFile, ImFontGlyphRangesBuilder> foreign;
  for (const char32_t character : extra_) {
    if (character < 0x370 || (character >= 0x2000 && character < 0x2800)) continue;
    const FontFile file = find_character(character);
    if (file.path.empty() || file.path == fallback.path || file.path == inter.path) continue;
    foreign[file].AddChar(static_cast<ImWchar>(character));
  }
  std::vector<ImVector<ImWchar>> foreign_ranges(foreign.size());

  const auto add = [&](const FontFile& file, float pixels, bool fallbacks) {
    ImFontConfig config;
    config.FontNo = file.index;
    config.FontBuilderFlags = ImGuiFreeTypeBuilderFlags_LightHinting;
    const float size = pixels * scale;
    ImFont* font = atlas.AddFontFromFileTTF(file.path.c_str(), size, &config, ranges.Data);
    if (!font) throw WorkError(file.path + ": the font cannot be read; reinstall it");
    config.MergeMode = true;
    config.FontNo = fallback.index;
    atlas.AddFontFromFileTTF(fallback.path.c_str(), size, &config, ranges.Data);
    if (!fallbacks) return font;
    std::size_t i = 0;
    for (auto& [other, characters] : foreign) {
      ImVector<ImWchar>& list = foreign_ranges[i++];
      if (list.empty()) characters.BuildRanges(&list);
      config.FontNo = other.index;
      atlas.AddFontFromFileTTF(other.path.c_str(), size, &config, list.Data);
    }
    return font;
  };
  text = add(inter, 15.0F, false);
  secondary = add(inter, 13.0F, false);
  heading = add(semi_bold, 15.0F, false);
  mono = add(mono_file, 14.0F, true);
  italic = add(oblique, 15.0F, false);
  title = add(semi_bold, 20.0F, false);
  ImGui::GetIO().FontDefault = text;
  if (!atlas.Build()) throw WorkError("the window's fonts cannot be read; reinstall fonts-inter");
  scale_ = scale;
  stale_ = false;
}

}  // namespace kvloupe::window
