#include "capture/tokenizer/kinds/gguf_tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/base/text/utf8.h"
#include "capture/gguf/gguf_config.h"
#include "capture/gguf/gguf_model.h"
#include "capture/tokenizer/hugging_face/bpe_model.h"
#include "capture/tokenizer/hugging_face/hugging_face_tokenizer.h"
#include "capture/tokenizer/sentencepiece_model.h"
#include "capture/tokenizer/sentencepiece_tokenizer.h"
#include "capture/tokenizer/tokenizer_config.h"
#include "capture/tokenizer/unicode.h"

namespace kvloupe {

namespace {

// The patterns are those of the models' own tokenizer.json.
constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kSeedCoder =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeek3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// Escaped: characters that editors may turn into others that look the same.
constexpr const char* kDeepSeekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-)"
    "\u1F7D"
    R"(ᾀ-ᾴᾶ-ᾼ)"
    "\u1FBE"
    R"(ῂ-ῄῆ-ῌῐ-)"
    "\u1FD3"
    R"(ῖ-)"
    "\u1FDB"
    R"(ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ)"
    "\u2126"
    R"(ℨ)"
    "\u212A"
    R"(-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr const char* kCjk = R"([一-龥ࠀ-一가-퟿]+)";
constexpr const char* kCjkAndKana = R"([一-龥぀-ゟ゠-ヿ]+)";
constexpr const char* kFinnish = R"( ?[^(\s|.,!?…。，、।۔،)]+)";

constexpr std::array kGpt2Patterns{kGpt2};
constexpr std::array kLlama3Patterns{kLlama3};
constexpr std::array kQwen2Patterns{kQwen2};
constexpr std::array kQwen35Patterns{kQwen35};
constexpr std::array kTekkenPatterns{kTekken};
constexpr std::array kGpt4oPatterns{kGpt4o};
constexpr std::array kSeedCoderPatterns{kSeedCoder};
constexpr std::array kDigitsPatterns{R"(\p{N})", kGpt2};
constexpr std::array kDeepSeekLlmPatterns{
    R"([\r\n])", kDeepSeekLetters, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)", R"(\s+$)",
    kCjk,        R"(\p{N}+)"};
constexpr std::array kDeepSeekCoderPatterns{R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kCjk,
                                            R"(\p{N})"};
constexpr std::array kDeepSeek3Patterns{R"(\p{N}{1,3})", kCjkAndKana, kDeepSeek3Words};
constexpr std::array kFinnishPatterns{kFinnish};
constexpr std::array kVikingPatterns{kFinnish, R"(\p{N})"};
constexpr std::array kDefaultPatterns{R"([\p{P}\$\+<=>\^~\|]+)", kGpt2, R"(\p{N}+)",
                                      R"([0-9][0-9][0-9])"};

constexpr GgufSplit kGpt2Split{kGpt2Patterns};
constexpr GgufSplit kLlama3Split{kLlama3Patterns, false, true, true};
constexpr GgufSplit kLlama3WithMerges{kLlama3Patterns};
constexpr GgufSplit kQwen2Split{kQwen2Patterns, true};
constexpr GgufSplit kPlainQwen2{kQwen2Patterns};
constexpr GgufSplit kQwen35Split{kQwen35Patterns, true};
constexpr GgufSplit kTekkenSplit{kTekkenPatterns, false, true, true};
constexpr GgufSplit kGpt4oSplit{kGpt4oPatterns};
constexpr GgufSplit kSeedCoderSplit{kSeedCoderPatterns};
constexpr GgufSplit kDigitsSplit{kDigitsPatterns};
constexpr GgufSplit kDeepSeekLlm{kDeepSeekLlmPatterns};
constexpr GgufSplit kDeepSeekCoder{kDeepSeekCoderPatterns};
constexpr GgufSplit kDeepSeek3{kDeepSeek3Patterns};
constexpr GgufSplit kFinnishSplit{kFinnishPatterns};
constexpr GgufSplit kVikingSplit{kVikingPatterns};
constexpr GgufSplit kDefaultSplit{kDefaultPatterns};

}  // namespace

