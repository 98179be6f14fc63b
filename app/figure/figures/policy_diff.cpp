// Tokens that one of two policies keeps and the other does not.

#include <array>

#include "analysis/math/sink.h"
#include "app/figure/figures/figures.h"
#include "app/plot/map_plot.h"
#include "app/plot/text_flow.h"

namespace kvloupe::figure::policy_diff_figure {

namespace {

enum class Kept : std::uint8_t { neither, both, only_a, only_b, ahead, beyond_window };
struct KeptLook {
  const char* id;
  const char* words;
  Colour Palette::*colour;
  bool ground = false;  // behind words
};
const KeptLook& look_of(Kept kept) {
  // In the order of the enum.
  static constexpr KeptLook kLooks[] = {{"neither", "kept by neither", &Palette::neither},
                                        {"both", "kept by both", &Palette::both, true},
                                        {"a_only", "kept by A only", &Palette::retained, true},
                                        {"b_only", "kept by B only", &Palette::evicted, true},
                                        {"ahead", "not yet read", &Palette::paper},
                                        {"beyond_window", "beyond the ", &Palette::paper}};
  return kLooks[static_cast<std::size_t>(kept)];
}

/// Whether no policy decided: not read yet, or no later query sees it.
constexpr bool is_out_of_play(Kept kept) {
  return kept == Kept::ahead || kept == Kept::beyond_window;
}

enum class Layout { heads, steps, text };

/// Who has each token after a step, in one head. [T]
std::vector<Kept> kept_by(const Replay& a, const HeadReplay& head_a, const HeadReplay& head_b,
                          int step) {
  const std::int32_t end = a.blocks.at(static_cast<std::size_t>(step)).end;
  const auto has = [&](const HeadReplay& head, std::size_t t) {
    return head.evicted_at[t] < 0 || head.evicted_at[t] > step;
  };
  std::vector<Kept> kept(head_a.evicted_at.size(), Kept::ahead);
  for (std::size_t t = 0; t < kept.size() && static_cast<std::int32_t>(t) < end; ++t) {
    if (static_cast<int>(t) < a.first_token(head_a, step)) {
      kept[t] = Kept::beyond_window;
      continue;
    }
    const bool in_a = has(head_a, t);
    const bool in_b = has(head_b, t);
    kept[t] = in_a && in_b ? Kept::both : in_a ? Kept::only_a : in_b ? Kept::only_b : Kept::neither;
  }
  return kept;
}

class PolicyDiff final : public Figure {
 public:
  Selection selection;
  Layout layout = Layout::heads;
  std::string policy_a, policy_b;
  int budget = 0;
  Reach reach;                   // of the layer's queries
  std::vector<HeadIndex> heads;  // of the rows, where they are heads: layer by layer
  int tokens = 0;
  std::vector<std::vector<Kept>> rows;  // [L·Hk], [S] or [1] of [T]
  TokenText text;

  double natural_height(const DrawRequest& request) const override {
    Scene scratch = make_scene(request.style, request.width, 100.0);
    const double legend = 2.0 + legend_height(request, scratch);
    if (layout == Layout::text) {
      return legend + token_text_height(request.style, text, first_shown(request),
                                        selection.last_token, request.width);
    }
    const auto count = static_cast<double>(rows.size());
    return legend + std::clamp(count * 7.0, 60.0, 330.0) + 28.0;
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const double top = 2.0 + legend_height(request, scene);
    if (layout == Layout::text) {
      draw_text(scene, style, request, top);
    } else {
      draw_map(scene, request, top);
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"layer", "head", "step", "token", "kept"});
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto [layer, head, step] = place_of(static_cast<int>(r));
      for (long t = selection.first_token; t <= selection.last_token; ++t) {
        const Kept kept = rows[r][static_cast<std::size_t>(t)];
        if (is_out_of_play(kept)) continue;
        csv.row({layer, head, step, t, look_of(kept).id});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.token < 0 || target.token >= tokens) return {};
    int row = 0;
    if (layout == Layout::heads) row = row_of(target.layer, target.head);
    if (layout == Layout::steps) row = target.step;
    if (row < 0 || row >= static_cast<int>(rows.size())) return {};
    const Kept kept = rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(target.token)];
    return look_of(kept).words + std::string(kept == Kept::beyond_window ? reach.name() : "");
  }

