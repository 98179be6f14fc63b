// The text itself, each token on a ground of its fate or its score.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "analysis/error.h"
#include "app/figure/figures/figures.h"
#include "app/figure/frame.h"
#include "app/figure/token_state.h"

namespace kvloupe::figure {

namespace {

constexpr double line_height = 1.6;  // of the text's size

constexpr const char* state_names[] = {"ahead", "retained", "protected", "evicted", "merged"};

Colour mix(Colour a, Colour b, double share) {
  const auto part = [&](std::uint8_t x, std::uint8_t y) {
    return static_cast<std::uint8_t>(std::lround(x + (y - x) * share));
  };
  return {part(a.red, b.red), part(a.green, b.green), part(a.blue, b.blue)};
}

/// A line break, as a trace holds it: itself, or escaped.
bool is_newline(const std::string& text) {
  return text == "\n" || text == "\\n" || text == "<0x0A>";
}

/// What is printed for a token: tabs and newlines as signs, control characters escaped.
std::string printable(const std::string& text) {
  if (is_newline(text)) return "↵";
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "↵";
    } else if (c == '\t') {
      out += "→";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out;
}

class Tokens final : public Figure {
 public:
  Selection selection;
  std::string policy;
  bool by_score = false;
  std::vector<std::string> text;  // [T]
  std::vector<bool> breaks;       // [T] the line ends after this token
  std::vector<bool> special;      // [T] not part of the text
  std::vector<TokenState> states;
  std::vector<float> ranks;   // NaN: no score
  std::vector<float> scores;  // NaN: no score
  std::vector<std::int32_t> evicted_at;

  double natural_height(const DrawRequest& request) const override {
    Scene scratch = make_scene(request.style, request.width, 100.0);
    const double y = 2.0 + legend_height(request, scratch);
    int first = selection.first_token;
    if (request.x_range) first = std::max(first, static_cast<int>(request.x_range->first));
    int last_line = 0;
    flow(request, first, [&](const Placed& placed) {
      last_line = placed.line;
      return true;
    });
    return y + (last_line + 1) * line_height * request.style.text + 2.0;
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    const Palette& c = style.colours;
    Scene scene = make_scene(style, request.width, request.height);
    const double top = 2.0 + legend_height(request, scene);
    const double step = line_height * style.text;
    const int lines =
        std::max(1, static_cast<int>(std::floor((request.height - top - 1.9) / step)));
    int first = selection.first_token;
    if (request.x_range)
      first = std::clamp(static_cast<int>(request.x_range->first), first, selection.last_token);

    // What fits; the last line then says how much does not.
    int shown = first;
    bool all = true;
    flow(request, first, [&](const Placed& placed) {
      if (placed.line >= lines) all = false;
      if (all) shown = placed.token + 1;
      return all;
    });
    if (!all && lines > 1) {
      flow(request, first, [&](const Placed& placed) {
        if (placed.line < lines - 1) shown = placed.token + 1;
        return placed.line < lines - 1;
      });
    }

    Path struck;
    Path underlined;
    std::vector<Text> words;
    struct Ground {
      Colour colour;
      Path path;
    };
    std::vector<Ground> grounds;
    flow(request, first, [&](const Placed& placed) {
      if (placed.token >= shown) return false;
      const auto t = static_cast<std::size_t>(placed.token);
      const double line_top = top + placed.line * step;
      const double baseline = line_top + 0.5 * step + style.fonts->cap_height() * style.text / 2;
      // The ground takes half of the space in front of a word; lines and strikes none of it.
      const double left = placed.x - placed.lead / 2;
      const double right = placed.x + placed.width;
      const Rect box{left, line_top + 0.12 * step, right - left, 0.76 * step};
      Target target;
      target.token = placed.token;
      scene.regions.push_back({{left, line_top, right - left, step}, target});
      const Colour ground = ground_of(style, t);
      if (!(ground == c.paper)) {
        auto it = std::find_if(grounds.begin(), grounds.end(),
                               [&](const Ground& g) { return g.colour == ground; });
        if (it == grounds.end()) it = grounds.insert(grounds.end(), {ground, {}});
        it->path.rect(box);
      }
      const std::size_t first_letter = text[t].find_first_not_of(' ');
      if (first_letter == std::string::npos) return true;
      const bool gone = states[t] == TokenState::evicted || states[t] == TokenState::merged;
      if (gone) {
        const double y = baseline - 0.27 * style.text;
        struck.move({placed.x, y}).line({right, y});
      } else if (states[t] == TokenState::protected_) {
        const double y = box.bottom() - 0.4;
        underlined.move({placed.x, y}).line({right, y});
      }
      Text word = make_text(style, text[t].substr(first_letter), {placed.x, baseline}, style.text,
                            Font::mono);
      if (special[t] || gone || states[t] == TokenState::ahead) word.colour = c.faint;
      words.push_back(std::move(word));
      return true;
    });
    for (Ground& ground : grounds) {
      ground.path.fill = ground.colour;
      scene.add(std::move(ground.path));
    }
    if (!underlined.verbs.empty()) {
      underlined.stroke = Stroke{c.protected_, 0.9, {}, Cap::butt};
      scene.add(std::move(underlined));
    }
    // Under the words, which stay readable.
    if (!struck.verbs.empty()) {
      struck.stroke = Stroke{mix(c.paper, c.evicted, 0.55), 0.5, {}, Cap::butt};
      scene.add(std::move(struck));
    }
    for (Text& word : words) scene.add(std::move(word));
    if (!all && lines > 1) {
      Text rest = make_text(
          style, fmt::format("… {} more tokens", format_count(selection.last_token + 1 - shown)),
          {2.0, top + (lines - 0.5) * step + style.fonts->cap_height() * style.small / 2},
          style.small);
      rest.colour = c.faint;
      scene.add(std::move(rest));
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"token", "text", "state", "evicted_at", "score"});
    for (long t = selection.first_token; t <= selection.last_token; ++t) {
      const auto i = static_cast<std::size_t>(t);
      csv.row({t, std::string_view(text[i]),
               std::string_view(state_names[static_cast<int>(states[i])]),
               static_cast<long>(evicted_at[i]), static_cast<double>(scores[i])});
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < 0 || target.token >= static_cast<int>(text.size())) return {};
    const auto t = static_cast<std::size_t>(target.token);
    std::string out = state_names[static_cast<int>(states[t])];
    if (states[t] == TokenState::evicted) out += fmt::format(" at step {}", evicted_at[t]);
    if (!std::isnan(scores[t])) out += ", score " + format_number(static_cast<double>(scores[t]));
    return out;
  }

