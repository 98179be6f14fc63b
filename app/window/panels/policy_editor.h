#pragma once

#include <imgui.h>

#include <optional>
#include <string>
#include <utility>

#include "analysis/policy/kit/spec.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe {
struct PolicyEntry;
}

namespace kvloupe::window {

/// The controls of one policy: a line to type its spec into, a list of scores, the modifiers in use
/// and a button for more, and every parameter of these parts as a control.
class PolicyEditor {
 public:
  explicit PolicyEditor(const char* name) : name_(name) {}

  /// Draws into the current window. Changes `spec` only to valid ones. Returns true if
  /// it did.
  bool draw(const Fonts& fonts, const WindowColours& colours, PolicySpec& spec);
  /// The next draw puts the cursor into the spec line.
  void focus_line() { focus_ = true; }
  /// Adds a modifier with its defaults. If a modifier needs an argument without a default, the line
  /// is prepared for typing instead. Returns true if `spec` changed.
  bool add(const PolicyEntry& modifier, PolicySpec& spec);
  /// The place, in pixels, where the list of modifiers was asked for since the last call.
  std::optional<ImVec2> take_wanted_list() { return std::exchange(wanted_list_, std::nullopt); }
  /// Summary, formula, source and differences of a part, for help.
  static std::string describe(const PolicyEntry& entry);
  /// Why the typed line is not used; empty if it is.
  const std::string& error() const { return error_; }

 private:
  bool apply(const PolicySpec& changed, PolicySpec& spec);
  void take(PolicySpec policy, PolicySpec& spec);
  bool draw_line(const Fonts& fonts, const WindowColours& colours, PolicySpec& spec);
  bool draw_score(const Fonts& fonts, PolicySpec& policy, PolicySpec& spec);
  bool draw_modifiers(const Fonts& fonts, const WindowColours& colours, PolicySpec& policy);
  bool draw_parameters(const Fonts& fonts, const WindowColours& colours, SpecPart& part);

  const char* name_;
  std::string line_;   // as typed
  PolicySpec shown_;   // the spec `line_` was last set from
  std::string error_;
  bool focus_ = false;
  std::optional<ImVec2> wanted_list_;
};

}  // namespace kvloupe::window
