// The results of advise_heads() as text: for a reader, for programs, and as tables.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "analysis/base/core/error.h"
#include "analysis/base/text/table.h"
#include "analysis/base/text/text.h"
#include "analysis/study/head_advice.h"

namespace kvloupe {

namespace {
using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

std::string percent_cell(double share) { return fmt::format("{:.0f} %", 100.0 * share); }

std::string dumped(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}
}  // namespace

std::string head_advice_markdown(const HeadAdvice& advice) {
  const HeadSharing& uniform = advice.sharings.front();
  Table table{.columns = {"entries", ">foretold loss", ">beside uniform", ">measured loss",
                          ">entries per head", ">entries that move", ">heads that change"}};
  for (const HeadSharing& one : advice.sharings) {
    table.add({in_one_line(one.name, 200),
               fmt::format("{}{:.4g}", one.at_least ? "≥ " : "", one.foretold),
               fmt::format("{:+.1f} %", 100.0 * (one.foretold / uniform.foretold - 1.0)),
               std::isfinite(one.measured) ? fmt::format("{:.4g}", one.measured) : "–",
               fmt::format("{:.1f}", one.mean_entries), percent_cell(one.moved),
               percent_cell(one.changed)});
  }
  std::string text = fmt::format(
      "Entries by head for {} at a budget of {} ({:.0f} entries per head, the mean over the "
      "prompts), block {}, learnt from {}{} prompts at {:.0f} entries. Loss: {}, the sum over {} "
      "heads{}.{}\n\n{}",
      in_one_line(advice.policy, 200), in_one_line(advice.budget), advice.entries,
      in_one_line(advice.block), advice.prompts,
      advice.prompts < advice.studied ? fmt::format(" of {}", advice.studied) : "",
      fmt::join(advice.measured, ", "), advice.loss, advice.heads.size(),
      advice.tried == advice.policy
          ? std::string()
          : ", under " + in_one_line(advice.tried, 200) + ", with which the table is tried",
      advice.prompts < advice.studied
          ? " The other prompts lack a value at some budget: their replays failed or are missing."
          : "",
      markdown_table(table));
  text += fmt::format(
      "\nForetold: from the heads' mean losses under uniform budgets; ≥: some heads hold fewer "
      "entries than the study's smallest budget, at which their loss is counted. Measured: in the "
      "study's replays. Change: by more than a tenth of the budget.\n"
      "Stability: a table from resampled prompts gives {} of the entries to the same heads. Learnt "
      "from resampled prompts, the table saves {:.1f} % of the loss of uniform budgets on the "
      "prompts left out (95 %: {:.1f} to {:.1f}; {} resamples).\n",
      percent_cell(advice.same_entries), 100.0 * advice.saved, 100.0 * advice.saved_low,
      100.0 * advice.saved_high, kHeadResamples);
  if (!advice.missing.empty()) {
    text += fmt::format("Not in the study with the measure retained at {}: {}.\n", advice.budget,
                        in_one_line(fmt::format("{}", fmt::join(advice.missing, ", ")), 400));
  }
  return text;
}

std::string head_advice_json(const HeadAdvice& advice) {
  Json out{{"policy", advice.policy},
           {"tried", advice.tried},
           {"measure", advice.measure},
           {"loss", advice.loss},
           {"block", advice.block},
           {"budget", advice.budget},
           {"entries", advice.entries},
           {"least", advice.least},
           {"prompts", advice.prompts},
           {"prompts_studied", advice.studied},
           {"studied_entries", advice.measured},
           {"same_entries", advice.same_entries},
           {"saved", number(advice.saved)},
           {"saved_95", {number(advice.saved_low), number(advice.saved_high)}}};
  out["sharings"] = Json::array();
  for (const HeadSharing& one : advice.sharings) {
    out["sharings"].push_back({{"name", one.name},
                               {"foretold", number(one.foretold)},
                               {"at_least", one.at_least},
                               {"measured", number(one.measured)},
                               {"mean_entries", one.mean_entries},
                               {"moved", one.moved},
                               {"changed", one.changed}});
  }
  out["missing"] = advice.missing;
  out["heads"] = Json::array();
  for (std::size_t h = 0; h < advice.heads.size(); ++h) {
    out["heads"].push_back({{"layer", advice.heads[h].layer},
                            {"head", advice.heads[h].head},
                            {"entries", advice.table[h]},
                            {"entries_95", {advice.low[h], advice.high[h]}}});
  }
  return dumped(out, 1);
}

namespace {
std::string head_table_csv(const HeadAdvice& advice) {
  std::string text = "layer,head,value\n";
  for (std::size_t h = 0; h < advice.heads.size(); ++h) {
    text += fmt::format("{},{},{:.9g}\n", advice.heads[h].layer, advice.heads[h].head,
                        advice.table[h] / advice.entries);
  }
  return text;
}

/// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html, version 1.0.
std::string head_table_npy(const HeadAdvice& advice) {
  int layers = 0, heads = 0;
  for (const HeadMeasureTable::Head& one : advice.heads) {
    layers = std::max(layers, one.layer + 1);
    heads = std::max(heads, one.head + 1);
  }
  std::vector<double> values(static_cast<std::size_t>(layers) * static_cast<std::size_t>(heads));
  for (std::size_t h = 0; h < advice.heads.size(); ++h) {
    values[static_cast<std::size_t>(advice.heads[h].layer * heads + advice.heads[h].head)] =
        advice.table[h] / advice.entries;
  }
  std::string header =
      fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, {}), }}", layers, heads);
  constexpr std::size_t kBefore = 10, kAligned = 64;  // the data begin at a multiple of 64 bytes
  while ((kBefore + header.size() + 1) % kAligned != 0) header += ' ';
  header += '\n';
  std::string text("\x93NUMPY\x01\x00", 8);
  text += static_cast<char>(header.size() & 0xFFU);
  text += static_cast<char>(header.size() >> 8U);
  text += header;
  const std::size_t begin = text.size();
  text.resize(begin + values.size() * sizeof(double));
  std::memcpy(text.data() + begin, values.data(), values.size() * sizeof(double));
  return text;
}

std::string head_table_json(const HeadAdvice& advice) {
  Json out = Json::object();
  for (std::size_t h = 0; h < advice.heads.size(); ++h) {
    out[fmt::format("{}-{}", advice.heads[h].layer, advice.heads[h].head)] = Json::array(
        {advice.table[h] / (advice.entries * static_cast<double>(advice.heads.size()))});
  }
  return dumped(out, -1);
}

}  // namespace

std::string head_table_text(const HeadAdvice& advice, const std::string& file) {
  if (file.ends_with(".csv")) return head_table_csv(advice);
  if (file.ends_with(".npy")) return head_table_npy(advice);
  if (file.ends_with(".json")) return head_table_json(advice);
  throw UsageError("entries by head: " + file +
                   " has another ending than .csv, .npy (both for headbudgets) and .json (parts by "
                   "layer and head)");
}

std::string head_table_spec(const HeadAdvice& advice, const std::string& file) {
  return advice.policy + "+headbudgets(" + doubled_quotes(file) + ")";
}

}  // namespace kvloupe
