#include "app/scene/text_shaper.h"

#include <fribidi.h>
#include <hb-ot.h>
#include <hb.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "analysis/base/core/error.h"

namespace kvloupe::figure {

namespace {

using Range = std::pair<char32_t, char32_t>;

bool within(const Range* begin, const Range* end, char32_t c) {
  const Range* after =
      std::upper_bound(begin, end, c, [](char32_t x, const Range& r) { return x < r.first; });
  return after != begin && c <= std::prev(after)->second;
}

// Ranges in which every character has its own glyph: alphabets without joining, CJK, symbols. All
// other characters go through HarfBuzz.
constexpr Range kPlain[] = {
    {0x0000, 0x02FF},    // Latin
    {0x0370, 0x0482},    // Greek, Cyrillic
    {0x048A, 0x058F},    // Cyrillic, Armenian
    {0x10A0, 0x10FF},    // Georgian
    {0x1200, 0x139F},    // Ethiopic
    {0x1D00, 0x1DBF},    // phonetic
    {0x1E00, 0x200A},    // Latin, Greek, spaces
    {0x2010, 0x2027},    // punctuation
    {0x202F, 0x205F},    //
    {0x2070, 0x20CF},    // superscripts, currencies
    {0x2100, 0x2CEE},    // symbols
    {0x2D00, 0x2D7E},    // Georgian, Tifinagh
    {0x2E00, 0x3029},    // CJK
    {0x3030, 0x3098},    //
    {0x309B, 0xA66E},    //
    {0xA700, 0xA7FF},    // tone letters, Latin
    {0xAC00, 0xD7A3},    // Hangul syllables
    {0xE000, 0xFB1C},    // private use, CJK
    {0xFE10, 0xFE1F},    //
    {0xFE30, 0xFE6F},    //
    {0xFF00, 0xFFFF},    // full width, U+FFFD
    {0x1D400, 0x1D7FF},  // mathematical letters
    {0x20000, 0x3FFFF},  // CJK
};

constexpr Range kIgnorable[] = {
    {0x00AD, 0x00AD}, {0x034F, 0x034F}, {0x061C, 0x061C}, {0x115F, 0x1160},
    {0x17B4, 0x17B5}, {0x180B, 0x180F}, {0x200B, 0x200F}, {0x202A, 0x202E},
    {0x2060, 0x206F}, {0xFE00, 0xFE0F}, {0xFEFF, 0xFEFF}, {0xE0000, 0xE0FFF},
};

/// Decoded, with the byte at which each character starts, and the text's length behind the last.
struct Characters {
  std::u32string text;
  std::vector<std::size_t> bytes;
};

Characters decode(std::string_view utf8) {
  Characters out;
  for (std::size_t byte = 0; byte < utf8.size();) {
    out.bytes.push_back(byte);
    out.text += static_cast<char32_t>(next_character(utf8, byte));
  }
  out.bytes.push_back(utf8.size());
  return out;
}

/// Embedding levels in a line that runs from left to right; odd ones run from right to left.
std::vector<int> levels_of(const std::u32string& text) {
  const auto count = static_cast<FriBidiStrIndex>(text.size());
  const std::vector<FriBidiChar> characters(text.begin(), text.end());
  std::vector<FriBidiCharType> types(text.size());
  std::vector<FriBidiBracketType> brackets(text.size());
  std::vector<FriBidiLevel> levels(text.size(), 0);
  fribidi_get_bidi_types(characters.data(), count, types.data());
  fribidi_get_bracket_types(characters.data(), count, types.data(), brackets.data());
  FriBidiParType base = FRIBIDI_PAR_LTR;
  const bool done = fribidi_get_par_embedding_levels_ex(types.data(), brackets.data(), count, &base,
                                                        levels.data()) != 0;
  // Spaces at the line's end go to its end.
  if (!done || fribidi_reorder_line(FRIBIDI_FLAGS_DEFAULT, types.data(), count, 0, base,
                                    levels.data(), nullptr, nullptr) == 0) {
    throw std::bad_alloc();
  }
  return {levels.begin(), levels.end()};
}

/// Each character's script; common ones (spaces, digits, marks) take that of their neighbour.
std::vector<hb_script_t> scripts_of(const std::u32string& text) {
  hb_unicode_funcs_t* unicode = hb_unicode_funcs_get_default();
  const auto is_own = [](hb_script_t script) {
    return script != HB_SCRIPT_COMMON && script != HB_SCRIPT_INHERITED &&
           script != HB_SCRIPT_UNKNOWN;
  };
  std::vector<hb_script_t> scripts(text.size());
  hb_script_t last = HB_SCRIPT_COMMON;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const hb_script_t own = hb_unicode_script(unicode, text[i]);
    if (is_own(own) && !is_own(last)) std::fill_n(scripts.begin(), i, own);  // the start
    if (is_own(own)) last = own;
    scripts[i] = last;
  }
  return scripts;
}

/// Scripts whose letters stand side by side: set as in text that needs no shaping.
bool is_plain(hb_script_t script) {
  static constexpr std::array plain{HB_SCRIPT_COMMON,   HB_SCRIPT_LATIN,    HB_SCRIPT_GREEK,
                                    HB_SCRIPT_CYRILLIC, HB_SCRIPT_ARMENIAN, HB_SCRIPT_GEORGIAN,
                                    HB_SCRIPT_HAN,      HB_SCRIPT_HIRAGANA, HB_SCRIPT_KATAKANA};
  return std::find(plain.begin(), plain.end(), script) != plain.end();
}

/// Characters of one face, script and direction, in the order they are read.
struct Run {
  std::size_t from = 0;
  std::size_t end = 0;
  int level = 0;
  int face = 0;
  hb_script_t script = HB_SCRIPT_COMMON;
};

/// From the order of reading to that on the line (rule L2 of the bidirectional algorithm).
void reorder(std::vector<Run>& runs) {
  int highest = 0;
  for (const Run& run : runs) highest = std::max(highest, run.level);
  for (int level = highest; level >= 1; --level) {
    for (auto from = runs.begin(); from != runs.end();) {
      from = std::find_if(from, runs.end(), [&](const Run& r) { return r.level >= level; });
      const auto end =
          std::find_if(from, runs.end(), [&](const Run& r) { return r.level < level; });
      std::reverse(from, end);
      from = end;
    }
  }
}

}  // namespace

