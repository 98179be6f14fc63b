#include "capture/tokenizer/hugging_face/hugging_face_tokenizer.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <optional>

#include "analysis/base/core/error.h"
#include "analysis/base/system/read_file.h"
#include "analysis/base/text/text.h"
#include "capture/tokenizer/hugging_face/added_tokens.h"
#include "capture/tokenizer/hugging_face/bpe_model.h"
#include "capture/tokenizer/hugging_face/decoder.h"
#include "capture/tokenizer/hugging_face/json_part.h"
#include "capture/tokenizer/hugging_face/normaliser.h"
#include "capture/tokenizer/hugging_face/pre_tokeniser.h"
#include "capture/tokenizer/tokenizer_config.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

constexpr const char* kOneToken = "a template may only put one token before the text";

/// The id of a template's special token, listed by name in "special_tokens".
std::int32_t special_token(const JsonPart& part, const std::string& name) {
  const JsonPart list = part.part("special_tokens");
  const JsonPart entry(list.field(name.c_str()), part.path(), list.name());
  const nlohmann::json& ids = entry.field("ids");
  if (!ids.is_array() || ids.empty()) {
    part.fail("special_tokens has no ids for " + in_quotes(name));
  }
  if (ids.size() > 1) part.refuse("template with several ids for " + in_quotes(name), kOneToken);
  if (!ids[0].is_number_unsigned() || ids[0].get<std::uint64_t>() > kLargestTokenId) {
    part.fail("special_tokens: the id of " + in_quotes(name) +
              " must be a whole number from 0 to " + std::to_string(kLargestTokenId));
  }
  return ids[0].get<std::int32_t>();
}

std::optional<std::int32_t> read_template(const JsonPart& part) {
  std::optional<std::int32_t> first;
  bool has_text = false;
  for (const JsonPart& element : part.parts("single")) {
    if (const JsonPart token = element.part("SpecialToken"); !token.is_null()) {
      if (first || has_text) part.refuse("template", kOneToken);
      first = special_token(part, token.text("id"));
    } else if (element.part("Sequence").is_null() || has_text) {
      part.fail("single must have one Sequence, and otherwise only SpecialTokens");
    } else {
      has_text = true;
    }
  }
  if (!has_text) part.fail("single must have one Sequence, and otherwise only SpecialTokens");
  return first;
}

std::optional<std::int32_t> read(const JsonPart& part, int depth) {
  if (part.is_null()) return std::nullopt;
  const std::string type = part.type();
  if (type == "ByteLevel") return std::nullopt;  // trims offsets only
  if (type == "TemplateProcessing") return read_template(part);
  if (type == "Sequence") {
    if (depth == kDeepestSequence) part.fail("a Sequence is nested too deeply");
    std::optional<std::int32_t> first;
    for (const JsonPart& step : part.parts("processors")) {
      const std::optional<std::int32_t> token = read(step, depth + 1);
      if (token && first) part.refuse("Sequence of two templates", kOneToken);
      if (token) first = token;
    }
    return first;
  }
  part.refuse(in_quotes(type), "supported: TemplateProcessing, ByteLevel and Sequence");
}

/// The token that a tokenizer.json's post-processor puts before a text, or nothing. Throws
/// FileError (UnsupportedTokenizer for kinds that kvloupe does not have, and for templates that add
/// more than one token before the text).
std::optional<std::int32_t> read_first_token(const JsonPart& post_processor) {
  return read(post_processor, 0);
}

constexpr std::uintmax_t kLargestFile = 128U << 20U;

nlohmann::json parse(const std::filesystem::path& path) {
  const std::string text = read_file(path, kLargestFile);
  // The depth is checked before parsing: a check while parsing takes a third longer.
  if (is_deep_json(text)) {
    throw FileError(path.string(), "is nested too deeply for a tokenizer");
  }
  nlohmann::json root = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) {
    throw FileError(path.string(), "is not a JSON object; is the download complete?");
  }
  return root;
}

/// Half a minute, and as much again for each megabyte: a hundred times the need of real patterns.
/// The largest length allows for this: a broken byte becomes three, and each of them two in a
/// byte-level alphabet.
Limits limits_for(std::size_t bytes) {
  return Limits(std::chrono::seconds(30) + std::chrono::microseconds(30) * bytes,
                32 * bytes + 4096);
}

class HuggingFaceTokenizer : public Tokenizer {
 public:
  HuggingFaceTokenizer(const JsonPart& root, const TokenizerConfig& config,
                       const std::string& config_path)
      : normaliser_(make_normaliser(root.part("normalizer"))),
        pre_tokeniser_(make_pre_tokeniser(root.part("pre_tokenizer"))),
        model_(root.part("model")),
        added_(root, model_, normaliser_),
        decoder_(make_decoder(root.part("decoder"), /*of_one_piece=*/false)),
        piece_decoder_(make_decoder(root.part("decoder"), /*of_one_piece=*/true)) {
    for (std::size_t i = 0; i < model_.pieces().size(); ++i) {
      const PieceTable::Piece piece = model_.pieces().piece(i);
      entry(piece.id).text = piece.text;
    }
    for (const AddedTokens::Token& token : added_.tokens()) {
      entry(token.id) = {token.content, true, token.special};
    }
    bos_ = read_first_token(root.part("post_processor"));
    if (bos_ && (*bos_ >= size() || entries_[static_cast<std::size_t>(*bos_)].text.empty())) {
      root.part("post_processor")
          .fail("the token it adds, " + std::to_string(*bos_) + ", is not in the vocabulary");
    }
    if (config.add_bos_token == false) bos_.reset();
    if (config.add_bos_token == true && !bos_) {
      bos_ = find(config.bos_token.value_or(""));
      if (!bos_) {
        throw FileError(config_path,
                        "add_bos_token is true, but bos_token is not one of the tokens");
      }
    }
    eos_ = find(config.eos_token.value_or(""));
  }

