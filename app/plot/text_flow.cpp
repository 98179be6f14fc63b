#include "app/plot/text_flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "app/plot/printable.h"

namespace kvloupe::figure {

namespace {

constexpr double line_height = 1.6;  // of the text's size

/// The place of a token: its letters from x, the space in front of it before that.
struct Placed {
  int token = 0;
  int line = 0;
  double x = 0.0;
  double lead = 0.0;
  double width = 0.0;  // of the letters
};

/// Lays tokens out, words unbroken where a line can hold them; stops when the callback says false.
void flow(const TokenText& tokens, const Style& style, double width, int first, int last,
          const std::function<bool(const Placed&)>& place) {
  constexpr double margin = 2.0;
  constexpr double gap = 0.4;  // a hairline of paper between grounds
  const double right = width - margin;
  const double space = style.fonts->width(" ", Font::mono, style.text);
  const auto lead_of = [&](std::size_t t) {
    const std::size_t letters = tokens.text[t].find_first_not_of(' ');
    return letters == std::string::npos ? 0.0 : static_cast<double>(letters) * space;
  };
  const auto width_of = [&](std::size_t t) {
    return std::max(1.5, style.fonts->width(tokens.text[t], Font::mono, style.text) - lead_of(t));
  };
  double x = margin;
  int line = 0;
  for (int token = first; token <= last; ++token) {
    const auto t = static_cast<std::size_t>(token);
    Placed placed{token, line, x, lead_of(t), width_of(t)};
    if (x > margin) {
      // The whole word, if this token begins one.
      double word = placed.lead + placed.width;
      if (placed.lead > 0) {
        for (std::size_t next = t + 1; next <= static_cast<std::size_t>(last); ++next) {
          if (lead_of(next) > 0 || tokens.breaks[next - 1] || tokens.special[next]) break;
          word += gap + width_of(next);
          if (word > right - margin) break;
        }
        if (word > right - margin) word = placed.lead + placed.width;
      }
      if (x + word > right) {
        x = margin;
        ++line;
      }
    }
    placed.line = line;
    if (x <= margin) placed.lead = 0.0;
    placed.x = x + placed.lead;
    placed.width = std::min(placed.width, right - margin);
    if (!place(placed)) return;
    x = placed.x + placed.width + gap;
    if (tokens.breaks[t]) {
      x = margin;
      ++line;
    }
  }
}

/// How many tokens from `first` on fit into so many lines: one past the last. If not all fit, the
/// last line is left free.
int shown_tokens(const TokenText& tokens, const Style& style, double width, int first, int last,
                 int lines) {
  int shown = first;
  bool all = true;
  flow(tokens, style, width, first, last, [&](const Placed& placed) {
    if (placed.line >= lines) all = false;
    if (all) shown = placed.token + 1;
    return all;
  });
  if (all || lines <= 1) return shown;
  flow(tokens, style, width, first, last, [&](const Placed& placed) {
    if (placed.line < lines - 1) shown = placed.token + 1;
    return placed.line < lines - 1;
  });
  return shown;
}

/// Grounds, or underlines, of one look are one path.
struct Layer {
  Colour colour;
  bool dashed = false;
  Path path;
};

Path& layer(std::vector<Layer>& layers, Colour colour, bool dashed = false) {
  auto it = std::find_if(layers.begin(), layers.end(), [&](const Layer& one) {
    return one.colour == colour && one.dashed == dashed;
  });
  if (it == layers.end()) it = layers.insert(layers.end(), {colour, dashed, {}});
  return it->path;
}

/// The patterns of one look, over all its grounds.
struct PatternLayer {
  Pattern pattern;
  Colour colour;
  PatternFill fill;
};

PatternFill& layer(std::vector<PatternLayer>& layers, Pattern pattern, Colour colour) {
  auto it = std::find_if(layers.begin(), layers.end(), [&](const PatternLayer& one) {
    return one.pattern == pattern && one.colour == colour;
  });
  if (it == layers.end())
    it = layers.insert(layers.end(), {pattern, colour, PatternFill(pattern, colour)});
  return it->fill;
}

/// A token's letters, with an ellipsis where they are wider than a whole line.
std::string fitted(const Style& style, const std::string& letters, double width) {
  const auto width_of = [&](const std::string& text) {
    return style.fonts->width(text, Font::mono, style.text);
  };
  if (width_of(letters) <= width + 1e-6) return letters;
  std::string cut;
  for (std::size_t end = 0; end < letters.size();) {
    next_character(letters, end);
    if (width_of(letters.substr(0, end) + "…") > width) break;
    cut = letters.substr(0, end);
  }
  return cut + "…";
}

void add_stroked(Scene& scene, Path path, Colour colour, double width, bool dashed = false) {
  add_stroked(scene, std::move(path),
              {colour, width, dashed ? std::vector<double>{1.6, 1.2} : std::vector<double>()});
}

}  // namespace

Colour mix(Colour a, Colour b, double share) {
  const auto part = [&](std::uint8_t x, std::uint8_t y) {
    return static_cast<std::uint8_t>(std::lround(x + (y - x) * share));
  };
  return {part(a.red, b.red), part(a.green, b.green), part(a.blue, b.blue)};
}

TokenText token_text(const TokenTable& table, std::size_t count) {
  TokenText tokens;
  for (std::size_t t = 0; t < count; ++t) {
    const std::string raw =
        t < table.text.size() ? table.text[t] : fmt::format(" {}", table.ids[t]);
    const bool named_special = t < table.segment.size() &&
                               table.segment[t] < table.segment_names.size() &&
                               table.segment_names[table.segment[t]] == "special";
    const bool looks_special = raw.size() > 2 && raw.front() == '<' && raw.back() == '>';
    tokens.special.push_back(named_special || looks_special);
    tokens.text.push_back(printable(raw));
    tokens.breaks.push_back(is_newline(raw) || (!raw.empty() && raw.back() == '\n'));
  }
  return tokens;
}

double token_text_height(const Style& style, const TokenText& tokens, int first, int last,
                         double width) {
  int last_line = 0;
  flow(tokens, style, width, first, last, [&](const Placed& placed) {
    last_line = placed.line;
    return true;
  });
  return (last_line + 1) * line_height * style.text + 2.0;
}

void add_token_text(Scene& scene, const Style& style, const TokenText& tokens, int first, int last,
                    double top, const std::function<TokenLook(std::size_t)>& look) {
  const Palette& c = style.colours;
  const double step = line_height * style.text;
  const int lines = std::max(1, static_cast<int>(std::floor((scene.height - top - 1.9) / step)));
  const int shown = shown_tokens(tokens, style, scene.width, first, last, lines);
  Path struck;
  std::vector<Layer> underlines;
  std::vector<Text> words;
  std::vector<Layer> grounds;
  std::vector<PatternLayer> patterns;
  flow(tokens, style, scene.width, first, last, [&](const Placed& placed) {
    if (placed.token >= shown) return false;
    const auto t = static_cast<std::size_t>(placed.token);
    const TokenLook how = look(t);
    const double line_top = top + placed.line * step;
    const double baseline = line_top + 0.5 * step + style.fonts->cap_height() * style.text / 2;
    // The ground takes half of the space in front of a word; lines and strikes none of it.
    const double left = placed.x - placed.lead / 2;
    const double right = placed.x + placed.width;
    const Rect box{left, line_top + 0.12 * step, right - left, 0.76 * step};
    Target target{.token = placed.token};
    scene.regions.push_back({{left, line_top, right - left, step}, target});
    if (!(how.ground == c.paper)) layer(grounds, how.ground).rect(box);
    if (how.pattern != Pattern::none) layer(patterns, how.pattern, how.pattern_colour).cover(box);
    const std::size_t first_letter = tokens.text[t].find_first_not_of(' ');
    if (first_letter == std::string::npos) return true;
    if (how.struck) {
      const double y = baseline - 0.27 * style.text;
      struck.move({placed.x, y}).line({right, y});
    } else if (how.underline) {
      const double y = box.bottom() - 0.4;
      layer(underlines, *how.underline, how.dashed).move({placed.x, y}).line({right, y});
    }
    Text word = make_text(style, fitted(style, tokens.text[t].substr(first_letter), placed.width),
                          {placed.x, baseline}, style.text, Font::mono);
    // Faint letters are read on paper, and not on every ground.
    if (how.faint || (tokens.special[t] && how.ground == c.paper)) word.colour = c.faint;
    words.push_back(std::move(word));
    return true;
  });
  for (Layer& ground : grounds) {
    ground.path.fill = ground.colour;
    scene.add(std::move(ground.path));
  }
  for (PatternLayer& each : patterns) each.fill.add_to(scene);
  for (Layer& line : underlines)
    add_stroked(scene, std::move(line.path), line.colour, 0.9, line.dashed);
  // Under the words, which stay readable.
  add_stroked(scene, std::move(struck), mix(c.paper, c.evicted, 0.55), 0.5);
  for (Text& word : words) scene.add(std::move(word));
  if (shown <= last && lines > 1) {
    Text rest =
        make_text(style, fmt::format("… {} more tokens", format_count(last + 1 - shown)),
                  {2.0, top + (lines - 0.5) * step + style.fonts->cap_height() * style.small / 2},
                  style.small);
    rest.colour = c.faint;
    scene.add(std::move(rest));
  }
}

}  // namespace kvloupe::figure
