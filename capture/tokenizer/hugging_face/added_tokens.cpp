#include "capture/tokenizer/hugging_face/added_tokens.h"

#include <algorithm>
#include <chrono>

#include "analysis/base/text/text.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {
constexpr std::size_t kLongestContent = 4096;
}

void AddedTokens::Trie::add(std::string_view content, std::int32_t token) {
  std::uint32_t node = 0;
  for (const char c : content) {
    const std::uint64_t key = std::uint64_t{node} * 256 + static_cast<unsigned char>(c);
    const auto [child, is_new] = children_.emplace(key, static_cast<std::uint32_t>(token_.size()));
    if (is_new) token_.push_back(-1);
    node = child->second;
  }
  if (token_[node] < 0) token_[node] = token;
}

std::pair<std::int32_t, std::size_t> AddedTokens::Trie::longest(std::string_view text) const {
  std::pair<std::int32_t, std::size_t> best{-1, 0};
  std::uint32_t node = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto child =
        children_.find(std::uint64_t{node} * 256 + static_cast<unsigned char>(text[i]));
    if (child == children_.end()) break;
    node = child->second;
    if (token_[node] >= 0) best = {token_[node], i + 1};
  }
  return best;
}

AddedTokens::AddedTokens(const JsonPart& root, const BpeModel& model,
                         const Normaliser& normaliser) {
  if (root.field("added_tokens").is_null()) return;
  const Limits limits(std::chrono::minutes(1), 32 * kLongestContent);
  std::vector<bool> used(kLargestTokenId + 1);
  for (std::size_t i = 0; i < model.pieces().size(); ++i) {
    used[static_cast<std::size_t>(model.pieces().piece(i).id)] = true;
  }
  std::unordered_map<std::string, std::int32_t> seen;
  for (const JsonPart& part : root.parts("added_tokens")) {
    Token token;
    token.id = static_cast<std::int32_t>(part.number("id", kLargestTokenId));
    token.content = part.text("content");
    token.special = part.flag("special", false);
    token.single_word = part.flag("single_word", false);
    token.lstrip = part.flag("lstrip", false);
    token.rstrip = part.flag("rstrip", false);
    token.normalized = part.flag("normalized", !token.special);
    const std::string name = in_quotes(token.content) + " with the id " + std::to_string(token.id);
    if (token.content.empty()) continue;
    if (token.content.size() > kLongestContent) part.fail(name + " is longer than 4096 bytes");
    const auto [before, is_new] = seen.emplace(token.content, token.id);
    if (!is_new && before->second != token.id) {
      part.fail(name + " already has the id " + std::to_string(before->second));
    }
    if (!is_new) continue;
    const std::int32_t known = model.find(token.content);
    if (known >= 0 && known != token.id) {
      part.fail(name + " has the id " + std::to_string(known) + " in the vocabulary");
    }
    const auto place = static_cast<std::size_t>(token.id);
    if (known < 0 && used[place]) part.fail(name + ": another token has this id");
    used[place] = true;
    const auto index = static_cast<std::int32_t>(tokens_.size());
    if (token.normalized) {
      const AlignedText content(token.content);
      normalised_.add(normaliser ? normaliser(content, limits).text() : token.content, index);
    } else {
      plain_.add(token.content, index);
    }
    tokens_.push_back(std::move(token));
  }
}

void AddedTokens::cut(const AlignedText& text, const Trie& trie, PieceList& into) const {
  const std::string_view all = text.text();
  std::size_t done = 0;
  for (std::size_t at = 0; at < all.size();) {
    const auto [index, size] = trie.longest(all.substr(at));
    if (size == 0) {
      ++at;
      continue;
    }
    const Token& token = tokens_[static_cast<std::size_t>(index)];
    std::size_t begin = at;
    std::size_t end = at + size;
    at = end;
    const bool inside_word =
        (begin > 0 && is_word_character(last_character(all.substr(0, begin)))) ||
        (end < all.size() && is_word_character(first_character(all.substr(end))));
    if (token.single_word && inside_word) continue;
    while (token.lstrip && begin > done) {
      const char32_t c = last_character(all.substr(0, begin));
      if (!is_white_space(c)) break;
      begin -= c < 0x80 ? 1 : c < 0x800 ? 2 : 3;
    }
    // A token of white space may lie in the space that the token before took.
    if (token.lstrip && done >= end) continue;
    if (token.lstrip) begin = std::max(begin, done);
    while (token.rstrip && end < all.size() && is_white_space(first_character(all.substr(end)))) {
      end += character_length(all.substr(end));
    }
    into.append(text, done, std::max(done, begin));
    // After a token that took the space behind it, a token of white space may begin in that space.
    into.append(text, begin, end, token.id);
    done = end;
  }
  into.append(text, std::min(done, all.size()), all.size());
}

PieceList AddedTokens::extract(const AlignedText& text, const Normaliser& normaliser,
                               const Limits& limits) const {
  PieceList plain;
  cut(text, plain_, plain);
  return plain.changed([&](const AlignedText& piece, PieceList& into) {
    cut(normaliser ? normaliser(piece, limits) : piece, normalised_, into);
    limits.check(into.text.size());
  });
}

}  // namespace kvloupe
