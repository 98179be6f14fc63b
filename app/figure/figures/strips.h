#pragma once
// The figure behind those that show one number of every head: rows of marks, one row to a layer or
// to a policy. Within a row, heads stand from top to bottom in their order. With many layers, the
// rows would need a whole page: then layers lie along x, and heads stand from left to right.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "app/plot/ticks.h"
#include "app/plot/value_axis.h"

namespace kvloupe::figure {

class Strips final : public Figure {
 public:
  struct Mark {
    double value = 0.0;  // not finite: not drawn
    double place = 0.5;  // within its row, 0 at the top to 1
    Target target;
    std::string text;  // beside the mark
  };
  struct Series {
    std::string name;      // in the legend, where there are several
    bool retained = true;  // filled and blue; else open and grey
    std::vector<std::vector<Mark>> rows;
  };
  struct Column {
    std::string title = {};
    Axis x = {};
    std::optional<double> reference = {};  // a line there
    std::vector<Series> series = {};
    double room = 0.0;  // right of the plot, for texts
  };
  std::vector<Column> columns;
  Axis y;  // of the rows
  std::vector<std::string> row_names;
  double row_height = 16.0;  // points, where the height is free
  bool medians = false;      // a line at the median of each row's first series, and its number
  bool joined = false;       // a thin line from the first series' mark to the second's
  std::string measure;       // name of the number in the CSV
  std::string row_measure = "row";

  /// With more layers than this they lie along x.
  static constexpr int kMostRows = 16;
  /// How layers and heads stand, for a caption: "one row per layer, heads from top to bottom".
  static const char* rows_in_words(int layers) {
    return layers > kMostRows ? "one column per layer, heads from left to right"
                              : "one row per layer, heads from top to bottom";
  }

  double natural_height(const DrawRequest& request) const override;
  Scene draw(const DrawRequest& request) const override;
  void write_csv(CsvWriter& csv) const override;
  std::string value_text(const Target& target) const override;
};

/// Rows of layers with a mark for each query head, of cosines: [query head] of each series.
using QueryHeadCosines =
    std::function<std::vector<double>(const Matrix& keys, const Matrix& queries)>;
/// The figure of `numbers` for the keys and the queries of every query head; `series` without rows.
std::unique_ptr<Strips> query_head_strips(const FigureInput& input, Progress& progress,
                                          std::vector<Strips::Series> series, std::string label,
                                          std::string measure, const QueryHeadCosines& numbers);

/// The place of head `index` of `count` within its row.
inline double place_in_row(int index, int count) { return (index + 0.5) / count; }

/// Over all finite values of the columns' marks.
ValueRange range_of(const std::vector<Strips::Series>& series);

}  // namespace kvloupe::figure
