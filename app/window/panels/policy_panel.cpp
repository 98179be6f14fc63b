#include <fmt/format.h>
#include <imgui.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "analysis/base/core/error.h"
#include "analysis/policy/comparison_terms.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/replay/compression.h"
#include "analysis/replay/drift.h"
#include "analysis/replay/held_bytes.h"
#include "analysis/replay/measure/foretold_answers.h"
#include "analysis/replay/measure/measure_catalog.h"
#include "analysis/trace/layer_kinds_text.h"
#include "analysis/trace/trace_size.h"
#include "app/window/panels/panels.h"
#include "app/window/state/panel_context.h"
#include "app/window/state/policy_choice.h"
#include "app/window/tiles/state_range.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

void heading(const PanelContext& c, const char* text, ImU32 mark, bool open_mark) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float radius = c.px(4);
  const ImVec2 centre{at.x + radius + 1, at.y + ImGui::GetFrameHeight() / 2};
  if (open_mark) {
    ImGui::GetWindowDrawList()->AddCircle(centre, radius, mark, 16, c.px(1.5F));
  } else {
    ImGui::GetWindowDrawList()->AddCircleFilled(centre, radius, mark, 16);
  }
  ImGui::SetCursorScreenPos({at.x + c.px(16), at.y});
  ImGui::AlignTextToFramePadding();
  text_in(c.fonts.heading, text);
}

/// Whether the policies see the question.
void draw_compression(const PanelContext& c) {
  const TracePointer trace = c.results.trace();
  const bool own = trace->run().closed_loop();  // that of the run
  const Compression now =
      own ? trace->run().compression : c.state.compression.value_or(Compression::regular);
  const auto name = [](Compression one) {
    return one == Compression::regular ? "to the end" : "up to the question";
  };
  const char* help =
      "The steps that evict. To the end: after every block and every generated token. Up to the "
      "question: while the context is read and no more (context-only), so that the policy cannot "
      "know the question; without a segment question, up to the end of the prompt.";
  name_control(c.fonts, "evicts", control_column(c.fonts, 128), help);
  ImGui::BeginDisabled(own);
  if (ImGui::BeginCombo("##compression", name(now))) {
    for (const Compression one : {Compression::regular, Compression::context_only}) {
      const bool possible = accepts_compression(*trace, one);
      const auto flags = possible ? ImGuiSelectableFlags_None : ImGuiSelectableFlags_Disabled;
      const bool chosen = list_line(name(one), one == now, flags);
      if (!possible) help_tooltip(c.fonts, "The prompt begins with its question");
      if (!chosen) continue;
      c.state.compression.reset();
      if (one == Compression::context_only) c.state.compression = one;
    }
    ImGui::EndCombo();
  }
  ImGui::EndDisabled();
  help_tooltip(c.fonts, help);
}

void draw_budget(const PanelContext& c, int prompt_length, int captured_block) {
  ImGui::PushFont(c.fonts.heading);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("Budget");
  ImGui::PopFont();
  const Budget budget = c.state.budget;
  const int entries = budget.resolve(prompt_length);
  const double share = 100.0 * entries / std::max(1, prompt_length);
  std::string text = fmt::format("{} · {} %", token_count_text(entries), three_digits(share));
  if (ImGui::CalcTextSize(text.c_str()).x > 0.66F * ImGui::GetContentRegionMax().x) {
    text = count_text(entries);  // the slider's unit button tells the share
  }
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::CalcTextSize(text.c_str()).x);
  ImGui::TextUnformatted(text.c_str());

  const bool percent = std::holds_alternative<Percent>(budget.value);
  ImGui::PushFont(c.fonts.secondary);
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
      c.state.budget = share_budget(rounded);
    } else {
      c.state.budget = Budget{std::max(1L, std::lround(wanted / 100.0 * prompt_length))};
    }
  }
  help_tooltip(c.fonts,
               "N: the largest number of entries that a head holds after a step. With an "
               "allocation modifier: the mean over the heads that share the budget. Keys: [ and ]");
  ImGui::SameLine(0, ImGui::GetStyle().ItemInnerSpacing.x);
  if (ImGui::Button(percent ? "%" : "tokens", {unit, 0})) {
    c.state.budget = budget_of(entries, prompt_length, !percent);
  }
  help_tooltip(c.fonts, "A share of the prompt's length, or a count");

  const std::string block_help = fmt::format(
      "Tokens processed together before the policy evicts, B. The capture used {}; the replay "
      "divides the prompt again.",
      captured_block);
  name_control(c.fonts, "block", control_column(c.fonts, 128), block_help);
  int block = c.state.block > 0 ? c.state.block : captured_block;
  if (ImGui::InputInt("##block", &block, 16, 128, ImGuiInputTextFlags_EnterReturnsTrue)) {
    block = std::clamp(block, 1, prompt_length);
    c.state.block = block == captured_block ? 0 : block;
  }
  help_tooltip(c.fonts, block_help);
  draw_compression(c);
  ImGui::PopFont();
}

