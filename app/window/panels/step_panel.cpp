#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>
#include <imgui_stdlib.h>

#include <algorithm>

#include "analysis/base/core/error.h"
#include "analysis/replay/follow.h"
#include "app/figure/figures/overview_measures.h"
#include "app/plot/printable.h"
#include "app/session/interventions.h"
#include "app/window/cards/intervene.h"
#include "app/window/panels/panels.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"
#include "app/window/widgets/shaped_text.h"

namespace kvloupe::window {

namespace {

/// A triangle or two bars, without words.
bool play_button(const PanelContext& c) {
  const float side = ImGui::GetFrameHeight();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const bool pressed = ImGui::Button("##play", {side, side});
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const ImVec2 centre{at.x + side / 2, at.y + side / 2};
  const float r = side * 0.22F;
  if (c.playing) {
    list.AddRectFilled({centre.x - r, centre.y - r}, {centre.x - r * 0.3F, centre.y + r},
                       c.colours().ink);
    list.AddRectFilled({centre.x + r * 0.3F, centre.y - r}, {centre.x + r, centre.y + r},
                       c.colours().ink);
  } else {
    list.AddTriangleFilled({centre.x - r * 0.8F, centre.y - r}, {centre.x + r, centre.y},
                           {centre.x - r * 0.8F, centre.y + r}, c.colours().ink);
  }
  help_tooltip(c.fonts, c.reduced_motion ? "Next step (Space); motion is reduced"
                        : c.playing      ? "Pause (Space)"
                                         : "Play the steps (Space)");
  return pressed;
}

/// The steps as a line: prompt blocks, then generated tokens; the selected one marked.
void draw_scrubber(const PanelContext& c, float width) {
  const int steps = c.shown.step_count();
  const float height = ImGui::GetFrameHeight();
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::InvisibleButton("##steps", {width, height});
  const bool over = ImGui::IsItemHovered();
  const float pitch = width / static_cast<float>(steps);
  const auto step_under = [&] {
    const float share = (ImGui::GetIO().MousePos.x - at.x) / pitch;
    return std::clamp(static_cast<int>(share), 0, steps - 1);
  };
  if (ImGui::IsItemActive()) c.state.selection.step = step_under();

  const WindowColours& colours = c.colours();
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const int prompt = c.results.trace()->run().prompt_length;
  const float top = at.y + height * 0.3F;
  const float bottom = at.y + height * 0.7F;
  int first_generated = steps;
  for (int i = 0; i < steps; ++i) {
    if (c.shown.blocks()[static_cast<std::size_t>(i)].first >= prompt) {
      first_generated = i;
      break;
    }
  }
  const float border = at.x + pitch * static_cast<float>(first_generated);
  list.AddRectFilled({at.x, top}, {border, bottom}, colours.control_active);
  if (first_generated < steps) {
    list.AddRectFilled({border, top}, {at.x + width, bottom}, colours.control);
  }
  if (pitch >= 4.0F) {
    for (int i = 1; i < steps; ++i) {
      const float x = std::floor(at.x + pitch * static_cast<float>(i)) + 0.5F;
      list.AddLine({x, top}, {x, bottom}, colours.panel);
    }
  }
  if (c.state.theme == Theme::high_contrast)
    list.AddRect({at.x, top}, {at.x + width, bottom}, colours.faint);
  const auto mark = [&](int step, ImU32 colour, bool fill) {
    const float x0 = std::floor(at.x + pitch * static_cast<float>(step));
    const float x1 = std::max(x0 + 3.0F, std::floor(at.x + pitch * static_cast<float>(step + 1)));
    if (fill) {
      list.AddRectFilled({x0, at.y + height * 0.15F}, {x1, at.y + height * 0.85F}, colour, c.px(2));
    } else {
      list.AddRect({x0, at.y + height * 0.15F}, {x1, at.y + height * 0.85F}, colour, c.px(2), 0,
                   c.px(2));
    }
  };
  mark(c.shown.step(), colours.retained, true);
  if (over) {
    const int step = step_under();
    const Block block = c.shown.blocks()[static_cast<std::size_t>(step)];
    mark(step, colours.selection, false);
    c.hover.step = step;
    ImGui::SetTooltip("step %d: %s", step, tokens_text(block.first, block.end - 1).c_str());
  } else if (c.hovered.step >= 0 && c.hovered.step < steps) {
    mark(c.hovered.step, colours.selection, false);
  }
}

std::string step_line(const PanelContext& c) {
  const int step = c.shown.step();
  const Block block = c.shown.blocks()[static_cast<std::size_t>(step)];
  std::string line = fmt::format("Step {} of {} · ", step, c.shown.step_count() - 1);
  line += tokens_text(block.first, block.end - 1);
  if (c.results.given().range.contains(block.first)) {
    line += " (given)";
  } else if (block.first >= c.results.trace()->run().prompt_length) {
    line += " (generated)";
  }
  if (const HeadReplay* head = c.shown.head(0);
      head && static_cast<std::size_t>(step) < head->steps.size()) {
    const StepRecord& record = head->steps[static_cast<std::size_t>(step)];
    line +=
        fmt::format(" · cache {} → {}", count_text(record.cache_size), count_text(record.retained));
  }
  return line;
}

std::string token_line(const PanelContext& c, int token) {
  const TokenTable& table = c.results.trace()->tokens();
  const auto at = static_cast<std::size_t>(token);
  std::string line = fmt::format("Token {}", count_text(token));
  if (at < table.text.size()) line += fmt::format(" “{}”", figure::printable(table.text[at]));
  const Trace& trace = *c.results.trace();
  const GivenTokens& given = c.results.given();
  if (const std::string part = part_text(trace, given, token); !part.empty()) line += " · " + part;
  if (token >= trace.run().prompt_length && !given.range.contains(token)) line += " · generated";
  if (const StepTokens* tokens = c.shown.tokens_a(); tokens && at < tokens->states.size()) {
    line += " · " + state_text(*tokens, at);
    const HeadReplay* head = c.shown.head(0);
    const int gone = head && at < head->evicted_at.size() ? head->evicted_at[at] : -1;
    const bool beyond = gone >= 0 && c.shown.replay(0)->left_unseen(*head, token);
    if (gone >= 0 && gone < c.shown.step() && !beyond) line += fmt::format(" at step {}", gone);
    if (tokens->ranks[at] > 0) {
      line += fmt::format(" · score {} · rank {} of {}",
                          three_digits(static_cast<double>(tokens->scores[at])),
                          count_text(tokens->ranks[at]), count_text(tokens->scored));
    }
    if (gone > c.shown.step()) {
      line += fmt::format(" · {} at step {}", beyond ? "leaves the model's window" : "is evicted",
                          gone);
    }
  }
  return line;
}

void draw_colour_choice(const PanelContext& c) {
  struct Choice {
    const char* value;
    const char* title;
    const char* help;
  };
  for (const Choice& choice :
       {Choice{"fate", "fate",
               "By fate under policy A: kept, protected, evicted at this step or before, merged"},
        Choice{"score", "score",
               "By score rank at this step under policy A: the darker, the higher"},
        Choice{"heads", "heads",
               "By the share of all heads that have the token in their cache at this step under "
               "policy A: the darker, the more heads"},
        Choice{"difference", "A, B",
               "By policy. Blue, line above: only A keeps it; vermillion, line below: only B; "
               "grey: both"},
        Choice{"none", "none", "Plain text"}}) {
    ImGui::SameLine();
    if (radio_button(choice.title, c.state.token_colour == choice.value, c.colours())) {
      c.state.token_colour = choice.value;
      if (c.state.token_colour == "difference") c.state.policy_b_on = true;
    }
    help_tooltip(c.fonts, choice.help);
  }
  const figure::Selection& at = c.state.selection;
  if (at.last_token < 0) return;
  ImGui::SameLine(0, c.px(24));
  const std::string range = tokens_text(at.first_token, at.last_token) + "  ×";
  if (ImGui::SmallButton(range.c_str())) c.ask(Command::whole_range);
  help_tooltip(c.fonts, "All views show this range; click for all tokens (R)");
  ImGui::SameLine();
  draw_token_actions(c, {at.first_token, at.last_token + 1});
}

/// How many tokens only one of the policies has, of those seen.
std::string difference_line(const PanelContext& c) {
  const StepTokens* a = c.shown.tokens_a();
  const StepTokens* b = c.shown.tokens_b();
  if (!a || !b || a->states.size() != b->states.size()) return "Policy B is being computed.";
  long only_a = 0, only_b = 0, both = 0;
  for (std::size_t i = 0; i < a->states.size(); ++i) {
    const bool in_a = figure::is_kept(a->states[i]);
    const bool in_b = figure::is_kept(b->states[i]);
    only_a += in_a && !in_b;
    only_b += in_b && !in_a;
    both += in_a && in_b;
  }
  return fmt::format("Kept by A only: {} · by B only: {} · by both: {}", count_text(only_a),
                     count_text(only_b), count_text(both));
}

/// The range that all views show; empty: all tokens.
TokenRange chosen_range(const PanelContext& c) {
  const figure::Selection& at = c.state.selection;
  return at.last_token < 0 ? TokenRange{} : TokenRange{at.first_token, at.last_token + 1};
}

/// The followed tokens, where a view follows some; ascending.
const std::vector<int>& followed_tokens(const PanelContext& c, TextPanel& panel) {
  const bool follows =
      c.state.followed != "auto" || c.state.grid_measure == figure::kFollowedMeasure;
  const std::string key = c.results.trace_key() + "|" + (follows ? c.state.followed : "");
  if (key == panel.followed_key) return panel.followed;
  panel.followed_key = key;
  panel.followed.clear();
  try {
    if (follows) panel.followed = named_tokens(*c.results.trace(), c.state.followed);
  } catch (const UsageError&) {  // the grid says what is wrong
  }
  return panel.followed;
}

void follow_hit(const PanelContext& c, const TextSearch& search) {
  const TextHit* hit = search.hit();
  if (hit == nullptr) return;
  c.state.selection.token = hit->first;
  follow_tokens(c, ranges_text(hit->tokens()));
}

/// The field that finds text, and the place among the hits.
void draw_search(const PanelContext& c, TextPanel& panel, const TokenTable& table, int count) {
  TextSearch& search = panel.search;
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("find");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(std::min(c.px(360), 0.4F * ImGui::GetContentRegionAvail().x));
  if (search.takes_keyboard()) ImGui::SetKeyboardFocusHere();
  const bool enter = ImGui::InputTextWithHint(
      "##find", table.text.empty() ? "this trace has no text" : "text of the prompt or the answer",
      &search.query, ImGuiInputTextFlags_EnterReturnsTrue);
  search.keyboard_is_here(ImGui::IsItemActive());
  if (search.selects_all(ImGui::IsItemActive()))
    ImGui::GetInputTextState(ImGui::GetItemID())->SelectAll();
  help_tooltip(
      c.fonts,
      "Finds text in the prompt and in what was generated, in upper or lower case. A space "
      "also stands for a line break. Enter: the next place; Shift Enter: the one before; "
      "Alt Enter: follow its tokens; Esc: close");
  if (table.text.empty()) {
    search.follow(c.results.trace_key(), {});
  } else {
    search.follow(c.results.trace_key(), panel.text.shown(c.results.trace_key(), table, count));
  }
  const ImGuiIO& io = ImGui::GetIO();
  if (enter) {
    if (io.KeyAlt) {
      follow_hit(c, search);
    } else {
      search.go(io.KeyShift ? -1 : 1);
    }
    search.take_keyboard();
  }
  ImGui::SameLine();
  const std::string place = search.place_text();
  // As wide for any number, so that the buttons stay under the pointer.
  const float at = ImGui::GetCursorPosX();
  const std::string widest = count_text(static_cast<long>(search.hits().size())) + " of " +
                             count_text(static_cast<long>(search.hits().size()));
  const float room = std::max(
      {ImGui::CalcTextSize(widest.c_str()).x, ImGui::CalcTextSize("not found").x, c.px(72)});
  ImGui::TextUnformatted(place.c_str());
  ImGui::SameLine(at + room + c.px(8));
  const bool none = search.hits().empty();
  ImGui::BeginDisabled(none);
  if (ImGui::ArrowButton("##previous", ImGuiDir_Up)) search.go(-1);
  help_tooltip(c.fonts, "The place before (Shift Enter, " +
                            std::string(keys_of(Command::find_previous)) + ")");
  ImGui::SameLine();
  if (ImGui::ArrowButton("##next", ImGuiDir_Down)) search.go(1);
  help_tooltip(c.fonts, "The next place (Enter, " + std::string(keys_of(Command::find_next)) + ")");
  ImGui::SameLine();
  if (ImGui::Button("Follow##hit")) follow_hit(c, search);
  help_tooltip(c.fonts,
               "Selects the first token of this place, which every view marks, and follows all of "
               "its tokens: the grid and the views of followed tokens show what becomes of them in "
               "every head (Alt Enter)");
  ImGui::EndDisabled();
  ImGui::SameLine();
  if (ImGui::Button("Close##find")) search.close();
  if (const TextHit* hit = search.hit()) {
    ImGui::SameLine(0, c.px(16));
    ImGui::AlignTextToFramePadding();
    ImGui::TextDisabled("%s", tokens_text(hit->first, hit->last).c_str());
  }
}

}  // namespace

void draw_step_line(const PanelContext& c, float kept_right) {
  if (!c.results.trace() || c.shown.blocks().empty()) return;
  if (play_button(c)) c.ask(Command::play);
  ImGui::SameLine();
  const std::string line = step_line(c);
  ImGui::PushFont(c.fonts.secondary);
  const float text_width = std::max(c.px(328), ImGui::CalcTextSize(line.c_str()).x);
  ImGui::PopFont();
  const float room = ImGui::GetContentRegionAvail().x - kept_right;
  const float width = room - text_width - c.px(16);
  // The steps before the words about them.
  const bool words = width >= c.px(80);
  draw_scrubber(c, words ? width : std::max(room, c.px(16)));
  if (!words) return;
  ImGui::SameLine(0, c.px(16));
  ImGui::PushFont(c.fonts.secondary);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(line.c_str());
  ImGui::PopFont();
}

void draw_token_lines(const PanelContext& c, TextPanel& panel) {
  const TracePointer trace = c.results.trace();
  if (!trace || c.shown.blocks().empty()) return;
  ImGui::PushFont(c.fonts.secondary);
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("colour");
  draw_colour_choice(c);
  ImGui::SameLine(0, c.px(24));
  const bool differs = c.state.token_colour == "difference" && c.state.policy_b_on;
  const int token = c.hovered.token >= 0 ? c.hovered.token : c.state.selection.token;
  if (token >= 0 && token < trace->length()) {
    show_text(c.fonts, token_line(c, token));
  } else {
    ImGui::TextDisabled("%s", differs ? difference_line(c).c_str()
                                      : "Point at a token to mark it in all views; click it to see "
                                        "why it was kept or evicted.");
  }
  if (panel.search.is_open()) draw_search(c, panel, trace->tokens(), trace->length());
  if (const std::string own = own_answer_note(c.results.given()); !own.empty()) {
    const float room = ImGui::GetContentRegionAvail().x / c.fonts.scale();
    show_text(c.fonts, c.metrics.fit(own, figure::Font::regular, 13.0, room));
    help_tooltip(c.fonts, own +
                              "\nIn the text, dots below a token mark those in whose place the "
                              "model would have chosen another; click one to see which.");
  }
  ImGui::PopFont();

  const auto colour = c.state.token_colour == "score"   ? TokenText::Colour::score
                      : c.state.token_colour == "heads" ? TokenText::Colour::heads
                                                        : TokenText::Colour::fate;
  // Arrows pass the tokens by, which have keys of their own.
  ImGui::BeginChild("##tokens", {0, 0}, false,
                    ImGuiWindowFlags_NoNavInputs | ImGuiWindowFlags_NavFlattened);
  ImGui::PushItemFlag(ImGuiItemFlags_NoNav, true);
  const TokenText::Output out = panel.text.draw(
      c.results.trace_key(),
      {.fonts = c.fonts,
       .colours = c.colours(),
       .table = trace->tokens(),
       .count = trace->length(),
       .prompt = trace->run().prompt_length,
       .given = c.results.given(),
       .tokens = c.state.token_colour == "none" ? nullptr : c.shown.tokens_a(),
       .colour = colour,
       .in_heads = colour == TokenText::Colour::heads ? c.shown.in_heads() : nullptr,
       .patterns = shows_patterns(c.state),
       .other = differs ? c.shown.tokens_b() : nullptr,
       .selected = c.state.selection.token,
       .hovered = c.hovered.token,
       .range = chosen_range(c),
       .followed = &followed_tokens(c, panel),
       .search = panel.search.is_open() ? &panel.search : nullptr,
       .at_step = c.shown.blocks()[static_cast<std::size_t>(c.shown.step())].first});
  if (out.hovered >= 0) c.hover.token = out.hovered;
  if (!out.segment.empty()) {
    help_tooltip(c.fonts, "Click to follow this segment through every head");
    if (ImGui::IsMouseClicked(0)) follow_tokens(c, out.segment);
  }
  if (out.clicked >= 0) {
    c.state.selection.token = out.clicked;
    c.ask(ExplainToken{ImGui::GetIO().MousePos});
  }
  ImGui::PopItemFlag();
  ImGui::EndChild();
}

void draw_step_panel(const PanelContext& c, TextPanel& panel) {
  draw_step_line(c, 0.0F);
  draw_token_lines(c, panel);
}

}  // namespace kvloupe::window
