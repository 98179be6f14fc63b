#pragma once
// The figure behind those that show how a number of every token is distributed, head by head.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "app/figure/figure.h"
#include "app/plot/ticks.h"

namespace kvloupe::figure {

class Distributions final : public Figure {
 public:
  struct Row {
    std::string name;           // of the head
    int head = -1;              // key-value head it belongs to
    bool chosen = false;        // the selected one
    std::vector<float> values;  // one per token
    int query_head = -1;        // where it is of this one alone
  };
  struct Column {
    std::string title = {};
    std::string label = {};      // of the x axis, with its unit
    std::string row_label = {};  // of the y axis
    double low = 0.0, high = 1.0;
    double reference = -1.0;  // a hairline there; below `low`: none
    std::vector<Row> rows = {};
  };
  std::vector<Column> columns;
  int layer = 0;
  std::string measure;  // name of the number in the CSV

  double natural_height(const DrawRequest& request) const override;
  Scene draw(const DrawRequest& request) const override;
  void write_csv(CsvWriter& csv) const override;
  std::string value_text(const Target& target) const override;
};

/// What `numbers` makes of the rows of every head of the selected layer: a column of the keys, one
/// of the queries and, if there are three, one of the values.
std::unique_ptr<Distributions> layer_distributions(
    const FigureInput& input, Progress& progress, std::string measure,
    std::vector<Distributions::Column> columns,
    const std::function<std::vector<float>(const Matrix& rows)>& numbers);

}  // namespace kvloupe::figure
