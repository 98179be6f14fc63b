#include "app/window/widgets/search_list.h"

#include <imgui_internal.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "app/window/widgets/key_input.h"

namespace kvloupe::window {

namespace {

constexpr float kWidth = 560.0F;
constexpr float kHeight = 480.0F;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : lower(text) + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

constexpr int kNowhere = 1000;

/// 0 where `text` starts with the word, 1 where a word of it does, 2 where it is inside.
int place_of(const std::string& text, const std::string& word) {
  std::size_t at = text.find(word);
  if (at == std::string::npos) return kNowhere;
  if (at == 0) return 0;
  for (; at != std::string::npos; at = text.find(word, at + 1)) {
    if (std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0) return 1;
  }
  return 2;
}

}  // namespace

std::vector<int> search(std::span<const SearchItem> items, std::string_view query) {
  const std::vector<std::string> words = words_of(query);
  std::vector<std::array<int, 4>> found;  // group, cannot be chosen, penalty, index
  int of_group = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    // Without a query the lines stand under the headings of their groups.
    if (words.empty() && i > 0 && items[i].group != items[i - 1].group) ++of_group;
    const std::string title = lower(items[i].title);
    const std::string name = lower(items[i].name);
    const std::string group = lower(items[i].group);
    const std::string help = lower(items[i].help);
    int penalty = 0;
    for (const std::string& word : words) {
      const int in_title = std::min(place_of(title, word), place_of(name, word));
      penalty += in_title < kNowhere                ? in_title
                 : place_of(group, word) < kNowhere ? 4
                 : place_of(help, word) < kNowhere  ? 6
                                                    : kNowhere;
    }
    if (penalty < kNowhere)
      found.push_back({of_group, items[i].why_not.empty() ? 0 : 1, penalty, static_cast<int>(i)});
  }
  std::sort(found.begin(), found.end());
  std::vector<int> order;
  order.reserve(found.size());
  for (const auto& each : found) order.push_back(each.back());
  return order;
}

void SearchList::open(const ImVec2* corner) {
  open_ = appeared_ = scroll_ = true;
  at_corner_ = corner != nullptr;
  if (corner) corner_ = *corner;
  query_.clear();
  shown_query_ = "\n";  // none yet
  chosen_ = 0;
  mouse_ = ImGui::GetIO().MousePos;
}

int SearchList::first_possible(std::span<const SearchItem> items) const {
  const auto found = std::find_if(found_.begin(), found_.end(), [&](int i) {
    return items[static_cast<std::size_t>(i)].why_not.empty();
  });
  return found == found_.end() ? 0 : static_cast<int>(found - found_.begin());
}

int SearchList::draw(const Fonts& fonts, const WindowColours& colours, const char* hint,
                     std::span<const SearchItem> items) {
  if (!open_) return -1;
  const float unit = fonts.scale();
  const ImVec2 screen = ImGui::GetIO().DisplaySize;
  const ImVec2 size{std::min(kWidth * unit, screen.x - 32),
                    std::min(kHeight * unit, screen.y - 64)};
  ImVec2 corner{(screen.x - size.x) / 2, (screen.y - size.y) / 4};
  if (at_corner_) {
    corner = {std::clamp(corner_.x, 8.0F, std::max(8.0F, screen.x - size.x - 8)),
              std::clamp(corner_.y, 8.0F, std::max(8.0F, screen.y - size.y - 8))};
  }
  ImGui::SetNextWindowPos(corner);
  ImGui::SetNextWindowSize(size);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, 1.0F);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, {8 * unit, 8 * unit});
  if (appeared_) ImGui::SetNextWindowFocus();
  ImGui::Begin("##search", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoNavInputs);
  ImGui::PopStyleVar(2);
  ImGui::SetNextItemWidth(-1);
  if (appeared_ || std::exchange(refocus_, false)) ImGui::SetKeyboardFocusHere();
  const bool enter =
      ImGui::InputTextWithHint("##query", hint, &query_, ImGuiInputTextFlags_EnterReturnsTrue);
  if (query_ != shown_query_) {
    shown_query_ = query_;
    found_ = search(items, query_);
    chosen_ = first_possible(items);
    scroll_ = true;
    for (std::size_t i = 0; query_.empty() && i < found_.size(); ++i) {
      if (items[static_cast<std::size_t>(found_[i])].current) chosen_ = static_cast<int>(i);
    }
  }
  std::erase_if(found_, [&](int i) { return i >= static_cast<int>(items.size()); });
  const ImGuiIO& io = ImGui::GetIO();
  const int count = static_cast<int>(found_.size());
  const auto step = [&](int by) {
    if (count == 0) return;
    chosen_ = std::clamp(chosen_ + by, 0, count - 1);
    scroll_ = true;
  };
  constexpr int kPage = 8;
  if (went_down(io.KeyMap[ImGuiKey_DownArrow])) step(1);
  if (went_down(io.KeyMap[ImGuiKey_UpArrow])) step(-1);
  if (went_down(io.KeyMap[ImGuiKey_PageDown])) step(kPage);
  if (went_down(io.KeyMap[ImGuiKey_PageUp])) step(-kPage);

  const float help_height = 4 * fonts.secondary->FontSize + 16 * unit;
  int taken = draw_lines(fonts, colours, items, -help_height);
  if (enter && chosen_ < count) {
    const int wanted = found_[static_cast<std::size_t>(chosen_)];
    if (items[static_cast<std::size_t>(wanted)].why_not.empty()) {
      taken = wanted;
    } else {  // not lost: it goes to the first line that can be chosen
      chosen_ = first_possible(items);
      scroll_ = refocus_ = true;  // Enter has left the line for words
    }
  }
  if (chosen_ < count) {
    const SearchItem& item =
        items[static_cast<std::size_t>(found_[static_cast<std::size_t>(chosen_)])];
    ImGui::PushFont(fonts.secondary);
    ImGui::PushStyleColor(ImGuiCol_Text, item.why_not.empty() ? colours.secondary : colours.error);
    ImGui::PushTextWrapPos(0.0F);
    ImGui::TextUnformatted(item.why_not.empty() ? item.help.c_str() : item.why_not.c_str());
    ImGui::PopTextWrapPos();
    ImGui::PopStyleColor();
    ImGui::PopFont();
  }
  const bool outside =
      ImGui::IsMouseClicked(0) &&
      !ImGui::IsMouseHoveringRect(corner, {corner.x + size.x, corner.y + size.y}, false);
  ImGui::End();
  if (taken >= 0 && !items[static_cast<std::size_t>(taken)].why_not.empty()) taken = -1;
  if (taken >= 0 || (outside && !appeared_)) open_ = false;
  appeared_ = false;
  return taken;
}

