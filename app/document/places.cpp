#include "app/document/places.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "analysis/base/core/error.h"
#include "app/figure/figure.h"

namespace kvloupe::figure::document {

namespace {

constexpr std::size_t kOne = 40, kTwo = 38, kThree = 12;  // leading characters
constexpr std::size_t kBase = ValueTexts::kAlphabet.size();
static_assert(kOne + kTwo + kThree == kBase);
constexpr char kHole = '\1';  // where a number stands among words
constexpr std::string_view kThinSpace = "\u2009";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The end of the number that starts at a digit: digits, a point, thin spaces in thousands.
std::size_t number_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    if (is_digit(text[at])) {
      ++at;
    } else if (text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1])) {
      ++at;
    } else if (text.substr(at).starts_with(kThinSpace) && at + kThinSpace.size() < text.size() &&
               is_digit(text[at + kThinSpace.size()])) {
      at += kThinSpace.size();
    } else {
      break;
    }
  }
  return at;
}

}  // namespace

void ValueTexts::put(std::size_t number) {
  if (number < kOne) {
    stream_ += kAlphabet[number];
    return;
  }
  number -= kOne;
  if (number < kTwo * kBase) {
    stream_ += kAlphabet[kOne + number / kBase];
    stream_ += kAlphabet[number % kBase];
    return;
  }
  number -= kTwo * kBase;
  if (number >= kThree * kBase * kBase)
    throw WorkError("a figure has too many values for a web page");
  stream_ += kAlphabet[kOne + kTwo + number / (kBase * kBase)];
  stream_ += kAlphabet[number / kBase % kBase];
  stream_ += kAlphabet[number % kBase];
}

void ValueTexts::end_run() {
  // A run too long for one number is several.
  constexpr std::size_t kLongest = 50'000;
  while (run_ > 0) {
    const std::size_t part = run_ < kLongest ? run_ : kLongest;
    put(0);
    put(part);
    run_ -= part;
  }
}

std::size_t ValueTexts::place_of(std::string_view text,
                                 std::map<std::string, std::size_t, std::less<>>& places,
                                 std::vector<std::string>& list) {
  if (const auto found = places.find(text); found != places.end()) return found->second;
  list.emplace_back(text);
  bytes_ += text.size() + 3;
  return places.emplace(text, list.size() - 1).first->second;
}

void ValueTexts::add(std::string_view text) {
  if (has_last_ && text == last_) {
    ++run_;
    return;
  }
  end_run();
  last_ = text;
  has_last_ = true;
  std::string words;
  std::vector<std::string_view> numbers;
  for (std::size_t at = 0; at < text.size();) {
    if (is_digit(text[at])) {
      const std::size_t end = number_end(text, at);
      numbers.push_back(text.substr(at, end - at));
      words += kHole;
      at = end;
    } else {
      if (text[at] != kHole) words += text[at];
      ++at;
    }
  }
  put(1 + place_of(words, word_places_, words_));
  for (const std::string_view number : numbers) put(place_of(number, number_places_, numbers_));
}

std::string ValueTexts::take() {
  end_run();
  has_last_ = false;
  std::string out;
  out.swap(stream_);
  bytes_ += out.size();
  return out;
}

namespace {

using Json = nlohmann::ordered_json;

long tenths(double points) { return std::lround(points * 10.0); }

bool counts(AxisMeaning meaning) { return meaning != AxisMeaning::value; }

/// The cells of an axis: first and how many.
std::pair<int, int> cells_of(const Axis& axis) {
  if (!counts(axis.meaning)) return {0, 1};
  const double low = std::floor(std::min(axis.first, axis.last));
  const double high = std::ceil(std::max(axis.first, axis.last));
  return {static_cast<int>(low), std::max(1, static_cast<int>(high - low))};
}

/// Sets the field of a target that a figure's cell stands for; the inverse of Scene::pick.
void set_field(Target& target, AxisMeaning meaning, bool is_query, int value) {
  switch (meaning) {
    case AxisMeaning::token:
      (is_query ? target.other_token : target.token) = value;
      break;
    case AxisMeaning::step:
      target.step = value;
      break;
    case AxisMeaning::layer:
      target.layer = value;
      break;
    case AxisMeaning::head:
      target.head = value;
      break;
    case AxisMeaning::value:
      break;
  }
}

/// As page.js reads them.
std::array<int, 6> fields_of(const Target& t) {
  return {t.token, t.other_token, t.step, t.layer, t.head, t.query_head};
}

Json axis_json(const Axis& axis) {
  Json out = {{"m", static_cast<int>(axis.meaning)}, {"a", axis.first}, {"b", axis.last}};
  if (axis.scale == AxisScale::log) out["log"] = 1;
  if (axis.knee) {
    out["knee"] = *axis.knee;
    out["share"] = axis.knee_share;
  }
  if (!axis.label.empty()) out["label"] = axis.label;
  if (!axis.names.empty()) out["names"] = axis.names;
  return out;
}

}  // namespace

Target CellTable::target(int x_at, int y_at) const {
  const auto middle = [](int first, int count, int every, int at) {
    return first + std::min(at * every + every / 2, count - 1);
  };
  const bool tokens_by_tokens = x == AxisMeaning::token && y == AxisMeaning::token;
  Target target;
  set_field(target, x, false, middle(x_first, x_count, x_every, x_at));
  set_field(target, y, tokens_by_tokens, middle(y_first, y_count, y_every, y_at));
  return target;
}

