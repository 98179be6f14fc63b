#pragma once

#include <string>

#include "analysis/policy/kit/spec.h"
#include "app/request/parsed_text.h"
#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// The controls of one policy: a line to type its spec into, a list of scores, every parameter of
/// the catalogue as a control, and modifiers to switch on.
class PolicyEditor {
 public:
  explicit PolicyEditor(const char* name) : name_(name) {}

  /// Draws into the current window. Changes `spec` (canonical) only to valid specs. Returns true if
  /// it did.
  bool draw(const Fonts& fonts, const WindowColours& colours, std::string& spec);
  /// The next draw puts the cursor into the spec line.
  void focus_line() { focus_ = true; }
  /// Why the typed line is not used; empty if it is.
  const std::string& error() const { return error_; }

 private:
  bool apply(const PolicySpec& changed, std::string& spec);
  bool draw_line(const Fonts& fonts, const WindowColours& colours, std::string& spec);
  bool draw_score(const Fonts& fonts, PolicySpec& policy, std::string& spec);
  bool draw_modifiers(const Fonts& fonts, const WindowColours& colours, PolicySpec& policy);
  bool draw_parameters(const Fonts& fonts, const WindowColours& colours, SpecPart& part);

  const char* name_;
  std::string line_;   // as typed
  std::string shown_;  // the spec `line_` was last set from
  std::string error_;
  bool focus_ = false;
  request::ParsedText<PolicySpec> parsed_;  // of the spec
};

}  // namespace kvloupe::window
