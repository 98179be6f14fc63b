// Effect of an eviction in one layer on the next token's logits, to first order.

#include <numeric>

#include "analysis/math/logit_path.h"
#include "analysis/replay/measure/output_error.h"
#include "app/figure/figures/figures.h"
#include "app/plot/printable.h"

namespace kvloupe::figure::logit_effect_figure {

namespace {

constexpr int kOfEachSign = 8;

/// One token of the vocabulary.
struct Shift {
  long id = 0;
  std::string text;
  double change = 0.0;  // of its logit
};

class LogitEffectFigure final : public Figure {
 public:
  std::string what;           // is taken out, in words
  std::vector<Shift> shifts;  // the largest rise first, the largest fall last
  double mean = 0.0, spread = 0.0;

  double natural_height(const DrawRequest& request) const override {
    const double rows = static_cast<double>(std::max<std::size_t>(shifts.size(), 4));
    return rows * request.style.small * 1.5 + 34.0;
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const Axes axes = add_panels(scene, style, grid(request)).front();
    if (shifts.empty()) {
      add_note(scene, style, "No logit changes", axes.plot.centre(), Align::centre);
      return scene;
    }
    const double most = largest();
    for (std::size_t i = 0; i < shifts.size(); ++i) {
      const double change = shifts[i].change;
      if (std::abs(change) <= 1e-12 * most) continue;
      SeriesLook look{.colour = change > 0 ? style.colours.retained : style.colours.evicted,
                      .filled = change > 0};
      add_bar(scene, style, axes, static_cast<double>(i), 0.0, change, look, 0, 1, false);
    }
    const Point zero = axes.to_page(0.0, 0.0);
    scene.add(make_line({zero.x, axes.plot.y}, {zero.x, axes.plot.bottom()}, style.colours.ink,
                        style.line));
    keep_fitting_texts(scene);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"token_id", "text", "logit_change"});
    for (const Shift& one : shifts) csv.row({one.id, one.text, one.change});
    constexpr std::string_view none;
    csv.row({none, "mean over the vocabulary", mean});
    csv.row({none, "standard deviation over the vocabulary", spread});
  }

  std::string caption() const override {
    return fmt::format(
        "Logits of the next token that rise and fall most, to first order: the change of the "
        "layer's output goes through the last norm, linearised at the query's own residual stream, "
        "and the output head, {}. The effects of this layer's MLP and of later layers are left "
        "out. Over the vocabulary: mean {}, which does not change probabilities; standard "
        "deviation {}.",
        what, format_number(mean), format_number(spread));
  }

 private:
  double largest() const {
    double most = 0.0;
    for (const Shift& one : shifts) most = std::max(most, std::abs(one.change));
    return most;
  }

  PanelGrid grid(const DrawRequest& request) const {
    const Style& style = request.style;
    std::vector<std::string> names;
    for (const Shift& one : shifts)
      names.push_back(style.fonts->fit(one.text, Font::regular, style.small, 0.3 * request.width));
    if (names.empty()) names.emplace_back();  // a place for the note
    Panel panel;
    ValueRange range;
    range.add(0.0);
    for (const Shift& one : shifts) range.add(one.change);
    panel.x = x_axis("Δ logit, without later layers", range.padded());
    panel.y = name_axis(std::move(names), "Next token");
    panel.x_grid = true;
    PanelGrid grid{.panels = {panel}, .beside = 8.0};
    return grid;
  }
};

/// In quotes; the id where the trace has no text of it.
std::string text_of(const Trace& trace, const std::vector<std::string>& vocabulary, long id) {
  const auto index = static_cast<std::size_t>(id);
  if (index < vocabulary.size() && !vocabulary[index].empty()) {
    return "“" + printable(vocabulary[index]) + "”";
  }
  const TokenTable& tokens = trace.tokens();
  const auto at = std::find(tokens.ids.begin(), tokens.ids.end(), static_cast<std::int32_t>(id));
  if (at == tokens.ids.end() || tokens.text.empty()) return fmt::format("#{}", id);
  return "“" + printable(tokens.text[static_cast<std::size_t>(at - tokens.ids.begin())]) + "”";
}