/// Policy A as papers, authors and libraries do it: one click makes it policy B.
void draw_variants(const PanelContext& c) {
  ImGui::PushFont(c.fonts.secondary);
  ImGui::SameLine(0, c.px(16));
  if (ImGui::Button("Variant of A…")) ImGui::OpenPopup("##variants");
  help_tooltip(
      c.fonts,
      "Takes as policy B a variant of policy A from the papers, their authors' code or public "
      "libraries");
  if (ImGui::BeginPopup("##variants")) {
    const std::vector<PolicyVariant> variants = variants_of(c.state.policy_a);
    if (variants.empty()) ImGui::TextDisabled("No variant of this policy is known.");
    for (const PolicyVariant& variant : variants) {
      const std::string title = variant.part + " · " + variant.where;
      const bool on = c.state.policy_b_on && c.state.policy_b.text() == variant.spec;
      if (list_line(title.c_str(), on)) {
        c.state.policy_b = parse_policy(variant.spec);
        c.state.policy_b_on = true;
        c.state.token_colour = "difference";
      }
      help_tooltip(c.fonts, variant.spec);
    }
    ImGui::EndPopup();
  }
  ImGui::PopFont();
}

/// The terms of a comparison with this policy: the question, the prompt, the budget. `steady`: two
/// lines high, whatever it says.
void draw_terms(const PanelContext& c, const PolicySpec& policy, const Replay* replay,
                bool steady) {
  const TracePointer trace = c.results.trace();
  const RunInfo& run = trace->run();
  const std::optional<Compression> wanted =
      run.closed_loop() ? std::optional(run.compression) : c.state.compression;
  if (!accepts_compression(*trace, wanted)) return;
  const ComparisonTerms terms =
      comparison_terms(policy, replay_compression(*trace, wanted),
                       compresses_at_once(*trace, run.closed_loop() ? 0 : c.state.block, wanted));
  std::string help;
  for (const std::string& sentence : terms_sentences(terms)) help += sentence + " ";
  const CacheBytes bytes = cache_bytes(*trace);
  help += fmt::format(
      "An entry is the key and the value of one token in one of {} key-value heads; with 16 bits a "
      "number, one entry in each of them takes {} kB.",
      count_text(trace->model().all_cache_heads()), three_digits(bytes.per_token / 1000.0));
  if (bytes.states > 0.0) {
    help += fmt::format(
        " States of a fixed size, which no policy changes, take {} kB more, however long the text "
        "is.",
        three_digits(bytes.states / 1000.0));
  }
  if (const auto held = replay != nullptr ? held_bytes(*trace, *replay) : std::nullopt) {
    help += " After the last step the caches hold " + held_bytes_text(*held) + ".";
  }
  ImGui::PushFont(c.fonts.secondary);
  ImGui::PushStyleColor(ImGuiCol_Text, c.colours().secondary);
  const float top = ImGui::GetCursorPosY();
  wrapped_text(terms_line(terms));
  ImGui::PopStyleColor();
  help_tooltip(c.fonts, help);
  // Two lines high, if there is room, so that the controls below do not move as the policy changes.
  const float left =
      !steady ? 0.0F : top + 2 * ImGui::GetTextLineHeightWithSpacing() - ImGui::GetCursorPosY();
  if (left > 0.0F) ImGui::Dummy({0, left - ImGui::GetStyle().ItemSpacing.y});
  ImGui::PopFont();
}

/// Shows only the brief part of a note about a window, so that the controls below stay in sight.
/// The tooltip has the whole note.
void draw_note(const PanelContext& c, const std::string& note) {
  const std::string brief = window_note_in_brief(note);
  wrapped_text(c.colours().secondary, brief.empty() ? note : brief);
  if (!brief.empty()) help_tooltip(c.fonts, note);
}