std::span<const GgufSplitName> gguf_splits() {
  static constexpr std::array kNames{
      GgufSplitName{"default", &kDefaultSplit},
      GgufSplitName{"gpt-2", &kGpt2Split},
      GgufSplitName{"phi-2", &kGpt2Split},
      GgufSplitName{"mpt", &kGpt2Split},
      GgufSplitName{"olmo", &kGpt2Split},
      GgufSplitName{"jais", &kGpt2Split},
      GgufSplitName{"trillion", &kGpt2Split},
      GgufSplitName{"gigachat", &kGpt2Split},
      GgufSplitName{"a.x-4.0", &kGpt2Split},
      GgufSplitName{"mellum", &kGpt2Split},
      GgufSplitName{"exaone4", &kGpt2Split},
      GgufSplitName{"llama-bpe", &kLlama3Split},
      GgufSplitName{"llama3", &kLlama3Split},
      GgufSplitName{"llama-v3", &kLlama3Split},
      GgufSplitName{"falcon3", &kLlama3Split},
      GgufSplitName{"pixtral", &kLlama3Split},
      GgufSplitName{"midm-2.0", &kLlama3Split},
      GgufSplitName{"smaug-bpe", &kLlama3WithMerges},
      GgufSplitName{"dbrx", &kLlama3WithMerges},
      GgufSplitName{"qwen2", &kQwen2Split},
      GgufSplitName{"deepseek-r1-qwen", &kQwen2Split},
      GgufSplitName{"kormo", &kQwen2Split},
      GgufSplitName{"f2llmv2", &kQwen2Split},
      GgufSplitName{"megrez", &kQwen2Split},
      GgufSplitName{"stablelm2", &kPlainQwen2},
      GgufSplitName{"hunyuan", &kPlainQwen2},
      GgufSplitName{"qwen35", &kQwen35Split},
      GgufSplitName{"tekken", &kTekkenSplit},
      GgufSplitName{"gpt-4o", &kGpt4oSplit},
      GgufSplitName{"llama4", &kGpt4oSplit},
      GgufSplitName{"kanana2", &kGpt4oSplit},
      GgufSplitName{"seed-coder", &kSeedCoderSplit},
      GgufSplitName{"smollm", &kDigitsSplit},
      GgufSplitName{"starcoder", &kDigitsSplit},
      GgufSplitName{"refact", &kDigitsSplit},
      GgufSplitName{"command-r", &kDigitsSplit},
      GgufSplitName{"codeshell", &kDigitsSplit},
      GgufSplitName{"exaone", &kDigitsSplit},
      GgufSplitName{"minerva-7b", &kDigitsSplit},
      GgufSplitName{"deepseek-llm", &kDeepSeekLlm},
      GgufSplitName{"deepseek-coder", &kDeepSeekCoder},
      GgufSplitName{"deepseek-v3", &kDeepSeek3},
      GgufSplitName{"hunyuan-dense", &kDeepSeek3},
      GgufSplitName{"poro-chat", &kFinnishSplit},
      GgufSplitName{"bloom", &kFinnishSplit},
      GgufSplitName{"gpt3-finnish", &kFinnishSplit},
      GgufSplitName{"viking", &kVikingSplit},
  };
  return kNames;
}

const GgufSplit* find_gguf_split(std::string_view name) {
  for (const GgufSplitName& known : gguf_splits()) {
    if (known.name == name) return known.split;
  }
  return nullptr;
}

namespace {

using nlohmann::json;
using PieceType = SentencePieceModel::PieceType;

constexpr const char* kModel = "tokenizer.ggml.model";
constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr const char* kTypes = "tokenizer.ggml.token_type";
constexpr const char* kMerges = "tokenizer.ggml.merges";
constexpr const char* kScores = "tokenizer.ggml.scores";
constexpr const char* kSplit = "tokenizer.ggml.pre";
constexpr const char* kHint =
    "; --tokenizer FOLDER takes a tokenizer.json or tokenizer.model instead";

bool is_valid_utf8(std::string_view text) { return escape_invalid_utf8(text) == text; }

/// Common to every kind.
struct Vocabulary {
  std::vector<std::string_view> texts;  // by id
  std::vector<PieceType> types;
  std::optional<std::int64_t> bos, eos;
  std::optional<bool> add_bos;

