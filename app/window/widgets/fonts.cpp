#include "app/window/widgets/fonts.h"

#include <fontconfig/fontconfig.h>
#include <imgui_freetype.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "app/scene/font_config.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::window {

namespace {

// The characters beyond Latin that the interface itself shows: symbols as the papers write them.
constexpr std::string_view kSymbols =
    "ℒΣθσαβεμκλΔ‖₀₁₂₊₋⁰¹²³⁻ᵀ−×·÷±≤≥≈≠∈∪∩∞√∅ℓ⌊⌋–—…‘’“”•′←→↑↓↔↵⌫⏎⇧✓★▲△◆◇●○■□\u2009\u202F⁴⁵⁶⁷⁸⁹";

constexpr int kFace = 0xFFFF;  // of an index, whose high bits name a variation

figure::FoundFont find_family(const char* family, int weight, int slant = FC_SLANT_ROMAN) {
  if (auto found = figure::find_family(family, weight, slant)) return *found;
  throw WorkError(std::string("no font for the window (") + family +
                  "); install fonts-inter, fonts-jetbrains-mono and fonts-dejavu-core");
}

}  // namespace

void Fonts::need(std::string_view utf8) {
  for (std::size_t byte = 0; byte < utf8.size();) {
    const char32_t character = figure::next_character(utf8, byte);
    // ImGui as Debian builds it holds 16-bit characters.
    if (character < 0x180 || character > IM_UNICODE_CODEPOINT_MAX) continue;
    if (extra_.insert(character).second) stale_ = true;
  }
}

void Fonts::build(float scale) {
  need(kSymbols);
  const figure::FoundFont inter = find_family("Inter", FC_WEIGHT_REGULAR);
  const figure::FoundFont semi_bold = find_family("Inter", FC_WEIGHT_DEMIBOLD);
  const figure::FoundFont oblique = find_family("Inter", FC_WEIGHT_REGULAR, FC_SLANT_ITALIC);
  const figure::FoundFont mono_file = find_family("JetBrains Mono", FC_WEIGHT_REGULAR);
  const figure::FoundFont fallback = find_family("DejaVu Sans", FC_WEIGHT_REGULAR);

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
  std::map<std::pair<std::string, int>, ImFontGlyphRangesBuilder> foreign;
  for (const char32_t character : extra_) {
    if (character < 0x370 || (character >= 0x2000 && character < 0x2800)) continue;
    const auto file = figure::find_characters({&character, 1});
    if (!file || file->path == fallback.path || file->path == inter.path) continue;
    foreign[{file->path, file->index}].AddChar(static_cast<ImWchar>(character));
  }
  std::vector<ImVector<ImWchar>> foreign_ranges(foreign.size());

  const auto add = [&](const figure::FoundFont& file, float pixels, bool fallbacks) {
    ImFontConfig config;
    config.FontNo = file.index & kFace;
    config.FontBuilderFlags = ImGuiFreeTypeBuilderFlags_LightHinting;
    const float size = pixels * scale;
    ImFont* font = atlas.AddFontFromFileTTF(file.path.c_str(), size, &config, ranges.Data);
    if (!font) throw WorkError(file.path + ": the font cannot be read; reinstall it");
    config.MergeMode = true;
    config.FontNo = fallback.index & kFace;
    atlas.AddFontFromFileTTF(fallback.path.c_str(), size, &config, ranges.Data);
    if (!fallbacks) return font;
    std::size_t i = 0;
    for (auto& [other, characters] : foreign) {
      const auto& [path, index] = other;
      ImVector<ImWchar>& list = foreign_ranges[i++];
      if (list.empty()) characters.BuildRanges(&list);
      config.FontNo = index & kFace;
      atlas.AddFontFromFileTTF(path.c_str(), size, &config, list.Data);
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
