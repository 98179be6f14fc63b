#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "app/figure/figure.h"
#include "app/scene/scene.h"

namespace kvloupe::figure::document {

/// The texts at the places of a picture, in compact form: the words around the numbers of a text
/// are stored once ("retained, score \1"), each number once, and a place takes two or three
/// characters.
///
/// A stream is a sequence of numbers, each with one to three characters of `kAlphabet`: a character
/// below 40 is the number itself; 40 to 77 begin two characters, 78 to 89 begin three. For each
/// place: 0 and n: n more places like the last one; else 1 + the index of the words in words(),
/// then the index of each number in numbers(). No character of the alphabet needs escaping in JSON,
/// HTML or XML.
class ValueTexts {
 public:
  static constexpr std::string_view kAlphabet =
      " !#$%'()*+,-./0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";

  /// Adds the next place to the stream.
  void add(std::string_view text);
  /// The stream since the last call.
  std::string take();

  const std::vector<std::string>& words() const { return words_; }
  const std::vector<std::string>& numbers() const { return numbers_; }
  /// Approximate size of everything stored.
  std::size_t bytes() const { return bytes_; }

 private:
  void put(std::size_t number);
  void end_run();
  std::size_t place_of(std::string_view text,
                       std::map<std::string, std::size_t, std::less<>>& places,
                       std::vector<std::string>& list);

  std::string stream_;
  std::string last_;
  bool has_last_ = false;
  std::size_t run_ = 0;
  std::map<std::string, std::size_t, std::less<>> word_places_, number_places_;
  std::vector<std::string> words_, numbers_;
  std::size_t bytes_ = 0;
};

/// The cells of one plot that the pointer finds, and how many of them share a text.
struct CellTable {
  AxisMeaning x = AxisMeaning::value, y = AxisMeaning::value;
  int x_first = 0, x_count = 1;  // of a value axis: one cell
  int y_first = 0, y_count = 1;
  int x_every = 1, y_every = 1;  // one text for this many cells, that of the middle one
  bool operator==(const CellTable&) const = default;
  int x_kept() const { return (x_count + x_every - 1) / x_every; }
  int y_kept() const { return (y_count + y_every - 1) / y_every; }
  /// The target of the kept cell (x, y).
  Target target(int x_kept, int y_kept) const;
};

/// The tables of a scene's axes. Plots with the same cells share one table; `of_axes` gives the
/// table of each plot (-1: none, its axes are of values). At most `most` cells in all keep a text.
std::vector<CellTable> cell_tables(const Scene& scene, std::size_t most, std::vector<int>& of_axes);

/// The data that page.js needs about a scene: axes, regions, lines, points, as Scene::pick and
/// where use them. Lengths are tenths of a point.
nlohmann::ordered_json places_json(const Scene& scene, const std::vector<CellTable>& tables,
                                   const std::vector<int>& of_axes);

/// The figure's texts at each place, in the order points, lines, regions, tables (row by row): a
/// stream of `texts`.
std::string place_values(const Scene& scene, const std::vector<CellTable>& tables,
                         const Figure* figure, ValueTexts& texts);

}  // namespace kvloupe::figure::document
