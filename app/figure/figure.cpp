#include "app/figure/figure.h"

#include <algorithm>
#include <sstream>

namespace kvloupe::figure {

void Figure::add_row(std::initializer_list<CsvWriter::Cell> cells) {
  std::ostringstream out;
  CsvWriter(out).row(cells);
  rows_ += out.str();
}

Figure::Fields Figure::fields_of(const Target& t) {
  return {t.token, t.other_token, t.step, t.layer, t.head, t.query_head, t.run};
}

void Figure::say(const Target& of, const std::string& text, const char* between) {
  Fields given = fields_of(of);
  std::string& said = texts_[given];
  said += (said.empty() ? "" : between) + text;
  for (int& field : given) field = std::min(field, 0);
  given_.insert(given);
}

std::string Figure::value_text(const Target& target) const {
  for (auto given = given_.rbegin(); given != given_.rend(); ++given) {
    Fields place = fields_of(target);
    for (std::size_t i = 0; i < place.size(); ++i) {
      if ((*given)[i] < 0) place[i] = -1;
    }
    if (const auto found = texts_.find(place); found != texts_.end()) return found->second;
  }
  return {};
}

FigureInfo figure_info(std::string name, std::string title, std::string tooltip, Topic topic,
                       Compute compute, double width_mm, double aspect) {
  return {std::move(name), std::move(title), std::move(tooltip), topic, compute, width_mm, aspect};
}

}  // namespace kvloupe::figure
