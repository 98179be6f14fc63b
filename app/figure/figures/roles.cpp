// The roles of every query head with the full cache: layers × query heads, one panel per role.

#include "analysis/replay/follow.h"
#include "app/figure/figures/figures.h"
#include "app/figure/query_head_rows.h"

namespace kvloupe::figure::roles_figure {

namespace {
constexpr double kLeastBar = 40.0;     // points
constexpr double kLeastAspect = 0.75;  // of a map in a column
constexpr double kWide = 300.0;        // points: room for three panels beside each other

class Roles final : public Figure {
 public:
  int layers = 0, query_heads = 0, group = 1;
  std::vector<QueryHeadRow> rows;  // [L]
  std::vector<int> present;        // [L] query heads of each layer
  std::vector<HeadRoles> roles;    // [L,Hq]

  double natural_height(const DrawRequest& request) const override {
    return std::max(80.0, panels_natural_height(request.style, panels(request), request.width));
  }

  Scene draw(const DrawRequest& request) const override {
    const Style& style = request.style;
    Scene scene = make_scene(style, request.width, request.height);
    const ColourScale colours = scale(request);
    const std::vector<Axes> axes = add_panels(scene, style, panels(request));
    for (std::size_t role = 0; role < axes.size(); ++role) {
      add_cells(
          scene, style, axes[role], values(role), layers, query_heads, colours,
          [](double value) { return fmt::format("{:.1f}", value); }, present);
      std::vector<bool> named;
      for (const HeadRoles& head : roles) named.push_back(is_named(head, role));
      outline_cells(scene, style, axes[role].plot, named, layers, query_heads);
      add_query_head_regions(scene, axes[role].plot, rows, query_heads);
    }
    const Rect all = around(axes);
    // A stamp of a few millimetres has no room for it.
    if (all.height > kLeastBar &&
        all.right() + colour_bar_width(style, colours, all.height) <= request.width + 1.0) {
      add_colour_bar(scene, style, all, colours);
    }
    return scene;
  }

  void write_csv(CsvWriter& csv) const override {
    csv.row({"layer", "query_head", "named", "role", "value", "threshold"});
    for (std::size_t i = 0; i < roles.size(); ++i) {
      const auto layer = i / static_cast<std::size_t>(query_heads);
      if (static_cast<int>(i) % query_heads >= rows[layer].query_heads) continue;
      for (std::size_t role = 0; role < role_catalog().size(); ++role) {
        const RoleInfo& info = role_catalog()[role];
        csv.row({i / query_heads, i % query_heads, is_named(roles[i], role), info.label,
                 roles[i].*info.value, info.threshold});
      }
    }
  }

  std::string value_text(const Target& target) const override {
    const bool known = target.layer >= 0 && target.layer < layers && target.query_head >= 0 &&
                       target.query_head < query_heads;
    if (!known) return {};
    const HeadRoles& head =
        roles[static_cast<std::size_t>(target.layer * query_heads + target.query_head)];
    std::string text;
    for (const RoleInfo& info : role_catalog()) {
      const double value = head.*info.value;
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", info.label,
                          std::isnan(value) ? "unknown" : fmt::format("{:.2f}", value));
    }
    return text;
  }

  std::string caption() const override {
    std::string text =
        "Roles of every query head with the full cache on this one trace (over many prompts: "
        "figure head-profile of a study), outlined where a head is named by the role: its value "
        "exceeds the threshold by the largest factor. A head that rests on the sink is outlined "
        "there, too, beside its name. After each role: how many heads reach its threshold; in "
        "brackets, how many reach two thirds of the threshold, and how many one and a half times "
        "the threshold.";
    for (std::size_t role = 0; role < role_catalog().size(); ++role) {
      const RoleInfo& info = role_catalog()[role];
      text +=
          fmt::format(" {}, {} ({}; from {} on){}", static_cast<char>('a' + role), info.label,
                      info.formula, info.threshold, role + 1 < role_catalog().size() ? ";" : ".");
    }
    return text + absent_rows_text(present);
  }

