#include "capture/tokenizer/hugging_face/bpe_model.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <unordered_set>

#include "analysis/error.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32U | static_cast<std::uint32_t>(right);
}

int hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
}

}  // namespace

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return -1;
  const int high = hexadecimal(piece[3]);
  const int low = hexadecimal(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

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
  // Files of before 2020 name no type.
  const std::string type = model.text_if("type").value_or("BPE");
  if (type != "BPE") model.refuse(in_quotes(type), "BPE is; a tokenizer.model beside it may do");
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
  std::unordered_set<std::int64_t> seen;
  byte_ids_.fill(-1);
  for (const auto& [piece, id] : vocabulary.items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargestTokenId) {
      model.fail("the id of the piece " + in_quotes(piece) + " must be a whole number from 0 to " +
                 std::to_string(kLargestTokenId));
    }
    const auto number = id.get<std::int32_t>();
    if (!seen.insert(number).second) {
      model.fail("two pieces have the id " + std::to_string(number));
    }
    ids_.emplace(piece, number);
    if (const int byte = byte_of_piece(piece); byte >= 0) {
      byte_ids_[static_cast<std::size_t>(byte)] = number;
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
    unknown_ = find(*unknown);
  }
}

void BpeModel::read_merges(const JsonPart& model) {
  const nlohmann::json& merges = model.field("merges");
  if (!merges.is_array()) model.fail("merges must be a list");
  merges_.reserve(merges.size());
  std::uint32_t rank = 0;
  for (const nlohmann::json& merge : merges) {
    const std::string which = "merge " + std::to_string(rank);
    std::string left, right;
    if (merge.is_array()) {
      if (merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string()) {
        model.fail(which + " must be two pieces");
      }
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else {
      if (!merge.is_string()) model.fail(which + " must be two pieces");
      const auto& text = merge.get_ref<const std::string&>();
      if (text.rfind("#version", 0) == 0) continue;
      const std::size_t space = text.find(' ');
      if (space == text.npos || text.find(' ', space + 1) != text.npos) {
        model.fail(which + ", " + in_quotes(text) + ", must be two pieces with a space between");
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    }
    const auto id_of = [&](const std::string& piece) {
      const std::int32_t id = find(piece);
      if (id < 0) {
        model.fail(which + " needs the piece " + in_quotes(piece) + ", which the vocabulary lacks");
      }
      return id;
    };
    // A pair given twice counts where it stands last, as in the tokenizers library.
    const std::uint64_t key = pair_key(id_of(left), id_of(right));
    merges_[key] = {rank, id_of(left + right)};
    ++rank;
  }
}

std::int32_t BpeModel::find(std::string_view piece) const {
  const auto found = ids_.find(piece);
  return found == ids_.end() ? -1 : found->second;
}

const BpeModel::Merge* BpeModel::find_merge(std::int32_t left, std::int32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
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
    const std::int32_t id = find(word.substr(at, end - at));
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
    // A character that is dropped leaves a run of unknown ones a run.
    after_unknown = is_unknown;
    at = end;
  }
  for (std::size_t i = 1; i < symbols.size(); ++i) {
    symbols[i].previous = i - 1;
    symbols[i - 1].next = i;
  }
  return symbols;
}

void BpeModel::merge_all(std::vector<Symbol>& symbols) const {
  struct Candidate {
    std::uint32_t rank;
    std::size_t left;
    std::int32_t id;
    bool operator>(const Candidate& other) const {
      return std::tie(rank, left) > std::tie(other.rank, other.left);
    }
  };
  std::vector<Candidate> start;
  const auto candidate = [&](std::size_t left) -> const Merge* {
    if (left == kNone || symbols[left].next == kNone) return nullptr;
    return find_merge(symbols[left].id, symbols[symbols[left].next].id);
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
    if (const Merge* merge = candidate(i)) start.push_back({merge->rank, i, merge->id});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue(std::greater<>(),
                                                                               std::move(start));
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[top.left];
    if (left.begin == left.end) continue;
    const Merge* merge = candidate(top.left);
    if (merge == nullptr || merge->id != top.id) continue;  // a neighbour was joined meanwhile
    Symbol& right = symbols[left.next];
    left.id = top.id;
    left.end = right.end;
    right.begin = right.end;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = top.left;
    for (const std::size_t place : {left.previous, top.left}) {
      if (const Merge* next = candidate(place)) queue.push({next->rank, place, next->id});
    }
  }
}

void BpeModel::encode(std::string_view word, std::vector<Token>& into) const {
  if (ignore_merges_) {
    if (const std::int32_t id = find(word); id >= 0) {
      into.push_back({id, 0, word.size()});
      return;
    }
  }
  std::vector<Symbol> symbols = symbols_of(word);
  merge_all(symbols);
  for (const Symbol& symbol : symbols) {
    if (symbol.begin < symbol.end) into.push_back({symbol.id, symbol.begin, symbol.end});
  }
}

}  // namespace kvloupe
