#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "analysis/error.h"
#include "analysis/policy/spec.h"
#include "app/window/marks.h"
#include "app/window/numbers.h"
#include "app/window/panels.h"
#include "app/window/policy_variants.h"
#include "app/window/workspace.h"

namespace kvloupe::window {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void heading(const Workspace& w, const char* text, ImU32 mark, bool open_mark) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float radius = w.px(4);
  const ImVec2 centre{at.x + radius + 1, at.y + ImGui::GetFrameHeight() / 2};
  if (open_mark) {
    ImGui::GetWindowDrawList()->AddCircle(centre, radius, mark, 16, w.px(1.5F));
  } else {
    ImGui::GetWindowDrawList()->AddCircleFilled(centre, radius, mark, 16);
  }
  ImGui::SetCursorScreenPos({at.x + w.px(16), at.y});
  ImGui::AlignTextToFramePadding();
  ImGui::PushFont(w.fonts.heading);
  ImGui::TextUnformatted(text);
  ImGui::PopFont();
}

void draw_budget(Workspace& w, int prompt_length, int captured_block) {
  ImGui::PushFont(w.fonts.heading);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("Budget");
  ImGui::PopFont();
  const Budget budget = parse_budget(w.state.budget);
  const int entries = budget.resolve(prompt_length);
  const double share = 100.0 * entries / std::max(1, prompt_length);
  std::string text = fmt::format("{} tokens · {} %", count_text(entries), three_digits(share));
  if (ImGui::CalcTextSize(text.c_str()).x > 0.66F * ImGui::GetContentRegionMax().x) {
    text = count_text(entries);  // the slider's unit button tells the share
  }
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::CalcTextSize(text.c_str()).x);
  ImGui::TextUnformatted(text.c_str());

  const bool percent = std::holds_alternative<Percent>(budget.value);
  ImGui::PushFont(w.fonts.secondary);
  const float unit = ImGui::CalcTextSize("tokens").x + 2 * ImGui::GetStyle().FramePadding.x;
  ImGui::SetNextItemWidth(-unit - ImGui::GetStyle().ItemInnerSpacing.x);
  float position = static_cast<float>(share);
  const float least = 100.0F / static_cast<float>(std::max(2, prompt_length));
  if (ImGui::SliderFloat("##budget", &position, std::min(least, 1.0F), 100.0F, "",
                         ImGuiSliderFlags_Logarithmic | ImGuiSliderFlags_NoRoundToFormat |
                             ImGuiSliderFlags_NoInput)) {
    const double wanted = std::clamp(static_cast<double>(position), 0.0, 100.0);
    if (percent) {
      const double step = wanted < 2 ? 0.05 : wanted < 10 ? 0.5 : 1.0;
      const double rounded = std::max(step, std::round(wanted / step) * step);
      w.state.budget = fmt::format("{:.4g}%", rounded);
    } else {
      w.state.budget = std::to_string(std::max(1L, std::lround(wanted / 100.0 * prompt_length)));
    }
  }
  help_tooltip(w.fonts,
               "N: the largest number of entries that a head holds after a step. With an "
               "allocation modifier: the mean over the heads that share the budget. Keys: [ and ]");
  ImGui::SameLine(0, ImGui::GetStyle().ItemInnerSpacing.x);
  if (ImGui::Button(percent ? "%" : "tokens", {unit, 0})) {
    w.state.budget = percent ? std::to_string(entries) : fmt::format("{:.4g}%", share);
  }
  help_tooltip(w.fonts, "A share of the prompt's length, or a count");

  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("block");
  const std::string block_help = fmt::format(
      "Tokens processed together before the policy evicts, B. The capture used {}; the replay "
      "divides the prompt again.",
      captured_block);
  help_tooltip(w.fonts, block_help);
  ImGui::SameLine(control_column(w.fonts, 128));
  ImGui::SetNextItemWidth(-1);
  int block = w.state.block > 0 ? w.state.block : captured_block;
  if (ImGui::InputInt("##block", &block, 16, 128, ImGuiInputTextFlags_EnterReturnsTrue)) {
    block = std::clamp(block, 1, prompt_length);
    w.state.block = block == captured_block ? 0 : block;
  }
  help_tooltip(w.fonts, block_help);
  ImGui::PopFont();
}