  explicit Vocabulary(const GgufMetadata& metadata) : texts(metadata.texts(kTokens)) {
    if (texts.empty()) metadata.fail(kTokens, "is empty");
    const auto wrong = std::find_if(texts.begin(), texts.end(),
                                    [](std::string_view text) { return !is_valid_utf8(text); });
    if (wrong != texts.end()) {
      metadata.fail(kTokens, fmt::format("has the token {}, which is not UTF-8",
                                         std::distance(texts.begin(), wrong)));
    }
    types.assign(texts.size(), PieceType::normal);
    if (metadata.has(kTypes)) read_types(metadata);
    const auto last = static_cast<std::int64_t>(texts.size()) - 1;
    bos = metadata.whole_if("tokenizer.ggml.bos_token_id", 0, last);
    eos = metadata.whole_if("tokenizer.ggml.eos_token_id", 0, last);
    add_bos = metadata.flag_if("tokenizer.ggml.add_bos_token");
    correct_types(metadata);
    if (add_bos == true && !bos) metadata.fail("tokenizer.ggml.bos_token_id", "is missing");
  }
  std::string text(std::int64_t id) const {
    return std::string(texts[static_cast<std::size_t>(id)]);
  }

 private:
  void read_types(const GgufMetadata& metadata) {
    const std::vector<std::int64_t> numbers = metadata.wholes(kTypes);
    if (numbers.size() != texts.size()) {
      metadata.fail(kTypes,
                    fmt::format("has {} types for {} tokens", numbers.size(), texts.size()));
    }
    for (std::size_t id = 0; id < numbers.size(); ++id) {
      if (numbers[id] < 0 || numbers[id] > 6) {
        metadata.fail(kTypes, fmt::format("has the unknown type {}", numbers[id]));
      }
      // Files older than token types have zeros.
      types[id] = numbers[id] == 0 ? PieceType::normal : static_cast<PieceType>(numbers[id]);
    }
  }
  /// Some files call tokens normal that begin or end a text: they are control tokens all the same,
  /// as in llama.cpp.
  void correct_types(const GgufMetadata& metadata) {
    std::vector<std::int64_t> named = gguf_end_tokens(metadata);
    named.push_back(bos.value_or(-1));
    for (std::size_t id = 0; id < texts.size(); ++id) {
      const std::string_view text = texts[id];
      if (types[id] != PieceType::normal || !text.starts_with('<') || !text.ends_with('>'))
        continue;
      const bool is_named = std::find(named.begin(), named.end(), std::int64_t(id)) != named.end();
      if (is_named || std::find(kGgufEnds.begin(), kGgufEnds.end(), text) != kGgufEnds.end())
        types[id] = PieceType::control;
    }
  }
};

/// Whether a token stands by itself in a text, as it is written.
bool is_added(PieceType type) {
  return type == PieceType::control || type == PieceType::user_defined ||
         type == PieceType::unknown;
}

// --- "gpt2": as a tokenizer.json

json pre_tokenizer(const GgufSplit& split) {
  json steps = json::array();
  for (const char* pattern : split.patterns) {
    steps.push_back({{"type", "Split"},
                     {"pattern", {{"Regex", pattern}}},
                     {"behavior", "Isolated"},
                     {"invert", false}});
  }
  steps.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}});
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

json merge_list(const GgufMetadata& metadata) {
  json merges = json::array();
  for (const std::string_view merge : metadata.texts(kMerges)) {
    const std::size_t space = merge.find(' ', 1);
    if (space == merge.npos || !is_valid_utf8(merge)) {
      metadata.fail(kMerges, fmt::format("has {}, which must be two pieces with a space between",
                                         in_quotes(std::string(merge))));
    }
    merges.push_back({std::string(merge.substr(0, space)), std::string(merge.substr(space + 1))});
  }
  return merges;
}

