#pragma once
// Strips beside a map of tokens that make single columns visible at any size and length: above the
// map one number of every key, left of it the columns of the sinks, enlarged.

#include <vector>

#include "analysis/trace/model_info.h"
#include "app/plot/map_plot.h"

namespace kvloupe::figure {

/// One number of every key above a map, on the map's own x axis: the mean attention that the key
/// receives, or its mean cosine to the others.
struct KeyStrip {
  std::vector<double> values;  // [T] at most 1; not finite: no value
  int pale_from = 0;           // tokens from here on are paler: few queries see them
  std::vector<int> sinks;      // marked, even if their column is narrow
  bool likeness = false;       // mean cosines: of several keys the smallest is shown
};

/// The attention that one sink receives from every query.
struct SinkColumn {
  int token = 0;
  std::vector<float> values;  // [pixels] over the rows of the map; NaN where the query sees no such
                              // key
};

inline constexpr double sink_column_width = 5.0;  // points
/// Room that this many columns need left of a map, including the gap.
double sink_columns_room(std::size_t columns);

/// Makes room for both in a figure of this height. Call it before map_rect.
void leave_margins(MapPlot& plot, const KeyStrip& strip, std::size_t columns, double height);

/// Draws the strip above the map, which is already drawn; draws nothing if there is too little
/// room.
void add_key_strip(Scene& scene, const Style& style, const MapPlot& plot, const Rect& map,
                   const KeyStrip& strip);

/// Draws the columns left of the map, with the map's y axis, which add_map has left out. `covers`:
/// the queries of the values, [first, end).
void add_sink_columns(Scene& scene, const Style& style, const MapPlot& plot, const Rect& map,
                      const std::vector<SinkColumn>& columns, std::pair<double, double> covers);

/// The tokens of [first, last] that receive more than kSinkHead on average from the queries that
/// see them, without the last tokens, which too few queries see (`pale_from` of a strip).
std::vector<int> sinks_among(const std::vector<double>& received, int first, int last,
                             const Reach& reach);
/// The sinks of a strip whose columns are drawn beside the map, as many as leave enough room for
/// the map; ascending.
std::vector<int> strongest_sinks(const KeyStrip& strip);
/// The first of `length` tokens that too few queries see for a meaningful mean.
int first_uncertain(int length, const Reach& reach);

}  // namespace kvloupe::figure