void draw_notes(const PanelContext& c, int policy) {
  const Replay* replay = c.shown.replay(policy);
  const std::string error = c.shown.error(policy);
  ImGui::PushFont(c.fonts.secondary);
  if (!error.empty()) {
    wrapped_text(c.colours().error, error);
  } else if (replay != nullptr) {
    for (const std::string& note : replay->notes) draw_note(c, note);
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

void draw_loop_badge(const PanelContext& c) {
  const LoopBadge badge = loop_badge(c);
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float radius = c.px(3);
  const ImVec2 centre{at.x + radius, at.y + c.fonts.secondary->FontSize / 2};
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImU32 ink = badge.exact ? c.colours().protection : c.colours().selection;
  if (badge.exact) {
    list.AddCircleFilled(centre, radius, ink, 12);
  } else {
    list.AddCircle(centre, radius, ink, 12, c.px(1.5F));
  }
  ImGui::SetCursorScreenPos({at.x + c.px(12), at.y});
  const double room = static_cast<double>(ImGui::GetContentRegionAvail().x / c.fonts.scale());
  ImGui::TextDisabled("%s", c.metrics.fit(badge.text, figure::Font::regular, 13.0, room).c_str());
  help_tooltip(c.fonts, badge.help);
}

/// Warns if a policy chose by the same queries that the numbers below use: they flatter it.
void note_own_queries(const PanelContext& c) {
  std::string names;
  const auto chooses = [](const PolicySpec& policy) {
    return has_trait(policy, &PolicyTraits::reads_queries);
  };
  if (chooses(c.state.policy_a)) names = "A";
  if (c.state.policy_b_on && chooses(c.state.policy_b)) names += names.empty() ? "B" : ", B";
  if (names.empty()) return ImGui::NewLine();  // nothing below moves
  ImGui::TextDisabled("%s chose by these queries", names.c_str());
  help_tooltip(
      c.fonts,
      "The numbers below are for the step's own last query. The policy chose its entries by "
      "such queries, so it looks better here than it is. Whole model shows later queries.");
}

/// In the current cell of a table.
void text_at_right(const PanelContext& c, const std::string& value) {
  const float room = ImGui::GetContentRegionAvail().x;
  const std::string text = whole_numbers(value, [room](const std::string& shown) {
    return ImGui::CalcTextSize(shown.c_str()).x <= room;
  });
  const float slack = room - ImGui::CalcTextSize(text.c_str()).x;
  if (slack > 0) ImGui::SetCursorPosX(ImGui::GetCursorPosX() + slack);
  ImGui::TextUnformatted(text.c_str());
  if (text != value) help_tooltip(c.fonts, value);
}

/// Whose queries, after a heading: as much as the panel has room for.
std::string asked_words(Asked asked, int queries) {
  const char* const word = queries == 1 ? "query" : "queries";
  // At this count, the queries are a sample.
  const bool sample = asked == Asked::later && queries == kMostLater;
  const std::string whose = asked == Asked::later
                                ? fmt::format("{} later {}", queries, word)
                                : fmt::format("{}'s {} {}", asked_name(asked), queries, word);
  const std::string whole = (sample ? "for a sample of " : "for the ") + whose;
  const float room = ImGui::GetContentRegionAvail().x;
  for (const std::string* text : {&whole, &whose}) {
    if (ImGui::CalcTextSize(text->c_str()).x <= room) return *text;
  }
  return fmt::format("{} {}", queries, word);
}

/// The column of names beside so many columns of numbers: in a narrow panel it leaves them room.
float name_width(const PanelContext& c, std::size_t columns) {
  if (columns == 2) return c.px(104);
  return std::clamp(ImGui::GetContentRegionAvail().x - c.px(72), c.px(104), c.px(144));
}

/// Each policy's change in the whole model for the queries that come later. Look at this number
/// first: many policies choose by the step's own queries.
void draw_whole_model(const PanelContext& c) {
  const std::shared_ptr<const WholeModel> whole[2] = {c.shown.whole(0), c.shown.whole(1)};
  const std::size_t shown = c.state.policy_b_on ? 2 : 1;
  text_in(c.fonts.heading, "Whole model");
  ImGui::SameLine();
  ImGui::PushFont(c.fonts.secondary);
  if (whole[0]) {
    const std::string words = asked_words(whole[0]->asked, whole[0]->queries);
    ImGui::TextDisabled("%s", words.c_str());
  } else {
    ImGui::TextDisabled("–");
  }
  if (ImGui::BeginTable("##whole", static_cast<int>(shown) + 1)) {
    ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, name_width(c, shown));
    const std::string queries = whole[0] ? asked_name(whole[0]->asked) : "answer";
    const auto line = [&](const char* name, const char* measure, const char* help, auto&& value) {
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      ImGui::TextDisabled("%s", name);
      const std::string foretold = foretold_text(queries + measure);
      help_tooltip(c.fonts, help + (foretold.empty() ? foretold : " " + foretold));
      for (std::size_t i = 0; i < shown; ++i) {
        ImGui::TableNextColumn();
        text_at_right(c, whole[i] ? value(*whole[i]) : std::string("–"));
      }
    };
    line(
        "change", "_residual_change",
        "The change of the output by eviction. Each of these queries reads the cache as it is when "
        "the query comes. The changes of all heads and layers are added with their signs after "
        "W_O, and divided by the sum of the outputs. 0: no change. Open loop: the states of the "
        "full cache.",
        [](const WholeModel& one) { return three_digits(one.change); });
    line("worst layer", "_worst_layer_error",
         "The largest such change of one layer's attention output, and that layer.",
         [](const WholeModel& one) {
           return one.worst_layer < 0
                      ? three_digits(one.worst_error)
                      : fmt::format("{} ({})", three_digits(one.worst_error), one.worst_layer);
         });
    ImGui::EndTable();
  }
  ImGui::PopFont();
  ImGui::Dummy({0, c.px(2)});
}

/// Numbers of the selected head after the selected step, one column per policy.
void draw_readouts(const PanelContext& c) {
  const TracePointer trace = c.results.trace();
  const figure::Selection& at = c.state.selection;
  const int step = c.shown.step();
  const auto column = [&](const HeadReplay* head, int policy) {
    Column result{.measured = c.shown.measured(policy)};
    if (head && static_cast<std::size_t>(step) < head->steps.size()) {
      result.record = &head->steps[static_cast<std::size_t>(step)];
    }
    if (at.query_head >= 0)
      result.query = at.query_head - at.head * trace->layer_model(at.layer).group_size();
    return result;
  };
  Column columns[2] = {column(c.shown.head(0), 0), column(c.shown.head(1), 1)};
  const std::size_t shown = c.state.policy_b_on ? 2 : 1;

  draw_whole_model(c);
  ImGui::PushFont(c.fonts.heading);
  ImGui::Text("After step %d", step);
  ImGui::PopFont();
  ImGui::SameLine();
  ImGui::PushFont(c.fonts.secondary);
  ImGui::TextDisabled("layer %d, head %d", at.layer, at.head);
  draw_loop_badge(c);
  note_own_queries(c);
  if (!ImGui::BeginTable("##readouts", static_cast<int>(shown) + 1)) {
    ImGui::PopFont();
    return;
  }
  ImGui::TableSetupColumn("name", ImGuiTableColumnFlags_WidthFixed, name_width(c, shown));
  const auto line = [&](const std::string& name, const std::string& help, auto&& value) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    ImGui::TextDisabled("%s", name.c_str());
    help_tooltip(c.fonts, help);
    for (const Column& one : std::span(columns, shown)) {
      ImGui::TableNextColumn();
      text_at_right(c, one.record ? value(one) : std::string("–"));
    }
  };
  if (shown == 2) {
    ImGui::TableNextRow();
    ImGui::TableNextColumn();
    const ImU32 inks[2] = {c.colours().retained, c.colours().evicted};
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
  for (const Measure& measure : all_measures()) {
    const MeasureInfo& info = *measure.info;
    if (info.label.empty()) continue;
    const Measure* beside = info.beside.empty() ? nullptr : &require_measure(info.beside);
    line(beside ? fmt::format("{} ({})", info.label, info.beside) : info.label, info.help,
         [&](const Column& c) {
           const std::string value = three_digits(c.value(measure));
           return beside && c.measured ? fmt::format("{} ({})", value, c.value(*beside)) : value;
         });
  }
  line("lowest kept score",
       "Threshold of the selection; in brackets the entries with a score equal to it, if more than "
       "one: among these the later token is kept",
       [](const Column& c) {
         const std::string score = three_digits(static_cast<double>(c.record->threshold));
         return c.record->ties > 0 ? score + " (" + count_text(c.record->ties) + ")" : score;
       });
  ImGui::EndTable();
  ImGui::PopFont();
}

void draw_editor(const PanelContext& c, PolicyEditor& editor, PolicySide side) {
  editor.draw(c.fonts, c.colours(), side == PolicySide::b ? c.state.policy_b : c.state.policy_a);
  if (const auto at = editor.take_wanted_list()) c.ask(ChooseModifier{side, *at});
}

}  // namespace

