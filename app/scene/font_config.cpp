#include "app/scene/font_config.h"

#include <cstdlib>
#include <memory>
#include <mutex>

#include "analysis/base/core/error.h"

namespace kvloupe::figure {

namespace fs = std::filesystem;

namespace {

struct PatternDelete {
  void operator()(FcPattern* pattern) const { FcPatternDestroy(pattern); }
};
using Pattern = std::unique_ptr<FcPattern, PatternDelete>;

std::mutex guard;
fs::path own_folder;
fs::path added_folder;
bool started = false;

/// Servers and containers often have no settings of Fontconfig. It would then complain on every
/// start, and keep no list of the fonts that it read.
constexpr const char* kOwnSettings =
    "<?xml version=\"1.0\"?><fontconfig><dir>/usr/share/fonts</dir>"
    "<dir>/usr/local/share/fonts</dir><dir prefix=\"xdg\">fonts</dir>"
    "<cachedir prefix=\"xdg\">fontconfig</cachedir></fontconfig>";

bool has_settings() {
  for (const char* name : {"FONTCONFIG_FILE", "FONTCONFIG_PATH", "FONTCONFIG_SYSROOT"})
    if (std::getenv(name) != nullptr) return true;
  std::error_code error;
  return fs::exists("/etc/fonts/fonts.conf", error);
}

/// The process's own configuration, which lives as long as it does.
FcConfig* font_config() {
  const std::lock_guard lock(guard);
  if (!started && !has_settings()) {
    FcConfig* config = FcConfigCreate();
    FcConfigParseAndLoadFromMemory(config, reinterpret_cast<const FcChar8*>(kOwnSettings), FcFalse);
    FcConfigSetCurrent(config);
    FcConfigDestroy(config);  // the current one has a reference of its own
  }
  started = true;
  FcConfig* config = FcConfigGetCurrent();
  if (config == nullptr)
    throw WorkError("fonts: Fontconfig cannot start; check the fontconfig package");
  if (added_folder != own_folder) {
    FcConfigAppFontClear(config);
    if (!own_folder.empty())
      FcConfigAppFontAddDir(config, reinterpret_cast<const FcChar8*>(own_folder.c_str()));
    added_folder = own_folder;
  }
  return config;
}

std::string family_of(const FcPattern* pattern) {
  FcChar8* family = nullptr;
  if (FcPatternGetString(pattern, FC_FAMILY, 0, &family) != FcResultMatch) return {};
  return reinterpret_cast<const char*>(family);
}

/// Completes `wanted` with what Fontconfig's settings say.
std::optional<FoundFont> best_font(const Pattern& wanted) {
  FcConfig* config = font_config();
  const std::string family = family_of(wanted.get());
  FcPatternAddBool(wanted.get(), FC_SCALABLE, FcTrue);
  FcConfigSubstitute(config, wanted.get(), FcMatchPattern);
  FcDefaultSubstitute(wanted.get());
  FcResult result = FcResultNoMatch;
  FcFontSet* own = FcConfigGetFonts(config, FcSetApplication);
  Pattern found;
  if (own != nullptr && own->nfont > 0 && !family.empty())
    found.reset(FcFontSetMatch(config, &own, 1, wanted.get(), &result));
  if (!found || family_of(found.get()) != family)
    found.reset(FcFontMatch(config, wanted.get(), &result));
  FcChar8* file = nullptr;
  if (!found || FcPatternGetString(found.get(), FC_FILE, 0, &file) != FcResultMatch)
    return std::nullopt;
  FoundFont font{reinterpret_cast<const char*>(file), 0, family_of(found.get())};
  FcPatternGetInteger(found.get(), FC_INDEX, 0, &font.index);
  return font;
}

}  // namespace

void use_font_folder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error)) return;
  const std::lock_guard lock(guard);
  own_folder = folder;
}

std::optional<FoundFont> find_family(const char* family, int weight, int slant) {
  const Pattern wanted(FcPatternCreate());
  FcPatternAddString(wanted.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>(family));
  FcPatternAddInteger(wanted.get(), FC_WEIGHT, weight);
  FcPatternAddInteger(wanted.get(), FC_SLANT, slant);
  return best_font(wanted);
}

std::optional<FoundFont> find_characters(std::u32string_view characters) {
  const Pattern wanted(FcPatternCreate());
  FcCharSet* set = FcCharSetCreate();
  for (const char32_t character : characters) FcCharSetAddChar(set, character);
  FcPatternAddCharSet(wanted.get(), FC_CHARSET, set);
  FcCharSetDestroy(set);
  return best_font(wanted);
}

}  // namespace kvloupe::figure
