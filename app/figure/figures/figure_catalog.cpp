#include "app/figure/figures/figure_catalog.h"

#include <utility>

#include "analysis/base/text/catalog.h"
#include "analysis/policy/kit/nearest_word.h"
#include "app/figure/figures/figures.h"

namespace kvloupe::figure {

namespace {

Catalog<FigureInfo>& catalog() {
  static Catalog<FigureInfo> all({
#define KVLOUPE_FIGURE_INFO(name) name::entry(),
      KVLOUPE_FIGURES(KVLOUPE_FIGURE_INFO)
#undef KVLOUPE_FIGURE_INFO
  });
  return all;
}

}  // namespace

std::span<const FigureInfo> figure_catalog() { return catalog().read(); }

void add_figure(FigureInfo info) { catalog().add(std::move(info)); }

const FigureInfo& find_figure(std::string_view name) {
  std::vector<std::string> names;
  for (const FigureInfo& info : figure_catalog()) {
    if (info.name == name) return info;
    names.push_back(info.name);
  }
  throw UsageError(
      fmt::format("--figure {}: no such figure; did you mean '{}'? The figures are: {}", name,
                  nearest_word(name, names), fmt::join(names, ", ")));
}

void check_choices(const FigureInfo& info, const Choices& choices) {
  for (const auto& [name, value] : choices) {
    std::vector<std::string> names;
    for (const ChoiceInfo& one : info.choices) names.push_back(one.name);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      throw UsageError(
          names.empty() ? fmt::format("choice {}: figure {} has no choices", name, info.name)
                        : fmt::format("choice {}: figure {} has no such choice; did you mean '{}'?",
                                      name, info.name, nearest_word(name, names)));
    }
    choice(info, choices, name);
  }
}

namespace {

void check(const char* what, const char* option, int value, int count) {
  if (value >= 0 && value < count) return;
  throw UsageError(fmt::format("{} {}: the trace has {} 0 to {}; the nearest is {}", option, value,
                               what, count - 1, std::clamp(value, 0, count - 1)));
}

}  // namespace

int nearest_layer(const Trace& trace, int layer) {
  const int count = trace.model().num_layers;
  const int from = std::clamp(layer, 0, count - 1);
  for (int away = 0; away < count; ++away) {
    if (from + away < count && trace.attends(from + away)) return from + away;
    if (from - away >= 0 && trace.attends(from - away)) return from - away;
  }
  return from;
}

Selection resolve(const Selection& selection, const Trace& trace, int steps) {
  Selection s = selection;
  check("layers", "--layer", s.layer, trace.model().num_layers);
  const ModelInfo& model = trace.layer_model(s.layer);
  if (!model.attends()) {
    throw UsageError(
        fmt::format("--layer {}: this layer has no cache{}; the nearest that has one is {}",
                    s.layer, model.mixer.empty() ? "" : fmt::format(" ({})", model.mixer),
                    nearest_layer(trace, s.layer)));
  }
  check("heads", "--head", s.head, model.num_kv_heads);
  if (s.query_head != -1) {
    check("query heads", "--query-head", s.query_head, model.num_heads);
    if (model.head_of(s.query_head) != s.head) {
      const int first = s.head * model.group_size();
      throw UsageError(
          fmt::format("--query-head {}: this query head reads head {}, not {}; head {} serves "
                      "query heads {} to {}",
                      s.query_head, model.head_of(s.query_head), s.head, s.head, first,
                      first + model.group_size() - 1));
    }
  }
  if (s.step == -1) s.step = std::max(0, steps - trace.run().generated - 1);
  check("steps", "--step", s.step, steps);
  if (s.last_token == -1) s.last_token = trace.length() - 1;
  check("tokens", "--tokens", s.first_token, trace.length());
  check("tokens", "--tokens", s.last_token, trace.length());
  if (s.token != -1) check("tokens", "--token", s.token, trace.length());
  if (s.first_token > s.last_token) {
    throw UsageError(fmt::format("--tokens {}-{}: the range is empty; give the smaller index first",
                                 s.first_token, s.last_token));
  }
  return s;
}

Selection default_selection(const Trace& trace) {
  Selection selection{.layer = nearest_layer(trace, trace.model().num_layers / 2)};
  return selection;
}

}  // namespace kvloupe::figure
