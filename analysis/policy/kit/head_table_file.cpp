#include "analysis/policy/kit/head_table_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "analysis/base/core/error.h"

namespace kvloupe {

namespace {
/// More than any table of heads needs: 800 layers of 2 000 heads in text, of 10 bytes each.
constexpr std::uintmax_t kMostBytes = 16UL << 20;

std::string content_of(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    throw FileError(path, "is not a file; give a table with one number per head");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path, "cannot be opened; check the path of the table");
  std::string text;
  std::array<char, 1 << 16> part{};
  while (file.read(part.data(), part.size()) || file.gcount() > 0) {
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMostBytes) {
      throw FileError(path, "is larger than 16 MB; a table of heads has one number per head");
    }
  }
  if (text.empty()) throw FileError(path, "is empty; it needs one number per layer and head");
  return text;
}

struct Line {
  int number = 0;  // from 1
  std::vector<std::string_view> cells;
};

[[noreturn]] void wrong(const std::string& path, const Line& line, const std::string& what) {
  throw FileError(path, "line " + std::to_string(line.number) + ": " + what);
}

/// Lines with cells between commas, semicolons, tabs or spaces; empty lines and what follows '#'
/// are left out.
std::vector<Line> lines_of(std::string_view text) {
  constexpr std::string_view kBetween = ",; \t\r";
  std::vector<Line> lines;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view rest = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    rest = rest.substr(0, std::min(rest.find('#'), rest.size()));
    Line line{++number, {}};
    while (true) {
      const std::size_t begin = rest.find_first_not_of(kBetween);
      if (begin == std::string_view::npos) break;
      rest.remove_prefix(begin);
      const std::size_t stop = std::min(rest.find_first_of(kBetween), rest.size());
      line.cells.push_back(rest.substr(0, stop));
      rest.remove_prefix(stop);
    }
    if (!line.cells.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

bool parse(std::string_view cell, double& number) {
  const char* const end = cell.data() + cell.size();
  const auto result = std::from_chars(cell.data(), end, number);
  return result.ec == std::errc() && result.ptr == end;
}

double number_of(const std::string& path, const Line& line, std::size_t cell) {
  double number = 0.0;
  if (!parse(line.cells[cell], number) || !std::isfinite(number) || number < 0.0) {
    wrong(path, line,
          "'" + std::string(line.cells[cell].substr(0, 40)) + "' is not a number from 0 on");
  }
  return number;
}

/// A column of the long form.
std::size_t column(const Line& header, std::string_view name) {
  const auto found = std::find(header.cells.begin(), header.cells.end(), name);
  return static_cast<std::size_t>(found - header.cells.begin());
}

struct Rows {
  std::size_t layers = 0, heads = 0;
  std::vector<double> values;  // [layers][heads]
};

/// The most heads that a column may be of.
std::size_t most_heads(const ModelInfo& model) {
  if (model.cache_heads.empty()) return static_cast<std::size_t>(model.num_heads);
  return static_cast<std::size_t>(
      *std::max_element(model.cache_heads.begin(), model.cache_heads.end()));
}

/// Columns layer, head and value.
Rows long_form(const std::string& path, const std::vector<Line>& lines, const ModelInfo& model) {
  const Line& header = lines.front();
  const std::size_t layer = column(header, "layer"), head = column(header, "head"),
                    value = column(header, "value");
  if (std::max({layer, head, value}) >= header.cells.size()) {
    wrong(
        path, header,
        "the columns are not layer, head and value; a table without these has numbers only: a row "
        "per layer, a column per head");
  }
  Rows rows{static_cast<std::size_t>(model.num_layers), 0, {}};
  const std::size_t most = most_heads(model);
  std::vector<double> found(rows.layers * most, -1.0);
  for (auto line = lines.begin() + 1; line != lines.end(); ++line) {
    if (line->cells.size() != header.cells.size()) {
      wrong(path, *line,
            "has " + std::to_string(line->cells.size()) + " cells instead of " +
                std::to_string(header.cells.size()));
    }
    const double l = number_of(path, *line, layer), h = number_of(path, *line, head);
    if (l != std::floor(l) || h != std::floor(h) || l >= model.num_layers ||
        h >= static_cast<double>(most)) {
      wrong(path, *line, "the model has no such layer or head");
    }
    rows.heads = std::max(rows.heads, static_cast<std::size_t>(h) + 1);
    double& place = found[static_cast<std::size_t>(l) * most + static_cast<std::size_t>(h)];
    if (place >= 0.0) wrong(path, *line, "this layer and head have a value already");
    place = number_of(path, *line, value);
  }
  const bool plain = model.cache_heads.empty();
  for (std::size_t l = 0; l < rows.layers; ++l) {
    const std::size_t heads =
        plain ? rows.heads : static_cast<std::size_t>(model.heads_in(static_cast<int>(l)));
    for (std::size_t h = 0; h < rows.heads; ++h) {
      if (h >= heads) {  // a head that the layer lacks
        rows.values.push_back(0.0);
        continue;
      }
      if (found[l * most + h] < 0.0) {
        throw FileError(
            path, "has no value for layer " + std::to_string(l) + ", head " + std::to_string(h));
      }
      rows.values.push_back(found[l * most + h]);
    }
  }
  return rows;
}

Rows text_table(const std::string& path, std::string_view text, const ModelInfo& model) {
  const std::vector<Line> lines = lines_of(text);
  if (lines.empty()) throw FileError(path, "has no numbers; it needs one per layer and head");
  double first = 0.0;
  if (!parse(lines.front().cells.front(), first)) return long_form(path, lines, model);
  Rows rows{lines.size(), lines.front().cells.size(), {}};
  for (const Line& line : lines) {
    if (line.cells.size() != rows.heads) {
      wrong(path, line,
            "has " + std::to_string(line.cells.size()) + " numbers instead of " +
                std::to_string(rows.heads));
    }
    for (std::size_t cell = 0; cell < line.cells.size(); ++cell) {
      rows.values.push_back(number_of(path, line, cell));
    }
  }
  return rows;
}

/// The value of a key in the header of a NumPy file, up to the end of the header.
std::string_view header_value(std::string_view header, std::string_view key) {
  const std::size_t at = header.find("'" + std::string(key) + "'");
  if (at == std::string_view::npos) return {};
  const std::size_t colon = header.find(':', at);
  if (colon == std::string_view::npos) return {};
  header.remove_prefix(colon + 1);
  header.remove_prefix(std::min(header.find_first_not_of(' '), header.size()));
  return header;
}

/// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
Rows numpy_table(const std::string& path, std::string_view text) {
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(text[at]));
  };
  const std::size_t fixed = text.size() > 6 && byte(6) >= 2 ? 12 : 10;
  if (text.size() < fixed) throw FileError(path, "is cut off in its NumPy header");
  std::size_t length = byte(8) + (byte(9) << 8);
  if (fixed == 12) length += (byte(10) << 16) + (byte(11) << 24);
  if (text.size() - fixed < length) throw FileError(path, "is cut off in its NumPy header");
  const std::string_view header = text.substr(fixed, length);
  const std::string_view data = text.substr(fixed + length);
  const std::string_view type = header_value(header, "descr").substr(0, 5);
  const bool small = type == "'<f4'";
  if (!small && type != "'<f8'") {
    throw FileError(path,
                    "is a NumPy file of another type than float32 or float64; save it with "
                    ".astype('float32')");
  }
  if (header_value(header, "fortran_order").substr(0, 5) != "False") {
    throw FileError(path, "is stored by columns; save it with numpy.ascontiguousarray");
  }
  const std::string_view shape = header_value(header, "shape");
  Rows rows;
  const auto read = [&](std::string_view& rest, std::size_t& number) {
    rest.remove_prefix(std::min(rest.find_first_not_of("(, "), rest.size()));
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (result.ec != std::errc()) return false;
    rest.remove_prefix(static_cast<std::size_t>(result.ptr - rest.data()));
    return true;
  };
  std::string_view rest = shape;
  const bool two = read(rest, rows.layers) && read(rest, rows.heads);
  rest.remove_prefix(std::min(rest.find_first_not_of(", "), rest.size()));
  if (!two || rest.substr(0, 1) != ")") {
    throw FileError(path, "does not have two axes; a table of heads is [layers][heads]");
  }
  const std::size_t size = small ? 4 : 8;
  if (rows.layers == 0 || rows.heads == 0 || rows.heads > data.size() / size ||
      rows.layers != data.size() / size / rows.heads ||
      rows.layers * rows.heads * size != data.size()) {
    throw FileError(path, "has another length than its NumPy header says");
  }
  for (std::size_t at = 0; at < data.size(); at += size) {
    float single = 0.0F;
    double number = 0.0;
    std::memcpy(small ? static_cast<void*>(&single) : &number, data.data() + at, size);
    rows.values.push_back(small ? static_cast<double>(single) : number);
  }
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    if (std::isfinite(rows.values[i]) && rows.values[i] >= 0.0) continue;
    throw FileError(path, "layer " + std::to_string(i / rows.heads) + ", head " +
                              std::to_string(i % rows.heads) + " is not a number from 0 on");
  }
  return rows;
}

