#include "app/window/sheets/head_table.h"

#include <fmt/format.h>
#include <imgui_stdlib.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "analysis/base/core/error.h"
#include "analysis/base/text/typed_number.h"
#include "app/figure/figures/figure_catalog.h"
#include "app/figure/figures/overview_measures.h"
#include "app/session/view_catalog.h"
#include "app/window/sheets/sheet_form.h"
#include "app/window/state/panel_context.h"
#include "app/window/widgets/key_input.h"
#include "app/window/widgets/marks.h"
#include "app/window/widgets/numbers.h"

namespace kvloupe::window {

namespace {
using figure::OverviewMeasure;
constexpr std::size_t kMostColumns = 12;
constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

const std::string& title_of(const OverviewMeasure& measure) {
  return measure.label.empty() ? measure.name : measure.label;
}
}  // namespace

struct HeadTable::Column {
  const OverviewMeasure* measure = nullptr;
  request::RequestMaker wanted = {};
  job::Computed<std::vector<float>, request::FigureRequest> values = {};  // [L,Hk]
  std::string error = {};                                                 // why there are none
};

HeadTable::HeadTable() {
  for (const char* name : {figure::kChangeMeasure, figure::kAttentionKeptMeasure,
                           figure::kEntriesMeasure, figure::kSinksMeasure})
    toggle_measure(name);
}
HeadTable::~HeadTable() = default;

bool HeadTable::busy() const {
  return open_ && std::any_of(columns_.begin(), columns_.end(), [](const auto& column) {
           return column->error.empty() && column->values.computing();
         });
}

std::vector<std::string> HeadTable::measures() const {
  std::vector<std::string> names;
  for (const auto& column : columns_) names.push_back(column->measure->name);
  return names;
}

void HeadTable::toggle_measure(const std::string& name) {
  const auto found = std::find_if(columns_.begin(), columns_.end(), [&](const auto& column) {
    return column->measure->name == name;
  });
  const auto index = static_cast<int>(found - columns_.begin());
  if (found == columns_.end()) {
    const OverviewMeasure* measure = figure::find_overview_measure(name);
    if (measure == nullptr || columns_.size() >= kMostColumns) return;
    columns_.push_back(std::make_unique<Column>());
    columns_.back()->measure = measure;
    return;
  }
  columns_.erase(found);
  const auto moved = [&](int& column) {
    if (column == index) column = -1;
    if (column > index) --column;
  };
  moved(limit.column);
  moved(sorted_by_);
}

/// The numbers are those of the figure overview.
void HeadTable::request(const PanelContext& c, Column& column) const {
  const figure::FigureInfo& info = *find_view("overview");
  WorkspaceState of_column = c.state;
  of_column.grid_measure = column.measure->name;
  column.error.clear();
  if (column.measure->from == OverviewMeasure::From::both_policies && !c.state.policy_b_on) {
    column.error = "Switch policy B on to use this measure.";
    return;
  }
  TileState tile = grid_tile(of_column);
  if (column.measure->from == OverviewMeasure::From::both_policies) tile.side = PolicySide::both;
  request::FigureSettings settings = settings_of(of_column, tile);
  settings.choose_policy_b = false;
  settings.step = c.shown.step();
  settings.token.reset();
  const request::FigureInputs inputs = c.results.inputs(info);
  try {
    const request::FigureRequest& wanted = column.wanted.make(info, settings, inputs);
    column.error = missing_input(info, wanted);
    if (!column.error.empty()) return;
    column.values.request(
        c.results.all_layers(), wanted,
        [&info, wanted, inputs, service = c.results.figures()](Progress& progress, const auto&) {
          const figure::MadeFigure made = service->make(info, wanted, inputs, progress);
          const auto* values =
              dynamic_cast<const figure::HeadValues*>(&request::own_figure(*made.figure));
          return values != nullptr ? values->head_values() : std::vector<float>();
        },
        std::chrono::milliseconds(150));
    column.error = column.values.error();
  } catch (const UsageError& error) {
    column.error = error.what();
  }
}

void HeadTable::fill(const PanelContext& c) {
  const Trace& trace = *c.results.trace();
  const int columns = trace.most_heads();
  std::vector<std::shared_ptr<const std::vector<float>>> values;
  for (const auto& column : columns_) {
    request(c, *column);
    values.push_back(column->error.empty() ? column->values.current() : nullptr);
  }
  const std::optional<float> least = number_in<float>(limit.number);
  rows_.clear();
  hidden_ = 0;
  for (int layer = 0; layer < trace.model().num_layers; ++layer) {
    for (int head = 0; head < trace.layer_model(layer).num_kv_heads; ++head) {
      const auto at = static_cast<std::size_t>(layer * columns + head);
      Row row{layer, head, {}};
      for (const auto& column : values)
        row.values.push_back(column && at < column->size() ? (*column)[at] : kMissing);
      bool shown = true;
      if (least && limit.column >= 0) {
        const float value = row.values[static_cast<std::size_t>(limit.column)];
        shown = limit.at_least ? value >= *least : value <= *least;
      }
      if (shown) {
        rows_.push_back(std::move(row));
      } else {
        ++hidden_;
      }
    }
  }
  sort();
}

/// Heads without a number come last; equal ones stay in the order of layers and heads.
void HeadTable::sort() {
  if (sorted_by_ < 0) {
    if (descending_) std::reverse(rows_.begin(), rows_.end());
    return;
  }
  const auto by = static_cast<std::size_t>(sorted_by_);
  std::stable_sort(rows_.begin(), rows_.end(), [&](const Row& a, const Row& b) {
    const float x = a.values[by], y = b.values[by];
    if (std::isnan(x) || std::isnan(y)) return !std::isnan(x) && std::isnan(y);
    return descending_ ? x > y : x < y;
  });
}

std::string HeadTable::csv() const {
  std::string text = "layer,head";
  for (const auto& column : columns_) text += "," + column->measure->name;
  text += "\n";
  for (const Row& row : rows_) {
    text += fmt::format("{},{}", row.layer, row.head);
    for (const float value : row.values)
      text += std::isnan(value) ? "," : fmt::format(",{}", value);
    text += "\n";
  }
  return text;
}

void HeadTable::draw_limit(const PanelContext& c) {
  ImGui::AlignTextToFramePadding();
  ImGui::TextDisabled("only where");
  ImGui::SameLine();
  ImGui::SetNextItemWidth(c.px(150));
  const std::string now =
      limit.column < 0 ? "(all heads)"
                       : title_of(*columns_[static_cast<std::size_t>(limit.column)]->measure);
  if (ImGui::BeginCombo("##limited", now.c_str())) {
    if (list_line("(all heads)", limit.column < 0)) limit.column = -1;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto index = static_cast<int>(i);
      if (list_line(title_of(*columns_[i]->measure).c_str(), index == limit.column))
        limit.column = index;
    }
    ImGui::EndCombo();
  }
  if (limit.column < 0) return;
  ImGui::SameLine();
  if (ImGui::Button(limit.at_least ? "≥##side" : "≤##side")) limit.at_least = !limit.at_least;
  help_tooltip(c.fonts, "At least, or at most: click to change");
  ImGui::SameLine();
  const bool wrong = !limit.number.empty() && !number_in<float>(limit.number);
  if (wrong) ImGui::PushStyleColor(ImGuiCol_Text, c.colours().error);
  ImGui::SetNextItemWidth(c.px(72));
  ImGui::InputTextWithHint("##limit", "number", &limit.number);
  if (wrong) ImGui::PopStyleColor();
  help_tooltip(c.fonts,
               wrong ? "This is not a number; all heads are shown." : "Such as 0.5 or 1e-3");
}

