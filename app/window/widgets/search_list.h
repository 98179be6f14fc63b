#pragma once

#include <imgui.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "app/window/widgets/fonts.h"
#include "app/window/widgets/window_colours.h"

namespace kvloupe::window {

/// One line of a list that is searched by typing.
struct SearchItem {
  std::string title;
  std::string group = {};    // heading
  std::string name = {};     // as typed on the command line; not shown, searched like the title
  std::string keys = {};     // shown at the right
  std::string help = {};     // shown below while the line is chosen; searched, too
  std::string why_not = {};  // one line that says why it cannot be chosen now; empty: it can
  bool current = false;      // it is in force already
};

/// The items that contain every word of the query, best first: matches in the title before others,
/// at its start before inside. An empty query gives all, in their order. ASCII letters match in
/// upper and lower case.
std::vector<int> search(std::span<const SearchItem> items, std::string_view query);

/// A sheet with a line to type into and the matching items below, for mouse and keyboard.
class SearchList {
 public:
  /// `corner`: its top left, in pixels, if it fits; nullptr: above the middle.
  void open(const ImVec2* corner = nullptr);
  bool is_open() const { return open_; }
  void close() { open_ = false; }
  /// The index of the item just chosen, or -1. Closes itself then, and after a click outside.
  int draw(const Fonts& fonts, const WindowColours& colours, const char* hint,
           std::span<const SearchItem> items);
  const std::string& query() const { return query_; }

 private:
  /// The place in found_ of the first line that can be chosen; 0 where there is none.
  int first_possible(std::span<const SearchItem> items) const;
  int draw_lines(const Fonts& fonts, const WindowColours& colours,
                 std::span<const SearchItem> items, float height);

  bool open_ = false;
  bool appeared_ = false;
  bool scroll_ = false;
  bool refocus_ = false;
  bool at_corner_ = false;
  ImVec2 corner_{};
  std::string query_;
  std::string shown_query_;
  int chosen_ = 0;  // index into found_
  ImVec2 mouse_{};  // where it was, so that a resting pointer does not choose
  std::vector<int> found_;
};

}  // namespace kvloupe::window
