#include "app/scene/text_metrics.h"

#include <fontconfig/fontconfig.h>
#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_ADVANCES_H

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "analysis/error.h"
#include "analysis/utf8.h"

namespace kvloupe::figure {

std::uint32_t next_character(std::string_view text, std::size_t& byte) {
  constexpr std::uint32_t replacement = 0xFFFD;
  const std::string_view rest = text.substr(byte);
  const std::size_t length = character_length(rest);
  byte += std::max<std::size_t>(length, 1);
  return length > 0 ? static_cast<std::uint32_t>(first_character(rest)) : replacement;
}

namespace {

struct PatternCloser {
  void operator()(FcPattern* pattern) const { FcPatternDestroy(pattern); }
};
using Pattern = std::unique_ptr<FcPattern, PatternCloser>;

struct FoundFont {
  std::string path;
  int index = 0;
  std::string family;
};

std::optional<FoundFont> match(FcConfig* config, FcPattern* wanted) {
  FcConfigSubstitute(config, wanted, FcMatchPattern);
  FcDefaultSubstitute(wanted);
  FcResult result = FcResultNoMatch;
  const Pattern found(FcFontMatch(config, wanted, &result));
  FcChar8* file = nullptr;
  FcChar8* family = nullptr;
  FoundFont font;
  if (!found || FcPatternGetString(found.get(), FC_FILE, 0, &file) != FcResultMatch ||
      FcPatternGetString(found.get(), FC_FAMILY, 0, &family) != FcResultMatch) {
    return std::nullopt;
  }
  FcPatternGetInteger(found.get(), FC_INDEX, 0, &font.index);
  font.path = reinterpret_cast<const char*>(file);
  font.family = reinterpret_cast<const char*>(family);
  return font;
}

/// The installed font of exactly this family.
std::optional<FoundFont> find_family(FcConfig* config, const char* family, bool bold, bool italic) {
  const Pattern wanted(FcPatternCreate());
  FcPatternAddString(wanted.get(), FC_FAMILY, reinterpret_cast<const FcChar8*>(family));
  FcPatternAddInteger(wanted.get(), FC_WEIGHT, bold ? FC_WEIGHT_BOLD : FC_WEIGHT_REGULAR);
  FcPatternAddInteger(wanted.get(), FC_SLANT, italic ? FC_SLANT_ITALIC : FC_SLANT_ROMAN);
  auto font = match(config, wanted.get());
  if (!font || font->family != family) return std::nullopt;
  return font;
}

/// Any installed font that has the character.
std::optional<FoundFont> find_character(FcConfig* config, std::uint32_t character) {
  const Pattern wanted(FcPatternCreate());
  FcCharSet* characters = FcCharSetCreate();
  FcCharSetAddChar(characters, character);
  FcPatternAddCharSet(wanted.get(), FC_CHARSET, characters);
  FcCharSetDestroy(characters);
  FcPatternAddBool(wanted.get(), FC_SCALABLE, FcTrue);
  return match(config, wanted.get());
}

}  // namespace

struct TextMetrics::Impl {
  struct Loaded {
    FontFace info;
    FT_Face face = nullptr;
  };

  FcConfig* config = nullptr;
  FT_Library library = nullptr;
  std::vector<Loaded> faces;
  int first_face[4] = {0, 0, 0, 0};  // by Font
  int dejavu = 0;
  int dejavu_bold = 0;
  std::vector<std::string> notes;
  double cap_height = 0.727;
  std::mutex mutex;
  std::map<std::pair<int, std::uint32_t>, Glyph> known;  // by font and character

  ~Impl() {
    for (Loaded& loaded : faces) FT_Done_Face(loaded.face);
    if (library != nullptr) FT_Done_FreeType(library);
    if (config != nullptr) FcConfigDestroy(config);
  }

  /// Index of the face, loaded if it is not yet; −1 where the file cannot be read.
  int load(const FoundFont& font, bool bold) {
    for (std::size_t i = 0; i < faces.size(); ++i) {
      if (faces[i].info.path == font.path && faces[i].info.index == font.index)
        return static_cast<int>(i);
    }
    Loaded loaded{{font.path, font.index, font.family, bold}, nullptr};
    if (FT_New_Face(library, font.path.c_str(), font.index, &loaded.face) != 0) return -1;
    if (!FT_IS_SCALABLE(loaded.face)) {
      FT_Done_Face(loaded.face);
      return -1;
    }
    faces.push_back(loaded);
    return static_cast<int>(faces.size()) - 1;
  }

  Glyph glyph_in(int face, std::uint32_t character) const {
    Glyph glyph;
    const FT_Face f = faces[static_cast<std::size_t>(face)].face;
    glyph.face = face;
    glyph.character = character;
    glyph.index = FT_Get_Char_Index(f, character);
    FT_Fixed advance = 0;
    if (FT_Get_Advance(f, glyph.index, FT_LOAD_NO_SCALE, &advance) == 0) {
      glyph.advance = static_cast<double>(advance) / f->units_per_EM;
    }
    return glyph;
  }

