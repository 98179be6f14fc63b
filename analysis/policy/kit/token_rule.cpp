#include "analysis/policy/kit/token_rule.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "analysis/base/core/error.h"

namespace kvloupe {

namespace {
constexpr int kNoEnd = std::numeric_limits<int>::max();
constexpr int kLargest = 100'000'000;  // of a token or head; far beyond any trace

/// Reads numbers of a list whose items stand between semicolons (or commas).
class ListReader {
 public:
  explicit ListReader(std::string_view text) : text_(text) { skip_space(); }

  bool at_end() const { return at_ >= text_.size(); }
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    skip_space();
    return true;
  }
  bool take_separator() { return take(';') || take(','); }
  std::optional<int> number() {
    int value = 0;
    const char* first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc() || end == first || value < 0 || value > kLargest) return std::nullopt;
    at_ += static_cast<std::size_t>(end - first);
    skip_space();
    return value;
  }
  TextProblem problem(const std::string& why) const {
    const std::size_t end = std::min(text_.find_first_of(";, ", at_ + 1), text_.size());
    return {at_, std::string(text_.substr(std::min(at_, text_.size()), end - std::min(at_, end))),
            why};
  }

 private:
  void skip_space() {
    while (!at_end() && text_[at_] == ' ') ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};
}  // namespace

std::optional<TextProblem> read_tokens(std::string_view text, std::vector<TokenRange>& ranges) {
  ListReader reader(text);
  do {
    const std::optional<int> first = reader.number();
    if (!first) return reader.problem("expected tokens such as 120-131;140");
    TokenRange range{*first, *first + 1};
    if (reader.take('-')) {
      const std::optional<int> last = reader.number();
      if (last && *last < *first) {
        return reader.problem("the range runs backwards; write the smaller token first");
      }
      range.end = last ? *last + 1 : kNoEnd;
    }
    ranges.push_back(range);
  } while (reader.take_separator());
  if (!reader.at_end()) return reader.problem("expected ; and another token or range");
  return std::nullopt;
}

std::optional<TextProblem> read_heads(std::string_view text, std::vector<HeadName>& heads) {
  ListReader reader(text);
  if (reader.at_end()) return std::nullopt;
  do {
    const std::optional<int> layer = reader.number();
    if (!layer) return reader.problem("expected heads such as 2.1;3 (layer.head, or a layer)");
    HeadName name{*layer, -1};
    if (reader.take('.')) {
      const std::optional<int> head = reader.number();
      if (!head) return reader.problem("expected a head after the layer, such as 2.1");
      name.head = *head;
    }
    heads.push_back(name);
  } while (reader.take_separator());
  if (!reader.at_end()) return reader.problem("expected ; and another head");
  return std::nullopt;
}

void check_heads(std::string_view text, const ModelInfo& model) {
  std::vector<HeadName> names;
  read_heads(text, names);
  for (const HeadName& name : names) {
    if (name.layer >= model.num_layers) {
      throw UsageError("policy: layer " + std::to_string(name.layer) +
                       ": the model has layers 0 to " + std::to_string(model.num_layers - 1));
    }
    if (model.heads_in(name.layer) == 0) {
      throw UsageError("policy: layer " + std::to_string(name.layer) +
                       " has no cache of its own; name a layer that has one");
    }
    if (name.head >= model.heads_in(name.layer)) {
      throw UsageError("policy: head " + std::to_string(name.layer) + "." +
                       std::to_string(name.head) + ": a layer has heads 0 to " +
                       std::to_string(model.heads_in(name.layer) - 1));
    }
  }
}

TokenRule::TokenRule(std::string_view tokens_text, std::string_view heads_text,
                     const LayerContext& context) {
  check_heads(heads_text, context.model);
  read_tokens(tokens_text, tokens);
  std::vector<HeadName> names;
  read_heads(heads_text, names);
  heads.assign(static_cast<std::size_t>(context.model.num_kv_heads), names.empty());
  for (const HeadName& name : names) {
    if (name.layer != context.layer) continue;
    if (name.head < 0) {
      heads.assign(heads.size(), true);
    } else {
      heads[static_cast<std::size_t>(name.head)] = true;
    }
  }
}

bool TokenRule::names(int head, std::int32_t token) const {
  return heads[static_cast<std::size_t>(head)] &&
         std::any_of(tokens.begin(), tokens.end(),
                     [&](const TokenRange& range) { return range.contains(token); });
}

long count_tokens(const std::vector<TokenRange>& ranges, int length, std::string_view who) {
  std::vector<TokenRange> sorted = ranges;
  std::sort(sorted.begin(), sorted.end(),
            [](const TokenRange& a, const TokenRange& b) { return a.first < b.first; });
  long count = 0;
  int next = 0;  // everything before is counted
  for (const TokenRange& range : sorted) {
    const int last = range.end == kNoEnd ? range.first : range.end - 1;
    if (length > 0 && last >= length) {
      throw UsageError(std::string(who) + ": token " + std::to_string(last) +
                       ": there are tokens 0 to " + std::to_string(length - 1));
    }
    const int end = range.end == kNoEnd ? (length > 0 ? length : range.first) : range.end;
    count += std::max(end - std::max(range.first, next), 0);
    next = std::max(next, end);
  }
  return count;
}

}  // namespace kvloupe