/// The table of a model whose layers differ. The file has a row for each layer, or for each layer
/// with a cache, and as many columns as the layer with most heads has. Columns that a layer lacks
/// are ignored.
HeadTable of_caches(const std::string& path, const Rows& rows, const ModelInfo& model) {
  const auto layers = static_cast<std::size_t>(model.num_layers);
  const auto caches = static_cast<std::size_t>(model.caches());
  const std::size_t most = most_heads(model);
  if ((rows.layers != layers && rows.layers != caches) || rows.heads != most) {
    throw FileError(path, "is a table of " + std::to_string(rows.layers) + " layers and " +
                              std::to_string(rows.heads) + " heads, but the model has " +
                              std::to_string(layers) + " layers, " + std::to_string(caches) +
                              " of them with a cache, and at most " + std::to_string(most) +
                              " key-value heads in a layer");
  }
  HeadTable table;
  std::size_t row = 0;
  for (int layer = 0; layer < model.num_layers; ++layer) {
    const int heads = model.heads_in(layer);
    if (heads == 0 && rows.layers == caches) continue;
    for (int head = 0; head < heads; ++head) {
      table.push_back(rows.values[row * rows.heads + static_cast<std::size_t>(head)]);
    }
    ++row;
  }
  return table;
}
}  // namespace