  Glyph find(Font font, std::uint32_t character) {
    const auto key = std::pair{static_cast<int>(font), character};
    if (const auto it = known.find(key); it != known.end()) return it->second;
    const int own = first_face[static_cast<int>(font)];
    Glyph glyph = glyph_in(own, character);
    if (glyph.index == 0) {
      const Glyph spare = glyph_in(font == Font::bold ? dejavu_bold : dejavu, character);
      if (spare.index != 0) glyph = spare;
    }
    if (glyph.index == 0 && character >= 0x80) {
      if (const auto other = find_character(config, character)) {
        const int face = load(*other, false);
        if (face >= 0 && glyph_in(face, character).index != 0) glyph = glyph_in(face, character);
      }
    }
    return known.emplace(key, glyph).first->second;
  }
};

TextMetrics::TextMetrics() : impl_(std::make_unique<Impl>()) {
  impl_->config = FcInitLoadConfigAndFonts();
  if (impl_->config == nullptr || FT_Init_FreeType(&impl_->library) != 0) {
    throw WorkError("fonts: Fontconfig or FreeType cannot start; check the fontconfig package");
  }
  const auto load = [&](const char* family, bool bold, bool italic = false) {
    const auto font = find_family(impl_->config, family, bold, italic);
    return font ? impl_->load(*font, bold) : -1;
  };
  impl_->dejavu = load("DejaVu Sans", false);
  const int inter = load("Inter", false);
  if (impl_->dejavu < 0 && inter < 0) {
    throw WorkError(
        "fonts: neither Inter nor DejaVu Sans is installed; "
        "install the packages fonts-inter, fonts-jetbrains-mono and fonts-dejavu-core");
  }
  if (impl_->dejavu < 0) {
    impl_->notes.push_back(
        "DejaVu Sans is missing: some symbols may not show; install fonts-dejavu-core");
    impl_->dejavu = inter;
  }
  if (inter < 0)
    impl_->notes.push_back("Inter is missing, DejaVu Sans is used instead; install fonts-inter");
  const int dejavu_bold = load("DejaVu Sans", true);
  impl_->dejavu_bold = dejavu_bold >= 0 ? dejavu_bold : impl_->dejavu;
  const int bold = load("Inter", true);
  const int italic = load("Inter", false, true);
  const int mono = load("JetBrains Mono", false);
  impl_->first_face[static_cast<int>(Font::regular)] = inter >= 0 ? inter : impl_->dejavu;
  impl_->first_face[static_cast<int>(Font::bold)] = bold >= 0 ? bold : impl_->dejavu_bold;
  impl_->first_face[static_cast<int>(Font::italic)] =
      italic >= 0 ? italic : impl_->first_face[static_cast<int>(Font::regular)];
  if (mono >= 0) {
    impl_->first_face[static_cast<int>(Font::mono)] = mono;
  } else {
    impl_->notes.push_back(
        "JetBrains Mono is missing, DejaVu is used instead; install fonts-jetbrains-mono");
    const int spare = load("DejaVu Sans Mono", false);
    impl_->first_face[static_cast<int>(Font::mono)] = spare >= 0 ? spare : impl_->dejavu;
  }
}

TextMetrics::~TextMetrics() = default;

std::vector<Glyph> TextMetrics::layout(std::string_view text, Font font) const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Glyph> glyphs;
  glyphs.reserve(text.size());
  double x = 0.0;
  for (std::size_t byte = 0; byte < text.size();) {
    const std::size_t start = byte;
    Glyph glyph = impl_->find(font, next_character(text, byte));
    glyph.byte = start;
    glyph.x = x;
    x += glyph.advance;
    glyphs.push_back(glyph);
  }
  return glyphs;
}

double TextMetrics::width(std::string_view text, Font font, double size) const {
  const std::lock_guard lock(impl_->mutex);
  double em = 0.0;
  for (std::size_t byte = 0; byte < text.size();) {
    em += impl_->find(font, next_character(text, byte)).advance;
  }
  return em * size;
}

std::string TextMetrics::fit(std::string_view text, Font font, double size, double width) const {
  const std::vector<Glyph> glyphs = layout(text, font);
  if (glyphs.empty() || (glyphs.back().x + glyphs.back().advance) * size <= width) {
    return std::string(text);
  }
  const double room = width - this->width("…", font, size);
  std::size_t end = 0;
  for (const Glyph& glyph : glyphs) {
    if (glyph.x * size > room) break;
    end = glyph.byte;
  }
  return end == 0 ? std::string() : std::string(text.substr(0, end)) + "…";
}

FontFace TextMetrics::face(int index) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->faces.at(static_cast<std::size_t>(index)).info;
}

double TextMetrics::cap_height() const { return impl_->cap_height; }

const std::vector<std::string>& TextMetrics::notes() const { return impl_->notes; }

}  // namespace kvloupe::figure