bool needs_shaping(std::string_view text) {
  for (std::size_t byte = 0; byte < text.size();) {
    if (static_cast<unsigned char>(text[byte]) < 0x80) {
      ++byte;
    } else if (!within(std::begin(kPlain), std::end(kPlain), next_character(text, byte))) {
      return true;
    }
  }
  return false;
}

bool is_ignorable(char32_t character) {
  return within(std::begin(kIgnorable), std::end(kIgnorable), character);
}

char32_t composed(char32_t letter, char32_t mark) {
  hb_codepoint_t both = 0;
  return hb_unicode_compose(hb_unicode_funcs_get_default(), letter, mark, &both) ? both : 0;
}

struct TextShaper::Impl {
  ChooseFace choose;
  FindFace find;
  std::map<int, hb_font_t*> fonts;
  hb_buffer_t* buffer = hb_buffer_create();

  Impl(ChooseFace choose_face, FindFace find_face)
      : choose(std::move(choose_face)), find(std::move(find_face)) {}
  ~Impl() {
    for (auto& [face, font] : fonts) hb_font_destroy(font);
    hb_buffer_destroy(buffer);
  }

  hb_font_t* font(int face) {
    if (const auto it = fonts.find(face); it != fonts.end()) return it->second;
    const FontFace file = find(face);
    hb_blob_t* blob = hb_blob_create_from_file_or_fail(file.path.c_str());
    if (blob == nullptr)
      throw FileError(file.path, "cannot be read as a font any more; reinstall its package");
    const auto index = static_cast<unsigned>(file.index);
    hb_face_t* opened = hb_face_create(blob, index & 0xFFFF);
    hb_font_t* font = hb_font_create(opened);  // scaled to the em of the face
    if (index >> 16 != 0) hb_font_set_var_named_instance(font, (index >> 16) - 1);
    hb_face_destroy(opened);
    hb_blob_destroy(blob);
    return fonts[face] = font;
  }

