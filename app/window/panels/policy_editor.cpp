#include "app/window/panels/policy_editor.h"

#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>

#include "analysis/base/core/error.h"
#include "analysis/base/text/typed_number.h"
#include "analysis/policy/kit/outside_parts.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/published.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"

namespace kvloupe::window {

namespace {

constexpr float kLabelWidth = 128.0F;

std::string description_of(const PolicyEntry& entry) {
  std::string text = entry.summary;
  if (!entry.formula.empty()) text += "\n\n" + entry.formula;
  if (!entry.source.empty()) text += "\n\nSource: " + entry.source;
  if (!entry.differences.empty()) text += "\n\n" + entry.differences;
  if (const PartOrigin* origin = origin_of(entry.name)) text += "\n\nPlugin: " + origin->file;
  return text;
}

/// A control as wide as the rest of the line; a flag names itself. True on a change.
bool draw_value(const ParameterInfo& parameter, SpecValue& value, const WindowColours& colours) {
  ImGui::SetNextItemWidth(-1);
  const double least = parameter.minimum;
  const double most = parameter.maximum;
  switch (parameter.type) {
    case ParameterType::count: {
      int number = static_cast<int>(std::get<double>(value));
      const int by = parameter.odd ? 2 : 1;
      if (!ImGui::InputInt("##value", &number, by, 10 * by)) return false;
      if (parameter.odd && number % 2 == 0) ++number;
      value = std::clamp(static_cast<double>(number), least, most);
      return true;
    }
    case ParameterType::flag: {
      bool on = std::get<double>(value) != 0.0;
      if (!checkbox((parameter.name + "###value").c_str(), on, colours)) return false;
      value = on ? 1.0 : 0.0;
      return true;
    }
    case ParameterType::number: {
      double number = std::get<double>(value);
      if (!ImGui::InputDouble("##value", &number, 0.0, 0.0, "%.4g",
                              ImGuiInputTextFlags_EnterReturnsTrue)) {
        return false;
      }
      if (!std::isfinite(number)) return false;
      value = std::clamp(number, least, most);
      return true;
    }
    case ParameterType::share: {
      const bool percent = std::holds_alternative<Percent>(value);
      double number = percent ? std::get<Percent>(value).value : std::get<double>(value);
      const float unit = ImGui::CalcTextSize("tokens").x + 2 * ImGui::GetStyle().FramePadding.x;
      ImGui::SetNextItemWidth(-unit - ImGui::GetStyle().ItemInnerSpacing.x);
      bool changed = ImGui::InputDouble("##value", &number, 0.0, 0.0, "%.6g",
                                        ImGuiInputTextFlags_EnterReturnsTrue);
      ImGui::SameLine(0, ImGui::GetStyle().ItemInnerSpacing.x);
      bool now_percent = percent;
      if (ImGui::Button(percent ? "%" : "tokens", {unit, 0})) {
        now_percent = !percent;
        changed = true;
      }
      if (!changed || !std::isfinite(number)) return false;
      if (now_percent) {
        value = Percent{std::clamp(number, 0.0, 100.0)};
      } else {
        value = std::clamp(std::round(number), least, most);
      }
      return true;
    }
    case ParameterType::word:
      return choose_word("##value", std::get<std::string>(value), [&] { return parameter.words; });
    case ParameterType::number_or_word: {  // typed: a word of the list, or a number in range
      const double* number = std::get_if<double>(&value);
      std::string text = number != nullptr ? number_text(*number) : std::get<std::string>(value);
      if (!ImGui::InputText("##value", &text, ImGuiInputTextFlags_EnterReturnsTrue)) return false;
      if (std::find(parameter.words.begin(), parameter.words.end(), text) !=
          parameter.words.end()) {
        value = text;
        return true;
      }
      const auto typed = number_in<double>(text);
      if (!typed) return false;
      value = std::clamp(*typed, least, most);
      return true;
    }
    case ParameterType::text: {
      std::string text = std::get<std::string>(value);
      if (!ImGui::InputText("##value", &text, ImGuiInputTextFlags_EnterReturnsTrue)) return false;
      value = text;
      return true;
    }
  }
  return false;
}

}  // namespace

/// Sets another policy, and its line in place of the typed text.
void PolicyEditor::take(PolicySpec policy, PolicySpec& spec) {
  spec = shown_ = std::move(policy);
  line_ = spec.text();
  error_.clear();
}

bool PolicyEditor::apply(const PolicySpec& changed, PolicySpec& spec) {
  try {
    take(parse_policy(changed.text()), spec);
  } catch (const UsageError& problem) {
    error_ = problem.what();
    return false;
  }
  return true;
}

bool PolicyEditor::draw(const Fonts& fonts, const WindowColours& colours, PolicySpec& spec) {
  ImGui::PushID(name_);
  if (!(shown_ == spec)) take(spec, spec);  // changed from elsewhere
  bool changed = draw_line(fonts, colours, spec);
  PolicySpec policy = spec;
  changed |= draw_score(fonts, policy, spec);
  policy = spec;
  ImGui::PushID("score");
  bool edited = draw_parameters(fonts, colours, policy.parts.front());
  ImGui::PopID();
  edited |= draw_modifiers(fonts, colours, policy);
  if (edited) changed |= apply(policy, spec);
  ImGui::PopID();
  return changed;
}

bool PolicyEditor::draw_line(const Fonts& fonts, const WindowColours& colours, PolicySpec& spec) {
  ImGui::PushFont(fonts.mono);
  ImGui::SetNextItemWidth(-1);
  if (focus_) ImGui::SetKeyboardFocusHere();
  focus_ = false;
  const bool typed = ImGui::InputText("##spec", &line_);
  ImGui::PopFont();
  help_tooltip(fonts,
               "The policy as one line: score + modifiers, such as keydiff+recent(10%). It takes "
               "effect as soon as it is valid.");
  bool changed = false;
  if (typed) {
    try {
      shown_ = parse_policy(line_);
      changed = !(shown_ == spec);
      spec = shown_;
      error_.clear();
    } catch (const UsageError& problem) {
      error_ = problem.what();
    }
  }
  if (ImGui::IsItemDeactivated() && error_.empty()) line_ = spec.text();
  if (!error_.empty()) {
    ImGui::PushFont(fonts.secondary);
    wrapped_text(colours.error, error_);
    ImGui::PopFont();
  }
  return changed;
}

bool PolicyEditor::draw_score(const Fonts& fonts, PolicySpec& policy, PolicySpec& spec) {
  ImGui::PushFont(fonts.secondary);
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted("score");
  ImGui::SameLine(control_column(fonts, kLabelWidth));
  ImGui::SetNextItemWidth(-1);
  const std::string now = policy.score().name;
  bool changed = false;
  if (ImGui::BeginCombo("##score", now.c_str(), ImGuiComboFlags_HeightLarge)) {
    ImGui::TextDisabled("as their authors ran them");
    for (const PublishedPolicy& published : published_policies()) {
      const PolicySpec wanted = parse_policy(published.spec);
      if (list_line(published.method.c_str(), wanted == policy) && !(wanted == policy)) {
        policy = wanted;
        changed = apply(policy, spec);
      }
      help_tooltip(fonts, published.spec + "\n" + published.why);
    }
    ImGui::Separator();
    ImGui::TextDisabled("plain scores");
    for (const PolicyEntry& entry : policy_catalog()) {
      if (entry.kind() != PartKind::score) continue;
      if (list_line(entry.name.c_str(), entry.name == now) && entry.name != now) {
        try {
          policy.parts.front() = default_part(entry);
          changed = apply(policy, spec);
        } catch (const UsageError& problem) {  // a parameter without default has to be typed
          line_ = entry.name + "(\"\")";
          error_ = problem.what();
          focus_ = true;
        }
      }
      help_tooltip(fonts, describe(entry));
    }
    ImGui::EndCombo();
  } else if (const PolicyEntry* entry = find_policy(now)) {
    help_tooltip(fonts, describe(*entry));
  }
  ImGui::PopFont();
  return changed;
}

bool PolicyEditor::draw_parameters(const Fonts& fonts, const WindowColours& colours,
                                   SpecPart& part) {
  const PolicyEntry* entry = find_policy(part.name);
  if (!entry) return false;
  bool changed = false;
  ImGui::PushFont(fonts.secondary);
  for (auto& [name, value] : part.arguments) {
    const ParameterInfo* parameter = entry->parameter(name);
    if (!parameter) continue;
    ImGui::PushID(name.c_str());
    const float indent = ImGui::GetStyle().FramePadding.x;
    ImGui::Indent(indent);
    if (parameter->type == ParameterType::flag) {  // its name stands behind the box
      changed |= draw_value(*parameter, value, colours);
      ImGui::Unindent(indent);
    } else {
      ImGui::AlignTextToFramePadding();
      ImGui::TextDisabled("%s", name.c_str());
      help_tooltip(fonts, parameter->meaning);
      ImGui::Unindent(indent);
      ImGui::SameLine(control_column(fonts, kLabelWidth));
      changed |= draw_value(*parameter, value, colours);
    }
    help_tooltip(fonts, parameter->meaning);
    ImGui::PopID();
  }
  ImGui::PopFont();
  return changed;
}

std::string PolicyEditor::describe(const PolicyEntry& entry) { return description_of(entry); }

bool PolicyEditor::add(const PolicyEntry& entry, PolicySpec& spec) {
  PolicySpec policy = spec;
  try {
    policy.parts.push_back(default_part(entry));
  } catch (const UsageError& problem) {  // a parameter without default has to be typed
    const bool text = std::any_of(
        entry.parameters.begin(), entry.parameters.end(), [](const ParameterInfo& parameter) {
          return parameter.required && parameter.type == ParameterType::text;
        });
    line_ = policy.text() + "+" + entry.name + (text ? "(\"\")" : "()");
    shown_ = spec;
    error_ = problem.what();
    focus_ = true;
    return false;
  }
  return apply(policy, spec);
}

bool PolicyEditor::draw_modifiers(const Fonts& fonts, const WindowColours& colours,
                                  PolicySpec& policy) {
  ImGui::PushFont(fonts.secondary);
  bool changed = false;
  const auto draw_more = [&] {
    if (ImGui::Button("+ modifier…")) {
      const ImVec2 low = ImGui::GetItemRectMin();
      wanted_list_ = ImVec2{low.x, ImGui::GetItemRectMax().y + 4 * fonts.scale()};
    }
    help_tooltip(
        fonts,
        "Adds a modifier: protected entries, shares of the budget among heads, merging, and "
        "others. Type to search");
  };
  const float more_width =
      ImGui::CalcTextSize("+ modifier…").x + 2 * ImGui::GetStyle().FramePadding.x;
  for (auto part = policy.parts.begin() + 1; part != policy.parts.end(); ++part) {
    ImGui::PushID(part->name.c_str());
    bool on = true;
    const bool toggled = checkbox(("+ " + part->name).c_str(), on, colours);
    if (const PolicyEntry* entry = find_policy(part->name)) {
      help_tooltip(fonts, "Click to leave it out.\n" + describe(*entry));
    }
    const bool is_first = part == policy.parts.begin() + 1;
    if (is_first) {  // on the line of the first one, so that no line is lost
      ImGui::PopID();
      ImGui::SameLine(ImGui::GetContentRegionMax().x - more_width);
      draw_more();
      ImGui::PushID(part->name.c_str());
    }
    if (!toggled) changed |= draw_parameters(fonts, colours, *part);
    ImGui::PopID();
    if (!toggled) continue;
    policy.parts.erase(part);
    ImGui::PopFont();
    return true;  // the list has changed under us: the rest in the next frame
  }
  if (policy.parts.size() == 1) draw_more();
  ImGui::PopFont();
  return changed;
}

}  // namespace kvloupe::window
