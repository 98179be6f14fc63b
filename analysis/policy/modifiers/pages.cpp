// pages: blocks of tokens stay or go together, as engines with a paged cache hold them.

#include "analysis/policy/kit/pages.h"

#include "analysis/error.h"
#include "analysis/policy/policies.h"

namespace kvloupe::policies {

namespace {
std::string pages_refusal(const SpecPart&, const PolicySpec& spec) {
  for (const SpecPart& part : spec.parts) {
    const PolicyEntry& entry = *find_policy(part.name);
    if (entry.as<AllocationBuilder>() != nullptr) {
      return part.name +
             " gives heads places of their own, which are not whole pages; remove one of them";
    }
    if (entry.as<SelectionBuilder>() != nullptr || entry.kind() == PartKind::merging) {
      return part.name +
             " decides entry by entry, and pages stay or go as a whole; remove one of them";
    }
    if (entry.kind() == PartKind::removal) {
      return part.name +
             " takes single entries out of pages, which pages keeps whole; remove one of them";
    }
    if (entry.parameter("extra") != nullptr && part.count("extra") != 0) {
      return part.name +
             " keeps single entries beside the budget, and pages counts whole pages "
             "inside it; use extra=0";
    }
  }
  return "";
}
}  // namespace

PolicyEntry pages() {
  PolicyEntry entry;
  entry.name = "pages";
  entry.traits.reads_queries = false;
  entry.summary = "whole pages stay or go, as in engines with a paged cache";
  entry.formula =
      "page of token t: floor(t / size). score of every entry = mean over its page's entries in "
      "the cache (rank=max: the largest). Once a head holds more than N entries, floor(N / size) "
      "pages stay, at least one: the last page, which the next tokens fill; pages with named "
      "entries or first tokens, from the front on; pages with recent entries or a score's window, "
      "from the end on; then those with the highest scores, of equals the later";
  entry.source =
      "pages: vLLM's PagedAttention (Kwon et al., 2023, arXiv 2309.06180), size 16 there; eviction "
      "of whole pages by the mean of their scores: PagedEviction (arXiv 2509.04377)";
  entry.needs = "the scores of a head";
  entry.work = "n additions";
  entry.differences =
      "N counts entries: an incomplete last page counts as a page when pages are chosen, so up to "
      "size - 1 places stay empty, and of a budget that is not a multiple of size the rest. "
      "Protected entries whose pages do not fit leave. A layer that others leave less than a page "
      "holds one page. Entries that no later query sees leave pages as they leave the cache. "
      "PagedEviction ranks by the values' norms over the keys': valuerange and keynorm are the "
      "nearest scores here";
  entry.parameters = {count_parameter("size", 16.0, 1, 1e6, "tokens of a page"),
                      word_parameter("rank", "mean", {"mean", "max"},
                                     "what ranks a page: the mean or the largest of its scores")};
  entry.example = "h2o+pages(4)";
  entry.variants = {{"vLLM's pages of 16 tokens", "pages"},
                    {"pages of 64 tokens, by their best token", "pages(64,rank=max)"}};
  entry.builder = PagingBuilder{
      [](const SpecPart& part, std::unique_ptr<Score> base) {
        const PageRank rank = part.word("rank") == "max" ? PageRank::largest : PageRank::mean;
        return make_page_score(part.count("size"), rank, std::move(base));
      },
      [](const SpecPart& part) { return std::make_unique<PageSelection>(part.count("size")); }};
  entry.refusal = pages_refusal;
  entry.limits = [](const SpecPart& part, const ModelInfo&, int budget, int) {
    if (part.count("size") <= budget) return;
    throw UsageError("pages: a page of " + std::to_string(part.count("size")) +
                     " tokens does not fit the budget of " + std::to_string(budget) +
                     " entries; raise the budget, or take smaller pages");
  };
  entry.notes = [](const SpecPart& part, const ModelInfo&, int budget) {
    std::vector<std::string> notes;
    const int size = part.count("size");
    if (size <= budget && budget % size != 0) {
      notes.push_back("pages of " + std::to_string(size) + " tokens fill " +
                      std::to_string(budget - budget % size) + " of the budget's " +
                      std::to_string(budget) + " entries");
    }
    return notes;
  };
  return entry;
}

}  // namespace kvloupe::policies
