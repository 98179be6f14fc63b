#pragma once

#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "app/window/state/actions.h"
#include "app/window/widgets/search_list.h"

namespace kvloupe::window {

class LessonPlayer;
class RecentFiles;
struct PanelContext;

/// A searchable line, and what choosing it does.
struct PaletteEntry {
  SearchItem item;
  Action action;
};

/// The sources of the lines, beside the catalogues.
struct PaletteSources {
  const PanelContext& context;
  LessonPlayer& lessons;
  const RecentFiles& recent;
};

/// Everything that the window can do, found by typing: commands with their keys, layouts, views,
/// policies and their variants, lessons, recently opened traces.
std::vector<PaletteEntry> palette_entries(const PaletteSources& sources);

/// Every view, to choose what the active tile shows.
std::vector<PaletteEntry> view_entries(const PanelContext& context);

/// Every measure that the grid of heads can show.
std::vector<PaletteEntry> measure_entries(const PanelContext& context);

/// Every modifier that can be added to policy A or B.
std::vector<PaletteEntry> modifier_entries(const PanelContext& context, PolicySide side);

/// Every lesson; empty while they are being read.
std::vector<PaletteEntry> lesson_entries(LessonPlayer& lessons);

/// Why a view cannot be shown now: data that the trace does not have, a policy that is off; empty
/// if it can.
std::string why_not(const figure::FigureInfo& view, const Results& results,
                    const WorkspaceState& state);

/// A list of entries on the screen.
class CommandPalette {
 public:
  void open_all(const PaletteSources& sources);
  void open_views(const PanelContext& context, const ImVec2* corner);
  void open_measures(const PanelContext& context, const ImVec2* corner);
  void open_modifiers(const PanelContext& context, PolicySide side, const ImVec2* corner);
  void open_lessons(LessonPlayer& lessons);
  bool is_open() const { return list_.is_open(); }
  void close() { list_.close(); }
  void draw(const PanelContext& context);
  const SearchList& list() const { return list_; }

 private:
  void show(std::vector<PaletteEntry> entries, const char* hint, const ImVec2* corner);

  SearchList list_;
  const char* hint_ = "";
  std::vector<PaletteEntry> entries_;
  std::vector<SearchItem> items_;
};

}  // namespace kvloupe::window
