#pragma once
// Whole pages: blocks of tokens that an engine keeps or frees together.

#include <memory>

#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// The score of a page: the mean or the largest of its entries' scores.
enum class PageRank { mean, largest };

/// Every entry has its page's score; the page of token t is floor(t / size). Each head has pages of
/// its own, unless the base gives all heads the same scores.
std::unique_ptr<Score> make_page_score(int size, PageRank rank, std::unique_ptr<Score> base);

/// Keeps whole pages: floor(places / size) of them, at least one. The last page comes first, which
/// the next token goes to; then pages with named entries or first tokens, from the front on; then
/// those with recent entries, from the end on; then the highest scores, of equals the later page.
class PageSelection : public Selection {
 public:
  explicit PageSelection(int size) : size_(size) {}
  /// An entry that stays because of another entry of its page has that entry's fate. Protected
  /// entries whose page finds no place leave.
  void select(const StepView& view, int head, int count, double rows_summed,
              HeadDecision& decision) override;

 private:
  int size_;
};

}  // namespace kvloupe