/// Policy A as papers, authors and libraries do it: one click makes it policy B.
void draw_variants(Workspace& w) {
  ImGui::PushFont(w.fonts.secondary);
  if (ImGui::Button("Compare with a variant of A…", {-1, 0})) ImGui::OpenPopup("##variants");
  help_tooltip(w.fonts,
               "Compares with a variant of policy A in the papers, their authors' code or public "
               "libraries, as policy B");
  if (ImGui::BeginPopup("##variants")) {
    const std::vector<PolicyVariant> variants = variants_of(parse_policy(w.state.policy_a));
    if (variants.empty()) ImGui::TextDisabled("No variant of this policy is known.");
    for (const PolicyVariant& variant : variants) {
      const std::string title = variant.part + " · " + variant.where;
      const bool on = w.state.policy_b_on && w.state.policy_b == variant.spec;
      if (ImGui::Selectable(title.c_str(), on)) {
        w.state.policy_b = variant.spec;
        w.state.policy_b_on = true;
        w.state.token_colour = "difference";
      }
      help_tooltip(w.fonts, variant.spec);
    }
    ImGui::EndPopup();
  }
  ImGui::PopFont();
}

void draw_notes(const Workspace& w, const PolicyResults& results) {
  const auto focus = results.focus.current();
  const std::string error = results.focus.error();
  ImGui::PushFont(w.fonts.secondary);
  if (!error.empty()) {
    ImGui::PushStyleColor(ImGuiCol_Text, w.colours().error);
    ImGui::TextWrapped("%s", error.c_str());
    ImGui::PopStyleColor();
  } else if (focus) {
    for (const std::string& note : focus->notes) {
      ImGui::PushStyleColor(ImGuiCol_Text, w.colours().secondary);
      ImGui::TextWrapped("%s", note.c_str());
      ImGui::PopStyleColor();
    }
  }
  ImGui::PopFont();
}

struct Column {
  const StepRecord* record = nullptr;
  std::shared_ptr<const StepRecord> measured;  // the same with its measures; nullptr: to come
  int query = -1;                              // within the group; -1: mean
  double value(const Measure& measure) const {
    if (!measured) return kNone;
    return measure_at(measure, *measured,
                      measure.family->scope == MeasureScope::query_head ? query : -1);
  }
};

/// What the numbers are worth: a replay above layer 0 is an approximation.
void draw_loop_badge(const Workspace& w) {
  const RunInfo& run = w.results.trace()->run();
  const bool closed = run.policy != "full";
  const bool exact = closed || w.state.selection.layer == 0;
  // Where the policy has run in the model, too: how far the replay is off in this layer.
  const auto agreement = closed ? nullptr : w.results.agreement();
  const std::string text = closed  ? "closed loop"
                           : exact ? "open loop: exact here"
                           : agreement
                               ? fmt::format("open loop: Jaccard {:.2f} to closed", *agreement)
                               : "open loop: exact for layer 0";
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float radius = w.px(3);
  const ImVec2 centre{at.x + radius, at.y + w.fonts.secondary->FontSize / 2};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 ink = exact ? w.colours().protection : w.colours().selection;
  if (exact) {
    list.AddCircleFilled(centre, radius, ink, 12);
  } else {
    list.AddCircle(centre, radius, ink, 12, w.px(1.5F));
  }
  ImGui::SetCursorScreenPos({at.x + w.px(12), at.y});
  ImGui::TextDisabled("%s", text.c_str());
  const std::string known =
      agreement ? fmt::format(
                      " In this trace, too, the loop is open: the tokens that the closed-loop run "
                      "and the replay retain in this layer have a Jaccard index of {:.3f}, mean "
                      "over heads and steps from the first eviction on. The view Open against "
                      "closed loop shows all layers.",
                      *agreement)
                : "";
  help_tooltip(w.fonts,
               closed
                   ? "The model ran with " + run.policy +
                         " in its cache. A replay of another policy uses the states of that run."
                   : std::string("The policy is replayed on states captured with the full cache. "
                                 "Layer 0 does not depend on earlier evictions. In a model that "
                                 "runs with the policy, the layers above would have other states. "
                                 "To see those: File, Run policy A in the model (Ctrl R).") +
                         known);
}

