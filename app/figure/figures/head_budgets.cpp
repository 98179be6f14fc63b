// How many entries each head holds: the entries that an allocation (AdaKV, PyramidKV) gives each
// head.

#include "analysis/policy/published.h"
#include "app/figure/figures/figures.h"
#include "app/figure/query_head_rows.h"

namespace kvloupe::figure::head_budgets_figure {

namespace {

struct Shares {
  std::string policy;
  int budget = 0;              // entries
  std::vector<float> entries;  // [L,Hk] retained after the step
};

class HeadBudgets final : public Figure {
 public:
  int layers = 0;
  int heads = 0;
  std::vector<int> present;  // [L] heads of each layer
  int step = 0;
  bool relative = false;  // entries / budget
  std::vector<Shares> policies;

  double natural_height(const DrawRequest& request) const override {
    const PanelGrid grid = panels(request);
    return std::max(70.0, panels_natural_height(request.style, grid, request.width));
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const ColourScale colours = scale(request);
    const std::vector<Axes> axes = add_panels(scene, style, panels(request));
    for (std::size_t p = 0; p < axes.size(); ++p) {
      add_cells(
          scene, style, axes[p], shown(policies[p]), layers, heads, colours,
          [&](double value) {
            return relative ? fmt::format("{:.2f}", value) : format_count(std::lround(value));
          },
          present);
    }
    const Rect all = around(axes);
    add_colour_bar(scene, style, all, colours);
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"policy", "layer", "head", "entries", "share_of_budget"});
    for (const Shares& one : policies) {
      for (long i = 0; i < static_cast<long>(layers) * heads; ++i) {
        const auto entries = static_cast<double>(one.entries[static_cast<std::size_t>(i)]);
        if (i % heads >= present[static_cast<std::size_t>(i / heads)]) continue;
        csv.row({one.policy, i / heads, i % heads, std::lround(entries), entries / one.budget});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    if (target.layer < 0 || target.head < 0 || target.layer >= layers ||
        target.head >= present[static_cast<std::size_t>(target.layer)]) {
      return {};
    }
    std::string text;
    for (const Shares& one : policies) {
      const float entries =
          one.entries[static_cast<std::size_t>(target.layer * heads + target.head)];
      text += (text.empty() ? "" : ", ") + format_count(std::lround(entries));
    }
    return text + " entries";
  }

  std::string caption() const override {
    std::string text = fmt::format(
        "{} after step {}, with a mean budget of N = {}",
        relative ? "Entries over N that each head holds" : "Entries that each head holds", step,
        format_count(policies.front().budget));
    for (std::size_t p = 0; p < policies.size(); ++p) {
      text += policies.size() > 1 ? fmt::format("{} {}, {}", p == 0 ? ":" : ";",
                                                static_cast<char>('a' + p), policies[p].policy)
                                  : ", " + policies[p].policy;
    }
    return text + "." + absent_rows_text(present);
  }

 private:
  std::vector<float> shown(const Shares& one) const {
    std::vector<float> values = one.entries;
    if (relative) {
      for (float& value : values) value /= static_cast<float>(one.budget);
    }
    return values;
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{
        .map = request.style.amounts, .high = 0.0, .label = relative ? "Entries / N" : "Entries"};
    for (const Shares& one : policies) {
      for (const float value : shown(one))
        colours.high = std::max(colours.high, static_cast<double>(value));
    }
    if (colours.high <= 0.0) colours.high = 1.0;
    choose_limits(colours, request.limits, Bounds{.least = 0.0});
    return colours;
  }

  PanelGrid panels(const DrawRequest& request) const {
    PanelGrid grid{.least_width = std::clamp(8.0 * heads, 60.0, 160.0),
                   .aspect = cell_map_aspect(layers, heads),
                   .right = colour_bar_width(request.style, scale(request), 80.0)};
    for (const Shares& one : policies) {
      grid.panels.push_back(Panel{.title = policies.size() > 1 ? one.policy : "",
                                  .x = head_axis(heads),
                                  .y = layer_axis(layers),
                                  .is_map = true});
    }
    return grid;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<HeadBudgets>();
  figure->layers = input.trace->model().num_layers;
  figure->heads = input.trace->most_heads();
  figure->present = heads_of_layers(*input.trace);
  figure->step = input.selection.step;
  figure->relative = input.choice("show") == "share";
  for (const auto& replay : replays_of(input, for_each_policy(chosen_policies(input)), progress)) {
    Shares one{replay->policy, replay->budget, {}};
    for (int l = 0; l < figure->layers; ++l) {
      for (int h = 0; h < figure->heads; ++h) {
        const HeadReplay* head = replay->find(l, h);
        const auto step = static_cast<std::size_t>(figure->step);
        one.entries.push_back(head != nullptr ? static_cast<float>(head->steps.at(step).retained)
                                              : std::numeric_limits<float>::quiet_NaN());
      }
    }
    figure->policies.push_back(std::move(one));
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "head-budgets", "Entries per head",
      "How many entries each head holds after the step. AdaKV divides a layer's entries by the "
      "scores of its heads, PyramidKV gives each layer its own budget; the budget N is the mean",
      Topic::kept, compute, kColumn, 1.5);
  info.limits = true;
  info.needs = {.step = true, .comparison = true};
  info.choices = {
      policies_choice(published_list({"adakv", "pyramid"})),
      word_choice("show", "Show", "Entries, or entries over the budget N", {"entries", "share"})};
  return info;
}

}  // namespace kvloupe::figure::head_budgets_figure
