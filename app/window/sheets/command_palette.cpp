#include "app/window/sheets/command_palette.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analysis/error.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/policy/policy_catalog.h"
#include "analysis/policy/published.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/session/tile_settings.h"
#include "app/window/state/layouts.h"
#include "app/window/state/lesson_player.h"
#include "app/window/state/panel_context.h"
#include "app/window/state/policy_variants.h"
#include "app/window/state/recent_files.h"

namespace kvloupe::window {

namespace {

void add_commands(const PanelContext& c, bool lesson_is_open, std::vector<PaletteEntry>& out) {
  for (const CommandRow& row : commands()) {
    if (row.words.empty() || row.command == Command::palette) continue;
    SearchItem item;
    item.title = std::string(row.words);
    item.group = std::string(row.group);
    item.keys = std::string(row.keys);
    item.why_not = missing_for(row.needs, c.results.trace() != nullptr,
                               c.results.evaluation() != nullptr, lesson_is_open);
    out.push_back({std::move(item), row.command});
  }
}

void add_layouts(std::vector<PaletteEntry>& out) {
  for (const Layout& layout : layouts()) {
    SearchItem item;
    item.title = "Layout: " + std::string(layout.name);
    item.group = "Layouts";
    item.keys = std::string(keys_of(layout.command));
    item.help = std::string(layout.words);
    out.push_back({std::move(item), layout.command});
  }
}

void add_policies(const PanelContext& c, std::vector<PaletteEntry>& out) {
  for (const bool of_b : {false, true}) {
    const PolicySide side = of_b ? PolicySide::b : PolicySide::a;
    const std::string begin = of_b ? "Policy B: " : "Policy A: ";
    for (const PublishedPolicy& published : published_policies()) {
      SearchItem item;
      item.title = begin + published.method + ", as its authors ran it";
      item.group = of_b ? "Policy B, as published" : "Policy A, as published";
      item.help = published.spec + "\n" + published.why;
      out.push_back({std::move(item), TakePolicy{side, parse_policy(published.spec)}});
    }
    for (const PolicyEntry& entry : policy_catalog()) {
      if (entry.kind() != PartKind::score) continue;
      bool required = false;  // a text has to be typed
      for (const ParameterInfo& parameter : entry.parameters) required |= parameter.required;
      if (required) continue;
      SearchItem item;
      const bool plain = published_spec(entry.name) != entry.name;
      item.title = begin + entry.name + (plain ? ", plain" : "");
      item.group = of_b ? "Policy B" : "Policy A";
      item.help = entry.summary + "\n" + entry.formula + "\nSource: " + entry.source;
      out.push_back({std::move(item), TakePolicy{side, parse_policy(entry.name)}});
    }
  }
  for (const PolicyVariant& variant : variants_of(c.state.policy_a)) {
    SearchItem item;
    item.title = "Compare with " + variant.part + ": " + variant.where;
    item.group = "Policy A in other implementations, as policy B";
    item.help = variant.spec;
    out.push_back({std::move(item), TakePolicy{PolicySide::b, parse_policy(variant.spec)}});
  }
}

void add_recent(const RecentFiles& recent, std::vector<PaletteEntry>& out) {
  for (const std::string& file : recent.files()) {
    SearchItem item;
    item.title = "Open " + std::filesystem::path(file).filename().string();
    item.group = "Recently opened traces";
    item.help = file;
    out.push_back({std::move(item), OpenFile{file}});
  }
}

}  // namespace

std::string why_not(const figure::FigureInfo& view, const Results& results,
                    const WorkspaceState& state) {
  const request::FigureInputs inputs = results.inputs(view);
  const TileState tile{.view = view.name};
  request::FigureSettings settings = settings_of(state, tile);
  settings.choose_policy_b = false;
  try {
    std::string why = missing_input(view, request::make_request(view, settings, inputs));
    return why.empty() ? request::unavailable(view, inputs) : why;
  } catch (const UsageError& error) {
    return error.what();
  }
}

std::vector<PaletteEntry> view_entries(const PanelContext& c) {
  std::vector<PaletteEntry> out;
  const TileState& tile = c.state.tiles[static_cast<std::size_t>(c.state.active_tile)];
  for (const figure::Topic topic : figure::topics()) {
    for (const figure::FigureInfo& view : figure::figure_catalog()) {
      if (view.topic != topic) continue;
      SearchItem item;
      item.title = view.title;
      item.group = std::string(figure::heading(topic));
      item.name = view.name;
      item.help = view.tooltip;
      item.why_not = why_not(view, c.results, c.state);
      item.current = tile.view == view.name;
      out.push_back({std::move(item), ShowView{view.name}});
    }
  }
  return out;
}

std::vector<PaletteEntry> lesson_entries(LessonPlayer& lessons) {
  std::vector<PaletteEntry> out;
  const auto list = lessons.list();
  if (!list) return out;
  for (const lesson::Lesson& lesson : *list) {
    SearchItem item;
    item.title = lesson.title.empty() ? lesson.name : lesson.title;
    item.group = "Lessons";
    item.name = lesson.name;
    item.help = lesson.error.empty() ? lesson.summary : lesson.error;
    item.current = lessons.is_open() && lessons.lesson().path == lesson.path;
    out.push_back({std::move(item), OpenLesson{lesson.name}});
  }
  return out;
}

std::vector<PaletteEntry> palette_entries(const PaletteSources& sources) {
  const PanelContext& c = sources.context;
  std::vector<PaletteEntry> out;
  add_layouts(out);
  for (PaletteEntry& view : view_entries(c)) {
    view.item.title = "View: " + view.item.title;
    out.push_back(std::move(view));
  }
  add_policies(c, out);
  add_commands(c, sources.lessons.is_open(), out);
  for (PaletteEntry& entry : lesson_entries(sources.lessons)) {
    entry.item.title = "Lesson: " + entry.item.title;
    out.push_back(std::move(entry));
  }
  add_recent(sources.recent, out);
  return out;
}

void CommandPalette::show(std::vector<PaletteEntry> entries, const char* hint,
                          const ImVec2* corner) {
  entries_ = std::move(entries);
  hint_ = hint;
  items_.clear();
  for (const PaletteEntry& entry : entries_) items_.push_back(entry.item);
  list_.open(corner);
}

void CommandPalette::open_lessons(LessonPlayer& lessons) {
  show(lesson_entries(lessons), "A lesson: part of its title or its text …", nullptr);
}

void CommandPalette::open_all(const PaletteSources& sources) {
  show(palette_entries(sources), "A command, a view, a policy …", nullptr);
}

void CommandPalette::open_views(const PanelContext& c, const ImVec2* corner) {
  show(view_entries(c), "A view: part of its name, a paper, a formula …", corner);
}

void CommandPalette::draw(const PanelContext& c) {
  const int taken = list_.draw(c.fonts, c.colours(), hint_, items_);
  if (taken >= 0) c.ask(entries_[static_cast<std::size_t>(taken)].action);
}

}  // namespace kvloupe::window