  std::int32_t size() const override { return static_cast<std::int32_t>(entries_.size()); }
  std::optional<std::int32_t> bos() const override { return bos_; }
  std::optional<std::int32_t> eos() const override { return eos_; }
  bool is_special(std::int32_t id) const override {
    return in_range(id) && entries_[static_cast<std::size_t>(id)].is_special;
  }

  std::vector<EncodedToken> encode(std::string_view text) const override {
    const Limits limits = limits_for(text.size());
    PieceList list = added_.extract(AlignedText(text), normaliser_, limits);
    if (pre_tokeniser_) list = pre_tokeniser_(list, limits);
    std::vector<EncodedToken> tokens;
    std::vector<BpeModel::Token> word;
    BpeModel::Cache cache;
    const auto add = [&](std::int32_t id, std::size_t begin, std::size_t end) {
      const AlignedText::Range from = list.text.origin(begin, end);
      tokens.push_back({id, from.begin, from.end});
    };
    for (const PieceList::Piece& piece : list.pieces) {
      if (piece.token >= 0) {
        add(piece.token, piece.begin, piece.end);
        continue;
      }
      word.clear();
      model_.encode(list.text.view(piece.begin, piece.end), cache, word);
      for (const BpeModel::Token& token : word) {
        add(token.id, piece.begin + token.begin, piece.begin + token.end);
      }
    }
    return tokens;
  }

  std::string piece_bytes(std::int32_t id) const override {
    if (!in_range(id) || entries_[static_cast<std::size_t>(id)].text.empty()) {
      return "[" + std::to_string(id) + "]";
    }
    std::vector<DecodedToken> tokens = decoded({id});
    if (piece_decoder_ && !tokens.front().is_added) {
      piece_decoder_(tokens, limits_for(tokens.front().text.size()));
    }
    return joined(tokens, "");
  }

  std::string decode(const std::vector<std::int32_t>& ids) const override {
    std::vector<std::int32_t> shown;
    for (const std::int32_t id : ids) {
      if (in_range(id) && !is_special(id)) shown.push_back(id);
    }
    std::vector<DecodedToken> tokens = decoded(shown);
    // Without a decoder, the library also separates pieces by spaces.
    if (!decoder_) return joined(tokens, " ");
    std::size_t bytes = 0;
    for (const DecodedToken& token : tokens) bytes += token.text.size();
    decoder_(tokens, limits_for(bytes));
    return joined(tokens, "");
  }

 private:
  struct Entry {
    std::string text;  // empty: no token has this id
    bool is_added = false;
    bool is_special = false;
  };

  bool in_range(std::int32_t id) const { return id >= 0 && id < size(); }
  Entry& entry(std::int32_t id) {
    const auto place = static_cast<std::size_t>(id);
    if (place >= entries_.size()) entries_.resize(place + 1);
    return entries_[place];
  }
  std::optional<std::int32_t> find(const std::string& text) const {
    for (const AddedTokens::Token& token : added_.tokens()) {
      if (token.content == text) return token.id;
    }
    const std::int32_t id = text.empty() ? -1 : model_.find(text);
    return id < 0 ? std::nullopt : std::optional(id);
  }
  std::vector<DecodedToken> decoded(const std::vector<std::int32_t>& ids) const {
    std::vector<DecodedToken> tokens;
    for (const std::int32_t id : ids) {
      const Entry& known = entries_[static_cast<std::size_t>(id)];
      tokens.push_back({known.text, known.is_added});
    }
    return tokens;
  }
  static std::string joined(const std::vector<DecodedToken>& tokens, std::string_view between) {
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) text += between;
      text += tokens[i].text;
    }
    return text;
  }

  Normaliser normaliser_;
  PreTokeniser pre_tokeniser_;
  BpeModel model_;
  AddedTokens added_;
  Decoder decoder_;
  Decoder piece_decoder_;
  std::vector<Entry> entries_;  // by id
  std::optional<std::int32_t> bos_;
  std::optional<std::int32_t> eos_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_hugging_face_tokenizer(const nlohmann::json& root,
                                                       const TokenizerConfig& config,
                                                       const std::string& path,
                                                       const std::string& config_path) {
  return std::make_unique<HuggingFaceTokenizer>(JsonPart(root, path, ""), config, config_path);
}

std::unique_ptr<Tokenizer> open_hugging_face_tokenizer(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "tokenizer.json";
  return make_hugging_face_tokenizer(parse(path), read_tokenizer_config(folder), path.string(),
                                     (folder / "tokenizer_config.json").string());
}

}  // namespace kvloupe