  std::string caption() const override {
    const char* what = layout == Layout::heads   ? "Each row is a head, each column a token"
                       : layout == Layout::steps ? "Each row is a step, each column a token"
                                                 : "The text";
    const std::string where =
        layout == Layout::heads ? fmt::format("after step {}", selection.step)
        : layout == Layout::steps
            ? fmt::format("in layer {}, head {}", selection.layer, selection.head)
            : fmt::format("in layer {}, head {} after step {}", selection.layer, selection.head,
                          selection.step);
    return fmt::format(
        "{}: kept by A ({}), by B ({}), by both or by neither, {} with N = {}{}.", what, policy_a,
        policy_b, where, format_count(budget),
        reach.all() ? "" : fmt::format("; blank: beyond the model's {}", reach.name()));
  }

 private:
  struct Place {
    int layer, head, step;
  };
  Place place_of(int row) const {
    if (layout == Layout::heads) return {head_at(row).layer, head_at(row).head, selection.step};
    return {selection.layer, selection.head, layout == Layout::steps ? row : selection.step};
  }

  int first_shown(const DrawRequest& request) const {
    if (!request.x_range) return selection.first_token;
    return std::clamp(static_cast<int>(request.x_range->first), selection.first_token,
                      selection.last_token);
  }

  static std::size_t index_of(Kept kept) { return static_cast<std::size_t>(kept); }

  /// The share of each of Kept's first four among the selected tokens of all rows, without those
  /// that no policy decided about.
  std::array<double, 4> shares() const {
    std::array<double, 4> share{};
    double all = 0.0;
    for (const std::vector<Kept>& row : rows) {
      for (int t = selection.first_token; t <= selection.last_token; ++t) {
        const Kept kept = row[static_cast<std::size_t>(t)];
        if (is_out_of_play(kept)) continue;
        share[index_of(kept)] += 1.0;
        all += 1.0;
      }
    }
    for (double& one : share) one /= std::max(1.0, all);
    return share;
  }

  /// "20 %"; below one per cent with a digit more, so that little does not look like nothing.
  static std::string share_text(double share) {
    const double percent = 100.0 * share;
    return percent > 0.0 && percent < 0.95 ? fmt::format("{:.1g} %", percent)
                                           : fmt::format("{:.0f} %", percent);
  }

  static Colour colour_of(const Style& style, Kept kept) {
    return style.colours.*look_of(kept).colour;
  }

  static Pattern pattern_of(Kept kept) {
    return kept == Kept::only_a   ? Pattern::rising
           : kept == Kept::only_b ? Pattern::falling
                                  : Pattern::none;
  }

  /// Under words the lines are weak; on the full colours of a map they are the paper's.
  Colour pattern_colour(const Style& style, Kept kept) const {
    return layout == Layout::text ? mix(style.colours.paper, colour_of(style, kept), 0.5)
                                  : style.colours.paper;
  }

  double legend_height(const DrawRequest& request, Scene& scene) const {
    if (!request.legend) return 0.0;
    const Style& style = request.style;
    const auto entry = [&](std::string name, Kept kept) {
      Colour colour = colour_of(style, kept);
      std::optional<Stroke> edge;
      if (layout == Layout::text) {
        colour = ground_of(style, kept);
        if (kept == Kept::neither) edge = Stroke{style.colours.grid, 0.5};
      }
      LegendEntry made{std::move(name), MarkerShape::square, colour, edge};
      if (style.patterns) {
        made.pattern = pattern_of(kept);
        made.pattern_colour = pattern_colour(style, kept);
      }
      return made;
    };
    const bool marks = layout == Layout::text;
    const std::array<double, 4> share = shares();
    const auto percent = [&](Kept kept) { return " " + share_text(share[index_of(kept)]); };
    const std::array<LegendEntry, 4> entries{
        entry("A only" + percent(Kept::only_a) + ": " + policy_a + (marks ? " (underlined)" : ""),
              Kept::only_a),
        entry("B only" + percent(Kept::only_b) + ": " + policy_b + (marks ? " (dashed)" : ""),
              Kept::only_b),
        entry("both" + percent(Kept::both), Kept::both),
        entry("neither" + percent(Kept::neither), Kept::neither)};
    return add_legend(scene, style, {2.0, 2.0}, request.width - 4.0, entries) + 3.0;
  }

  static Colour ground_of(const Style& style, Kept kept) {
    return mix(style.colours.paper, colour_of(style, kept), look_of(kept).ground ? 0.35 : 0.0);
  }

