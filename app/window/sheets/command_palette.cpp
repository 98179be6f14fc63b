#include "app/window/sheets/command_palette.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "analysis/base/core/error.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/kit/spec.h"
#include "analysis/policy/published.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/session/view_catalog.h"
#include "app/window/state/layouts.h"
#include "app/window/state/lesson_player.h"
#include "app/window/state/panel_context.h"
#include "app/window/state/policy_choice.h"
#include "app/window/state/recent_files.h"

namespace kvloupe::window {

namespace {

void add_commands(const PanelContext& c, bool lesson_is_open, std::vector<PaletteEntry>& out) {
  for (const CommandRow& row : commands()) {
    if (row.words.empty() || row.command == Command::palette) continue;
    SearchItem item{
        .title = std::string(row.words),
        .group = std::string(row.group),
        .keys = std::string(row.keys),
        .why_not = std::string(missing_for(row.needs, c.results.trace() != nullptr,
                                           c.results.evaluation() != nullptr, lesson_is_open))};
    out.push_back({std::move(item), row.command});
  }
}

void add_layouts(std::vector<PaletteEntry>& out) {
  for (const Layout& layout : layouts()) {
    SearchItem item{.title = "Layout: " + std::string(layout.name),
                    .group = "Layouts",
                    .keys = std::string(keys_of(layout.command)),
                    .help = std::string(layout.words)};
    out.push_back({std::move(item), layout.command});
  }
}

void add_policies(const PanelContext& c, std::vector<PaletteEntry>& out) {
  for (const bool of_b : {false, true}) {
    const PolicySide side = of_b ? PolicySide::b : PolicySide::a;
    const std::string begin = of_b ? "Policy B: " : "Policy A: ";
    for (const PublishedPolicy& published : published_policies()) {
      SearchItem item{.title = begin + published.method + ", as its authors ran it",
                      .group = of_b ? "Policy B, as published" : "Policy A, as published",
                      .help = published.spec + "\n" + published.why};
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
    SearchItem item{.title = "Compare with " + variant.part + ": " + variant.where,
                    .group = "Policy A in other implementations, as policy B",
                    .help = variant.spec};
    out.push_back({std::move(item), TakePolicy{PolicySide::b, parse_policy(variant.spec)}});
  }
}

void add_recent(const RecentFiles& recent, std::vector<PaletteEntry>& out) {
  for (const std::string& file : recent.files()) {
    SearchItem item{.title = "Open " + std::filesystem::path(file).filename().string(),
                    .group = "Recently opened traces",
                    .help = file};
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
      SearchItem item{.title = view.title,
                      .group = std::string(figure::heading(topic)),
                      .name = view.name,
                      .help = view.tooltip,
                      .why_not = why_not(view, c.results, c.state),
                      .current = tile.view == view.name};
      out.push_back({std::move(item), ShowView{view.name}});
    }
  }
  return out;
}

std::vector<PaletteEntry> measure_entries(const PanelContext& c) {
  using figure::OverviewMeasure;
  std::vector<PaletteEntry> out;
  for (const MeasureGroup group : kMeasureGroups) {
    for (const OverviewMeasure& measure : figure::overview_measures()) {
      if (measure.group != group) continue;
      SearchItem item{.title = measure.title(),
                      .group = group_title(group),
                      .name = measure.name,
                      .help = measure.help};
      if (measure.from == OverviewMeasure::From::both_policies && !c.state.policy_b_on)
        item.why_not = "Compares policy A with policy B, which is off. Switch policy B on (B).";
      item.current = measure.name == c.state.grid_measure;
      out.push_back({std::move(item), ShowInGrid{measure.name}});
    }
  }
  return out;
}

std::vector<PaletteEntry> modifier_entries(const PanelContext& c, PolicySide side) {
  const PolicySpec& policy = side == PolicySide::b ? c.state.policy_b : c.state.policy_a;
  std::vector<PaletteEntry> out;
  std::vector<const PolicyEntry*> modifiers;
  for (const PolicyEntry& entry : policy_catalog()) {
    if (entry.kind() != PartKind::score) modifiers.push_back(&entry);
  }
  std::stable_sort(modifiers.begin(), modifiers.end(),
                   [](const auto* a, const auto* b) { return a->kind() < b->kind(); });
  for (const PolicyEntry* const modifier : modifiers) {
    const PolicyEntry& entry = *modifier;
    SearchItem item{.title = "+ " + entry.name,
                    .group = std::string(kind_name(entry.kind())),
                    .name = entry.name,
                    .help = entry.summary + "\n" + entry.formula + "\nSource: " + entry.source};
    const bool is_used = std::any_of(policy.parts.begin() + 1, policy.parts.end(),
                                     [&](const SpecPart& part) { return part.name == entry.name; });
    if (is_used) item.why_not = "The policy has this modifier already.";
    out.push_back({std::move(item), AddModifier{side, entry.name}});
  }
  return out;
}

std::vector<PaletteEntry> lesson_entries(LessonPlayer& lessons) {
  std::vector<PaletteEntry> out;
  const auto list = lessons.list();
  if (!list) return out;
  for (const lesson::Lesson& lesson : *list) {
    SearchItem item{.title = lesson.title.empty() ? lesson.name : lesson.title,
                    .group = "Lessons",
                    .name = lesson.name,
                    .help = lesson.error.empty() ? lesson.summary : lesson.error,
                    .current = lessons.is_open() && lessons.lesson().path == lesson.path};
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
  for (PaletteEntry& measure : measure_entries(c)) {
    measure.item.title = "Grid of heads: " + measure.item.title;
    measure.item.why_not =
        c.results.trace() ? std::move(measure.item.why_not) : "Open a trace first (O).";
    out.push_back(std::move(measure));
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

void CommandPalette::open_measures(const PanelContext& c, const ImVec2* corner) {
  show(measure_entries(c), "A measure: part of its name or of what it says …", corner);
}

void CommandPalette::open_modifiers(const PanelContext& c, PolicySide side, const ImVec2* corner) {
  show(modifier_entries(c, side), "A modifier: part of its name or of what it does …", corner);
}

void CommandPalette::draw(const PanelContext& c) {
  const int taken = list_.draw(c.fonts, c.colours(), hint_, items_);
  if (taken >= 0) c.ask(entries_[static_cast<std::size_t>(taken)].action);
}

}  // namespace kvloupe::window
