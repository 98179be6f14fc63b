// One eviction, token by token: the entries that a policy drops and those that CAOTE would drop
// from the same cache, and the effect of each choice on the output.

#include <array>
#include <tuple>

#include "analysis/math/attention.h"
#include "analysis/math/perturbation.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/value_aware_score.h"
#include "app/figure/figures/figures.h"
#include "app/figure/token_state.h"

namespace kvloupe::figure::eviction_error_figure {

namespace {

/// One entry of the cache before the eviction.
struct Entry {
  int token = 0;
  double score = 0.0;  // the policy's
  double caote = 0.0;  // c_j, of the scores as attention
  bool kept = false;   // by the policy
  bool kept_caote = false;
};

/// Change of the last query's output if a set is dropped; means over the query heads.
struct Loss {
  double sum = 0.0;    // Σ c_j, h the query's own attention
  double joint = 0.0;  // the true change
};

/// Who keeps an entry; the colours of two policies throughout.
enum Kept { kBoth, kNeither, kPolicy, kCaote };

class EvictionErrorFigure final : public PanelFigure {
 public:
  int step = -1;  // −1: nothing is ever evicted
  std::vector<Entry> entries;
  Loss by_policy, by_caote;

  bool shares_limits() const override { return true; }

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    draw_entries(scene, style, axes[0]);
    draw_losses(scene, style, axes[1]);
    if (step < 0)
      add_note(scene, style, "Nothing is evicted", axes[0].plot.centre(), Align::centre);
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"token", "score", "caote_error", "retained", "retained_by_caote", "choice",
             "sum_of_errors", "joint_error"});
    constexpr std::string_view none;
    for (const Entry& one : entries) {
      csv.row({one.token, one.score, one.caote, one.kept, one.kept_caote, none, none, none});
    }
    csv.row({none, none, none, none, none, "policy", by_policy.sum, by_policy.joint});
    csv.row({none, none, none, none, none, "caote", by_caote.sum, by_caote.joint});
  }

  std::string value_text(const Target& target) const override {
    for (const Entry& one : entries) {
      if (one.token == target.token)
        return fmt::format("score {}, c {}", format_number(one.score), format_number(one.caote));
    }
    return {};
  }

 private:
  static Kept kept_by(const Entry& one) {
    if (one.kept) return one.kept_caote ? kBoth : kPolicy;
    return one.kept_caote ? kCaote : kNeither;
  }

  static SeriesLook look_of(const Style& style, Kept kept) {
    const Palette& c = style.colours;
    SeriesLook look;
    look.dash.clear();
    look.colour = kept == kBoth      ? c.both
                  : kept == kNeither ? c.faint
                  : kept == kPolicy  ? c.retained
                                     : c.evicted;
    look.filled = kept == kBoth || kept == kPolicy;
    look.shape = kept == kPolicy  ? MarkerShape::square
                 : kept == kCaote ? MarkerShape::diamond
                                  : MarkerShape::circle;
    return look;
  }

  Legend legend(const Style& style) const override {
    std::vector<SeriesLabel> labels;
    for (const auto& [kept, name] : {std::pair{kPolicy, "kept by the policy only"},
                                     {kCaote, "kept by CAOTE only"},
                                     {kBoth, "kept by both"},
                                     {kNeither, "kept by neither"}}) {
      labels.push_back({name, 0.0, look_of(style, kept)});
    }
    return labels;
  }

  /// Errors too small to be seen beside the largest are left out of the logarithmic axis.
  double largest() const {
    double most = 0.0;
    for (const Entry& one : entries) {
      if (std::isfinite(one.caote)) most = std::max(most, one.caote);
    }
    return most;
  }
  bool is_shown(const Entry& one) const {
    constexpr double kLeast = 1e-12;  // of the largest
    return std::isfinite(one.caote) && one.caote > kLeast * largest();
  }

  PanelGrid grid(const DrawRequest& request) const override {
    PanelGrid grid{.least_width = 100.0, .aspect = 1.6};
    Panel all{.title = "Each entry alone"};
    ValueRange errors;
    for (const Entry& one : entries) {
      if (is_shown(one)) errors.add(one.caote);
    }
    const double last = entries.empty() ? 1.0 : entries.back().token + 1.0;
    all.x = {AxisMeaning::token, AxisScale::linear, 0.0, last, "Token"};
    if (request.x_range) std::tie(all.x.first, all.x.last) = *request.x_range;
    all.y = y_axis("Output error c", errors.padded_log(), AxisScale::log);
    Panel losses{.title = "All evicted entries", .x = name_axis({"policy", "CAOTE"}, "Choice by")};
    ValueRange range;
    for (const Loss& loss : {by_policy, by_caote}) {
      range.add(loss.sum);
      range.add(loss.joint);
    }
    losses.y = y_axis("Output error", range.from_zero(0.15));
    losses.y_grid = true;
    grid.panels = {all, losses};
    return grid;
  }

  void draw_entries(Scene& scene, const Style& style, const Axes& axes) const {
    const double size = entries.size() > 400 ? 2.0 : 3.2;
    for (const Kept kept : {kNeither, kBoth, kPolicy, kCaote}) {  // where they differ on top
      std::vector<Point> points;
      std::vector<std::int32_t> tokens;
      for (const Entry& one : entries) {
        if (kept_by(one) != kept || !is_shown(one)) continue;
        points.push_back({one.token + 0.5, one.caote});
        tokens.push_back(one.token);
      }
      if (!points.empty()) add_dots(scene, style, axes, points, look_of(style, kept), size, tokens);
    }
  }

  void draw_losses(Scene& scene, const Style& style, const Axes& axes) const {
    const std::array losses{by_policy, by_caote};
    double most = 0.0;
    for (const Loss& loss : losses) most = std::max({most, loss.sum, loss.joint});
    const auto bar = [&](double cell, double value, int place, const char* name) {
      if (!(value > 1e-12 * most) || !std::isfinite(value)) return;
      SeriesLook look{.colour = cell == 0.0 ? style.colours.retained : style.colours.evicted,
                      .filled = place == 1};
      add_bar(scene, style, axes, cell, 0.0, value, look, place, 2);
      add_bar_number(scene, style, axes, cell, value, name, place, 2);
    };
    for (std::size_t i = 0; i < losses.size(); ++i) {
      bar(static_cast<double>(i), losses[i].sum, 0, "sum");
      bar(static_cast<double>(i), losses[i].joint, 1, "together");
    }
  }
};

