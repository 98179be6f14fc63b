#include "app/scene/font_config.h"

#include <cstdlib>
#include <mutex>
#include <string>

#include "analysis/error.h"

namespace kvloupe::figure {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

void use_font_folder(const fs::path& folder) {
  std::error_code error;
  if (!folder.empty() && !fs::is_directory(folder, error)) return;
  const std::lock_guard lock(guard);
  own_folder = folder;
}

FontPattern best_font(FcPattern* wanted) {
  FcConfig* config = font_config();
  const std::string family = family_of(wanted);
  FcConfigSubstitute(config, wanted, FcMatchPattern);
  FcDefaultSubstitute(wanted);
  FcResult result = FcResultNoMatch;
  FcFontSet* own = FcConfigGetFonts(config, FcSetApplication);
  if (own != nullptr && own->nfont > 0 && !family.empty()) {
    FontPattern found(FcFontSetMatch(config, &own, 1, wanted, &result));
    if (found && family_of(found.get()) == family) return found;
  }
  return FontPattern(FcFontMatch(config, wanted, &result));
}

}  // namespace kvloupe::figure