  std::string caption() const override {
    return fmt::format("Tokens {} to {} after step {} in layer {}, head {} under {}; {}.",
                       format_count(selection.first_token), format_count(selection.last_token),
                       selection.step, selection.layer, selection.head, policy,
                       by_score ? "the stronger the ground, the higher the score"
                                : "evicted tokens are struck through");
  }

 private:
  /// Where a token stands: its letters from x, the space in front of it before that.
  struct Placed {
    int token = 0;
    int line = 0;
    double x = 0.0;
    double lead = 0.0;
    double width = 0.0;  // of the letters
  };

  /// Lays tokens out, words unbroken where a line can hold them; stops when the callback says
  /// false.
  void flow(const DrawRequest& request, int first,
            const std::function<bool(const Placed&)>& place) const {
    const Style& style = request.style;
    constexpr double margin = 2.0;
    constexpr double gap = 0.4;  // a hairline of paper between grounds
    const double right = request.width - margin;
    const double space = style.fonts->width(" ", Font::mono, style.text);
    const auto lead_of = [&](std::size_t t) {
      const std::size_t letters = text[t].find_first_not_of(' ');
      return letters == std::string::npos ? 0.0 : static_cast<double>(letters) * space;
    };
    const auto width_of = [&](std::size_t t) {
      return std::max(1.5, style.fonts->width(text[t], Font::mono, style.text) - lead_of(t));
    };
    double x = margin;
    int line = 0;
    for (int token = first; token <= selection.last_token; ++token) {
      const auto t = static_cast<std::size_t>(token);
      Placed placed{token, line, x, lead_of(t), width_of(t)};
      if (x > margin) {
        // The whole word, if this token begins one.
        double word = placed.lead + placed.width;
        if (placed.lead > 0) {
          for (std::size_t next = t + 1; next <= static_cast<std::size_t>(selection.last_token);
               ++next) {
            if (lead_of(next) > 0 || breaks[next - 1] || special[next]) break;
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
      if (breaks[t]) {
        x = margin;
        ++line;
      }
    }
  }

  Colour ground_of(const Style& style, std::size_t t) const {
    const Palette& c = style.colours;
    if (by_score) {
      return std::isnan(ranks[t]) ? c.paper
                                  : mix(c.paper, c.retained, 0.45 * static_cast<double>(ranks[t]));
    }
    switch (states[t]) {
      case TokenState::retained:
        return mix(c.paper, c.retained, 0.22);
      case TokenState::protected_:
        return mix(c.paper, c.protected_, 0.22);
      case TokenState::merged:
        return mix(c.paper, c.merged, 0.25);
      case TokenState::evicted:
      case TokenState::ahead:
        break;
    }
    return c.paper;
  }

  double legend_height(const DrawRequest& request, Scene& scene) const {
    if (!request.legend) return 0.0;
    const Style& style = request.style;
    const Palette& c = style.colours;
    const auto any = [&](TokenState s) {
      return std::find(states.begin(), states.end(), s) != states.end();
    };
    std::vector<LegendEntry> entries;
    if (by_score) {
      entries.push_back(
          {"high score", MarkerShape::square, mix(c.paper, c.retained, 0.45), std::nullopt});
      entries.push_back({"low score", MarkerShape::square, mix(c.paper, c.retained, 0.08),
                         Stroke{c.grid, 0.5, {}, Cap::butt}});
    } else {
      entries.push_back(
          {"retained", MarkerShape::square, mix(c.paper, c.retained, 0.35), std::nullopt});
    }
    if (any(TokenState::protected_)) {
      entries.push_back({by_score ? "protected (underlined)" : "protected", MarkerShape::square,
                         by_score ? c.protected_ : mix(c.paper, c.protected_, 0.35), std::nullopt});
    }
    if (any(TokenState::merged)) {
      entries.push_back({"merged", MarkerShape::diamond, c.merged, std::nullopt});
    }
    if (any(TokenState::evicted)) {
      entries.push_back({"evicted (struck)", MarkerShape::circle, std::nullopt,
                         Stroke{c.evicted, 0.7, {}, Cap::butt}});
    }
    return add_legend(scene, style, {2.0, 2.0}, request.width - 4.0, entries) + 3.0;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const Replay& replay = *input.policy_a;
  const HeadReplay* head = replay.find(s.layer, s.head);
  if (head == nullptr)
    throw WorkError(fmt::format("layer {}, head {} was not replayed", s.layer, s.head));
  auto figure = std::make_unique<Tokens>();
  figure->selection = s;
  figure->policy = fmt::format("{}, N = {}", replay.policy, format_count(replay.budget));
  figure->by_score = choice(tokens_figure(), input.choices, "colour") == "score";
  figure->states = token_states(replay, *head, s.step);
  progress.check();
  figure->ranks = score_ranks(replay, *head, s.step);
  figure->evicted_at = head->evicted_at;
  const TokenTable& table = input.trace->tokens();
  const std::size_t count = figure->states.size();
  figure->scores.assign(count, std::nanf(""));
  const auto at = static_cast<std::size_t>(s.step);
  if (at < head->scores.size()) {
    const std::vector<std::int32_t> present = replay.tokens_at(*head, s.step);
    for (std::size_t i = 0; i < present.size() && i < head->scores[at].size(); ++i) {
      figure->scores[static_cast<std::size_t>(present[i])] = head->scores[at][i];
    }
  }
  for (std::size_t t = 0; t < count; ++t) {
    const std::string raw =
        t < table.text.size() ? table.text[t] : fmt::format(" {}", table.ids[t]);
    const bool named_special = t < table.segment.size() &&
                               table.segment[t] < table.segment_names.size() &&
                               table.segment_names[table.segment[t]] == "special";
    const bool looks_special = raw.size() > 2 && raw.front() == '<' && raw.back() == '>';
    figure->special.push_back(named_special || looks_special);
    const std::string shown = printable(raw);
    figure->text.push_back(shown.empty() ? "∅" : shown);
    figure->breaks.push_back(is_newline(raw) || (!raw.empty() && raw.back() == '\n'));
  }
  return figure;
}

}  // namespace

FigureInfo tokens_figure() {
  FigureInfo info;
  info.name = "tokens";
  info.title = "Token text";
  info.tooltip =
      "The text, each token on a ground of its fate or its score at the step; evicted tokens are "
      "struck through, "
      "protected ones underlined";
  info.needs.head = true;
  info.needs.step = true;
  info.needs.tokens = true;
  info.needs.policy = true;
  info.needs.scores = true;
  info.width_mm = 178.0;
  info.aspect = 1.0;
  info.choices = {{"colour", "Colour", "What the ground of a token says", {"fate", "score"}}};
  info.unavailable = [](const Trace&) { return std::string(); };
  info.compute = compute;
  return info;
}

}  // namespace kvloupe::figure
