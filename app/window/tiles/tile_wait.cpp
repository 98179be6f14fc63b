// The words of a view while it computes, and after a person has stopped it.

#include <algorithm>

#include "app/window/tiles/tile.h"

namespace kvloupe::window {

namespace {
constexpr double kWordless = 0.5;  // seconds that one waits without a word

struct WaitWords {
  const char* nothing;  // is drawn yet
  const char* part;     // of what was asked for is drawn
  const char* earlier;  // settings' picture is drawn
};
constexpr WaitWords kComputing{"Computing: ", "A part so far: ", "Still the earlier picture: "};
constexpr WaitWords kStopped{"Stopped at ", "Only a part is drawn, stopped at ",
                             "This is the earlier picture, stopped at "};

float pixels_of(double value) { return static_cast<float>(value); }
}  // namespace

std::shared_ptr<const job::JobProgress> Tile::progress() const {
  if (!error_.empty() || !picture_.computing()) return nullptr;
  auto progress = picture_.progress();
  return progress && progress->seconds_asked() >= kWordless ? progress : nullptr;
}

std::optional<Tile::Wait> Tile::wait(const PanelContext& c, ImVec2 area) const {
  const auto running = progress();
  const bool is_stopped = stopped();
  if (!running && !is_stopped) return std::nullopt;
  const auto held = picture_.held();
  const auto progress = picture_.progress();
  const WaitWords& words = is_stopped ? kStopped : kComputing;
  const bool is_part = held.value && held.key == picture_.key();
  Wait wait;
  wait.share = progress->fraction();
  const std::string far = is_stopped ? job::in_percent(wait.share) : job::how_far(*progress);
  wait.text = (is_part ? words.part : held.value ? words.earlier : words.nothing) + far;
  wait.button = is_stopped ? "Go on" : "Stop";

  // As wide as the longest text, so that the button stays in its place while numbers change.
  const float padding = c.px(8), button = ImGui::CalcTextSize("Go on").x + 2 * padding;
  const float height = ImGui::GetFrameHeight();
  const float most = area.x - 2 * padding;
  const float whole =
      button + 3 * padding +
      std::max(ImGui::CalcTextSize(kComputing.earlier).x +
                   ImGui::CalcTextSize("100 of 100 replays, about 10 min left").x,
               ImGui::CalcTextSize(kStopped.part).x + ImGui::CalcTextSize("100 %").x);
  const float width = std::max(std::min(whole, most), button);
  const float room = width - button - 3 * padding;
  if (ImGui::CalcTextSize(wait.text.c_str()).x > room) wait.text = far;
  if (ImGui::CalcTextSize(wait.text.c_str()).x > room) wait.text = job::in_percent(wait.share);
  if (ImGui::CalcTextSize(wait.text.c_str()).x > room) wait.text.clear();
  const float x = origin_.x + std::max(0.0F, (area.x - width) / 2);
  const float y = origin_.y + std::max(0.0F, area.y - height - padding);
  wait.box = {x, y, width, height};
  wait.press = {x, y, button, height};
  return wait;
}

void Tile::draw_wait(const PanelContext& c, const Wait& wait, bool hovered) const {
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const auto corner = [](const figure::Rect& rect) {
    return ImVec2{pixels_of(rect.x), pixels_of(rect.y)};
  };
  const auto opposite = [](const figure::Rect& rect) {
    return ImVec2{pixels_of(rect.x + rect.width), pixels_of(rect.y + rect.height)};
  };
  const ImVec2 low = corner(wait.box), high = opposite(wait.box);
  list.AddRectFilled(low, high, c.colours().panel);
  list.AddRectFilled(corner(wait.press), opposite(wait.press), c.colours().control);
  const float bar = c.px(2);
  list.AddRectFilled({low.x, high.y - bar},
                     {low.x + pixels_of(wait.share) * (high.x - low.x), high.y},
                     c.colours().selection);
  list.AddRect(low, high, hovered ? c.colours().ink : c.colours().secondary);
  const ImVec2 size = ImGui::CalcTextSize(wait.button.c_str());
  const float y = low.y + (high.y - low.y - size.y) / 2;
  const float centre = low.x + pixels_of(wait.press.width) / 2;
  list.AddText({centre - size.x / 2, y}, c.colours().ink, wait.button.c_str());
  list.AddText({low.x + pixels_of(wait.press.width) + c.px(8), y}, c.colours().ink,
               wait.text.c_str());
}

}  // namespace kvloupe::window