int SearchList::draw_lines(const Fonts& fonts, const WindowColours& colours,
                           std::span<const SearchItem> items, float height) {
  int taken = -1;
  const float unit = fonts.scale();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool moved = mouse.x != mouse_.x || mouse.y != mouse_.y;
  mouse_ = mouse;
  ImGui::BeginChild("##lines", {0, height}, false, ImGuiWindowFlags_NoNavInputs);
  if (found_.empty()) ImGui::TextDisabled("No entry contains these words.");
  std::string_view group;
  for (std::size_t i = 0; i < found_.size(); ++i) {
    const SearchItem& item = items[static_cast<std::size_t>(found_[i])];
    if (query_.empty() && item.group != group) {
      group = item.group;
      if (i > 0) ImGui::Dummy({0, 4 * unit});
      ImGui::PushFont(fonts.secondary);
      ImGui::TextDisabled("%s", item.group.c_str());
      ImGui::PopFont();
    }
    ImGui::PushID(static_cast<int>(i));
    if (!item.why_not.empty()) ImGui::PushStyleColor(ImGuiCol_Text, colours.unavailable);
    const float left = ImGui::GetCursorPosX();
    if (ImGui::Selectable("##line", chosen_ == static_cast<int>(i))) taken = found_[i];
    if (ImGui::IsItemHovered() && moved) chosen_ = static_cast<int>(i);
    if (scroll_ && chosen_ == static_cast<int>(i) && !ImGui::IsItemVisible())
      ImGui::SetScrollHereY(0.5F);
    ImGui::SameLine(left + 16 * unit);
    const std::string right = item.keys.empty() && !query_.empty() ? item.group : item.keys;
    ImGui::PushFont(fonts.secondary);
    const float right_at =
        ImGui::GetContentRegionMax().x - ImGui::CalcTextSize(right.c_str()).x - 8 * unit;
    ImGui::PopFont();
    const ImVec2 low = ImGui::GetCursorScreenPos();
    const ImVec2 size = ImGui::CalcTextSize(item.title.c_str());
    const float room = right_at - ImGui::GetCursorPosX() - 8 * unit;
    const ImVec2 end{low.x + std::min(size.x, room), low.y + size.y};
    ImGui::RenderTextEllipsis(ImGui::GetWindowDrawList(), low, end, end.x, end.x,
                              item.title.c_str(), nullptr, nullptr);
    ImGui::Dummy({end.x - low.x, size.y});
    if (item.current) {
      ImGui::GetWindowDrawList()->AddCircleFilled({low.x - 8 * unit, (low.y + end.y) / 2}, 3 * unit,
                                                  colours.retained);
    }
    if (!right.empty()) {
      ImGui::PushFont(fonts.secondary);
      ImGui::SameLine(right_at);
      ImGui::TextDisabled("%s", right.c_str());
      ImGui::PopFont();
    }
    if (!item.why_not.empty()) ImGui::PopStyleColor();
    ImGui::PopID();
  }
  scroll_ = false;
  ImGui::EndChild();
  return taken;
}

}  // namespace kvloupe::window
