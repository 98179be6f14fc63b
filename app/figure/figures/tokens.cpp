// The text itself, each token on a ground of its fate or its score.

#include "app/figure/figures/figures.h"
#include "app/figure/segment_band.h"
#include "app/figure/token_state.h"
#include "app/plot/text_flow.h"

namespace kvloupe::figure::tokens_figure {

namespace {

class Tokens final : public Figure {
 public:
  Selection selection;
  bool by_score = false;
  TokenText tokens;
  std::vector<TokenState> states;
  std::vector<float> ranks;   // NaN: no score
  std::vector<float> scores;  // NaN: no score
  std::vector<std::int32_t> evicted_at;
  GivenTokens given;

  bool any(TokenState state) const {
    return std::find(states.begin(), states.end(), state) != states.end();
  }

  double natural_height(const DrawRequest& request) const override {
    Scene scratch = make_scene(request.style, request.width, 100.0);
    return 2.0 + legend_height(request, scratch) +
           token_text_height(request.style, tokens, first_shown(request), selection.last_token,
                             request.width);
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const double top = 2.0 + legend_height(request, scene);
    add_token_text(
        scene, style, tokens, first_shown(request), selection.last_token, top, [&](std::size_t t) {
          TokenLook look;
          look.ground = ground_of(style, t);
          look.struck = states[t] == TokenState::evicted || states[t] == TokenState::merged;
          if (states[t] == TokenState::protected_) look.underline = style.colours.protected_;
          if (given.other(static_cast<int>(t)) != nullptr) {
            look.underline = style.colours.evicted;
            look.dashed = true;
          }
          look.faint = look.struck || is_out_of_play(states[t]);
          if (style.patterns && states[t] != TokenState::evicted) {  // these are struck
            look.pattern = state_pattern(states[t]);
            look.pattern_colour = pattern_colour(style, states[t]);
          }
          return look;
        });
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"token", "text", "state", "evicted_at", "score"});
    for (long t = selection.first_token; t <= selection.last_token; ++t) {
      const auto i = static_cast<std::size_t>(t);
      csv.row({t, tokens.text[i], state_name(states[i]), evicted_at[i], scores[i]});
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < 0 || target.token >= static_cast<int>(states.size())) return {};
    const auto t = static_cast<std::size_t>(target.token);
    const bool beyond = states[t] == TokenState::beyond_window;
    std::string out = beyond ? "beyond the window since" : state_name(states[t]);
    if (states[t] == TokenState::evicted) out += " at";
    if (beyond || states[t] == TokenState::evicted) out += fmt::format(" step {}", evicted_at[t]);
    if (!std::isnan(scores[t])) out += ", score " + format_number(static_cast<double>(scores[t]));
    return out;
  }

 private:
  int first_shown(const DrawRequest& request) const {
    if (!request.x_range) return selection.first_token;
    return std::clamp(static_cast<int>(request.x_range->first), selection.first_token,
                      selection.last_token);
  }

  Colour ground_of(const Style& style, std::size_t t) const {
    const Palette& c = style.colours;
    if (by_score) {
      return std::isnan(ranks[t]) ? c.paper
                                  : mix(c.paper, c.retained, 0.45 * static_cast<double>(ranks[t]));
    }
    if (states[t] == TokenState::evicted) return c.paper;  // struck instead
    return mix(c.paper, state_colour(c, states[t]), states[t] == TokenState::merged ? 0.25 : 0.22);
  }

  /// Weaker than the state's own: the words stay readable.
  static Colour pattern_colour(const Style& style, TokenState state) {
    return mix(style.colours.paper, state_colour(style.colours, state), 0.45);
  }

  double legend_height(const DrawRequest& request, Scene& scene) const {
    if (!request.legend) return 0.0;
    const Style& style = request.style;
    const Palette& c = style.colours;
    std::vector<LegendEntry> entries;
    if (by_score) {
      entries.push_back({"high score", MarkerShape::square, mix(c.paper, c.retained, 0.45)});
      entries.push_back(
          {"low score", MarkerShape::square, mix(c.paper, c.retained, 0.08), Stroke{c.grid, 0.5}});
    } else {
      entries.push_back({"retained", MarkerShape::square, mix(c.paper, c.retained, 0.35)});
    }
    const auto with_pattern = [&](LegendEntry entry, TokenState state) {
      if (!style.patterns) return entry;
      entry.pattern = state_pattern(state);
      entry.fill = mix(c.paper, state_colour(c, state), 0.25);
      entry.pattern_colour = pattern_colour(style, state);
      return entry;
    };
    if (any(TokenState::protected_)) {
      entries.push_back(
          with_pattern({by_score ? "protected (underlined)" : "protected", MarkerShape::square,
                        by_score ? c.protected_ : mix(c.paper, c.protected_, 0.35), std::nullopt},
                       TokenState::protected_));
    }
    if (!by_score && any(TokenState::synthetic)) {
      entries.push_back(with_pattern(
          {"synthetic", MarkerShape::square, mix(c.paper, c.pivot, 0.35)}, TokenState::synthetic));
    }
    if (any(TokenState::merged)) {
      entries.push_back(
          with_pattern({"merged", MarkerShape::diamond, c.merged}, TokenState::merged));
    }
    if (any(TokenState::evicted)) {
      entries.push_back(
          {"evicted (struck)", MarkerShape::circle, std::nullopt, Stroke{c.evicted, 0.7}});
    }
    return add_legend(scene, style, {2.0, 2.0}, request.width - 4.0, entries) + 3.0;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  const Selection& s = input.selection;
  const Replay& replay = *input.policy_a;
  const HeadReplay* head = &head_of(replay, s.layer, s.head);
  auto figure = std::make_unique<Tokens>();
  figure->selection = s;
  figure->by_score = input.choice("colour") == "score";
  figure->states = token_states(replay, *head, s.step);
  progress.check();
  figure->ranks = score_ranks(replay, *head, s.step);
  figure->evicted_at = head->evicted_at;
  const std::size_t count = figure->states.size();
  figure->scores.assign(count, std::nanf(""));
  const auto at = static_cast<std::size_t>(s.step);
  if (at < head->scores.size()) {
    const std::vector<std::int32_t> present = replay.tokens_at(*head, s.step);
    for (std::size_t i = 0; i < present.size() && i < head->scores[at].size(); ++i) {
      figure->scores[static_cast<std::size_t>(present[i])] = head->scores[at][i];
    }
  }
  figure->given = given_tokens(*input.trace);
  figure->tokens = token_text(input.trace->tokens(), count);
  std::string which = format_tokens(s.first_token, s.last_token);
  which.front() = 'T';
  figure->caption_text = fmt::format(
      "{} after step {} in layer {}, head {} under {}, N = {}; {}{}.{}", which, s.step, s.layer,
      s.head, replay.policy, format_count(replay.budget),
      figure->by_score ? "the stronger the background, the higher the score"
                       : "evicted tokens are struck through",
      figure->any(TokenState::beyond_window) ? ", those beyond the model's window are faint" : "",
      given_sentence(figure->given, "dashes below"));
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "tokens", "Token text",
      "The text; the background of each token shows its fate or its score at the step. Evicted "
      "tokens are struck through, protected ones underlined",
      Topic::kept, compute, kTwoColumns, 1.0);
  info.needs = {.head = true, .step = true, .tokens = true, .policy = true, .scores = true};
  info.choices = {word_choice("colour", "Colour",
                              "The background of a token shows its fate or its score",
                              {"fate", "score"})};
  return info;
}

}  // namespace kvloupe::figure::tokens_figure