std::vector<CellTable> cell_tables(const Scene& scene, std::size_t most,
                                   std::vector<int>& of_axes) {
  std::vector<CellTable> tables;
  of_axes.clear();
  for (const Axes& axes : scene.axes) {
    if (!counts(axes.x.meaning) && !counts(axes.y.meaning)) {
      of_axes.push_back(-1);
      continue;
    }
    CellTable table{.x = axes.x.meaning, .y = axes.y.meaning};
    std::tie(table.x_first, table.x_count) = cells_of(axes.x);
    std::tie(table.y_first, table.y_count) = cells_of(axes.y);
    const auto found = std::find(tables.begin(), tables.end(), table);
    of_axes.push_back(static_cast<int>(found - tables.begin()));
    if (found == tables.end()) tables.push_back(table);
  }
  // The longest side gives way first; the sides of a map of tokens by tokens together.
  const auto kept = [&] {
    std::size_t cells = 0;
    for (const CellTable& t : tables)
      cells += static_cast<std::size_t>(t.x_kept()) * static_cast<std::size_t>(t.y_kept());
    return cells;
  };
  while (kept() > most) {
    CellTable* longest = nullptr;
    for (CellTable& t : tables) {
      if (!longest ||
          std::max(t.x_kept(), t.y_kept()) > std::max(longest->x_kept(), longest->y_kept())) {
        longest = &t;
      }
    }
    if (std::max(longest->x_kept(), longest->y_kept()) <= 1) break;
    const bool by_x = longest->x_kept() >= longest->y_kept();
    const bool square = longest->x == AxisMeaning::token && longest->y == AxisMeaning::token;
    if (by_x || square) ++longest->x_every;
    if (!by_x || square) ++longest->y_every;
  }
  return tables;
}

Json places_json(const Scene& scene, const std::vector<CellTable>& tables,
                 const std::vector<int>& of_axes) {
  Json out = Json::object();
  Json& axes = out["axes"] = Json::array();
  for (std::size_t i = 0; i < scene.axes.size(); ++i) {
    const Axes& one = scene.axes[i];
    const Rect& plot = one.plot;
    axes.push_back(
        {{"p", {tenths(plot.x), tenths(plot.y), tenths(plot.width), tenths(plot.height)}},
         {"x", axis_json(one.x)},
         {"y", axis_json(one.y)},
         {"t", of_axes[i]}});
  }
  Json& list = out["tables"] = Json::array();
  for (const CellTable& t : tables) {
    list.push_back({t.x_first, t.x_count, t.x_every, t.y_first, t.y_count, t.y_every});
  }
  Json& regions = out["regions"] = Json::array();  // flat: rectangle, then the target's fields
  for (const PickRegion& region : scene.regions) {
    const Rect& r = region.rect;
    for (const long side : {tenths(r.x), tenths(r.y), tenths(r.width), tenths(r.height)})
      regions.push_back(side);
    for (const int field : fields_of(region.target)) regions.push_back(field);
  }
  Json& lines = out["lines"] = Json::array();  // the target's fields, the plot, points flat: x, y
  for (const PickLine& line : scene.lines) {
    Json points = Json::array();
    for (const Point& point : line.points) {
      points.push_back(tenths(point.x));
      points.push_back(tenths(point.y));
    }
    const Rect& plot = line.plot;
    lines.push_back(
        {{"f", fields_of(line.target)},
         {"p", {tenths(plot.x), tenths(plot.y), tenths(plot.width), tenths(plot.height)}},
         {"points", std::move(points)}});
  }
  Json& sets = out["sets"] = Json::array();  // points flat: x, y, token; heads flat: layer, head
  for (const PickPoints& set : scene.point_sets) {
    Json points = Json::array(), heads = Json::array();
    for (std::size_t i = 0; i < set.points.size(); ++i) {
      const Target target = set.target(i);
      points.push_back(tenths(set.points[i].x));
      points.push_back(tenths(set.points[i].y));
      points.push_back(target.token);
      heads.push_back(target.layer);
      heads.push_back(target.head);
    }
    Json one = {{"r", tenths(set.radius)}, {"points", std::move(points)}};
    if (!set.targets.empty()) one["heads"] = std::move(heads);
    sets.push_back(std::move(one));
  }
  return out;
}

std::string place_values(const Scene& scene, const std::vector<CellTable>& tables,
                         const Figure* figure, ValueTexts& texts) {
  if (figure == nullptr) return {};
  for (const PickPoints& set : scene.point_sets) {
    for (std::size_t i = 0; i < set.points.size(); ++i)
      texts.add(figure->value_text(set.target(i)));
  }
  for (const PickLine& line : scene.lines) texts.add(figure->value_text(line.target));
  for (const PickRegion& region : scene.regions) texts.add(figure->value_text(region.target));
  for (const CellTable& table : tables) {
    for (int y = 0; y < table.y_kept(); ++y) {
      for (int x = 0; x < table.x_kept(); ++x) texts.add(figure->value_text(table.target(x, y)));
    }
  }
  return texts.take();
}

}  // namespace kvloupe::figure::document
