#pragma once
// The segments of a prompt as a band above a plot whose x axis counts tokens, with their names.

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/trace/given_tokens.h"
#include "app/plot/frame.h"

namespace kvloupe::figure {

class SegmentBand {
 public:
  SegmentBand() = default;
  explicit SegmentBand(const TokenTable& tokens);
  /// Of a whole trace: the name of an answer says what of it was given, and given tokens in whose
  /// place the model would have chosen others are marked.
  SegmentBand(const Trace& trace, const GivenTokens& given);

  /// Room above the plot, points: for the band and one row of names, or two; 0 without segments.
  double height(const Style& style, bool two_rows) const;
  /// Whether some kind of segment finds room for its name only in a second row. Asked with the axes
  /// of all tokens, it has the same answer while a part of them moves, and nothing jumps.
  bool needs_two_rows(const Style& style, const Axes& axes) const;
  void draw(Scene& scene, const Style& style, const Axes& axes, bool two_rows) const;

 private:
  struct Segment {
    std::string name;
    int first = 0;
    int end = 0;
  };
  /// A segment wide enough to be named, and where it is on the page.
  struct Place {
    std::string name;
    double from = 0.0, to = 0.0;
    double middle() const { return (from + to) / 2; }
  };
  /// In the lower row, over its segment, or in the upper row, with a line down to the middle of
  /// each segment that it names.
  struct Name {
    std::string text;
    double x = 0.0;  // where it begins
    double width = 0.0;
    std::vector<double> lines;  // empty: it stands in the lower row
    std::size_t place = 0;      // in the lower row: whose it is
  };

  static std::pair<double, double> span_of(const Segment& segment, const Axes& axes);
  std::vector<Name> names(const Style& style, const Axes& axes, bool two_rows) const;
  static std::vector<Name> lower_row(const Style& style, const Axes& axes,
                                     const std::vector<Place>& places,
                                     const std::set<std::size_t>& left_out);
  static std::set<std::size_t> add_upper_row(const Style& style, const Axes& axes,
                                             const std::vector<Place>& places,
                                             std::vector<Name>& names);

  void add(const std::string& name, int token);

  std::vector<Segment> segments_;
  std::vector<int> others_;  // tokens
};

/// A sentence for a caption: that the answer was given to the model, and what is marked how
/// ("ticks at the top"). Empty where nothing was given.
std::string given_sentence(const GivenTokens& given, const std::string& marks);

}  // namespace kvloupe::figure
