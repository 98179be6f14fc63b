#include "app/window/view_catalog.h"

#include <algorithm>
#include <array>

#include "analysis/error.h"
#include "app/figure/figure_catalog.h"

namespace kvloupe::window {

namespace {
constexpr std::array kViews = {
    ViewEntry{"similarity", Zoom::linked, true},
    ViewEntry{"attention", Zoom::linked, true},
    ViewEntry{"pca", Zoom::both, false},
    ViewEntry{"filmstrip", Zoom::x, false},
    ViewEntry{"tokens", Zoom::none, false},
    ViewEntry{"why", Zoom::none, false},
    ViewEntry{"policy-diff", Zoom::x, false},
    ViewEntry{"agreement", Zoom::none, true},
    ViewEntry{"budget-curve", Zoom::none, false},
    ViewEntry{"head-budgets", Zoom::none, true},
    ViewEntry{"sinks", Zoom::none, false},
    ViewEntry{"overview", Zoom::none, true},
    ViewEntry{"keydiff-stages", Zoom::none, false},
    ViewEntry{"pca-panel", Zoom::both, false},
    ViewEntry{"gram-volume", Zoom::none, false},
    ViewEntry{"angles", Zoom::none, false},
    ViewEntry{"mean-key-query", Zoom::none, false},
    ViewEntry{"norms", Zoom::none, false},
    ViewEntry{"distinct-keys-query", Zoom::none, false},
    ViewEntry{"diversity", Zoom::none, false},
    ViewEntry{"retained-share", Zoom::none, false},
    ViewEntry{"block-overlap", Zoom::none, false},
    ViewEntry{"cost", Zoom::none, false},
    ViewEntry{"local-similarity", Zoom::none, false},
    ViewEntry{"pair-rotation", Zoom::none, false},
    ViewEntry{"compression-layers", Zoom::none, false},
    ViewEntry{"kernel", Zoom::none, false},
    ViewEntry{"sigma-sweep", Zoom::none, false},
    ViewEntry{"merge-sets", Zoom::x, true},
    ViewEntry{"attention-mass", Zoom::none, false},
    ViewEntry{"perturbation-heads", Zoom::none, true},
    ViewEntry{"perturbation-layers", Zoom::none, false},
    ViewEntry{"perturbation-budgets", Zoom::none, false},
    ViewEntry{"bound", Zoom::none, false},
    ViewEntry{"output-error-layers", Zoom::none, false},
    ViewEntry{"block-size", Zoom::none, false},
    ViewEntry{"eviction-error", Zoom::x, false},
    ViewEntry{"logit-effect", Zoom::none, false},
    ViewEntry{"drift", Zoom::none, true},
    ViewEntry{"needle-grid", Zoom::none, true},
    ViewEntry{"perplexity-budget", Zoom::none, false},
    ViewEntry{"layer-drift", Zoom::none, false},
};
}  // namespace

std::span<const ViewEntry> view_catalog() { return kViews; }

const ViewEntry* find_view(std::string_view name) {
  const auto it = std::find_if(kViews.begin(), kViews.end(),
                               [&](const ViewEntry& view) { return view.figure == name; });
  return it == kViews.end() ? nullptr : &*it;
}

const figure::FigureInfo& info(const ViewEntry& view) { return figure::find_figure(view.figure); }

void check_choices(const ViewEntry& view, const figure::Choices& choices) {
  const figure::FigureInfo& figure = info(view);
  for (const auto& [name, value] : choices) {
    const bool known = std::any_of(figure.choices.begin(), figure.choices.end(),
                                   [&](const auto& choice) { return choice.name == name; });
    if (!known) throw UsageError(figure.name + " has no choice \"" + name + "\"");
    figure::choice(figure, choices, name);  // throws for a value that is none of its values
  }
}

WorkspaceState default_state() {
  WorkspaceState state;
  for (const char* view : {"filmstrip", "similarity", "attention", "pca"}) {
    state.tiles.push_back({.view = view});
  }
  return state;
}

WorkspaceState first_state() {
  WorkspaceState state;
  for (const char* view : {"attention", "filmstrip", "similarity", "pca"}) {
    state.tiles.push_back({.view = view});
  }
  state.tile_count = 2;
  return state;
}

}  // namespace kvloupe::window
