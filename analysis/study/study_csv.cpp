#include "analysis/study/study_csv.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/output_file.h"

namespace kvloupe {

namespace {
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + '"';
}

std::string number_or_empty(int number) { return number >= 0 ? std::to_string(number) : ""; }
}  // namespace

void write_study_csv(StudyResults& results, const std::string& target) {
  const std::vector<StudyResults::Item> items = results.items();
  const std::vector<std::string> measures = results.measures();
  OutputFile out(target);
  out.write("trace,policy,budget,entries,block,tokens,compression,measure,layer,head,step,value\n");
  int written = -1;
  std::string begin;
  results.each_value([&](int number, const StudyValue& one) {
    if (number != written) {
      const StudyResults::Item& item = items.at(static_cast<std::size_t>(number));
      begin = fmt::format("{},{},{},{},{},{},{}", quoted(item.trace), quoted(item.policy),
                          quoted(item.budget), item.entries, item.block_word, item.block,
                          item.compression);
      written = number;
    }
    out.write(fmt::format(
        "{},{},{},{},{},{}\n", begin, measures.at(static_cast<std::size_t>(one.measure)),
        number_or_empty(one.layer), number_or_empty(one.head), number_or_empty(one.step),
        std::isfinite(one.value) ? fmt::format("{}", one.value) : ""));
  });
  out.finish();
}

}  // namespace kvloupe