/// The step asked for, else the nearest before it, else after it, at which something left; −1.
int evicting_step(const HeadReplay& head, int wanted) {
  const auto evicts = [&](int step) {
    const StepRecord& record = head.steps[static_cast<std::size_t>(step)];
    return record.retained < record.cache_size;
  };
  for (int step = wanted; step >= 0; --step) {
    if (evicts(step)) return step;
  }
  for (int step = wanted + 1; step < static_cast<int>(head.steps.size()); ++step) {
    if (evicts(step)) return step;
  }
  return -1;
}

/// The loss if these rows of the cache are dropped, by the attention of the query at `token`.
Loss loss_of(const Trace& trace, int layer, int query_head, int token, const Matrix& keys,
             const Matrix& values, const std::vector<std::int32_t>& dropped) {
  const Matrix queries = trace.query(layer, query_head);
  const LogitRule rule = trace.attention(layer).of(query_head);
  const auto query = queries.row(token);
  const std::vector<float> logits =
      attention_logits({query.data(), static_cast<std::size_t>(query.size())}, view(keys), rule);
  const std::vector<double> attention = softmax(logits, rule.sink);
  const std::vector<double> alone = caote_scores(attention, view(values));
  Loss loss;
  for (const std::int32_t row : dropped) loss.sum += alone[static_cast<std::size_t>(row)];
  loss.joint =
      joint_eviction_error(attention, view(values), dropped, sink_share(logits, rule.sink));
  return loss;
}

Matrix rows_at(const Matrix& all, const std::vector<std::int32_t>& tokens) {
  Matrix result(static_cast<Eigen::Index>(tokens.size()), all.cols());
  for (std::size_t i = 0; i < tokens.size(); ++i)
    result.row(static_cast<Eigen::Index>(i)) = all.row(tokens[i]);
  return result;
}

