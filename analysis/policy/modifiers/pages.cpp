// pages: blocks of tokens stay or go together, as engines with a paged cache hold them.

#include "analysis/base/core/error.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/kit/stages.h"
#include "analysis/policy/modifiers/modifiers.h"

namespace kvloupe::policies {

namespace {
/// The score of a page: the mean or the largest of its entries' scores.
enum class PageRank { mean, largest };

/// Rows of a cache that one page holds.
struct Page {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The pages of a cache, from the front on.
std::vector<Page> pages_of(std::span<const std::int32_t> tokens, int size) {
  std::vector<Page> pages;
  for (std::size_t row = 0; row < tokens.size(); ++row) {
    if (row == 0 || tokens[row] / size != tokens[row - 1] / size) pages.push_back({row, row});
    pages.back().end = row + 1;
  }
  return pages;
}

/// Every entry has its page's score; the page of token t is floor(t / size). Each head has pages of
/// its own, unless the base gives all heads the same scores.
class PageScore : public ScoreOver {
 public:
  PageScore(int size, PageRank rank, std::unique_ptr<Score> base)
      : ScoreOver(std::move(base)), size_(size), rank_(rank) {}

  std::vector<float> score(const StepView& view, int head) override {
    std::vector<float> scores = base_->score(view, head);
    for (const Page& page : pages_of(view.caches[static_cast<std::size_t>(head)].tokens, size_)) {
      const auto first = scores.begin() + static_cast<std::ptrdiff_t>(page.begin);
      const auto last = scores.begin() + static_cast<std::ptrdiff_t>(page.end);
      std::fill(first, last,
                rank_ == PageRank::mean ? mean(first, last) : *std::max_element(first, last));
    }
    return scores;
  }

  double rows_summed(const StepView& view) const override { return base_->rows_summed(view); }

 private:
  using At = std::vector<float>::const_iterator;

  float mean(At first, At last) const {
    const bool small = base_->keeps_small_scores();
    double sum = 0.0;
    for (At one = first; one != last; ++one) {
      sum += small ? std::exp(logarithm_of_score(*one)) : static_cast<double>(*one);
    }
    const double mean = sum / static_cast<double>(last - first);
    return small ? score_of_logarithm(std::log(mean)) : static_cast<float>(mean);
  }

  int size_;
  PageRank rank_;
};

/// Why a page stays before its score is asked, in the order in which pages are taken.
enum class Claim { last, front, recent, none };

Claim claim_of(Fate fate) {
  switch (fate) {
    case Fate::held:
    case Fate::sink:
      return Claim::front;
    case Fate::recent:
    case Fate::window:
      return Claim::recent;
    default:
      return Claim::none;
  }
}

/// A page that may stay.
struct Candidate {
  Page page;
  Claim claim = Claim::none;
  Fate fate = Fate::by_score;  // of its entries that nothing protects
  float score = 0.0F;
};

/// Whether a page is taken before another one.
bool before(const Candidate& a, const Candidate& b) {
  if (a.claim != b.claim) return a.claim < b.claim;
  if (a.claim == Claim::front) return a.page.begin < b.page.begin;
  if (a.claim == Claim::none && a.score != b.score) return a.score > b.score;
  return a.page.begin > b.page.begin;
}

/// Keeps whole pages: floor(places / size) of them, at least one. The last page comes first, which
/// the next token goes to; then pages with named entries or first tokens, from the front on; then
/// those with recent entries, from the end on; then the highest scores, of equals the later page.
class PageSelection : public Selection {
 public:
  explicit PageSelection(int size) : size_(size) {}

