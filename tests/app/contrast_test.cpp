// The window's texts read on what they stand on: WCAG 2 contrast of every pair of text and ground,
// in every theme. The pairs of figures are in figure_catalog_test.cpp.

#include <imgui.h>

#include "app/scene/colour_map.h"
#include "app/window/widgets/window_colours.h"
#include "tests/support/test.h"

namespace kvloupe::window {
namespace {

using figure::Colour;

Colour colour_of(ImU32 c) {
  const auto channel = [&](int shift) { return static_cast<std::uint8_t>(c >> shift & 255); };
  return {channel(IM_COL32_R_SHIFT), channel(IM_COL32_G_SHIFT), channel(IM_COL32_B_SHIFT),
          channel(IM_COL32_A_SHIFT)};
}

/// The visible colour of one with an alpha on an opaque one.
Colour over(Colour top, Colour ground) {
  const auto mixed = [&](std::uint8_t a, std::uint8_t b) {
    return static_cast<std::uint8_t>(std::lround((a * top.alpha + b * (255 - top.alpha)) / 255.0));
  };
  return {mixed(top.red, ground.red), mixed(top.green, ground.green), mixed(top.blue, ground.blue)};
}

struct Pair {
  std::string name;
  Colour text;
  Colour ground;
};

struct Contrast : testing::TestWithParam<Theme> {
  void SetUp() override {
    context_ = ImGui::CreateContext();
    apply_theme(GetParam(), 1.0F);
  }
  void TearDown() override { ImGui::DestroyContext(context_); }

  static bool high() { return GetParam() == Theme::high_contrast; }
  static void expect(const std::vector<Pair>& pairs, double least) {
    for (const Pair& pair : pairs) {
      const Colour seen = over(pair.text, pair.ground);
      EXPECT_GE(figure::contrast(seen, pair.ground), least)
          << pair.name << " in the theme " << figure::theme_name(GetParam());
    }
  }

  ImGuiContext* context_ = nullptr;
};

TEST_P(Contrast, TextsOfControlsReadInEveryState) {
  const Colour paper = colour_of(window_colours(GetParam()).paper);
  std::vector<Pair> pairs, momentary;
  for (const ImGuiCol text : {ImGuiCol_Text, ImGuiCol_TextDisabled}) {
    for (const ImGuiCol ground :
         {ImGuiCol_WindowBg, ImGuiCol_ChildBg, ImGuiCol_PopupBg, ImGuiCol_MenuBarBg,
          ImGuiCol_FrameBg, ImGuiCol_FrameBgHovered, ImGuiCol_FrameBgActive, ImGuiCol_Button,
          ImGuiCol_ButtonHovered, ImGuiCol_ButtonActive, ImGuiCol_Header, ImGuiCol_HeaderHovered,
          ImGuiCol_HeaderActive}) {
      const auto colour = [](ImGuiCol index) { return colour_of(ImGui::GetColorU32(index)); };
      // Secondary text on a control in hand is the only pair that is shown for a moment alone.
      const bool short_lived =
          text == ImGuiCol_TextDisabled &&
          (ground == ImGuiCol_FrameBgHovered || ground == ImGuiCol_FrameBgActive ||
           ground == ImGuiCol_ButtonHovered || ground == ImGuiCol_ButtonActive ||
           ground == ImGuiCol_HeaderHovered || ground == ImGuiCol_HeaderActive);
      (short_lived ? momentary : pairs)
          .push_back({std::string(ImGui::GetStyleColorName(text)) + " on " +
                          ImGui::GetStyleColorName(ground),
                      colour(text), over(colour(ground), paper)});
    }
  }
  expect(pairs, high() ? 7.0 : 4.5);
  expect(momentary, high() ? 7.0 : 4.0);
  const Colour selected = over(colour_of(ImGui::GetColorU32(ImGuiCol_TextSelectedBg)),
                               colour_of(ImGui::GetColorU32(ImGuiCol_FrameBg)));
  expect({{"selected text", colour_of(ImGui::GetColorU32(ImGuiCol_Text)), selected}},
         high() ? 7.0 : 4.5);
}

TEST_P(Contrast, ColouredTextsReadOnTheirGrounds) {
  const WindowColours& c = window_colours(GetParam());
  std::vector<Pair> errors, names;
  for (const auto& [where, ground] :
       {std::pair{"paper", c.paper}, {"panel", c.panel}, {"control", c.control}}) {
    errors.push_back({std::string("error on ") + where, colour_of(c.error), colour_of(ground)});
    // "A" and "B" in the colours of the policies; the letters say the same.
    names.push_back({std::string("A on ") + where, colour_of(c.retained), colour_of(ground)});
    names.push_back({std::string("B on ") + where, colour_of(c.evicted), colour_of(ground)});
  }
  expect(errors, high() ? 7.0 : 4.5);
  expect(names, high() ? 7.0 : 3.0);
  // The start page's main button, at rest, under the pointer, pressed.
  for (const float alpha : {1.0F, 0.9F, 0.85F}) {
    const Colour ground = over(colour_of(faded(c.retained, alpha)), colour_of(c.paper));
    expect({{"main button", colour_of(c.paper), ground}}, high() ? 7.0 : 3.5);
  }
}

TEST_P(Contrast, TokensReadOnTheGroundsOfTheirFates) {
  const WindowColours& c = window_colours(GetParam());
  std::vector<Pair> pairs;
  for (const auto& [name, ground] : {std::pair{"retained", faded(c.retained, 0.16F)},
                                     {"protected", faded(c.protection, 0.16F)},
                                     {"evicted now", faded(c.evicted, 0.24F)},
                                     {"merged now", faded(c.merged, 0.3F)},
                                     {"kept by both", faded(c.secondary, 0.28F)},
                                     {"kept by A", faded(c.retained, 0.36F)},
                                     {"kept by B", faded(c.evicted, 0.36F)}}) {
    for (const ImU32 under : {c.paper, c.panel})
      pairs.push_back({name, colour_of(c.ink), over(colour_of(ground), colour_of(under))});
  }
  expect(pairs, high() ? 7.0 : 4.5);
}

TEST_P(Contrast, TheKeyboardsPlaceAndOutlinesAreSeen) {
  const WindowColours& c = window_colours(GetParam());
  if (high()) {
    for (const ImU32 ground : {c.paper, c.panel, c.control, c.control_active}) {
      expect({{"outline", colour_of(c.faint), colour_of(ground)},
              {"the keyboard's place", colour_of(c.selection), colour_of(ground)}},
             3.0);
    }
    EXPECT_GE(ImGui::GetStyle().FrameBorderSize, 1.0F);
  }
  expect({{"error mark", colour_of(c.error), colour_of(c.paper)},
          {"tick", colour_of(ImGui::GetColorU32(ImGuiCol_CheckMark)), colour_of(c.paper)}},
         3.0);
}

INSTANTIATE_TEST_SUITE_P(Every, Contrast, testing::ValuesIn(figure::kThemes), [](const auto& test) {
  std::string name(figure::theme_name(test.param));
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace kvloupe::window
