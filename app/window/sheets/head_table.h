#pragma once

#include <imgui.h>

#include <memory>
#include <string>
#include <vector>

#include "app/job/computed.h"
#include "app/request/figure_request.h"

namespace kvloupe::window {

struct PanelContext;

/// Every head as a line, with the numbers that the grid can show: under policy A at the step in
/// hand. One chooses the columns, sorts by one, hides heads by a limit, and copies the rest as CSV.
class HeadTable {
 public:
  HeadTable();
  ~HeadTable();
  HeadTable(const HeadTable&) = delete;
  HeadTable& operator=(const HeadTable&) = delete;

  void toggle() { open_ = !open_; }
  void close() { open_ = false; }
  bool is_open() const { return open_; }
  /// A column that is shown still computes.
  bool busy() const;
  void draw(const PanelContext& context);

  /// A line of the table.
  struct Row {
    int layer = 0, head = 0;
    std::vector<float> values;  // one for each column; NaN: none (yet)
  };
  /// As shown, in their order.
  const std::vector<Row>& rows() const { return rows_; }
  /// Names of the figure overview's measures, in the order of the columns.
  std::vector<std::string> measures() const;
  /// Adds the column, or takes it away.
  void toggle_measure(const std::string& name);
  /// Hides heads whose number in a column (of measures()) is on the other side of the limit.
  struct Limit {
    int column = -1;  // -1: no head is hidden
    bool at_least = true;
    std::string number;  // as typed; not a number: no head is hidden
  };
  Limit limit;
  /// The text that the button copies: layer, head and the columns of the heads shown.
  std::string csv() const;
  /// The places, in pixels, where titles of columns and the first visible line were drawn last.
  const std::vector<ImVec2>& title_places() const { return title_places_; }
  ImVec2 first_line_place() const { return first_line_; }

 private:
  struct Column;
  void request(const PanelContext& context, Column& column) const;
  void fill(const PanelContext& context);
  void sort();
  void draw_tools(const PanelContext& context);
  void draw_limit(const PanelContext& context);
  void draw_table(const PanelContext& context);
  static ImVec2 draw_line(const PanelContext& context, const Row& row);

  bool open_ = false;
  std::vector<std::unique_ptr<Column>> columns_;
  std::vector<Row> rows_;
  int hidden_ = 0;      // heads, by the limit
  int sorted_by_ = -1;  // -1: layer and head
  bool descending_ = false;
  std::vector<ImVec2> title_places_;
  ImVec2 first_line_{};
  int scrolled_to_ = -1;  // the head in hand when the table was scrolled last
};

}  // namespace kvloupe::window