HeadTable read_head_table(const std::string& path, const ModelInfo& model) {
  const std::string text = content_of(path);
  const bool numpy = text.compare(0, 6, "\x93NUMPY") == 0;
  const Rows rows = numpy ? numpy_table(path, text) : text_table(path, text, model);
  const auto layers = static_cast<std::size_t>(model.num_layers);
  if (!model.cache_heads.empty()) return of_caches(path, rows, model);
  const auto heads = static_cast<std::size_t>(model.num_kv_heads);
  const auto query_heads = static_cast<std::size_t>(model.num_heads);
  if (rows.layers != layers || (rows.heads != heads && rows.heads != query_heads)) {
    throw FileError(path, "is a table of " + std::to_string(rows.layers) + " layers and " +
                              std::to_string(rows.heads) + " heads, but the model has " +
                              std::to_string(layers) + " layers and " + std::to_string(heads) +
                              " key-value heads (" + std::to_string(query_heads) + " query heads)");
  }
  const std::size_t group = rows.heads / heads;
  HeadTable table;
  for (std::size_t i = 0; i < rows.values.size(); i += group) {
    double sum = 0.0;
    for (std::size_t g = 0; g < group; ++g) sum += rows.values[i + g];
    table.push_back(sum / static_cast<double>(group));
  }
  return table;
}

}  // namespace kvloupe