LoopBadge loop_badge(const PanelContext& c) {
  const Trace& trace = *c.results.trace();
  const RunInfo& run = trace.run();
  if (run.closed_loop()) {
    const Replay* replay = c.shown.replay(0);
    const bool own =
        replay != nullptr ? is_same_policy(*replay, trace) : c.state.policy_a.text() == run.policy;
    const std::string ran = fmt::format("The model ran with {}, N = {}, in its cache.", run.policy,
                                        count_text(run.budget));
    if (own) return {"closed loop", ran, true};
    return {fmt::format("states of {}'s run", run.policy),
            ran +
                " Policy A here has another name, budget or block: it is replayed on the states "
                "of that run, and no model ran with it. Open the trace with the full cache and "
                "choose File, Run policy A in the model (Ctrl R).",
            false};
  }
  const std::string help =
      "The policy is replayed on states captured with the full cache. Layer 0 does not depend on "
      "earlier evictions. In a model that runs with the policy, the layers above would have other "
      "states. To see these states, choose File, Run policy A in the model (Ctrl R).";
  // A replay above the first layer with a cache is an approximation.
  const int first_cache = trace.storing_layers().front();
  const bool exact = c.state.selection.layer == first_cache;
  // If the policy has also run in the model, the agreement of replay and run in this layer.
  const auto agreement = c.results.agreement();
  const std::string known =
      !agreement ? ""
                 : fmt::format(
                       " The replay of this trace is open loop, too: the tokens that the "
                       "closed-loop run and the replay retain in this layer have a Jaccard "
                       "index of {:.3f}, mean over heads and steps from the first eviction "
                       "on. The view Open against closed loop shows all layers.",
                       *agreement);
  return {exact       ? "open loop: exact here"
          : agreement ? fmt::format("open loop: Jaccard {:.2f} to closed", *agreement)
                      : fmt::format("open loop: exact for layer {}", first_cache),
          help + known, exact};
}

