#include "app/window/cards/intervene.h"

#include <imgui.h>

#include "analysis/base/core/error.h"
#include "app/figure/figures/overview_measures.h"
#include "app/session/interventions.h"
#include "app/session/view_catalog.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {
void intervene(const PanelContext& c, Intervention what, TokenRange tokens,
               std::optional<HeadIndex> head) {
  try {
    c.ask(TakePolicy{PolicySide::a, with_intervention(c.state.policy_a, what, tokens, head)});
  } catch (const UsageError& problem) {
    c.fail(problem.what());
  }
}
}  // namespace

void follow_tokens(const PanelContext& c, const std::string& tokens) {
  c.state.followed = tokens;
  c.state.grid_measure = figure::kFollowedMeasure;
  for (TileState& tile : c.state.tiles) {
    const figure::FigureInfo* view = find_view(tile.view);
    if (view == nullptr) continue;
    for (const figure::ChoiceInfo& choice : view->choices) {
      if (choice.kind == figure::ChoiceKind::tokens) tile.choices[choice.name] = c.state.followed;
    }
  }
}

void draw_token_actions(const PanelContext& c, TokenRange tokens) {
  const bool one = tokens.end - tokens.first == 1;
  const std::string these = one ? "this token" : "these tokens";
  const HeadIndex here{c.state.selection.layer, c.state.selection.head};
  // A policy has one keep and one drop, and each names tokens × heads.
  const std::string both =
      " If policy A already has such a modifier, one modifier names the tokens and the heads of "
      "both, and holds for all these tokens in all these heads.";
  if (ImGui::SmallButton("Follow")) {
    follow_tokens(c, ranges_text(tokens));
  }
  help_tooltip(c.fonts, "The grid shows what becomes of " + these + " in every head");
  ImGui::SameLine();
  if (ImGui::SmallButton("Keep here")) intervene(c, Intervention::keep, tokens, here);
  help_tooltip(c.fonts, "Policy A keeps " + these +
                            " in the selected head, inside the budget (+keep)." + both);
  ImGui::SameLine();
  if (ImGui::SmallButton("Keep in all")) intervene(c, Intervention::keep, tokens, std::nullopt);
  help_tooltip(c.fonts, "Policy A keeps " + these + " in every head, inside the budget (+keep)");
  ImGui::SameLine();
  if (ImGui::SmallButton("Drop here")) intervene(c, Intervention::drop, tokens, here);
  help_tooltip(c.fonts, "Policy A evicts " + these +
                            " in the selected head as soon as they may leave (+drop)." + both);
}

}  // namespace kvloupe::window
