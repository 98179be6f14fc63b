// Fewer bits or fewer entries: the loss against the bytes held, for policies with and without
// quantisation, and the policy that loses least at each size.

#include "analysis/math/sink.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/replay/ask.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/trace_size.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure::frontier_figure {

namespace {

constexpr int kExactBits = 16;
constexpr double kNamedSizes[] = {12.5, 25.0, 50.0};  // % of the bytes: for these the caption says
                                                      // who loses least

/// A policy with so many bits.
struct Series {
  PolicySpec spec;
  std::string name;
};

/// One head, or all together, of one replay.
struct Held {
  double bytes = 0.0, full = 0.0;
  double error = std::numeric_limits<double>::quiet_NaN();
  double share() const { return full > 0.0 ? 100.0 * bytes / full : 0.0; }
};

/// One replay; empty while it is still to come.
struct Outcome {
  Held whole;
  std::vector<Held> heads;
};

/// A point of a panel.
struct Dot {
  std::size_t series = 0, budget = 0;
  double share = 0.0, error = 0.0;
};

class Frontier final : public PanelFigure {
 public:
  std::vector<Series> series;
  std::vector<int> budgets;            // entries for a policy that holds 16 bits
  std::vector<std::vector<int>> used;  // [series][budgets]: entries
  std::vector<std::vector<std::optional<Outcome>>> outcomes;  // [series][budgets]
  std::vector<HeadIndex> heads;
  std::size_t selected = 0;  // of `heads`
  bool of_outputs = false;   // of heads alone: the trace has no W_O
  std::string queries;       // whose, in words