void HeadTable::draw_tools(const PanelContext& c) {
  ImGui::SetNextItemWidth(c.px(112));
  if (ImGui::BeginCombo("##columns", "Columns", ImGuiComboFlags_HeightLarge)) {
    for (const OverviewMeasure& measure : figure::overview_measures()) {
      const std::vector<std::string> shown = measures();
      const bool is_shown = std::find(shown.begin(), shown.end(), measure.name) != shown.end();
      const bool possible = is_shown || columns_.size() < kMostColumns;
      if (list_line((title_of(measure) + "##" + measure.name).c_str(), is_shown,
                    ImGuiSelectableFlags_DontClosePopups |
                        (possible ? 0 : ImGuiSelectableFlags_Disabled)))
        toggle_measure(measure.name);
      help_tooltip(c.fonts,
                   measure.help + (possible ? std::string()
                                            : fmt::format("\nThe table has {} columns, as "
                                                          "many as fit. Take one away first.",
                                                          kMostColumns)));
    }
    ImGui::EndCombo();
  }
  ImGui::SameLine();
  draw_limit(c);
  ImGui::SameLine();
  if (ImGui::Button("Copy as CSV")) {
    ImGui::SetClipboardText(csv().c_str());
    c.tell(fmt::format("{} heads are in the clipboard, as CSV.", rows_.size()));
  }
  help_tooltip(c.fonts, "The heads shown, in this order, with all digits");
}

