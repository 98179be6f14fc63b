#pragma once

#include <functional>
#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "app/window/search_list.h"

namespace kvloupe::window {

class Workspace;

/// A searchable line and what taking it does.
struct PaletteEntry {
  SearchItem item;
  std::function<void(Workspace&)> act;
};

/// Everything the window can do, to be found by typing: commands with their keys, layouts, views,
/// policies and their variants, lessons, traces opened last.
std::vector<PaletteEntry> palette_entries(Workspace& workspace);

/// Every view, to choose what the active tile shows.
std::vector<PaletteEntry> view_entries(const Workspace& workspace);

/// Every lesson, to open one; nothing while they are being read.
std::vector<PaletteEntry> lesson_entries(Workspace& workspace);

/// Why a view has nothing to show now: what the trace lacks, a policy that is off; empty where it
/// has.
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
