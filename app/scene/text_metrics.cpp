#include "app/scene/text_metrics.h"

#include <ft2build.h>
#include FT_FREETYPE_H
#include FT_ADVANCES_H

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>

#include "analysis/base/core/error.h"
#include "analysis/base/text/utf8.h"
#include "app/scene/font_config.h"
#include "app/scene/text_shaper.h"

namespace kvloupe::figure {

std::uint32_t next_character(std::string_view text, std::size_t& byte) {
  constexpr std::uint32_t replacement = 0xFFFD;
  const std::string_view rest = text.substr(byte);
  const std::size_t length = character_length(rest);
  byte += std::max<std::size_t>(length, 1);
  return length > 0 ? static_cast<std::uint32_t>(first_character(rest)) : replacement;
}

struct TextMetrics::Impl {
  struct Loaded {
    FontFace info;
    FT_Face face = nullptr;
  };

  FT_Library library = nullptr;
  std::vector<Loaded> faces;
  int first_face[4] = {0, 0, 0, 0};  // by Font
  int dejavu = 0;
  int dejavu_bold = 0;
  std::vector<std::string> notes;
  double cap_height = 0.727;
  std::mutex mutex;
  std::map<std::pair<int, std::uint32_t>, Glyph> known;  // by font and character
  std::map<std::u32string, int> spare_faces;             // that Fontconfig found
  Font shaping = Font::regular;                          // of the text that is being shaped
  TextShaper shaper{
      [this](std::u32string_view grapheme, int previous) { return face_for(grapheme, previous); },
      [this](int face) { return faces[static_cast<std::size_t>(face)].info; }};
  std::map<std::pair<Font, std::string>, std::vector<Glyph>> shaped;
  std::size_t shaped_glyphs = 0;

  ~Impl() {
    for (Loaded& loaded : faces) FT_Done_Face(loaded.face);
    if (library != nullptr) FT_Done_FreeType(library);
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
      if (const auto other = find_characters(std::u32string(1, character))) {
        const int face = load(*other, false);
        if (face >= 0 && glyph_in(face, character).index != 0) glyph = glyph_in(face, character);
      }
    }
    return known.emplace(key, glyph).first->second;
  }

  bool has(int face, char32_t character) const {
    return FT_Get_Char_Index(faces[static_cast<std::size_t>(face)].face, character) != 0;
  }

  /// Whether the face shows a letter with all its marks, be it as one composed character.
  bool covers(int face, std::u32string_view grapheme) const {
    char32_t last = 0;
    for (const char32_t character : grapheme) {
      if (is_ignorable(character)) continue;
      const char32_t both = last == 0 ? 0 : composed(last, character);
      if (both != 0 && has(face, both)) {
        last = both;
      } else if (has(face, character)) {
        last = character;
      } else {
        return false;
      }
    }
    return true;
  }

  /// The face that Fontconfig finds for characters; −1 where it lacks the first.
  int spare_face(std::u32string_view characters) {
    const auto [known_face, is_new] = spare_faces.try_emplace(std::u32string(characters), -1);
    if (!is_new) return known_face->second;
    const auto found = find_characters(characters);
    const int face = found ? load(*found, false) : -1;
    if (face >= 0 && has(face, characters.front())) known_face->second = face;
    return known_face->second;
  }

  /// The face that shows a grapheme: the text's own, DejaVu Sans, that of the grapheme before it,
  /// or one that Fontconfig finds; the text's own again where none has its first character.
  int face_for(std::u32string_view grapheme, int previous) {
    const int own = first_face[static_cast<int>(shaping)];
    const int dejavu_face = shaping == Font::bold ? dejavu_bold : dejavu;
    for (const int face : {own, dejavu_face, previous}) {
      if (face >= 0 && covers(face, grapheme)) return face;
    }
    constexpr std::size_t most = 8;  // characters of a grapheme: more are not writing
    const int of_letter = spare_face(grapheme.substr(0, 1));
    if (of_letter >= 0 && covers(of_letter, grapheme)) return of_letter;
    const int of_all = spare_face(grapheme.substr(0, most));
    if (of_all >= 0) return of_all;
    return has(own, grapheme.front()) || !has(dejavu_face, grapheme.front()) ? own : dejavu_face;
  }