std::unique_ptr<Tokenizer> open_byte_level(const GgufMetadata& metadata) {
  const std::optional<std::string> name = metadata.text_if(kSplit);
  if (!name) {
    throw UnsupportedTokenizer(metadata.path(),
                               fmt::format("has no key {}: this older file does not say how a text "
                                           "is split{}",
                                           kSplit, kHint));
  }
  const GgufSplit* split = find_gguf_split(*name);
  if (split == nullptr) {
    throw UnsupportedTokenizer(
        metadata.path(), fmt::format("splits texts as {} ({}), which this version does not know{}",
                                     in_quotes(*name), kSplit, kHint));
  }
  if (!metadata.has(kMerges)) metadata.fail(kMerges, std::string("is missing") + kHint);
  const Vocabulary vocabulary(metadata);
  json pieces = json::object();
  json added = json::array();
  for (std::size_t id = 0; id < vocabulary.texts.size(); ++id) {
    const PieceType type = vocabulary.types[id];
    if (type == PieceType::unused || vocabulary.texts[id].empty()) continue;
    const std::string text(vocabulary.texts[id]);
    const auto [place, fresh] = pieces.emplace(text, id);
    if (!fresh || !is_added(type)) continue;
    added.push_back({{"id", id},
                     {"content", text},
                     {"special", type != PieceType::user_defined},
                     {"normalized", false}});
  }
  const json root{{"added_tokens", std::move(added)},
                  {"normalizer", split->composes ? json{{"type", "NFC"}} : json()},
                  {"pre_tokenizer", pre_tokenizer(*split)},
                  {"decoder", {{"type", "ByteLevel"}}},
                  {"model",
                   {{"type", "BPE"},
                    {"vocab", std::move(pieces)},
                    {"merges", merge_list(metadata)},
                    {"ignore_merges", split->whole_words}}}};
  TokenizerConfig config;
  config.add_bos_token = vocabulary.add_bos.value_or(split->begins_with_bos && vocabulary.bos);
  if (vocabulary.bos) config.bos_token = vocabulary.text(*vocabulary.bos);
  if (vocabulary.eos) config.eos_token = vocabulary.text(*vocabulary.eos);
  return make_hugging_face_tokenizer(root, config, metadata.path(), metadata.path());
}

// --- "llama": SentencePiece's BPE, and added tokens around it

/// Encodes the stretches between added tokens each by itself, as llama.cpp does.
class WithAddedTokens : public Tokenizer {
 public:
  WithAddedTokens(std::unique_ptr<Tokenizer> plain, std::optional<std::int32_t> bos,
                  std::optional<std::int32_t> eos)
      : plain_(std::move(plain)), bos_(bos), eos_(eos) {}
  void add(std::string text, std::int32_t id, bool special) {
    if (special) special_.insert(id);
    auto& starting = by_first_byte_[static_cast<unsigned char>(text.front())];
    const auto place = std::find_if(starting.begin(), starting.end(), [&](const auto& other) {
      return other.first.size() < text.size();
    });
    starting.emplace(place, std::move(text), id);
  }

  std::int32_t size() const override { return plain_->size(); }
  std::optional<std::int32_t> bos() const override { return bos_; }
  std::optional<std::int32_t> eos() const override { return eos_; }
  bool is_special(std::int32_t id) const override { return special_.count(id) != 0; }
  std::string piece_bytes(std::int32_t id) const override { return plain_->piece_bytes(id); }
  std::string decode(const std::vector<std::int32_t>& ids) const override {
    return plain_->decode(ids);
  }
  std::vector<EncodedToken> encode(std::string_view text) const override {
    std::vector<EncodedToken> tokens;
    std::size_t done = 0;
    const auto stretch = [&](std::size_t end) {
      if (end == done) return;
      for (EncodedToken token : plain_->encode(text.substr(done, end - done))) {
        tokens.push_back({token.id, token.begin + done, token.end + done});
      }
    };
    for (std::size_t at = 0; at < text.size();) {
      const auto* found = longest(text.substr(at));
      if (found == nullptr) {
        ++at;
        continue;
      }
      stretch(at);
      done = at + found->first.size();
      tokens.push_back({found->second, at, done});
      at = done;
    }
    stretch(text.size());
    return tokens;
  }

 private:
  using Added = std::pair<std::string, std::int32_t>;
  const Added* longest(std::string_view text) const {
    for (const Added& one : by_first_byte_[static_cast<unsigned char>(text.front())]) {
      if (text.starts_with(one.first)) return &one;
    }
    return nullptr;
  }