  void draw_text(Scene& scene, const Style& style, const DrawRequest& request, double top) const {
    const std::vector<Kept>& kept = rows.front();
    add_token_text(scene, style, text, first_shown(request), selection.last_token, top,
                   [&](std::size_t t) {
                     TokenLook look{.ground = ground_of(style, kept[t]),
                                    .faint = kept[t] == Kept::neither || is_out_of_play(kept[t])};
                     if (kept[t] == Kept::only_a) look.underline = style.colours.retained;
                     if (kept[t] == Kept::only_b) look.underline = style.colours.evicted;
                     look.dashed = kept[t] == Kept::only_b;
                     if (style.patterns) look.pattern = pattern_of(kept[t]);
                     look.pattern_colour = pattern_colour(style, kept[t]);
                     return look;
                   });
  }

  void draw_map(Scene& scene, const DrawRequest& request, double top) const {
    const Style& style = request.style;
    const int count = static_cast<int>(rows.size());
    MapPlot plot{.aspect = 0.0, .top = top, .colour_bar = false};
    const auto [x0, x1] = request.x_range.value_or(
        std::pair<double, double>(selection.first_token, selection.last_token + 1.0));
    plot.x = {AxisMeaning::token, AxisScale::linear, x0, x1, "Token"};
    plot.y = layout == Layout::heads ? rows_axis()
                                     : Axis{AxisMeaning::step, AxisScale::linear, 0.0,
                                            static_cast<double>(count), "Step"};
    const Rect rect = map_rect(style, plot, request.width, request.height);
    const int first = std::clamp(static_cast<int>(std::floor(x0)), 0, tokens - 1);
    const int end = std::clamp(static_cast<int>(std::ceil(x1)), first + 1, tokens);
    const double density = request.pixels_per_point;
    const double span = (end - first) / std::abs(x1 - x0);  // of the tokens, in the map's widths
    add_map(scene, style, plot, rect,
            blend_cells({0, count, first, end}, static_cast<int>(rect.width * span * density),
                        static_cast<int>(rect.height * density),
                        [&](int row, int token) {
                          return colour_of(
                              style,
                              rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(token)]);
                        }),
            {static_cast<double>(first), static_cast<double>(end), plot.y.first, plot.y.last});
    const Axes axes{rect, plot.x, plot.y};
    if (style.patterns) add_patterns(scene, style, axes, first, end);
    add_row_lines(scene, style, axes, count);
    if (layout == Layout::heads) add_regions(scene, axes, first, end);
  }

  /// Lines over tokens that one policy alone keeps.
  void add_patterns(Scene& scene, const Style& style, const Axes& axes, int first, int end) const {
    PatternFill a(pattern_of(Kept::only_a), pattern_colour(style, Kept::only_a));
    PatternFill b(pattern_of(Kept::only_b), pattern_colour(style, Kept::only_b));
    const double height = axes.plot.height / static_cast<double>(rows.size());
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (int t = first; t < end;) {
        const Kept kept = rows[r][static_cast<std::size_t>(t)];
        int after = t + 1;
        while (after < end && rows[r][static_cast<std::size_t>(after)] == kept) ++after;
        const double from = std::max(axes.plot.x, axes.to_page(t, axes.y.first).x);
        const double to = std::min(axes.plot.right(), axes.to_page(after, axes.y.first).x);
        t = after;
        if (pattern_of(kept) == Pattern::none || to <= from) continue;
        (kept == Kept::only_a ? a : b)
            .cover({from, axes.plot.y + static_cast<double>(r) * height, to - from, height});
      }
    }
    a.add_to(scene);
    b.add_to(scene);
  }

  HeadIndex head_at(int row) const { return heads[static_cast<std::size_t>(row)]; }
  int row_of(int layer, int head) const {
    const auto found = std::find_if(heads.begin(), heads.end(), [&](const HeadIndex& one) {
      return one.layer == layer && one.head == head;
    });
    return found == heads.end() ? -1 : static_cast<int>(found - heads.begin());
  }
  /// Layers where all have as many heads, and each row's name where they have not.
  Axis rows_axis() const {
    const int layers = heads.empty() ? 1 : heads.back().layer + 1;
    const std::size_t of_layer = heads.size() / static_cast<std::size_t>(layers);
    bool alike = of_layer * static_cast<std::size_t>(layers) == heads.size();
    for (std::size_t r = 0; alike && r < heads.size(); ++r)
      alike = heads[r].layer == static_cast<int>(r / of_layer);
    if (alike) {
      return {AxisMeaning::layer, AxisScale::linear, 0.0, static_cast<double>(layers), "Layer"};
    }
    std::vector<std::string> names;
    for (const HeadIndex& one : heads) names.push_back(fmt::format("{}.{}", one.layer, one.head));
    return name_axis(std::move(names), "Layer, head");
  }

  /// Hairlines between rows, bolder between layers.
  void add_row_lines(Scene& scene, const Style& style, const Axes& axes, int count) const {
    const double row = axes.plot.height / count;
    if (row < 3.0) return;
    Path thin, bold;
    for (int r = 1; r < count; ++r) {
      const double y = axes.plot.y + r * row;
      Path& path = layout == Layout::heads && heads[r].head == 0 ? bold : thin;
      path.move({axes.plot.x, y}).line({axes.plot.right(), y});
    }
    for (auto* path : {&thin, &bold}) {
      if (path->verbs.empty()) continue;
      path->stroke = Stroke{style.colours.paper, path == &bold ? 1.2 : 0.4};
      scene.add(std::move(*path));
    }
  }

  /// Rows are heads: the axis alone would only say the layer.
  void add_regions(Scene& scene, const Axes& axes, int first, int end) const {
    // The whole row; its tokens the axis tells.
    add_cell_regions(scene, axes.plot, rows.size(), 1, [&](std::size_t r, std::size_t) {
      return Target{.layer = heads[r].layer, .head = heads[r].head};
    });
    // A web page has one text for each region: the tokens too, where they are not too many.
    if (static_cast<std::size_t>(end - first) * rows.size() > 40000) return;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      for (int t = first; t < end; ++t) {
        const double row = axes.plot.height / static_cast<double>(rows.size());
        const double left = axes.to_page(t, axes.y.first).x;
        const double right = axes.to_page(t + 1, axes.y.first).x;
        Target target{.token = t, .layer = heads[r].layer, .head = heads[r].head};
        scene.regions.push_back(
            {{left, axes.plot.y + static_cast<double>(r) * row, right - left, row}, target});
      }
    }
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  if (!input.policy_b) throw WorkError("compares two policies; give a second policy");
  const Selection& s = input.selection;
  const Replay& a = *input.policy_a;
  const Replay& b = *input.policy_b;
  auto figure = std::make_unique<PolicyDiff>();
  const std::string show = input.choice("show");
  figure->layout = show == "heads" ? Layout::heads : show == "steps" ? Layout::steps : Layout::text;
  figure->selection = s;
  figure->policy_a = a.policy;
  figure->policy_b = b.policy;
  figure->budget = a.budget;
  figure->reach = input.trace->reach(s.layer);
  figure->tokens = input.trace->length();
  const auto add = [&](int layer, int head, int step) {
    progress.check();
    figure->rows.push_back(kept_by(a, head_of(a, layer, head), head_of(b, layer, head), step));
  };
  switch (figure->layout) {
    case Layout::heads:
      for (int l = 0; l < input.trace->model().num_layers; ++l) {
        for (int h = 0; h < input.trace->layer_model(l).num_kv_heads; ++h) {
          figure->heads.push_back({l, h});
          add(l, h, s.step);
        }
      }
      break;
    case Layout::steps:
      for (int step = 0; step < static_cast<int>(a.blocks.size()); ++step)
        add(s.layer, s.head, step);
      break;
    case Layout::text:
      add(s.layer, s.head, s.step);
      figure->text =
          token_text(input.trace->tokens(), static_cast<std::size_t>(input.trace->length()));
      break;
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "policy-diff", "A against B",
      "Tokens kept only by policy A, only by policy B, by both or by neither: for every head at "
      "the step, for the selected head at every step, or on the text",
      Topic::comparisons, compute, kTwoColumns, 2.0);
  info.zoom = Zoom::x;
  info.needs = {.head = true,
                .step = true,
                .tokens = true,
                .policy = true,
                .all_layers = true,
                .policy_b = true};
  info.choices = {
      word_choice("show", "Show", "Rows: heads or steps; or the text", {"heads", "steps", "text"})};
  return info;
}

}  // namespace kvloupe::figure::policy_diff_figure