/// Fills the entries and says which rows the policy and CAOTE drop.
std::array<std::vector<std::int32_t>, 2> choose(EvictionErrorFigure& figure, const Replay& replay,
                                                const HeadReplay& head, const Matrix& values) {
  const auto at = static_cast<std::size_t>(figure.step);
  const std::vector<std::int32_t> tokens = replay.tokens_at(head, figure.step);
  const std::vector<std::int32_t> retained = replay.retained_at(head, figure.step);
  const std::vector<float>& scores = head.scores[at];
  const std::vector<double> errors = caote_scores(as_attention(scores), view(values));
  std::array<std::vector<std::int32_t>, 2> dropped;
  std::vector<std::int32_t> candidates;  // rows
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    Entry one{.token = tokens[row],
              .score = static_cast<double>(scores[row]),
              .caote = errors[row],
              .kept = std::binary_search(retained.begin(), retained.end(), tokens[row]),
              .kept_caote = true};
    if (!one.kept) dropped[0].push_back(static_cast<std::int32_t>(row));
    if (!is_protection(head.fates[at][row])) candidates.push_back(static_cast<std::int32_t>(row));
    figure.entries.push_back(one);
  }
  // Among equals the later one is kept, as everywhere.
  std::stable_sort(candidates.begin(), candidates.end(), [&](std::int32_t a, std::int32_t b) {
    return errors[static_cast<std::size_t>(a)] < errors[static_cast<std::size_t>(b)];
  });
  candidates.resize(std::min(candidates.size(), dropped[0].size()));
  std::sort(candidates.begin(), candidates.end());
  for (const std::int32_t row : candidates)
    figure.entries[static_cast<std::size_t>(row)].kept_caote = false;
  dropped[1] = std::move(candidates);
  return dropped;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  progress.check();
  const Selection& s = input.selection;
  const Replay& replay = *input.policy_a;
  const PolicySpec spec = parse_policy(replay.policy);
  if (has_part(spec, PartKind::value_aware))
    throw WorkError("the policy already uses the values; choose its score alone, such as h2o");
  const HeadReplay& head = head_of(replay, s.layer, s.head);
  auto figure = std::make_unique<EvictionErrorFigure>();
  figure->step = evicting_step(head, s.step);
  const std::string with =
      fmt::format("{} with N = {}", replay.policy, format_count(replay.budget));
  figure->caption_text =
      fmt::format("Layer {}, head {}: {} evicts nothing.", s.layer, s.head, with);
  if (figure->step < 0) return figure;
  for (int step = 0; step <= figure->step; ++step) {
    const StepRecord& record = head.steps[static_cast<std::size_t>(step)];
    if (record.made_entries())
      throw WorkError(
          "the policy merges or refits entries: the effect of evicting one entry alone is unknown");
  }
  const auto at = static_cast<std::size_t>(figure->step);
  if (head.scores.size() <= at || head.scores[at].empty())
    throw WorkError("the policy has no scores that CAOTE could use");
  std::vector<std::int32_t> tokens = replay.tokens_at(head, figure->step);
  const Matrix all_keys = input.trace->key(s.layer, s.head);
  const Matrix all_values = input.trace->value(s.layer, s.head);
  auto dropped = choose(*figure, replay, head, rows_at(all_values, tokens));
  // The query still sees what leaves with the model's window at this step.
  const std::vector<std::int32_t> seen = replay.seen_at(head, figure->step);
  if (!seen.empty() && seen.front() < replay.first_token(head, figure->step)) {
    tokens.insert(tokens.begin(), seen.front());
    for (auto& rows : dropped) {
      for (std::int32_t& row : rows) ++row;
    }
  }
  const Matrix keys = rows_at(all_keys, tokens), values = rows_at(all_values, tokens);
  const int group = input.trace->layer_model(input.selection.layer).group_size();
  const int query = replay.blocks[at].end - 1;
  for (int i = 0; i < group; ++i) {
    progress.check();
    const int query_head = s.head * group + i;
    if (s.query_head >= 0 && s.query_head != query_head) continue;
    const double share = s.query_head >= 0 ? 1.0 : 1.0 / group;
    for (const auto& [loss, rows] :
         {std::pair{&figure->by_policy, &dropped[0]}, {&figure->by_caote, &dropped[1]}}) {
      const Loss one = loss_of(*input.trace, s.layer, query_head, query, keys, values, *rows);
      loss->sum += share * one.sum;
      loss->joint += share * one.joint;
    }
  }
  figure->caption_text = fmt::format(
      "The eviction of step {} in layer {}, head {}, {}: a, error c of evicting each entry alone, "
      "with the policy's scores as attention; CAOTE evicts the entries with the lowest c, except "
      "protected ones ({} of {} are evicted by both). b, change of the output of the step's last "
      "query under either choice, before W_O, mean over the group's query heads: the sum of c with "
      "the query's own attention, and the error ‖o − o′‖₂ of evicting all together.",
      figure->step, s.layer, s.head, with,
      std::count_if(figure->entries.begin(), figure->entries.end(),
                    [](const Entry& one) { return !one.kept && !one.kept_caote; }),
      dropped[0].size());
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "eviction-error", "One eviction, with CAOTE's choice",
      "c = h/(1 − h)·‖o − v‖₂ of every entry of the cache, with the policy's scores as attention "
      "h: the entries that the policy evicts and those that CAOTE would evict from the same cache "
      "(CAOTE figure 1), and the sum of c beside the error of evicting all together, of both",
      Topic::values, compute, kTwoColumns);
  info.zoom = Zoom::x;
  info.needs = {.head = true, .step = true, .policy = true, .scores = true};
  return info;
}

}  // namespace kvloupe::figure::eviction_error_figure
