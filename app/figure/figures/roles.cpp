// The roles of every query head with the full cache: layers × query heads, one panel per role.

#include "analysis/replay/follow.h"
#include "app/figure/figures/cell_maps.h"
#include "app/figure/figures/figures.h"
#include "app/figure/query_head_rows.h"

namespace kvloupe::figure::roles_figure {

namespace {
constexpr double kLeastAspect = 0.75;  // of a map in a column
constexpr double kWide = 300.0;        // points: room for three panels beside each other

class Roles final : public CellMaps {
  PanelGrid grid(const DrawRequest& request) const override {
    PanelGrid grid = CellMaps::grid(request);
    // Two or three rows of high maps would need a page of a column's width.
    if (request.width <= kWide) grid.aspect = std::max(grid.aspect, kLeastAspect);
    grid.columns = request.width > kWide ? 3 : 0;
    return grid;
  }
};

/// Whether a head has the role's name; the sink's name is written beside another name.
bool is_named(const HeadRoles& head, std::size_t role) {
  return role_catalog()[role].beside ? rests_on_sink(head)
                                     : strongest_role(head) == static_cast<int>(role);
}

CellMaps::Map map_of(const std::vector<HeadRoles>& roles, std::size_t role) {
  const RoleInfo& info = role_catalog()[role];
  CellMaps::Map map;
  bool known = false;
  for (const HeadRoles& head : roles) {
    map.values.push_back(static_cast<float>(head.*info.value));
    map.outlined.push_back(is_named(head, role));
    known |= !std::isnan(head.*info.value);
  }
  // A trace without generated tokens, say, tells nothing of retrieval.
  map.title =
      known ? fmt::format("{} {} ({} to {})", info.label, heads_reaching(roles, role, 1.0),
                          heads_reaching(roles, role, 2.0 / 3.0), heads_reaching(roles, role, 1.5))
            : fmt::format("{}: not known", info.label);
  return map;
}

std::unique_ptr<const Figure> compute(const FigureInput& input, Progress& progress) {
  auto figure = std::make_unique<Roles>();
  const int layers = figure->rows = input.trace->model().num_layers;
  const int heads = figure->columns = input.trace->most_query_heads();
  figure->query_heads = query_head_rows(*input.trace);
  figure->present = query_heads_of_layers(*input.trace);
  std::vector<HeadRoles> roles(static_cast<std::size_t>(layers * heads));
  ReadsRequest request{.tokens = {0}, .roles = true, .states = &input.replays->states()};
  for (const TokenReads& head : token_reads(*input.trace, request, progress)) {
    const int group = figure->query_heads[static_cast<std::size_t>(head.layer)].group;
    std::copy(head.roles.begin(), head.roles.end(),
              roles.begin() + head.layer * heads + head.head * group);
  }
  figure->add_row({"layer", "query_head", "named", "role", "value", "threshold"});
  for (int i = 0; i < layers * heads; ++i) {
    const HeadRoles& head = roles[static_cast<std::size_t>(i)];
    for (std::size_t role = 0; role < role_catalog().size(); ++role) {
      const RoleInfo& info = role_catalog()[role];
      const double value = head.*info.value;
      figure->say({.layer = i / heads, .query_head = i % heads},
                  fmt::format("{} {}", info.label,
                              std::isnan(value) ? "unknown" : fmt::format("{:.2f}", value)));
      if (figure->has(i / heads, i % heads))
        figure->add_row(
            {i / heads, i % heads, is_named(head, role), info.label, value, info.threshold});
    }
  }
  figure->caption_text =
      "Roles of every query head with the full cache on this one trace (over many prompts: "
      "figure head-profile of a study), outlined where a head is named by the role: its value "
      "exceeds the threshold by the largest factor. A head that rests on the sink is outlined "
      "there, too, beside its name. After each role: how many heads reach its threshold; in "
      "brackets, how many reach two thirds of the threshold, and how many one and a half times "
      "the threshold.";
  for (std::size_t role = 0; role < role_catalog().size(); ++role) {
    const RoleInfo& info = role_catalog()[role];
    figure->caption_text +=
        fmt::format(" {}, {} ({}; from {} on){}", static_cast<char>('a' + role), info.label,
                    info.formula, info.threshold, role + 1 < role_catalog().size() ? ";" : ".");
    figure->maps.push_back(map_of(roles, role));
  }
  figure->caption_text += absent_rows_text(figure->present);
  figure->x = query_head_axis(heads, 0);  // the pointer's heads are key-value heads
  figure->y = layer_axis(layers);
  figure->colours.label = "Share";
  figure->bounds = kShare;
  figure->number = [](double value) { return fmt::format("{:.1f}", value); };
  figure->shape.aspect = cell_map_aspect(layers, heads);
  figure->shape.least_width = 60.0;
  figure->least_height = 80.0;
  figure->bar_may_miss = true;
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