/// Numbers of the selected head after the selected step, one column per policy.
void draw_readouts(const Workspace& w) {
  const TracePointer trace = w.results.trace();
  const SharedSelection& at = w.state.selection;
  const int step = w.step();
  const auto column = [&](const HeadReplay* head, int policy) {
    Column result;
    result.measured = w.measures.head(policy);
    if (head && static_cast<std::size_t>(step) < head->steps.size()) {
      result.record = &head->steps[static_cast<std::size_t>(step)];
    }
    if (at.query_head >= 0) result.query = at.query_head - at.head * trace->model().group_size();
    return result;
  };
  Column columns[2] = {column(w.head_a(), 0), column(w.head_b(), 1)};
  const std::size_t shown = w.state.policy_b_on ? 2 : 1;

  ImGui::PushFont(w.fonts.heading);
  ImGui::Text("After step %d", step);
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::PushFont(w.fonts.secondary);
  ImGui::TextDisabled("layer %d, head %d", at.layer, at.head);
  draw_loop_badge(w);
  if (!ImGui::BeginTable("##readouts", static_cast<int>(shown) + 1)) {
    ImGui::PopFont();
    return;
  }
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, w.px(shown == 2 ? 104 : 144));
  const auto line = [&](const std::string& name, const std::string& help, auto&& value) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::TextDisabled("%s", name.c_str());
    help_tooltip(w.fonts, help);
    for (const Column& c : std::span(columns, shown)) {
      ImGui::TableNextColumn();
      const std::string text = c.record ? value(c) : std::string("–");
      const float slack = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
      if (slack > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + slack);
      ImGui::TextUnformatted(text.c_str());
    }
  };
  if (shown == 2) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const ImU32 inks[2] = {w.colours().retained, w.colours().evicted};
    for (int i = 0; i < 2; ++i) {
      ImGui::TableNextColumn();
      const char* name = i == 0 ? "A" : "B";
      ImGui::SetCursorPosX(ImGui::GetCursorPosX() + ImGui::GetContentRegionAvail().x -
                           ImGui::CalcTextSize(name).x);
      ImGui::TextColored(ImGui::ColorConvertU32ToFloat4(inks[i]), "%s", name);
    }
  }
  line("entries kept", "Entries kept after the step, of those in the cache before eviction (n)",
       [](const Column& c) {
         return count_text(c.record->retained) + " / " + count_text(c.record->cache_size);
       });
  const Measure& rank = require_measure("rank");
  for (const Measure& measure : all_measures()) {
    const MeasureInfo& info = *measure.info;
    if (info.label.empty()) continue;
    if (info.name == "log_pseudo_determinant") {
      line(info.label + " (rank)", info.help, [&](const Column& c) {
        const std::string volume = three_digits(c.value(measure));
        return c.measured ? fmt::format("{} ({})", volume, c.value(rank)) : volume;
      });
    } else {
      line(info.label, info.help, [&](const Column& c) { return three_digits(c.value(measure)); });
    }
  }
  line("lowest kept score", "Threshold of the selection",
       [](const Column& c) { return three_digits(static_cast<double>(c.record->threshold)); });
  line("ties there",
       "Entries with a score equal to the threshold; among these the later token is kept",
       [](const Column& c) { return count_text(c.record->ties); });
  ImGui::EndTable();
  ImGui::PopFont();
}

}  // namespace

void draw_policy_panel(Workspace& w) {
  const TracePointer trace = w.results.trace();
  if (!trace) return;
  const float line = w.fonts.secondary->FontSize + 2 * ImGui::GetStyle().CellPadding.y;
  const float readouts = line * (w.state.policy_b_on ? 10.0F : 9.0F) + w.px(40);
  const bool fits = ImGui::GetContentRegionAvail().y > readouts + w.px(200);
  ImGui::BeginChild("##policies", {0, fits ? -readouts : 0.0F}, false,
                    w.keyboard_moves_in_panel() ? 0 : ImGuiWindowFlags_NoNavInputs);
  draw_budget(w, trace->run().prompt_length, trace->run().block_size);
  ImGui::Dummy({0, w.px(4)});
  heading(w, "Policy A", w.colours().retained, false);
  w.editor_a.draw(w.fonts, w.colours(), w.state.policy_a);
  draw_notes(w, w.results.a);
  ImGui::Dummy({0, w.px(4)});
  heading(w, "Policy B", w.colours().evicted, true);
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::GetFrameHeight());
  checkbox("##b", w.state.policy_b_on, w.colours());
  help_tooltip(w.fonts, "A second policy to compare with (B)");
  draw_variants(w);
  if (w.state.policy_b_on) {
    w.editor_b.draw(w.fonts, w.colours(), w.state.policy_b);
    draw_notes(w, w.results.b);
  }
  if (!fits) {
    ImGui::Dummy({0, w.px(4)});
    draw_readouts(w);
  }
  ImGui::EndChild();
  if (fits) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::GetWindowDrawList()->AddLine(at, {at.x + ImGui::GetContentRegionAvail().x, at.y},
                                        w.colours().faint);
    ImGui::Dummy({0, w.px(4)});
    draw_readouts(w);
  }
}

}  // namespace kvloupe::window