  void draw_panels(Scene& scene, const DrawRequest& request,
                   const std::vector<Axes>& axes) const override {
    const Style& style = request.style;
    for (std::size_t panel = 0; panel < axes.size(); ++panel) {
      draw_panel(scene, style, axes[panel], panel > 0);
    }
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "entries", "layer", "head", "bytes", "full_bytes", "error", "best"});
    for (std::size_t h = 0; h <= heads.size(); ++h) {  // first all of them together
      const auto head = h > 0 ? std::optional(h - 1) : std::nullopt;
      const std::string layer = head ? std::to_string(heads[*head].layer) : "all";
      const std::string index = head ? std::to_string(heads[*head].head) : "all";
      const std::vector<Dot> best = best_of(dots(head));
      for (std::size_t s = 0; s < series.size(); ++s) {
        for (std::size_t b = 0; b < budgets.size(); ++b) {
          if (!outcomes[s][b]) continue;
          const Held& held = held_by(*outcomes[s][b], head);
          csv.row({series[s].name, used[s][b], layer, index, held.bytes, held.full, held.error,
                   is_among(best, s, b)});
        }
      }
    }
  }

  std::string caption() const override {
    std::string text = fmt::format(
        "{} {} against the bytes that the caches hold, scales and zero points included, in % of "
        "the full cache in 16 bits: a, all heads; b, layer {}, head {}{}. The bar at the foot "
        "names what loses least of what is drawn up to each size.",
        of_outputs ? "Error of the heads' outputs" : "Change of the output", queries,
        heads[selected].layer, heads[selected].head, of_outputs ? "" : ": its part of the change");
    const std::vector<Dot> all = dots(std::nullopt);
    for (const double size : kNamedSizes) {
      const Dot* best = nullptr;
      for (const Dot& dot : all) {
        if (dot.share > size) continue;
        if (best == nullptr || dot.error < best->error) best = &dot;
      }
      if (best == nullptr) continue;
      text += fmt::format(" Within {:g} %, {} with N = {} loses least: {:.3g} with {:.3g} %.", size,
                          series[best->series].name, used[best->series][best->budget], best->error,
                          best->share);
    }
    return text;
  }

 private:
  static const Held& held_by(const Outcome& outcome, std::optional<std::size_t> head) {
    return head ? outcome.heads[*head] : outcome.whole;
  }

  static bool is_among(const std::vector<Dot>& dots, std::size_t s, std::size_t b) {
    return std::any_of(dots.begin(), dots.end(),
                       [&](const Dot& dot) { return dot.series == s && dot.budget == b; });
  }

  /// The dots of a head, or of all heads together, as far as they are known.
  std::vector<Dot> dots(std::optional<std::size_t> head) const {
    std::vector<Dot> all;
    for (std::size_t s = 0; s < series.size(); ++s) {
      for (std::size_t b = 0; b < budgets.size(); ++b) {
        if (!outcomes[s][b]) continue;
        const Held& held = held_by(*outcomes[s][b], head);
        if (std::isfinite(held.error) && held.share() > 0.0)
          all.push_back({s, b, held.share(), held.error});
      }
    }
    return all;
  }

  /// Those that no other beats with as few bytes, from the smallest on.
  static std::vector<Dot> best_of(std::vector<Dot> all) {
    std::stable_sort(all.begin(), all.end(), [](const Dot& a, const Dot& b) {
      return a.share != b.share ? a.share < b.share : a.error < b.error;
    });
    std::vector<Dot> best;
    for (const Dot& dot : all) {
      if (best.empty() || dot.error < best.back().error) best.push_back(dot);
    }
    return best;
  }

  Legend legend(const Style& style) const override {
    std::vector<SeriesLabel> all;
    for (std::size_t s = 0; s < series.size(); ++s) {
      all.push_back({series[s].name, 0.0, series_look(style, static_cast<int>(s))});
    }
    return all;
  }

  PanelGrid grid(const DrawRequest& /*request*/) const override {
    PanelGrid grid{.least_width = 100.0, .aspect = 1.2, .beside = 6.0};
    ValueRange x;
    ValueRange y[2];
    for (const bool of_head : {false, true}) {
      for (const Dot& dot : dots(of_head ? std::optional(selected) : std::nullopt)) {
        x.add(dot.share);
        if (dot.error > 0.0) y[of_head ? 1 : 0].add(dot.error);
      }
    }
    const Axis size = x_axis("Bytes (% of the full cache)", x.padded_log(), AxisScale::log);
    const std::string head =
        fmt::format("Layer {}, head {}", heads[selected].layer, heads[selected].head);
    const auto axis = [](const char* label, const ValueRange& range) {
      return y_axis(label, range.padded_log(0.1), AxisScale::log);
    };
    grid.panels.push_back(
        {"All heads", size, axis(of_outputs ? "Output error" : "Change of the output", y[0])});
    grid.panels.push_back({head, size, axis(of_outputs ? "Output error" : "Its part", y[1])});
    for (Panel& panel : grid.panels) panel.y_grid = true;
    return grid;
  }

  void draw_panel(Scene& scene, const Style& style, const Axes& axes, bool of_head) const {
    const std::vector<Dot> all = dots(of_head ? std::optional(selected) : std::nullopt);
    const Target target =
        of_head ? Target{.layer = heads[selected].layer, .head = heads[selected].head} : Target{};
    for (std::size_t s = 0; s < series.size(); ++s) {
      std::vector<Point> line;
      for (const Dot& dot : all) {
        // Nothing lost has no place on a logarithmic axis.
        if (dot.series == s && dot.error > 0.0) line.push_back({dot.share, dot.error});
      }
      std::stable_sort(line.begin(), line.end(),
                       [](const Point& a, const Point& b) { return a.x < b.x; });
      add_marked_line(scene, style, axes, line, series_look(style, static_cast<int>(s)), 3.4,
                      target);
    }
    add_best(scene, style, axes, best_of(all));
  }

  /// At the foot of a plot: from each size on, the series that loses least.
  void add_best(Scene& scene, const Style& style, const Axes& axes,
                const std::vector<Dot>& best) const {
    const double height = style.small + 2.0;
    std::vector<Text> names;
    std::vector<Colour> grounds;
    for (std::size_t i = 0; i < best.size();) {
      std::size_t end = i + 1;
      while (end < best.size() && best[end].series == best[i].series) ++end;
      const double from = axes.to_page(best[i].share, axes.y.first).x;
      const double to =
          end < best.size() ? axes.to_page(best[end].share, axes.y.first).x : axes.plot.right();
      const Colour ground = series_look(style, static_cast<int>(best[i].series)).colour;
      Path bar;
      bar.rect({from, axes.plot.bottom() - height, to - from, height});
      bar.fill = ground;
      scene.add(std::move(bar));
      const std::string name = fit_words(style, series[best[i].series].name, style.small,
                                         std::max(to - from - 3.0, 0.0));
      if (to - from > 14.0) {
        names.push_back(
            make_text(style, name, {from + 1.5, axes.plot.bottom() - 2.2}, style.small));
        grounds.push_back(ground);
      }
      i = end;
    }
    add_on_grounds(scene, style, std::move(names), grounds);
  }
};

/// Each policy with each number of bits. A policy that says its bits itself, or one that makes
/// synthetic entries, which quant does not go with, comes once as it is.
std::vector<Series> series_of(const FigureInput& input) {
  const std::vector<double> bits = chosen_numbers(input, "bits");
  const auto group = std::lround(chosen_number(input, "group"));
  const auto residual = std::lround(chosen_number(input, "residual"));
  std::vector<Series> all;
  for (const PolicySpec& policy : chosen_policies(input)) {
    if (has_part(policy, PartKind::storage) || makes_entries(policy)) {
      all.push_back({policy, policy.text()});
      continue;
    }
    for (const double one : bits) {
      if (one != kExactBits && one != 2.0 && one != 4.0 && one != 8.0) {
        throw UsageError("figure frontier: bits=" + number_text(one) + ": write 2, 4, 8 or 16");
      }
      if (one == kExactBits) {
        all.push_back({policy, policy.text() + ", 16 bits"});
        continue;
      }
      const std::string modifier =
          fmt::format("+quant({:g},group={},residual={})", one, group, residual);
      all.push_back({parse_policy(policy.text() + modifier),
                     fmt::format("{}, {:g} bits", policy.text(), one)});
    }
  }
  return all;
}