void draw_policy_panel(const PanelContext& c, PolicyEditors& editors) {
  const TracePointer trace = c.results.trace();
  if (!trace) return;
  const float line = c.fonts.secondary->FontSize + 2 * ImGui::GetStyle().CellPadding.y;
  const float readouts = line * (c.state.policy_b_on ? 12.0F : 11.0F) + c.px(68);
  const bool fits = ImGui::GetContentRegionAvail().y > readouts + c.px(240);
  ImGui::BeginChild("##policies", {0, fits ? -readouts : 0.0F}, false,
                    c.keyboard ? ImGuiWindowFlags_NavFlattened : ImGuiWindowFlags_NoNavInputs);
  const bool roomy = ImGui::GetContentRegionAvail().y > c.px(520);
  draw_budget(c, trace->run().prompt_length, trace->run().block_size);
  ImGui::Dummy({0, c.px(4)});
  heading(c, "Policy A", c.colours().retained, false);
  draw_terms(c, c.state.policy_a, c.shown.of_all_layers(0), roomy);
  draw_editor(c, editors.a, PolicySide::a);
  draw_notes(c, 0);
  ImGui::Dummy({0, c.px(4)});
  heading(c, "Policy B", c.colours().evicted, true);
  draw_variants(c);
  ImGui::SameLine(ImGui::GetContentRegionMax().x - ImGui::GetFrameHeight());
  checkbox("##b", c.state.policy_b_on, c.colours());
  help_tooltip(c.fonts, "A second policy to compare with (B)");
  if (c.state.policy_b_on) {
    draw_terms(c, c.state.policy_b, c.shown.of_all_layers(1), roomy);
    draw_editor(c, editors.b, PolicySide::b);
    draw_notes(c, 1);
  }
  if (!fits) {
    ImGui::Dummy({0, c.px(4)});
    draw_readouts(c);
  }
  ImGui::EndChild();
  if (fits) {
    const ImVec2 at = ImGui::GetCursorScreenPos();
    ImGui::GetWindowDrawList()->AddLine(at, {at.x + ImGui::GetContentRegionAvail().x, at.y},
                                        c.colours().faint);
    ImGui::Dummy({0, c.px(4)});
    draw_readouts(c);
  }
}

}  // namespace kvloupe::window
