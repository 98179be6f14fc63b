#pragma once

#include <string>

#include "analysis/policy/kit/spec.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// The controls of one policy: a line to type its spec into, a list of scores, every parameter of
/// the catalogue as a control, and modifiers to switch on.
class PolicyEditor {
 public:
  explicit PolicyEditor(const char* name) : name_(name) {}

  /// Draws into the current window. Changes `spec` only to valid ones. Returns true if
  /// it did.
  bool draw(const Fonts& fonts, const WindowColours& colours, PolicySpec& spec);
  /// The next draw puts the cursor into the spec line.
  void focus_line() { focus_ = true; }
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
};

}  // namespace kvloupe::window