  /// `mutex` is held.
  std::vector<Glyph> layout(std::string_view text, Font font) {
    if (needs_shaping(text)) return shape(text, font);
    std::vector<Glyph> glyphs;
    glyphs.reserve(text.size());
    double x = 0.0;
    int run = 0;
    for (std::size_t byte = 0; byte < text.size();) {
      const std::size_t start = byte;
      Glyph glyph = find(font, next_character(text, byte));
      glyph.byte = start;
      glyph.x = x;
      if (!glyphs.empty() && glyphs.back().face != glyph.face) ++run;
      glyph.run = run;
      x += glyph.advance;
      glyphs.push_back(glyph);
    }
    return glyphs;
  }

  const std::vector<Glyph>& shape(std::string_view text, Font font) {
    const std::pair key{font, std::string(text)};
    if (const auto it = shaped.find(key); it != shaped.end()) return it->second;
    // Texts of a window repeat from frame to frame; a trace's tokens are some thousands.
    constexpr std::size_t most_glyphs = 1 << 18;
    if (shaped_glyphs > most_glyphs) {
      shaped.clear();
      shaped_glyphs = 0;
    }
    shaping = font;
    std::vector<Glyph> glyphs = shaper.shape(text);
    shaped_glyphs += glyphs.size();
    return shaped.emplace(key, std::move(glyphs)).first->second;
  }
};

TextMetrics::TextMetrics() : impl_(std::make_unique<Impl>()) {
  if (FT_Init_FreeType(&impl_->library) != 0) {
    throw WorkError("fonts: FreeType cannot start; check its package, libfreetype6");
  }
  const auto load = [&](const char* family, bool bold, bool italic = false) {
    const auto font = find_family(family, bold ? FC_WEIGHT_BOLD : FC_WEIGHT_REGULAR,
                                  italic ? FC_SLANT_ITALIC : FC_SLANT_ROMAN);
    return font && font->family == family ? impl_->load(*font, bold) : -1;
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
  return impl_->layout(text, font);
}

double TextMetrics::width(std::string_view text, Font font, double size) const {
  const std::lock_guard lock(impl_->mutex);
  double em = 0.0;
  if (needs_shaping(text)) {
    for (const Glyph& glyph : impl_->shape(text, font)) em += glyph.advance;
  } else {
    for (std::size_t byte = 0; byte < text.size();)
      em += impl_->find(font, next_character(text, byte)).advance;
  }
  return em * size;
}

std::string TextMetrics::fit(std::string_view text, Font font, double size, double width) const {
  const std::vector<Glyph> glyphs = layout(text, font);
  double whole = 0.0;
  std::map<std::size_t, double> clusters;  // advance, by the byte at which they start
  for (const Glyph& glyph : glyphs) {
    whole += glyph.advance;
    clusters[glyph.byte] += glyph.advance;
  }
  if (glyphs.empty() || whole * size <= width) return std::string(text);
  const double room = width - this->width("…", font, size);
  std::vector<std::size_t> ends;  // of beginnings that may fit
  double before = 0.0;
  for (const auto& [byte, advance] : clusters) {
    if (before * size > room) break;
    ends.push_back(byte);
    before += advance;
  }
  for (; !ends.empty() && ends.back() > 0; ends.pop_back()) {
    std::string cut = std::string(text.substr(0, ends.back())) + "…";
    const auto last = std::find_if(glyphs.begin(), glyphs.end(), [&](const Glyph& glyph) {
      return ends.size() > 1 && glyph.byte == ends[ends.size() - 2];
    });
    // If reading goes on to the left, the dots do too.
    if (last != glyphs.end() && last->right_to_left) cut += "\u200F";
    // A letter at the cut may take another shape.
    if (!needs_shaping(cut) || this->width(cut, font, size) <= width) return cut;
  }
  return {};
}

FontFace TextMetrics::face(int index) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->faces.at(static_cast<std::size_t>(index)).info;
}

double TextMetrics::line_height(Font font) const {
  const std::lock_guard lock(impl_->mutex);
  const FT_Face face =
      impl_->faces[static_cast<std::size_t>(impl_->first_face[static_cast<int>(font)])].face;
  return static_cast<double>(face->ascender - face->descender) / face->units_per_EM;
}

double TextMetrics::cap_height() const { return impl_->cap_height; }

const std::vector<std::string>& TextMetrics::notes() const { return impl_->notes; }

}  // namespace kvloupe::figure
