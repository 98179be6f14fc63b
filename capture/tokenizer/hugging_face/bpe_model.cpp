#include "capture/tokenizer/hugging_face/bpe_model.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

constexpr char32_t kFewCharacters = 0x10000;
constexpr std::size_t kLongestKept = 48;    // bytes of a stretch that may come again
constexpr std::size_t kMostKept = 1 << 16;  // stretches
constexpr std::size_t kFew = 32;            // symbols that are compared faster than put in a heap

}  // namespace

/// A token in the making, in a list linked both ways; an empty one was joined to its left.
struct BpeModel::Symbol {
  std::int32_t id = 0;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t previous = kNone;
  std::size_t next = kNone;
};

BpeModel::BpeModel(const JsonPart& model) {
  if (model.is_null()) model.fail("is missing; is the download complete?");
  // Files from before 2020 have no type.
  const std::string type = model.text_if("type").value_or("BPE");
  if (type != "BPE")
    model.refuse(in_quotes(type), "supported: BPE; a tokenizer.model in the same folder may work");
  for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!model.text_if(field).value_or("").empty()) {
      model.refuse(field, "pieces must be the same inside and at the end of a word");
    }
  }
  const nlohmann::json& dropout = model.field("dropout");
  if (!dropout.is_null() && !dropout.is_number()) model.fail("dropout must be a number");
  if (dropout.is_number() && dropout.get<double>() != 0.0) {
    model.refuse("dropout", "tokens must not depend on chance");
  }
  byte_fallback_ = model.flag("byte_fallback", false);
  fuse_unknown_ = model.flag("fuse_unk", false);
  ignore_merges_ = model.flag("ignore_merges", false);
  read_vocabulary(model);
  read_merges(model);
}

void BpeModel::read_vocabulary(const JsonPart& model) {
  const nlohmann::json& vocabulary = model.field("vocab");
  if (!vocabulary.is_object() || vocabulary.empty()) {
    model.fail("vocab must be an object of pieces and their ids");
  }
  std::size_t bytes = 0;
  for (const auto& [piece, id] : vocabulary.items()) bytes += piece.size();
  pieces_ = PieceTable(vocabulary.size(), bytes);
  std::vector<bool> seen;
  byte_ids_.fill(-1);
  character_ids_.assign(kFewCharacters, -1);
  for (const auto& [piece, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargestTokenId) {
      model.fail("the id of the piece " + in_quotes(piece) + " must be a whole number from 0 to " +
                 std::to_string(kLargestTokenId));
    }
    const auto number = id.get<std::int32_t>();
    const auto place = static_cast<std::size_t>(number);
    if (place >= seen.size()) seen.resize(place + 1);
    if (seen[place]) model.fail("two pieces have the id " + std::to_string(number));
    seen[place] = true;
    pieces_.add(piece, number);
    if (const int byte = byte_of_piece(piece); byte >= 0) {
      byte_ids_[static_cast<std::size_t>(byte)] = number;
    }
    if (!piece.empty() && character_length(piece) == piece.size()) {
      const char32_t c = first_character(piece);
      if (c < kFewCharacters) character_ids_[c] = number;
    }
  }
  const auto missing = std::count(byte_ids_.begin(), byte_ids_.end(), -1);
  if (byte_fallback_ && missing == 256) byte_fallback_ = false;
  if (byte_fallback_ && missing > 0) {
    model.fail("byte_fallback needs the 256 pieces <0x00> to <0xFF>; " + std::to_string(missing) +
               " are missing");
  }
  if (const auto unknown = model.text_if("unk_token")) {
    has_unknown_ = true;
    unknown_text_ = *unknown;
    unknown_ = find(*unknown);
  }
}

