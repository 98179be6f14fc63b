#pragma once
// What stands beside a map of tokens, so that one column of it is seen at any size and any length:
// above it one number of every key, left of it the columns of the sinks, wide enough to be read.

#include <optional>
#include <vector>

#include "app/figure/map_plot.h"

namespace kvloupe::figure {

/// One number of every key above a map, on the map's own x axis: the attention it receives on
/// average, or how like the others it is.
struct KeyStrip {
  std::vector<double> values;  // [T] at most 1; not finite: none
  int pale_from = 0;           // tokens from here on are paler: few queries see them
  std::vector<int> sinks;      // marked, however narrow their column is
  bool likeness = false;       // mean cosines: of several keys the least is shown, not the largest
};

/// What one sink gets from every query.
struct SinkColumn {
  int token = 0;
  std::vector<float> values;  // [pixels] over the rows of the map; NaN where the query sees no such
                              // key
};

inline constexpr double sink_column_width = 5.0;  // points
/// Room that so many columns take left of a map, the gap before it included.
double sink_columns_room(std::size_t columns);

/// Makes room for both in the plot of a figure of this height: call it before map_rect.
void leave_margins(MapPlot& plot, const KeyStrip& strip, std::size_t columns, double height);

/// Draws the strip above the map, which was drawn before; nothing where there is too little room.
void add_key_strip(Scene& scene, const Style& style, const MapPlot& plot, const Rect& map,
                   const KeyStrip& strip);

/// Draws the columns left of the map, with its y axis, which add_map has left out for them.
/// `covers`: the queries that the values stand for, [first, end).
void add_sink_columns(Scene& scene, const Style& style, const MapPlot& plot, const Rect& map,
                      const std::vector<SinkColumn>& columns, std::pair<double, double> covers);

/// The tokens of [first, last] that receive more than kSinkHead on average of those that see them,
/// leaving out the last, of which too few queries tell (`pale_from` of a strip).
std::vector<int> sinks_among(const std::vector<double>& received, int first, int last, int window);
/// Of a strip's sinks those whose columns stand beside the map, as many as leave it its place;
/// ascending.
std::vector<int> strongest_sinks(const KeyStrip& strip);
/// From which token on too few queries see a key for a mean to say much, of `length` tokens.
int first_uncertain(int length, int window);

}  // namespace kvloupe::figure
