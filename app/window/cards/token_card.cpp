#include "app/window/cards/token_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "app/plot/printable.h"
#include "app/window/cards/card.h"
#include "app/window/cards/intervene.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/shaped_text.h"

namespace kvloupe::window {

namespace {

constexpr float kTokenCardWidth = 336.0F;
constexpr float kChart = 48.0F;

const StepReason* reason_at(const TokenExplanation& life, int step) {
  const int at = step - life.entered;
  return at >= 0 && at < static_cast<int>(life.steps.size())
             ? &life.steps[static_cast<std::size_t>(at)]
             : nullptr;
}

std::string sentence(const TokenExplanation& life, int step) {
  if (step < life.entered) return fmt::format("Step {}: not yet seen.", step);
  const StepReason* reason = reason_at(life, step);
  return reason ? fmt::format("Step {}: {}.", step, reason_text(life, *reason))
                : fmt::format("Step {}: gone.", step);
}

/// The margin, score less threshold, at each step: above the line it stays by its score.
void draw_margins(const PanelContext& c, const TokenExplanation& life, float width) {
  double largest = 0.0;
  for (const StepReason& reason : life.steps) {
    if (std::isfinite(reason.margin)) largest = std::max(largest, std::abs(reason.margin));
  }
  if (largest <= 0.0) return;
  const WindowColours& colours = c.colours();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float height = c.px(kChart);
  const float left = c.px(48);
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float zero = std::floor(at.y + height / 2) + 0.5F;
  const std::size_t steps = life.steps.size();
  const float pitch =
      (width - left - c.px(8)) / static_cast<float>(std::max<std::size_t>(1, steps));
  ImGui::InvisibleButton("##margins", {width, height});
  list.AddLine({at.x + left, zero}, {at.x + width, zero}, colours.secondary);
  list.AddText(c.fonts.secondary, c.fonts.secondary->FontSize,
               {at.x, std::floor(zero - c.fonts.secondary->FontSize / 2)}, colours.secondary,
               "margin");
  int pointed = -1;
  for (std::size_t i = 0; i < steps; ++i) {
    const StepReason& reason = life.steps[i];
    const float x = at.x + left + (static_cast<float>(i) + 0.5F) * pitch;
    const ImVec2 mouse = ImGui::GetIO().MousePos;
    if (ImGui::IsItemHovered() && std::abs(mouse.x - x) <= pitch / 2) pointed = static_cast<int>(i);
    if (reason.step == c.shown.step()) {
      list.AddLine({std::floor(x) + 0.5F, at.y}, {std::floor(x) + 0.5F, at.y + height},
                   colours.selection);
    }
    if (!std::isfinite(reason.margin)) {
      list.AddCircle({x, zero}, c.px(1.5F), colours.secondary, 8);
      continue;
    }
    // The square root keeps small margins in sight.
    const double share = std::copysign(std::sqrt(std::abs(reason.margin) / largest), reason.margin);
    const float y = zero - static_cast<float>(share) * (height / 2 - c.px(4));
    const bool left_now = reason.step == life.left;
    const ImU32 ink = left_now ? colours.evicted : colours.retained;
    list.AddLine({x, zero}, {x, y}, faded(ink, 0.6F));
    if (left_now) {
      list.AddCircle({x, y}, c.px(3), ink, 12, c.px(1.5F));
    } else {
      list.AddCircleFilled({x, y}, c.px(2.5F), ink, 12);
    }
  }
  if (pointed >= 0) {
    const StepReason& reason = life.steps[static_cast<std::size_t>(pointed)];
    c.hover.step = reason.step;
    help_tooltip(c.fonts, sentence(life, reason.step));
    if (ImGui::IsItemClicked()) c.state.selection.step = reason.step;
  }
}

}  // namespace

std::string life_text(const TokenExplanation& life) {
  const std::string came = fmt::format("entered at step {}", life.entered);
  if (life.left < 0) return came + ", stays to the end";
  const Fate fate = life.steps.empty() ? Fate::evicted : life.steps.back().fate;
  return came + fmt::format(", {} at step {}", leaving_text(fate), life.left);
}

void TokenCard::open(ImVec2 at) {
  open_ = true;
  at_ = at;
}

void TokenCard::follow(Life& life, const PanelContext& c, int policy, int token) {
  const auto replay = c.shown.latest(policy);
  const HeadReplay* head =
      replay ? replay->find(c.state.selection.layer, c.state.selection.head) : nullptr;
  if (!head || head->scores.size() != head->steps.size() ||
      head->fates.size() != head->steps.size() ||
      token >= static_cast<int>(head->evicted_at.size())) {
    life = {};
    return;
  }
  if (replay == life.replay && token == life.token) return;
  life = {replay, token, explain(*replay, *head, token)};
}

void TokenCard::draw_life(const PanelContext& c, const Life& life, const char* name, ImU32 colour,
                          float width) const {
  const std::string spec = (*name == 'A' ? c.state.policy_a : c.state.policy_b).text();
  ImGui::PushID(name);
  ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(colour), "%s", name);
  ImGui::SameLine();
  ImGui::TextUnformatted(
      c.metrics.fit(spec, figure::Font::regular, 13.0, (width - c.px(24)) / c.fonts.scale())
          .c_str());
  if (!life.explanation) {
    ImGui::TextDisabled("computing …");
  } else {
    const TokenExplanation& it = *life.explanation;
    ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width);
    std::string whole = life_text(it) + ".";
    whole.front() = 'E';
    ImGui::TextUnformatted(whole.c_str());
    ImGui::TextUnformatted(sentence(it, c.shown.step()).c_str());
    ImGui::PopTextWrapPos();
    draw_margins(c, it, width);
  }
  ImGui::PopID();
}

