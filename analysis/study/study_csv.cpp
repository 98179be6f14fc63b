#include "analysis/study/study_csv.h"

#include <fmt/format.h>

#include <cmath>

#include "analysis/error.h"
#include "analysis/output_file.h"
#include "analysis/policy/comparison_terms.h"
#include "analysis/text.h"

namespace kvloupe {

namespace {
/// The item's ComparisonTerms in words; empty columns for a policy that this program does not have.
std::string terms_of(const StudyResults::Item& item) {
  try {
    const Compression compression = item.compression == compression_name(Compression::context_only)
                                        ? Compression::context_only
                                        : Compression::regular;
    const ComparisonTerms terms =
        comparison_terms(parse_policy(item.policy), compression, item.at_once);
    return fmt::format("{},{},{}", term(terms.question), term(terms.prompt), term(terms.budget));
  } catch (const UsageError&) {
    return ",,";
  }
}

std::string number_or_empty(int number) { return number >= 0 ? std::to_string(number) : ""; }
}  // namespace

void write_study_csv(StudyResults& results, const std::string& target) {
  const std::vector<StudyResults::Item> items = results.items();
  const std::vector<std::string> measures = results.measures();
  OutputFile out(target);
  out.write(
      "trace,policy,budget,entries,block,tokens,compression,measure,layer,head,step,value,"
      "question,prompt_compressed,budget_counts\n");
  int written = -1;
  std::string begin, end;
  results.each_value([&](int number, const StudyValue& one) {
    if (number != written) {
      const StudyResults::Item& item = items.at(static_cast<std::size_t>(number));
      begin = fmt::format("{},{},{},{},{},{},{}", doubled_quotes(item.trace),
                          doubled_quotes(item.policy), doubled_quotes(item.budget), item.entries,
                          item.block_word, item.block, item.compression);
      end = terms_of(item);
      written = number;
    }
    out.write(fmt::format(
        "{},{},{},{},{},{},{}\n", begin, measures.at(static_cast<std::size_t>(one.measure)),
        number_or_empty(one.layer), number_or_empty(one.head), number_or_empty(one.step),
        std::isfinite(one.value) ? fmt::format("{}", one.value) : "", end));
  });
  out.finish();
}

}  // namespace kvloupe