  std::vector<Run> runs_of(const Characters& characters) {
    // HarfBuzz may take time with the square of a run's length where all of it is marks.
    constexpr std::size_t longest = 512;
    const std::u32string& text = characters.text;
    const std::vector<int> levels = levels_of(text);
    const std::vector<hb_script_t> scripts = scripts_of(text);
    std::vector<Run> runs;
    int face = -1;
    for (std::size_t i = 0; i < text.size();) {
      std::size_t end = i + 1;
      utf8proc_int32_t state = 0;
      while (end < text.size() && end - i < longest &&
             !utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(text[end - 1]),
                                               static_cast<utf8proc_int32_t>(text[end]), &state)) {
        ++end;
      }
      face = choose(std::u32string_view(text).substr(i, end - i), face);
      if (runs.empty() || runs.back().level != levels[i] || runs.back().face != face ||
          runs.back().script != scripts[i] || end - runs.back().from > longest) {
        runs.push_back({i, i, levels[i], face, scripts[i]});
      }
      runs.back().end = end;
      i = end;
    }
    return runs;
  }

  /// Appends the run's glyphs, the pen from `x` on.
  void shape(const Characters& characters, const Run& run, int number, double& x,
             std::vector<Glyph>& out) {
    hb_font_t* const face = font(run.face);
    const double em = std::max(1U, hb_face_get_upem(hb_font_get_face(face)));
    hb_buffer_clear_contents(buffer);
    // With the whole text, so that a letter joins one that another font shows.
    hb_buffer_add_utf32(buffer, reinterpret_cast<const std::uint32_t*>(characters.text.data()),
                        static_cast<int>(characters.text.size()), static_cast<unsigned>(run.from),
                        static_cast<int>(run.end - run.from));
    const bool backwards = run.level % 2 != 0;
    hb_buffer_set_direction(buffer, backwards ? HB_DIRECTION_RTL : HB_DIRECTION_LTR);
    hb_buffer_set_script(buffer, run.script);
    static constexpr std::array<hb_tag_t, 4> optional{
        HB_TAG('k', 'e', 'r', 'n'), HB_TAG('l', 'i', 'g', 'a'), HB_TAG('c', 'l', 'i', 'g'),
        HB_TAG('c', 'a', 'l', 't')};
    std::array<hb_feature_t, optional.size()> off{};
    for (std::size_t i = 0; i < off.size(); ++i)
      off[i] = {optional[i], 0, HB_FEATURE_GLOBAL_START, HB_FEATURE_GLOBAL_END};
    hb_shape(face, buffer, off.data(),
             is_plain(run.script) ? static_cast<unsigned>(off.size()) : 0);
    unsigned count = 0;
    const hb_glyph_info_t* infos = hb_buffer_get_glyph_infos(buffer, &count);
    const hb_glyph_position_t* places = hb_buffer_get_glyph_positions(buffer, &count);
    for (unsigned i = 0; i < count; ++i) {
      Glyph glyph{.face = run.face,
                  .index = infos[i].codepoint,
                  .byte = characters.bytes[infos[i].cluster],
                  .x = x,
                  .advance = places[i].x_advance / em,
                  .right = places[i].x_offset / em,
                  .up = places[i].y_offset / em,
                  .run = number,
                  .right_to_left = backwards};
      x += glyph.advance;
      out.push_back(glyph);
    }
  }
};

TextShaper::TextShaper(ChooseFace choose, FindFace find)
    : impl_(std::make_unique<Impl>(std::move(choose), std::move(find))) {}

TextShaper::~TextShaper() = default;

std::vector<Glyph> TextShaper::shape(std::string_view text) {
  std::vector<Glyph> glyphs;
  if (text.empty()) return glyphs;
  const Characters characters = decode(text);
  std::vector<Run> runs = impl_->runs_of(characters);
  reorder(runs);
  double x = 0.0;
  int number = 0;
  for (const Run& run : runs) impl_->shape(characters, run, number++, x, glyphs);
  return glyphs;
}

}  // namespace kvloupe::figure