/// The entries that each head of the layer still has for the step's last query.
std::vector<std::vector<std::int32_t>> left_of(const FigureInput& input, bool one_token, int query,
                                               std::string& what) {
  const Selection& s = input.selection;
  const Replay& replay = *input.policy_a;
  const int heads = input.trace->layer_model(input.selection.layer).num_kv_heads;
  std::vector<std::vector<std::int32_t>> left;
  if (one_token) {
    const Reach reach = input.trace->reach(s.layer);
    const int first = first_seen(query, reach);
    const int token = s.token >= 0 ? s.token : first;
    if (token > query) {
      throw WorkError(
          fmt::format("token {} comes after the step's last query, token {}; choose a "
                      "later step or an earlier token",
                      token, query));
    }
    if (token < first) {
      throw WorkError(
          fmt::format("token {} is beyond the {} of {} tokens of the step's last "
                      "query, token {}; choose an earlier step or a later token",
                      token, reach.name(), reach.span(), query));
    }
    if (query == first)
      throw WorkError("the query sees only one token, which cannot leave; choose a later step");
    std::vector<std::int32_t> rest(static_cast<std::size_t>(query + 1 - first));
    std::iota(rest.begin(), rest.end(), first);
    rest.erase(rest.begin() + (token - first));
    left.assign(static_cast<std::size_t>(heads), rest);
    what = fmt::format(
        "if token {} were removed from every head of layer {}, for the query at token {}", token,
        s.layer, query);
    return left;
  }
  for (int head = 0; head < heads; ++head) {
    const HeadReplay& replayed = head_of(replay, s.layer, head);
    for (int step = 0; step <= s.step; ++step) {
      const StepRecord& record = replayed.steps[static_cast<std::size_t>(step)];
      if (record.made_entries())
        throw WorkError(
            "the policy merges or refits entries: an entry then no longer belongs to one token");
    }
    left.push_back(replay.seen_at(replayed, s.step));
  }
  what = fmt::format(
      "due to the entries that {} with N = {} has evicted from layer {} by step {}, for the step's "
      "last query",
      replay.policy, format_count(replay.budget), s.layer, s.step);
  return left;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const Trace& trace = *input.trace;
  const Selection& s = input.selection;
  const bool one_token = input.choice("of") == "token";
  const int query = input.policy_a->blocks.at(static_cast<std::size_t>(s.step)).end - 1;
  auto figure = std::make_unique<LogitEffectFigure>();
  const auto left = left_of(input, one_token, query, figure->what);
  const auto seen = static_cast<std::size_t>(query + 1 - first_seen(query, trace.reach(s.layer)));
  const bool any_left = std::any_of(left.begin(), left.end(),
                                    [&](const auto& tokens) { return tokens.size() < seen; });
  const LogitPath path(trace, LogitsOf::vocabulary);
  if (!any_left) return figure;  // no change at all, not one of rounding
  progress.check();
  const Eigen::VectorXd change =
      output_change(load_layer_states(trace, s.layer, {}, progress), trace.layer_model(s.layer),
                    trace.attention(s.layer), left, query);
  progress.check();
  const LogitEffect effect =
      logit_effect(*trace.lm_head(), path.head_input_change(query, change), kOfEachSign);
  figure->mean = effect.mean;
  figure->spread = effect.norm;
  const std::vector<std::string> vocabulary =
      trace.vocabulary().value_or(std::vector<std::string>());
  for (const LogitEffect::Change& one : effect.up)
    figure->shifts.push_back({one.token, text_of(trace, vocabulary, one.token), one.change});
  for (auto one = effect.down.rbegin(); one != effect.down.rend(); ++one)
    figure->shifts.push_back({one->token, text_of(trace, vocabulary, one->token), one->change});
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "logit-effect", "Effect on the next token",
      "Δlogits ≈ W_H·J·W_O·Δ (CAOTE eq. 42 with J, the derivative of the last norm; without later "
      "layers): which next tokens gain and lose most through the policy's evictions in the "
      "selected layer, or through the removal of one token. A token that does not occur in the "
      "trace is shown by its number",
      Topic::values, compute);
  info.needs = {.head = true, .step = true, .token = true, .policy = true};
  info.choices = {word_choice(
      "of", "Effect of",
      "The entries that the policy has evicted, or the selected token alone (if none is selected: "
      "the first that the query sees)",
      {"evicted", "token"})};
  info.unavailable = [](const Trace& trace) {
    return LogitPath::missing(trace, LogitsOf::vocabulary);
  };
  return info;
}

}  // namespace kvloupe::figure::logit_effect_figure
