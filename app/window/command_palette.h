#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "app/window/search_list.h"

namespace kvloupe::window {

class Workspace;

/// A searchable line and the action of choosing it.
struct PaletteEntry {
  SearchItem item;
  std::function<void(Workspace&)> act;
};

/// Everything that the window can do, found by typing: commands with their keys, layouts, views,
/// policies and their variants, lessons, recently opened traces.
std::vector<PaletteEntry> palette_entries(Workspace& workspace);

/// Every view, to choose what the active tile shows.
std::vector<PaletteEntry> view_entries(const Workspace& workspace);

/// Every lesson; empty while they are being read.
std::vector<PaletteEntry> lesson_entries(Workspace& workspace);

/// Why a view cannot be shown now: data that the trace does not have, a policy that is off; empty
/// if it can.
std::string why_not(const figure::FigureInfo& view, const Workspace& workspace);

/// A list of entries on the screen.
class CommandPalette {
 public:
  void open_all(Workspace& workspace);
  void open_views(const Workspace& workspace, const ImVec2* corner);
  void open_lessons(Workspace& workspace);
  bool is_open() const { return list_.is_open(); }
  void close() { list_.close(); }
  void draw(Workspace& workspace);
  const SearchList& list() const { return list_; }

 private:
  void show(std::vector<PaletteEntry> entries, const char* hint, const ImVec2* corner);

  SearchList list_;
  const char* hint_ = "";
  std::vector<PaletteEntry> entries_;
  std::vector<SearchItem> items_;
};

}  // namespace kvloupe::window
