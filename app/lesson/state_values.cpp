#include "app/lesson/value_groups.h"

#include <algorithm>

#include "analysis/policy/kit/spec.h"
#include "app/session/view_catalog.h"

namespace kvloupe::lesson {

namespace {

double budget_share(const LessonState& s) {
  const Budget& budget = s.workspace.budget;
  if (const Percent* percent = std::get_if<Percent>(&budget.value)) return percent->value / 100.0;
  return static_cast<double>(std::get<long>(budget.value)) / s.trace->run().prompt_length;
}

bool has_part(const PolicySpec& spec, const std::string& name) {
  return spec.score().name == name || spec.find(name) != nullptr;
}

/// The first tile in sight that shows the view, or nullptr.
const window::TileState* shown_tile(const LessonState& s, const std::string& view) {
  const auto& tiles = s.workspace.tiles;
  const auto count = std::min(tiles.size(), static_cast<std::size_t>(s.workspace.tile_count));
  const auto end = tiles.begin() + static_cast<std::ptrdiff_t>(count);
  const auto found =
      std::find_if(tiles.begin(), end, [&](const auto& t) { return t.view == view; });
  return found == end ? nullptr : &*found;
}

/// Whether a tile in sight shows the view with a choice at that value, also where it is the
/// default.
bool choice_is(const LessonState& s, const std::string& view, const std::string& name,
               const std::string& value) {
  const figure::FigureInfo& figure = *window::find_view(view);
  const bool known = std::any_of(figure.choices.begin(), figure.choices.end(),
                                 [&](const auto& one) { return one.name == name; });
  const auto& tiles = s.workspace.tiles;
  const auto count = std::min(tiles.size(), static_cast<std::size_t>(s.workspace.tile_count));
  return known && std::any_of(tiles.begin(), tiles.begin() + static_cast<std::ptrdiff_t>(count),
                              [&](const window::TileState& tile) {
                                return tile.view == view &&
                                       figure::choice(figure, tile.choices, name) == value;
                              });
}

}  // namespace

ValueGroup state_values() {
  ValueGroup group{"The view", {}};
  const auto add = [&](ValueInfo info) {
    info.quick = true;
    info.of_selection = true;
    group.values.push_back(std::move(info));
  };
  const auto plain = [&](const char* name, const char* meaning, auto of) {
    add({.name = name, .meaning = meaning, .compute = computed(of)});
  };
  plain("layer", "the layer selected", [](In s) { return s.workspace.selection.layer; });
  plain("head", "the key-value head selected", [](In s) { return s.workspace.selection.head; });
  plain("query_head", "the query head selected; -1: the mean over the head's query heads",
        [](In s) { return s.workspace.selection.query_head; });
  plain("step", "the step shown, from 0", [](In s) { return step_of(s, blocks_of(s)); });
  plain("steps", "number of steps", [](In s) { return blocks_of(s).size(); });
  plain("token", "the token selected; -1: none", [](In s) { return s.workspace.selection.token; });
  plain("first_token", "first token of the range shown",
        [](In s) { return s.workspace.selection.first_token; });
  plain("last_token", "last token of the range shown", [](In s) {
    const int last = s.workspace.selection.last_token;
    return last >= 0 ? last : s.trace->length() - 1;
  });
  plain("budget", "the budget as a share of the prompt", [](In s) { return budget_share(s); });
  plain("budget_entries", "the budget in entries of a head",
        [](In s) { return s.workspace.budget.resolve(s.trace->run().prompt_length); });
  plain("block", "tokens in a block of the replay", [](In s) {
    const int own = s.workspace.block;
    return own > 0 ? own : s.trace->run().block_size;
  });
  add({.name = "policy_a",
       .meaning = "policy A as written",
       .is_text = true,
       .compute = computed([](In s) { return s.workspace.policy_a.text(); })});
  add({.name = "policy_b",
       .meaning = "policy B as written, on or off",
       .is_text = true,
       .compute = computed([](In s) { return s.workspace.policy_b.text(); })});
  plain("policy_b_on", "1 if policy B is on", [](In s) { return s.workspace.policy_b_on; });
  add({.name = "score_is",
       .arguments = {{Argument::score, "score"}},
       .meaning = "1 if policy A has this score",
       .compute = computed(
           [](In s, Arguments a) { return s.workspace.policy_a.score().name == word(a[0]); })});
  add({.name = "score_b_is",
       .arguments = {{Argument::score, "score"}},
       .meaning = "1 if policy B is on and has this score",
       .compute = computed([](In s, Arguments a) {
         return s.workspace.policy_b_on && s.workspace.policy_b.score().name == word(a[0]);
       })});
  add({.name = "policy_has",
       .arguments = {{Argument::part, "part"}},
       .meaning = "1 if this score or modifier is a part of policy A",
       .compute =
           computed([](In s, Arguments a) { return has_part(s.workspace.policy_a, word(a[0])); })});
  add({.name = "policy_b_has",
       .arguments = {{Argument::part, "part"}},
       .meaning = "1 if policy B is on and has this part",
       .compute = computed([](In s, Arguments a) {
         return s.workspace.policy_b_on && has_part(s.workspace.policy_b, word(a[0]));
       })});
  add({.name = "viewing",
       .arguments = {{Argument::view, "view"}},
       .meaning = "1 if one of the tiles shows this view",
       .compute =
           computed([](In s, Arguments a) { return shown_tile(s, word(a[0])) != nullptr; })});
  add({.name = "choice_is",
       .arguments = {{Argument::view, "view"},
                     {Argument::word, "choice"},
                     {Argument::word, "value"}},
       .meaning = "1 if a tile shows this view with this value of the choice",
       .compute = computed(
           [](In s, Arguments a) { return choice_is(s, word(a[0]), word(a[1]), word(a[2])); })});
  plain("playing", "1 while the steps play", [](In s) { return s.playing; });
  return group;
}

}  // namespace kvloupe::lesson