Outcome outcome_of(const FigureInput& input, const Replay& replay, const AskedReplay& answer,
                   bool of_outputs) {
  Outcome outcome;
  double sum = 0.0;
  int known = 0;
  for (std::size_t h = 0; h < replay.heads.size(); ++h) {
    const HeadReplay& head = replay.heads[h];
    const ModelInfo& model = input.trace->layer_model(head.layer);
    Held one{.bytes = head_bytes(*input.trace, replay, head),
             .full = bytes_of_entry(model) * head.steps.back().seen,
             .error = of_outputs ? answer.heads[h].output_error : answer.parts[h]};
    if (head.shares_with < 0) {  // else these bytes are another layer's
      outcome.whole.bytes += one.bytes;
      outcome.whole.full += one.full;
    }
    if (std::isfinite(one.error)) {
      sum += one.error;
      ++known;
    }
    outcome.heads.push_back(one);
  }
  outcome.whole.error = answer.residual_change;
  if (of_outputs && known > 0) outcome.whole.error = sum / known;
  return outcome;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  Frontier empty;
  empty.series = series_of(input);
  empty.of_outputs = !input.trace->has_output_weight();
  empty.queries = asked_text(*input.trace);
  const std::vector<Budget> budgets = chosen_budgets(input);
  for (const Budget& budget : budgets) {
    empty.budgets.push_back(budget_entries(budget, *input.trace));
  }
  std::vector<WantedReplay> wanted;
  for (const Series& one : empty.series) {
    std::vector<int>& used = empty.used.emplace_back();
    for (const Budget& budget : budgets) {
      wanted.push_back({one.spec, budget});
      // More than all of them are all of them: the last of the usual budgets evicts nothing.
      used.push_back(
          std::min(budget_entries(budget, *input.trace, one.spec), input.trace->length()));
    }
  }
  AskOptions options{.states = &input.replays->states()};
  const Asked asked = asked_first(input.trace->tokens(), input.trace->run());
  std::vector<std::optional<Outcome>> known(wanted.size());
  const FigureOfReplays figure_of = [&](const Replays& replays) {
    auto figure = std::make_unique<Frontier>(empty);
    for (std::size_t i = 0; i < replays.size(); ++i) {
      if (!replays[i] || known[i]) continue;
      Progress asking(progress, kReplaySteps);
      const AskedReplay answer = ask(*input.trace, *replays[i], asked, options, asking);
      asking.finish();
      known[i] = outcome_of(input, *replays[i], answer, empty.of_outputs);
    }
    for (const HeadReplay& head : replays.front()->heads) {
      if (head.layer == input.selection.layer && head.head == input.selection.head) {
        figure->selected = figure->heads.size();
      }
      figure->heads.push_back({head.layer, head.head});
    }
    for (std::size_t s = 0; s < empty.series.size(); ++s) {
      const auto first = known.begin() + static_cast<std::ptrdiff_t>(s * budgets.size());
      figure->outcomes.emplace_back(first, first + std::ssize(budgets));
    }
    return figure;
  };
  const Replays replays = replays_of(input, wanted, progress,
                                     static_cast<long>(wanted.size()) * kReplaySteps, figure_of);
  auto figure = figure_of(replays);
  if (std::none_of(known.begin(), known.end(), [](const std::optional<Outcome>& one) {
        return std::isfinite(one->whole.error);
      })) {
    throw WorkError(
        "figure frontier: no query of this trace comes later, so nothing tells what is lost");
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "frontier", "Fewer bits or fewer entries",
      "What is lost against the bytes that the caches hold, for policies with entries of 16, 4 and "
      "2 bits at several budgets; the bar at the foot names what loses least at each size. Over "
      "all heads, and in the selected one",
      Topic::comparisons, compute, kTwoColumns, 2.2);
  info.needs = {.head = true, .comparison = true};
  info.choices = {
      policies_choice("A,B"),
      budgets_choice("6.25%,12.5%,25%,50%,200%"),
      {"bits", "Bits", "Bits of a number: 16 is exact", {"16,4,2"}, ChoiceKind::numbers, 2, 16},
      number_choice("group", "Group", "Numbers that share a scale", "32", 8, 1024),
      number_choice("residual", "Residual", "The last entries, which stay exact", "32", 0, 1e6)};
  info.unavailable = without_full_cache;
  return info;
}

}  // namespace kvloupe::figure::frontier_figure