  std::unique_ptr<Tokenizer> plain_;
  std::optional<std::int32_t> bos_, eos_;
  std::unordered_set<std::int32_t> special_;
  std::array<std::vector<Added>, 256> by_first_byte_;  // the longest first
};

std::unique_ptr<Tokenizer> open_by_scores(const GgufMetadata& metadata) {
  const Vocabulary vocabulary(metadata);
  const std::vector<float> scores = metadata.reals(kScores);
  if (scores.size() != vocabulary.texts.size()) {
    metadata.fail(kScores, fmt::format("has {} scores for {} tokens", scores.size(),
                                       vocabulary.texts.size()));
  }
  SentencePieceModel model;
  model.kind = SentencePieceModel::Kind::bpe;
  model.add_dummy_prefix = metadata.flag_if("tokenizer.ggml.add_space_prefix").value_or(true);
  model.remove_extra_whitespaces =
      metadata.flag_if("tokenizer.ggml.remove_extra_whitespaces").value_or(false);
  std::size_t bytes = 0;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    PieceType type = vocabulary.types[id];
    const std::string text(vocabulary.texts[id]);
    if (type == PieceType::byte) {
      if (byte_of_piece(text) < 0) {
        metadata.fail(
            kTypes, fmt::format("says that token {} is a byte, but it is {}", id, in_quotes(text)));
      }
      ++bytes;
    }
    if (text.empty()) type = PieceType::unused;
    model.pieces.push_back({text, scores[id], type});
  }
  model.byte_fallback = bytes == 256;
  if (bytes != 0 && bytes != 256) {
    metadata.fail(kTypes, fmt::format("has {} tokens for bytes, not 256", bytes));
  }
  const auto id_of = [](std::int64_t id) { return static_cast<std::int32_t>(id); };
  std::optional<std::int32_t> bos, eos;
  if (vocabulary.bos && vocabulary.add_bos.value_or(true)) bos = id_of(*vocabulary.bos);
  if (vocabulary.eos) eos = id_of(*vocabulary.eos);
  auto tokenizer =
      std::make_unique<WithAddedTokens>(make_sentencepiece_tokenizer(std::move(model)), bos, eos);
  std::unordered_set<std::string_view> seen;
  for (std::size_t id = 0; id < vocabulary.texts.size(); ++id) {
    const PieceType type = vocabulary.types[id];
    const std::string_view text = vocabulary.texts[id];
    if (!is_added(type) || text.empty() || !seen.insert(text).second) continue;
    tokenizer->add(std::string(text), static_cast<std::int32_t>(id),
                   type != PieceType::user_defined);
  }
  return tokenizer;
}

}  // namespace

std::unique_ptr<Tokenizer> reading_special_tokens(std::unique_ptr<Tokenizer> plain) {
  const Tokenizer& own = *plain;
  auto all = std::make_unique<WithAddedTokens>(std::move(plain), own.bos(), own.eos());
  for (std::int32_t id = 0; id < own.size(); ++id) {
    if (own.is_special(id) && !own.piece_bytes(id).empty()) all->add(own.piece_bytes(id), id, true);
  }
  return all;
}

bool has_gguf_tokenizer(const std::filesystem::path& path) {
  const GgufModel model(path);
  const std::string kind = model.metadata().text_if(kModel).value_or("none");
  return kind != "none" && kind != "no_vocab";
}

std::unique_ptr<Tokenizer> open_gguf_tokenizer(const std::filesystem::path& path) {
  const GgufModel model(path);
  const GgufMetadata metadata = model.metadata();
  const std::string kind = metadata.text_if(kModel).value_or("none");
  if (kind == "gpt2") return open_byte_level(metadata);
  if (kind == "llama") return open_by_scores(metadata);
  if (kind == "none" || kind == "no_vocab") {
    throw FileError(path.string(),
                    std::string("contains no tokenizer; give token ids with --ids") + kHint);
  }
  throw UnsupportedTokenizer(
      path.string(),
      fmt::format("has a tokenizer of the kind {} ({}); this version knows gpt2 and llama{}",
                  in_quotes(kind), kModel, kHint));
}

}  // namespace kvloupe
