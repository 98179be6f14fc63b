// page selection: the attention that a query would still see if it read pages of the whole cache
// (Quest) instead of the policy's entries.

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "analysis/replay/measure/measures.h"

namespace kvloupe::measures {

namespace {
constexpr Eigen::Index kPage = 16;  // tokens, as in Quest

/// Σ over coordinates of max(q·least, q·most) of a page's keys: no key of the page has a larger
/// product with the query.
double page_bound(const MatrixView& keys, Eigen::Index first, Eigen::Index count,
                  std::span<const float> query) {
  const auto page = keys.middleRows(first, count);
  const Eigen::RowVectorXf least = page.colwise().minCoeff(), most = page.colwise().maxCoeff();
  double bound = 0.0;
  for (Eigen::Index c = 0; c < keys.cols(); ++c) {
    const auto q = static_cast<double>(query[static_cast<std::size_t>(c)]);
    bound += std::max(q * static_cast<double>(least[c]), q * static_cast<double>(most[c]));
  }
  return bound;
}

/// The attention of the pages with the largest bounds, `entries` tokens in whole pages, at least
/// one page; of equals the later one.
double mass_of_pages(MeasuredStep& step, int query_head, std::size_t entries) {
  const MatrixView keys = step.prefix_keys();
  const std::span<const double> attention = step.attention(query_head);
  // Pages follow the tokens' positions, even if a window hides some.
  const Eigen::Index begin = step.first_token(), end = step.prefix();
  struct Page {
    double bound, mass;
  };
  std::vector<Page> pages;
  for (Eigen::Index first = begin; first < end;) {
    const Eigen::Index next = std::min((first / kPage + 1) * kPage, end);
    const auto from = attention.begin() + (first - begin);
    pages.push_back({page_bound(keys, first, next - first, step.last_query(query_head)),
                     std::accumulate(from, from + (next - first), 0.0)});
    first = next;
  }
  const std::size_t wanted =
      std::min(pages.size(), std::max<std::size_t>(entries / static_cast<std::size_t>(kPage), 1));
  std::reverse(pages.begin(), pages.end());
  std::stable_sort(pages.begin(), pages.end(),
                   [](const Page& a, const Page& b) { return a.bound > b.bound; });
  double mass = 0.0;
  for (std::size_t i = 0; i < wanted; ++i) mass += pages[i].mass;
  return mass;
}

/// The attention of the entries that get most of it.
double largest_mass(std::span<const double> attention, std::size_t entries) {
  std::vector<double> sorted(attention.begin(), attention.end());
  const std::size_t count = std::min(entries, sorted.size());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count),
                   sorted.end(), std::greater<>());
  return std::accumulate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(count), 0.0);
}
}  // namespace

MeasureFamily page_selection() {
  MeasureFamily family;
  family.group = MeasureGroup::kept;
  family.name = "Reading pages instead of evicting";
  family.remark =
      "Compare with retained_mass: the attention that the same query would keep with the same "
      "number of entries if nothing were evicted and it read the pages that Quest chooses, or the "
      "entries with the most attention. "
      "Pages hold 16 tokens. Quest reads at least three pages, and everything in the first two "
      "layers; here every layer reads as many whole pages as fit, at least one.";
  family.scope = MeasureScope::query_head;
  family.on_request = true;
  family.at_every_step = true;
  family.measures = {
      {.name = "quest_mass",
       .title = "Attention in the pages Quest reads",
       .formula = "sum of A over the max(1, floor(n/16)) pages with the largest sum over "
                  "coordinates of max(q least, q most), least and most of the page's keys; n: "
                  "entries kept",
       .source = "Quest (Tang et al., 2024, arXiv 2406.10774)",
       .better = Better::larger,
       .share = true,
       .help = "Attention in the pages that Quest would read, if it read as many entries as the "
               "policy keeps.",
       .reads = StateParts::keys_only()},
      {.name = "best_mass",
       .title = "Attention of the best entries",
       .formula = "sum of the n largest A; n: entries kept",
       .source = "no set of n entries can have more",
       .better = Better::larger,
       .share = true,
       .help = "The most attention that any set of as many entries as the policy keeps could hold.",
       .reads = StateParts::keys_only()}};
  family.of_query_head = [](MeasuredStep& step, int query_head, std::span<double> values) {
    const std::size_t entries = step.kept_rows().size();
    values[0] = mass_of_pages(step, query_head, entries);
    values[1] = largest_mass(step.attention(query_head), entries);
  };
  return family;
}

}  // namespace kvloupe::measures