void BpeModel::read_merges(const JsonPart& model) {
  const nlohmann::json& merges = model.field("merges");
  if (!merges.is_array()) model.fail("merges must be a list");
  merges_ = MergeTable(merges.size());
  std::uint32_t rank = 0;
  std::string joined;
  for (const nlohmann::json& merge : merges) {
    const auto which = [&] { return "merge " + std::to_string(rank); };
    std::string_view left, right;
    if (merge.is_array()) {
      if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
        model.fail(which() + " must be two pieces");
      }
      left = merge[0].get_ref<const std::string&>();
      right = merge[1].get_ref<const std::string&>();
    } else {
      if (!merge.is_string()) model.fail(which() + " must be two pieces");
      const std::string_view text = merge.get_ref<const std::string&>();
      if (text.starts_with("#version")) continue;
      const std::size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos) {
        model.fail(which() + ", " + in_quotes(text) + ", must be two pieces with a space between");
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    }
    const auto id_of = [&](std::string_view piece) {
      const std::int32_t id = find(piece);
      if (id < 0) {
        model.fail(which() + " needs the piece " + in_quotes(piece) +
                   ", which is not in the vocabulary");
      }
      return id;
    };
    joined.assign(left);
    joined += right;
    // If a pair occurs twice, its last place counts, as in the tokenizers library.
    merges_.set(id_of(left), id_of(right), {rank, id_of(joined)});
    read_meetings(left, right);
    ++rank;
  }
}

/// Notes which symbols stand side by side where the two pieces of a merge meet. A piece ends with
/// its last character, or with a symbol written with several: a byte <0xNN>, the unknown token.
void BpeModel::read_meetings(std::string_view left, std::string_view right) {
  std::array<std::int32_t, 3> ends{-1, -1, -1}, begins{-1, -1, -1};
  if (left.empty() || right.empty()) return;
  std::size_t last = left.size() - 1;
  while (last > 0 && continues_character(left[last])) --last;
  ends[0] = character_id(left.substr(last));
  begins[0] = character_id(right.substr(0, std::max<std::size_t>(character_length(right), 1)));
  constexpr std::size_t kByte = 6;
  if (left.size() >= kByte && byte_of_piece(left.substr(left.size() - kByte)) >= 0) {
    ends[1] = find(left.substr(left.size() - kByte));
  }
  if (byte_of_piece(right.substr(0, kByte)) >= 0) begins[1] = find(right.substr(0, kByte));
  if (left.ends_with(unknown_text_)) ends[2] = unknown_;
  if (right.starts_with(unknown_text_)) begins[2] = unknown_;
  for (const std::int32_t end : ends) {
    for (const std::int32_t begin : begins) {
      if (end >= 0 && begin >= 0) meetings_.set(end, begin, {});
    }
  }
}

std::int32_t BpeModel::character_id(std::string_view character) const {
  const char32_t c =
      character_length(character) == character.size() ? first_character(character) : kFewCharacters;
  return c < kFewCharacters ? character_ids_[c] : find(character);
}

std::vector<BpeModel::Symbol> BpeModel::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  const auto add = [&](std::int32_t id, std::size_t begin, std::size_t end) {
    symbols.push_back({id, begin, end, kNone, kNone});
  };
  bool after_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t end = at + character_length(word.substr(at));
    const std::int32_t id = character_id(word.substr(at, end - at));
    bool is_unknown = false;
    if (id >= 0) {
      add(id, at, end);
    } else if (byte_fallback_) {
      for (std::size_t i = at; i < end; ++i) {
        add(byte_ids_[static_cast<unsigned char>(word[i])], i, i + 1);
      }
    } else if (has_unknown_) {
      if (unknown_ < 0) {
        throw WorkError("the tokenizer has no piece for " + in_quotes(word.substr(at, end - at)) +
                        ", and its unknown token is not in the vocabulary");
      }
      is_unknown = true;
      if (after_unknown && fuse_unknown_) {
        symbols.back().end = end;
      } else {
        add(unknown_, at, end);
      }
    }
    // A dropped character does not interrupt a run of unknown ones.
    after_unknown = is_unknown;
    at = end;
  }
  return symbols;
}

/// Merges by comparing all neighbours for each merge.
void BpeModel::merge_few(std::vector<Symbol>& symbols) const {
  constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
  std::array<PairMerge, kFew> merge;  // of each symbol and the one behind it
  const auto look = [&](std::size_t i) {
    const PairMerge* found =
        i + 1 < symbols.size() ? merges_.find(symbols[i].id, symbols[i + 1].id) : nullptr;
    merge[i] = found != nullptr ? *found : PairMerge{kNever, 0};
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) look(i);
  while (symbols.size() > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < symbols.size(); ++i) {
      if (merge[i].rank < merge[best].rank) best = i;
    }
    if (merge[best].rank == kNever) break;
    symbols[best].id = merge[best].id;
    symbols[best].end = symbols[best + 1].end;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(merge.begin() + best + 2, merge.begin() + symbols.size() + 1,
              merge.begin() + best + 1);
    look(best);
    if (best > 0) look(best - 1);
  }
}

