#include "capture/tokenizer/kinds/gguf_split.h"

#include <array>

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

}  // namespace kvloupe