void TokenCard::draw_expectations(const PanelContext& c, int token, float width) {
  const TracePointer trace = c.results.trace();
  expected_.request(c.results.quick(), c.results.trace_key(),
                    [trace](Progress&, const auto&) { return read_expectations(*trace); });
  const auto expected = expected_.current();
  if (!expected) return;
  ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + width);
  for (const std::string& line : {likelihood_text(*expected, token), next_text(*expected, token)}) {
    if (!line.empty()) show_text(c.fonts, line);
  }
  ImGui::PopTextWrapPos();
}

void TokenCard::draw_all_heads(const PanelContext& c, int token) {
  const auto [kept, known] = c.shown.heads_keeping(token);
  if (known > 0) {
    ImGui::TextDisabled("in the cache of %d of %d heads after step %d", kept, known,
                        c.shown.step());
  }
  draw_token_actions(c, {token, token + 1});
}

void TokenCard::draw(const PanelContext& c) {
  const TracePointer trace = c.results.trace();
  const int token = c.state.selection.token;
  if (!trace || token < 0) open_ = false;
  if (!open_) return;
  follow(lives_[0], c, 0, token);
  if (c.state.policy_b_on) follow(lives_[1], c, 1, token);

  const TokenTable& table = trace->tokens();
  const auto at = static_cast<std::size_t>(token);
  std::string heading = fmt::format("Token {}", count_text(token));
  if (at < table.text.size()) heading += fmt::format(" “{}”", figure::printable(table.text[at]));
  const float height = c.state.policy_b_on ? 416.0F : 272.0F;
  if (begin_card(c, "token", at_, kTokenCardWidth, height, heading)) open_ = false;
  const float inner = ImGui::GetContentRegionAvail().x;
  std::string where =
      fmt::format("layer {}, head {}", c.state.selection.layer, c.state.selection.head);
  if (const std::string part = part_text(*trace, c.results.given(), token); !part.empty())
    where += " · " + part;
  wrapped_text(c.colours().secondary, where);
  draw_expectations(c, token, inner);
  ImGui::Dummy({0, c.px(4)});
  draw_life(c, lives_[0], "A", c.colours().retained, inner);
  draw_all_heads(c, token);
  if (c.state.policy_b_on) {
    ImGui::Dummy({0, c.px(4)});
    draw_life(c, lives_[1], "B", c.colours().evicted, inner);
  }
  end_card();
}

}  // namespace kvloupe::window