  /// An entry that stays because of another entry of its page has that entry's fate. Protected
  /// entries whose page finds no place leave.
  void select(const StepView& view, int head, int count, double /*rows_summed*/,
              HeadDecision& decision) override {
    std::vector<Fate>& fates = decision.fates;
    const auto held = static_cast<int>(fates.size()) -
                      static_cast<int>(std::count(fates.begin(), fates.end(), Fate::evicted));
    std::vector<Candidate> candidates;
    for (const Page& page : pages_of(view.caches[static_cast<std::size_t>(head)].tokens, size_)) {
      Candidate candidate{page, Claim::none, Fate::by_score, decision.scores[page.begin]};
      for (std::size_t row = page.begin; row < page.end; ++row) {
        if (claim_of(fates[row]) >= candidate.claim) continue;
        candidate.claim = claim_of(fates[row]);
        candidate.fate = fates[row];
      }
      candidates.push_back(candidate);
    }
    if (candidates.back().claim == Claim::none) candidates.back().fate = Fate::recent;
    candidates.back().claim = Claim::last;
    std::sort(candidates.begin(), candidates.end(), before);
    const std::size_t places =
        std::min(candidates.size(), static_cast<std::size_t>(std::max((count + held) / size_, 1)));
    for (std::size_t place = 0; place < candidates.size(); ++place) {
      const Candidate& one = candidates[place];
      for (std::size_t row = one.page.begin; row < one.page.end; ++row) {
        if (place >= places) {
          fates[row] = Fate::evicted;
        } else if (fates[row] == Fate::evicted) {
          fates[row] = one.fate;
        }
      }
    }
    const Candidate& lowest = candidates[places - 1];
    if (lowest.claim != Claim::none) return;  // no page stays for its score: the threshold is NaN
    decision.threshold = lowest.score;
    int ties = 0, entries = 0;
    for (const Candidate& one : candidates) {
      if (one.claim != Claim::none || one.score != lowest.score) continue;
      ++ties;
      entries += static_cast<int>(one.page.end - one.page.begin);
    }
    decision.ties = ties > 1 ? entries : 0;
  }

 private:
  int size_;
};

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

void pages(PolicyEntry& entry) {
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
      "N counts entries, but pages are chosen whole: an incomplete last page leaves up to size - 1 "
      "places empty, and so does the rest of a budget that is not a multiple of size. Protected "
      "entries whose pages do not fit leave. A layer holds at least one page. Entries that no "
      "later query sees leave their pages. PagedEviction ranks by the values' norms over the "
      "keys': valuerange and keynorm are the nearest scores here";
  entry.parameters = {count_parameter("size", 16.0, 1, 1e6, "tokens of a page"),
                      word_parameter("rank", "mean", {"mean", "max"},
                                     "what ranks a page: the mean or the largest of its scores")};
  entry.example = "h2o+pages(4)";
  entry.variants = {{"vLLM's pages of 16 tokens", "pages"},
                    {"pages of 64 tokens, by their best token", "pages(64,rank=max)"}};
  entry.builder = PagingBuilder{
      [](const SpecPart& part, std::unique_ptr<Score> base) {
        const PageRank rank = part.word("rank") == "max" ? PageRank::largest : PageRank::mean;
        return make_copyable<PageScore>(part.count("size"), rank, std::move(base));
      },
      [](const SpecPart& part) { return make_copyable<PageSelection>(part.count("size")); }};
  entry.refusal = pages_refusal;
  entry.limits = [](const SpecPart& part, const ModelInfo&, int budget, int) {
    if (part.count("size") <= budget) return;
    throw UsageError("pages: a page of " + std::to_string(part.count("size")) +
                     " tokens does not fit the budget of " + std::to_string(budget) +
                     " entries; raise the budget, or take smaller pages");
  };
  entry.notes = [](const SpecPart& part, const ModelInfo&, int budget) -> Lines {
    const int size = part.count("size");
    if (size > budget || budget % size == 0) return {};
    return ("pages of " + std::to_string(size) + " tokens fill " +
            std::to_string(budget - budget % size) + " of the budget's " + std::to_string(budget) +
            " entries");
  };
}

}  // namespace kvloupe::policies
