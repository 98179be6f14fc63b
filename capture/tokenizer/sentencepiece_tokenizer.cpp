#include "capture/tokenizer/sentencepiece_tokenizer.h"

#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>

#include "capture/tokenizer/sentencepiece_model.h"
#include "capture/tokenizer/tokenizer_config.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

using PieceType = SentencePieceModel::PieceType;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";      // ▁, SentencePiece's space
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";    // for bytes that are not UTF-8
constexpr std::string_view kUnknownText = " \xE2\x81\x87 ";  // " ⁇ ", as the library writes it

/// A text as the pieces are matched against it, with the origin of each of its bytes.
struct NormalText {
  std::string text;
  std::vector<std::size_t> origin;  // [text.size() + 1] offset into the original

  void append(std::string_view bytes, std::size_t from) {
    text += bytes;
    origin.insert(origin.end(), bytes.size(), from);
  }
};

/// A stretch of the normal text, and the piece it is; id −1: no piece.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::int32_t id = -1;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  SentencePieceTokenizer(SentencePieceModel model, bool add_bos) : model_(std::move(model)) {
    lowest_score_ = std::numeric_limits<float>::max();
    highest_score_ = std::numeric_limits<float>::lowest();
    for (std::size_t i = 0; i < model_.pieces.size(); ++i) {
      const SentencePieceModel::Piece& piece = model_.pieces[i];
      const auto id = static_cast<std::int32_t>(i);
      if (piece.type == PieceType::unknown) unknown_ = id;
      if (piece.type == PieceType::byte) {
        byte_ids_[static_cast<std::size_t>(byte_of_piece(piece.text))] = id;
      }
      if (piece.type == PieceType::control && piece.text == model_.bos_piece) bos_ = id;
      if (piece.type == PieceType::control && piece.text == model_.eos_piece) eos_ = id;
      if (piece.type == PieceType::normal) {
        lowest_score_ = std::min(lowest_score_, piece.score);
        highest_score_ = std::max(highest_score_, piece.score);
      }
      if (piece.type == PieceType::user_defined) {
        longest_user_defined_ = std::max(longest_user_defined_, piece.text.size());
      }
      if (piece.type == PieceType::normal || piece.type == PieceType::user_defined ||
          piece.type == PieceType::unused) {
        ids_.emplace(piece.text, id);
        longest_ = std::max(longest_, piece.text.size());
      }
    }
    if (!add_bos) bos_.reset();
  }

  std::int32_t size() const override { return static_cast<std::int32_t>(model_.pieces.size()); }
  std::optional<std::int32_t> bos() const override { return bos_; }
  std::optional<std::int32_t> eos() const override { return eos_; }
  bool is_special(std::int32_t id) const override {
    return in_range(id) && piece(id).type == PieceType::control;
  }

  std::vector<EncodedToken> encode(std::string_view text) const override {
    const NormalText normal = normalise(text);
    const std::vector<Span> spans = model_.kind == SentencePieceModel::Kind::bpe
                                        ? encode_bpe(normal.text)
                                        : encode_unigram(normal.text);
    std::vector<EncodedToken> tokens;
    bool after_unknown = false;
    for (const Span& span : spans) {
      const std::size_t begin = normal.origin[span.begin];
      const std::size_t end = normal.origin[span.end];
      const bool is_unknown = span.id < 0;
      if (!is_unknown) {
        tokens.push_back({span.id, begin, end});
      } else if (model_.byte_fallback) {
        for (std::size_t i = span.begin; i < span.end; ++i) {
          const auto byte = static_cast<unsigned char>(normal.text[i]);
          tokens.push_back({byte_ids_[byte], begin, end});
        }
      } else if (after_unknown) {  // a run of unknown characters is one unknown token
        tokens.back().end = end;
      } else {
        tokens.push_back({unknown_, begin, end});
      }
      after_unknown = is_unknown;
    }
    return tokens;
  }

  std::string piece_bytes(std::int32_t id) const override {
    if (!in_range(id)) return "[" + std::to_string(id) + "]";
    if (piece(id).type == PieceType::byte) return std::string(1, byte_of(id));
    return with_spaces(piece(id).text);
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::string text;
    bool at_start = true;
    for (const std::int32_t id : ids) {
      if (!in_range(id) || piece(id).type == PieceType::control) continue;
      switch (piece(id).type) {
        case PieceType::byte:
          text += byte_of(id);
          break;
        case PieceType::unknown:
          text += kUnknownText;
          break;
        default: {
          const std::string plain = with_spaces(piece(id).text);
          const bool drop = at_start && model_.add_dummy_prefix && plain.starts_with(' ');
          text += drop ? plain.substr(1) : plain;
        }
      }
      at_start = false;
    }
    return text;
  }

 private:
  bool in_range(std::int32_t id) const { return id >= 0 && id < size(); }
  const SentencePieceModel::Piece& piece(std::int32_t id) const {
    return model_.pieces[static_cast<std::size_t>(id)];
  }
  char byte_of(std::int32_t id) const { return static_cast<char>(byte_of_piece(piece(id).text)); }
  /// The id of a piece that text can be made of; −1 where there is none.
  std::int32_t find(std::string_view text) const {
    const auto found = ids_.find(std::string(text));
    return found == ids_.end() ? -1 : found->second;
  }

  static std::string with_spaces(std::string_view text) {
    std::string plain;
    while (!text.empty()) {
      const bool space = text.starts_with(kSpaceMark);
      plain += space ? ' ' : text.front();
      text.remove_prefix(space ? kSpaceMark.size() : 1);
    }
    return plain;
  }

  /// Spaces stripped, collapsed and marked as the model says; bytes that are not UTF-8 replaced.
  NormalText normalise(std::string_view text) const {
    NormalText normal;
    const std::string_view space = model_.escape_whitespaces ? kSpaceMark : std::string_view(" ");
    std::size_t at = 0;
    if (model_.remove_extra_whitespaces) at = std::min(text.find_first_not_of(' '), text.size());
    if (at == text.size()) {
      normal.origin.push_back(at);
      return normal;
    }
    if (model_.add_dummy_prefix && !model_.whitespace_as_suffix) normal.append(space, at);
    bool after_space = model_.remove_extra_whitespaces;
    while (at < text.size()) {
      const std::size_t length = character_length(text.substr(at));
      if (text[at] == ' ') {
        if (!after_space) normal.append(space, at);
        after_space = model_.remove_extra_whitespaces;
      } else {
        normal.append(length == 0 ? kReplacement : text.substr(at, length), at);
        after_space = false;
      }
      at += std::max<std::size_t>(length, 1);
    }
    if (model_.remove_extra_whitespaces) {
      while (normal.text.size() >= space.size() &&
             std::string_view(normal.text).substr(normal.text.size() - space.size()) == space) {
        at = normal.origin[normal.text.size() - space.size()];
        normal.text.resize(normal.text.size() - space.size());
        normal.origin.resize(normal.text.size());
      }
    }
    if (model_.add_dummy_prefix && model_.whitespace_as_suffix) normal.append(space, at);
    normal.origin.push_back(at);
    return normal;
  }

  /// Length of the longest user-defined piece `text` starts with; 0 where there is none.
  std::size_t user_defined_length(std::string_view text) const {
    for (std::size_t length = std::min(longest_user_defined_, text.size()); length > 0; --length) {
      const std::int32_t id = find(text.substr(0, length));
      if (id >= 0 && piece(id).type == PieceType::user_defined) return length;
    }
    return 0;
  }

  /// Starting from single characters, the neighbours whose union is the piece of the highest score
  /// are joined, the leftmost first among equals, until none are left.
  std::vector<Span> encode_bpe(std::string_view text) const {
    struct Symbol {
      std::size_t begin, end;
      int before, after;  // neighbours; −1 at the ends
      bool fixed;         // user-defined: never joined
    };
    struct Candidate {
      float score;
      int left, right;
      std::size_t size;  // of the union, to tell an outdated candidate
      bool operator<(const Candidate& other) const {
        return score < other.score || (score == other.score && left > other.left);
      }
    };
    std::vector<Symbol> symbols;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = user_defined_length(text.substr(at));
      const bool fixed = length > 0;
      if (!fixed) length = std::max<std::size_t>(character_length(text.substr(at)), 1);
      const int index = static_cast<int>(symbols.size());
      symbols.push_back({at, at + length, index - 1, index + 1, fixed});
      at += length;
    }
    if (symbols.empty()) return {};
    symbols.back().after = -1;

    const auto symbol = [&](int index) -> Symbol& {
      return symbols[static_cast<std::size_t>(index)];
    };
    std::priority_queue<Candidate> candidates;
    // Unused pieces may be joined on the way, and are taken apart again at the end.
    std::unordered_map<std::string, std::size_t> first_part;
    const auto consider = [&](int left, int right) {
      if (left < 0 || right < 0 || symbol(left).fixed || symbol(right).fixed) return;
      const std::string joined(
          text.substr(symbol(left).begin, symbol(right).end - symbol(left).begin));
      const std::int32_t id = find(joined);
      if (id < 0) return;
      candidates.push({piece(id).score, left, right, joined.size()});
      if (piece(id).type == PieceType::unused) {
        first_part[joined] = symbol(left).end - symbol(left).begin;
      }
    };
    for (int i = 1; i < static_cast<int>(symbols.size()); ++i) consider(i - 1, i);
    while (!candidates.empty()) {
      const Candidate best = candidates.top();
      candidates.pop();
      Symbol& left = symbol(best.left);
      Symbol& right = symbol(best.right);
      if (left.begin == left.end || right.begin == right.end ||
          right.end - left.begin != best.size || left.after != best.right) {
        continue;
      }
      left.end = right.end;
      left.after = right.after;
      if (right.after >= 0) symbol(right.after).before = best.left;
      right.begin = right.end;
      consider(left.before, best.left);
      consider(best.left, left.after);
    }

    std::vector<Span> spans;
    for (int i = 0; i >= 0; i = symbol(i).after) {
      std::vector<Span> parts{{symbol(i).begin, symbol(i).end, -1}};
      while (!parts.empty()) {
        Span part = parts.back();
        parts.pop_back();
        const std::string_view part_text = text.substr(part.begin, part.end - part.begin);
        part.id = find(part_text);
        const auto cut = first_part.find(std::string(part_text));
        if (part.id >= 0 && piece(part.id).type == PieceType::unused && cut != first_part.end()) {
          parts.push_back({part.begin + cut->second, part.end, -1});
          parts.push_back({part.begin, part.begin + cut->second, -1});
        } else {
          spans.push_back(part);
        }
      }
    }
    return spans;
  }

  /// The segmentation whose scores (log-probabilities) have the largest sum (Viterbi).
  std::vector<Span> encode_unigram(std::string_view text) const {
    constexpr float kUnknownPenalty = 10.0F;
    struct Arrival {
      float score = 0.0F;
      std::size_t begin = std::string_view::npos;  // npos: not reached
      std::int32_t id = -1;
    };
    std::vector<Arrival> best(text.size() + 1);
    best[0].begin = 0;
    const auto arrive = [&](std::size_t begin, std::size_t end, std::int32_t id, float score) {
      const float sum = best[begin].score + score;
      if (best[end].begin == std::string_view::npos || sum > best[end].score) {
        best[end] = {sum, begin, id};
      }
    };
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t character = std::max<std::size_t>(character_length(text.substr(at)), 1);
      bool has_character = false;
      const std::size_t most = std::min(longest_, text.size() - at);
      for (std::size_t length = 1; length <= most; ++length) {
        const std::int32_t id = find(text.substr(at, length));
        if (id < 0 || piece(id).type == PieceType::unused) continue;
        const float score = piece(id).type == PieceType::user_defined
                                ? static_cast<float>(length) * highest_score_ - 0.1F
                                : piece(id).score;
        arrive(at, at + length, id, score);
        has_character |= length == character;
      }
      if (!has_character) arrive(at, at + character, -1, lowest_score_ - kUnknownPenalty);
      at += character;
    }
    std::vector<Span> spans;
    for (std::size_t end = text.size(); end > 0; end = best[end].begin) {
      spans.push_back({best[end].begin, end, best[end].id});
    }
    std::reverse(spans.begin(), spans.end());
    return spans;
  }

  SentencePieceModel model_;
  std::unordered_map<std::string, std::int32_t> ids_;  // pieces that text can be made of
  std::array<std::int32_t, 256> byte_ids_{};
  std::int32_t unknown_ = 0;
  std::optional<std::int32_t> bos_;
  std::optional<std::int32_t> eos_;
  std::size_t longest_ = 0;
  std::size_t longest_user_defined_ = 0;
  float lowest_score_ = 0.0F;
  float highest_score_ = 0.0F;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder) {
  SentencePieceModel model = read_sentencepiece_model(folder / "tokenizer.model");
  // BOS is added unless the file says otherwise, as Hugging Face's Llama tokenizer does.
  const bool add_bos = read_tokenizer_config(folder).add_bos_token.value_or(true);
  return std::make_unique<SentencePieceTokenizer>(std::move(model), add_bos);
}

std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(SentencePieceModel model) {
  return std::make_unique<SentencePieceTokenizer>(std::move(model), /*add_bos=*/false);
}

}  // namespace kvloupe