/// Merges in O(n log n), with a heap of the possible merges.
void BpeModel::merge_many(std::vector<Symbol>& symbols) const {
  struct Candidate {
    std::uint32_t rank;
    std::size_t left;
    std::int32_t id;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, left) > std::tie(other.rank, other.left);
    }
  };
  for (std::size_t i = 1; i < symbols.size(); ++i) {
    symbols[i].previous = i - 1;
    symbols[i - 1].next = i;
  }
  std::vector<Candidate> start;
  const auto candidate = [&](std::size_t left) -> const PairMerge* {
    if (left == kNone || symbols[left].next == kNone) return nullptr;
    return merges_.find(symbols[left].id, symbols[symbols[left].next].id);
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const PairMerge* merge = candidate(i)) start.push_back({merge->rank, i, merge->id});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(),
                                                                               std::move(start));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.left];
    if (left.begin == left.end) continue;
    const PairMerge* merge = candidate(top.left);
    if (merge == nullptr || merge->id != top.id) continue;  // a neighbour was joined meanwhile
    Symbol& right = symbols[left.next];
    left.id = top.id;
    left.end = right.end;
    right.begin = right.end;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = top.left;
    for (const std::size_t place : {left.previous, top.left}) {
      if (const PairMerge* next = candidate(place)) queue.push({next->rank, place, next->id});
    }
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.begin == symbol.end; });
}

/// A word, or a stretch of one that no merge reaches beyond.
void BpeModel::encode_stretch(std::string_view text, Cache& cache, std::vector<Token>& into) const {
  const bool may_come_again = text.size() <= kLongestKept;
  if (may_come_again) {
    if (const std::vector<Token>* known = cache.find(text)) {
      into.insert(into.end(), known->begin(), known->end());
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(text);
  if (symbols.size() <= kFew) {
    merge_few(symbols);
  } else {
    merge_many(symbols);
  }
  std::vector<Token> tokens;
  tokens.reserve(symbols.size());
  for (const Symbol& symbol : symbols) tokens.push_back({symbol.id, symbol.begin, symbol.end});
  into.insert(into.end(), tokens.begin(), tokens.end());
  if (may_come_again) cache.keep(text, std::move(tokens));
}

void BpeModel::encode(std::string_view word, Cache& cache, std::vector<Token>& into) const {
  if (ignore_merges_) {
    if (const std::int32_t id = find(word); id >= 0) {
      into.push_back({id, 0, word.size()});
      return;
    }
  }
  if (word.size() <= kLongestKept) return encode_stretch(word, cache, into);
  // Two symbols that meet in no merge are never joined, so each side is encoded by itself. A
  // character's bytes stay together, so that a stretch is UTF-8.
  const std::vector<Symbol> symbols = symbols_of(word);
  const auto may_join = [&](std::size_t i) {
    const bool inside_character = continues_character(word[symbols[i].begin]);
    return inside_character || meetings_.find(symbols[i - 1].id, symbols[i].id) != nullptr;
  };
  for (std::size_t begin = 0; begin < symbols.size();) {
    std::size_t end = begin + 1;
    while (end < symbols.size() && may_join(end)) ++end;
    const std::size_t from = symbols[begin].begin;
    const std::size_t first = into.size();
    encode_stretch(word.substr(from, symbols[end - 1].end - from), cache, into);
    for (std::size_t i = first; i < into.size(); ++i) {
      into[i].begin += from;
      into[i].end += from;
    }
    begin = end;
  }
}

const std::vector<BpeModel::Token>* BpeModel::Cache::find(std::string_view stretch) const {
  const auto found = known_.find(stretch);
  return found == known_.end() ? nullptr : &found->second;
}

void BpeModel::Cache::keep(std::string_view stretch, std::vector<Token> tokens) {
  if (known_.size() >= kMostKept) known_.clear();
  known_.emplace(stretch, std::move(tokens));
}

}  // namespace kvloupe