/// Returns the place of the head's name, in pixels.
ImVec2 HeadTable::draw_line(const PanelContext& c, const Row& row) {
  figure::Selection& at = c.state.selection;
  const bool selected = row.layer == at.layer && row.head == at.head;
  ImGui::TableNextRow();
  ImGui::TableNextColumn();
  const std::string name = fmt::format("{}.{}", row.layer, row.head);
  ImGui::PushStyleColor(ImGuiCol_Header, faded(c.colours().selection, 0.35F));
  if (ImGui::Selectable(name.c_str(), selected, ImGuiSelectableFlags_SpanAllColumns)) {
    at.layer = row.layer;
    at.head = row.head;
  }
  ImGui::PopStyleColor();
  const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
  for (const float value : row.values) {
    ImGui::TableNextColumn();
    const std::string text = three_digits(static_cast<double>(value));
    const float room = ImGui::GetContentRegionAvail().x - ImGui::CalcTextSize(text.c_str()).x;
    ImGui::SetCursorPosX(ImGui::GetCursorPosX() + std::max(0.0F, room));
    ImGui::TextUnformatted(text.c_str());
  }
  return {low.x + c.px(4), (low.y + high.y) / 2};
}

void HeadTable::draw_table(const PanelContext& c) {
  const int count = static_cast<int>(columns_.size()) + 1;
  constexpr ImGuiTableFlags kFlags =
      ImGuiTableFlags_Sortable | ImGuiTableFlags_RowBg | ImGuiTableFlags_ScrollY |
      ImGuiTableFlags_ScrollX | ImGuiTableFlags_BordersInnerH | ImGuiTableFlags_NoSavedSettings |
      ImGuiTableFlags_SizingFixedFit;
  // Another number of columns is another table: ImGui keeps widths and the order by its name.
  std::string id = "##heads";
  for (const auto& column : columns_) id += "," + column->measure->name;
  if (!ImGui::BeginTable(id.c_str(), count, kFlags)) return;
  ImGui::TableSetupScrollFreeze(1, 1);
  ImGui::TableSetupColumn("head", ImGuiTableColumnFlags_DefaultSort);
  for (const auto& column : columns_)
    ImGui::TableSetupColumn(title_of(*column->measure).c_str(),
                            ImGuiTableColumnFlags_PreferSortDescending);
  title_places_.clear();
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (int i = 0; i < count; ++i) {
    ImGui::TableSetColumnIndex(i);
    ImGui::TableHeader(ImGui::TableGetColumnName(i));
    const ImVec2 low = ImGui::GetItemRectMin(), high = ImGui::GetItemRectMax();
    title_places_.push_back({(low.x + high.x) / 2, (low.y + high.y) / 2});
    if (i == 0) {
      help_tooltip(c.fonts, "layer.head");
      continue;
    }
    const Column& column = *columns_[static_cast<std::size_t>(i) - 1];
    help_tooltip(c.fonts, column.error.empty() ? column.measure->help : column.error);
  }
  if (const ImGuiTableSortSpecs* order = ImGui::TableGetSortSpecs();
      order != nullptr && order->SpecsCount > 0) {
    sorted_by_ = order->Specs[0].ColumnIndex - 1;
    descending_ = order->Specs[0].SortDirection == ImGuiSortDirection_Descending;
  }
  // The head in hand is in sight, when it is another than before.
  const figure::Selection& at = c.state.selection;
  const int in_hand = at.layer * c.results.trace()->most_heads() + at.head;
  const auto selected = std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) {
    return row.layer == at.layer && row.head == at.head;
  });
  const float line = ImGui::GetTextLineHeightWithSpacing();
  if (in_hand != scrolled_to_ && selected != rows_.end()) {
    const float place = static_cast<float>(selected - rows_.begin()) * line;
    const float page = ImGui::GetWindowHeight() - 3 * line;
    if (place < ImGui::GetScrollY() || place > ImGui::GetScrollY() + page)
      ImGui::SetScrollY(std::max(0.0F, place - page / 2));
  }
  scrolled_to_ = in_hand;
  ImGuiListClipper lines;
  lines.Begin(static_cast<int>(rows_.size()));
  bool first = true;
  while (lines.Step()) {
    for (int i = lines.DisplayStart; i < lines.DisplayEnd; ++i) {
      const ImVec2 place = draw_line(c, rows_[static_cast<std::size_t>(i)]);
      if (std::exchange(first, false)) first_line_ = place;
    }
  }
  ImGui::EndTable();
}

void HeadTable::draw(const PanelContext& c) {
  if (!open_ || !c.results.trace()) return;
  fill(c);
  begin_list_sheet(c, "##head-table", "Heads", 480,
                   ImGuiWindowFlags_NoNavInputs | ImGuiWindowFlags_NoFocusOnAppearing);
  const std::string more =
      hidden_ > 0 ? fmt::format(" · {} of {} heads", rows_.size(), rows_.size() + hidden_)
      : busy()    ? " · computing"
                  : "";
  if (list_sheet_title(
          fmt::format("{}, after step {}{}", c.state.policy_a.text(), c.shown.step(), more)))
    close();
  draw_tools(c);
  draw_table(c);
  end_list_sheet();
}

}  // namespace kvloupe::window