 private:
  /// Whether a head has the role's name; the sink's name is written beside another name.
  static bool is_named(const HeadRoles& head, std::size_t role) {
    return role_catalog()[role].beside ? rests_on_sink(head)
                                       : strongest_role(head) == static_cast<int>(role);
  }

  std::vector<float> values(std::size_t role) const {
    std::vector<float> result;
    for (const HeadRoles& head : roles) {
      result.push_back(static_cast<float>(head.*role_catalog()[role].value));
    }
    return result;
  }

  ColourScale scale(const DrawRequest& request) const {
    ColourScale colours{.map = request.style.amounts, .label = "Share"};
    choose_limits(colours, request.limits, kShare);
    return colours;
  }

  PanelGrid panels(const DrawRequest& request) const {
    PanelGrid grid{.aspect = cell_map_aspect(layers, query_heads)};
    // Two or three rows of high maps would need a page of a column's width.
    if (request.width <= kWide) grid.aspect = std::max(grid.aspect, kLeastAspect);
    grid.least_width = 60.0;
    grid.columns = request.width > kWide ? 3 : 0;
    grid.right = colour_bar_width(request.style, scale(request), 80.0);
    for (std::size_t role = 0; role < role_catalog().size(); ++role) {
      Panel panel;
      // A trace without generated tokens, say, tells nothing of retrieval.
      const RoleInfo& info = role_catalog()[role];
      const bool known = std::any_of(roles.begin(), roles.end(), [&](const HeadRoles& head) {
        return !std::isnan(head.*info.value);
      });
      panel.title =
          known ? fmt::format("{} {} ({} to {})", info.label, heads_reaching(roles, role, 1.0),
                              heads_reaching(roles, role, 2.0 / 3.0),
                              heads_reaching(roles, role, 1.5))
                : fmt::format("{}: not known", info.label);
      panel.x = head_axis(query_heads);
      panel.x.label = "Query head";
      panel.x.meaning = AxisMeaning::value;  // the pointer's heads are key-value heads
      for (int head = 0; head < query_heads; ++head) {
        panel.x.names.push_back(std::to_string(head));
      }
      panel.y = layer_axis(layers);
      panel.is_map = true;
      grid.panels.push_back(std::move(panel));
    }
    return grid;
  }
};

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Roles>();
  figure->layers = input.trace->model().num_layers;
  figure->query_heads = input.trace->most_query_heads();
  figure->rows = query_head_rows(*input.trace);
  figure->present = query_heads_of_layers(*input.trace);
  figure->roles.resize(static_cast<std::size_t>(figure->layers * figure->query_heads));
  figure->group = input.trace->model().group_size();
  ReadsRequest request{.tokens = {0}, .roles = true, .states = &input.replays->states()};
  for (const TokenReads& head : token_reads(*input.trace, request, progress)) {
    const int group = figure->rows[static_cast<std::size_t>(head.layer)].group;
    std::copy(head.roles.begin(), head.roles.end(),
              figure->roles.begin() + head.layer * figure->query_heads + head.head * group);
  }
  return figure;
}

}  // namespace

FigureInfo entry() {
  FigureInfo info = figure_info(
      "roles", "Roles of heads",
      "The role of each query head with the full cache: rests on token 0, looks at the previous "
      "token, at the last 16, at what followed the same token before (induction), looks the answer "
      "up (retrieval), reads the question. Outlined: the head is named by this role, or rests on "
      "token 0 beside its name. Numbers: heads that reach the threshold (two thirds of it to one "
      "and a half times it). Of one trace: over many prompts, head-profile shows a study",
      Topic::attention, compute, kTwoColumns, 1.8);
  info.limits = true;
  info.needs.comparison = true;
  info.shows = [](std::string_view setting, const Choices&) {  // no policy is at work
    return setting != "budget" && setting != "block";
  };
  return info;
}

}  // namespace kvloupe::figure::roles_figure
