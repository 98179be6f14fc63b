#include "tests/tokenizer/bpe_files.h"

#include <algorithm>
#include <fstream>

namespace kvloupe::test {

const char* const kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
const char* const kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

namespace {

void join(Pieces& word, const std::pair<std::string, std::string>& pair) {
  for (std::size_t i = 0; i + 1 < word.size(); ++i) {
    if (word[i] == pair.first && word[i + 1] == pair.second) {
      word[i] += word[i + 1];
      word.erase(word.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
}

std::string utf8(char32_t c) {
  const auto tail = [](char32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(c)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(c >> 6), tail(c)};
  return {static_cast<char>(0xF0 | c >> 18), tail(c >> 12), tail(c >> 6), tail(c)};
}

/// The text cut before each space, as words are learnt.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const char c : text) {
    if (words.empty() || c == ' ') words.emplace_back();
    words.back() += c;
  }
  return words;
}

}  // namespace

BpeVocabulary train_bpe(std::vector<Pieces> words, std::size_t merges) {
  std::map<Pieces, int> counts;
  for (const Pieces& word : words) ++counts[word];
  BpeVocabulary vocabulary;
  for (const auto& [word, count] : counts) {
    for (const std::string& symbol : word) vocabulary.pieces.push_back(symbol);
  }
  std::sort(vocabulary.pieces.begin(), vocabulary.pieces.end());
  vocabulary.pieces.erase(std::unique(vocabulary.pieces.begin(), vocabulary.pieces.end()),
                          vocabulary.pieces.end());
  std::vector<std::pair<Pieces, int>> state(counts.begin(), counts.end());
  while (vocabulary.merges.size() < merges) {
    std::map<std::pair<std::string, std::string>, int> pairs;
    for (const auto& [word, count] : state) {
      for (std::size_t i = 0; i + 1 < word.size(); ++i) pairs[{word[i], word[i + 1]}] += count;
    }
    if (pairs.empty()) break;
    const auto best =
        std::max_element(pairs.begin(), pairs.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    vocabulary.merges.push_back(best->first);
    const std::string piece = best->first.first + best->first.second;
    if (std::find(vocabulary.pieces.begin(), vocabulary.pieces.end(), piece) ==
        vocabulary.pieces.end()) {
      vocabulary.pieces.push_back(piece);
    }
    for (auto& [word, count] : state) join(word, best->first);
  }
  return vocabulary;
}

Pieces merge_by_the_loop(Pieces symbols, const BpeVocabulary& vocabulary) {
  std::map<std::pair<std::string, std::string>, std::size_t> rank;
  for (std::size_t r = 0; r < vocabulary.merges.size(); ++r) rank[vocabulary.merges[r]] = r;
  while (true) {
    std::size_t best = vocabulary.merges.size();
    std::size_t place = 0;
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = rank.find({symbols[i], symbols[i + 1]});
      if (found != rank.end() && found->second < best) {
        best = found->second;
        place = i;
      }
    }
    if (best == vocabulary.merges.size()) return symbols;
    symbols[place] += symbols[place + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(place) + 1);
  }
}

Pieces characters_of(const std::string& text) {
  Pieces characters;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0U) != 0x80U) characters.emplace_back();
    characters.back() += c;
  }
  return characters;
}

const Pieces& byte_characters() {
  static const Pieces characters = [] {
    Pieces made;
    char32_t next = 256;
    for (char32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      made.push_back(utf8(printable ? b : next++));
    }
    return made;
  }();
  return characters;
}

std::string as_byte_characters(const std::string& text) {
  std::string result;
  for (const char c : text) result += byte_characters()[static_cast<unsigned char>(c)];
  return result;
}

std::string training_text() {
  std::mt19937 random(5);
  const Pieces parts{"the", "re",  "lea", "d",  "ing", "café", "un",  "able", "key",    "cach",
                     "e",   "s",   "-",   "10", "日",  "本",   "語",  "на",   "nation", "ly",
                     "в",   "при", "ет",  "مر", "حبا", "שלום", "ing", "tion", "aa",     "a"};
  std::string text;
  for (int word = 0; word < 1500; ++word) {
    for (unsigned part = 0; part < 1 + random() % 3; ++part) text += parts[random() % parts.size()];
    text += ' ';
  }
  return text;
}

nlohmann::json bpe_model_json(const BpeVocabulary& vocabulary, const Pieces& first) {
  nlohmann::json model{{"type", "BPE"}, {"vocab", nlohmann::json::object()}};
  model["merges"] = nlohmann::json::array();
  int id = 0;
  for (const std::string& piece : first) model["vocab"][piece] = id++;
  for (const std::string& piece : vocabulary.pieces) {
    if (!model["vocab"].contains(piece)) model["vocab"][piece] = id++;
  }
  for (const auto& [left, right] : vocabulary.merges) model["merges"].push_back(left + " " + right);
  return model;
}

nlohmann::json byte_level_json(const std::string& pattern) {
  std::vector<Pieces> words;
  for (const std::string& word : words_of(training_text())) {
    words.push_back(characters_of(as_byte_characters(word)));
  }
  nlohmann::json root{{"version", "1.0"}, {"truncation", nullptr}, {"normalizer", nullptr}};
  root["model"] = bpe_model_json(train_bpe(words, 500), byte_characters());
  const int next = static_cast<int>(root["model"]["vocab"].size());
  root["added_tokens"] = {
      {{"id", next}, {"content", "<|begin|>"}, {"special", true}, {"normalized", false}},
      {{"id", next + 1}, {"content", "<|end|>"}, {"special", true}, {"normalized", false}},
      {{"id", next + 2}, {"content", "<tool>"}, {"special", false}, {"normalized", false}}};
  root["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "Split"},
         {"pattern", {{"Regex", pattern}}},
         {"behavior", "Isolated"},
         {"invert", false}},
        {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
  root["decoder"] = {{"type", "ByteLevel"}};
  root["post_processor"] = nullptr;
  return root;
}

nlohmann::json sentencepiece_style_json() {
  std::vector<Pieces> words;
  for (std::string word : words_of(training_text())) {
    if (word.front() == ' ') word.replace(0, 1, "▁");
    words.push_back(characters_of(word));
  }
  Pieces first{"<unk>", "<s>", "</s>"};
  for (int b = 0; b < 256; ++b) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    first.push_back(std::string("<0x") + kDigits[b / 16] + kDigits[b % 16] + ">");
  }
  nlohmann::json root{{"version", "1.0"}};
  root["model"] = bpe_model_json(train_bpe(words, 500), first);
  root["model"]["unk_token"] = "<unk>";
  root["model"]["fuse_unk"] = true;
  root["model"]["byte_fallback"] = true;
  for (int id = 0; id < 3; ++id) {
    root["added_tokens"].push_back(
        {{"id", id}, {"content", first[id]}, {"special", true}, {"normalized", false}});
  }
  root["normalizer"] = {
      {"type", "Sequence"},
      {"normalizers",
       {{{"type", "Prepend"}, {"prepend", "▁"}},
        {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}}}};
  root["decoder"] = {{"type", "Sequence"},
                     {"decoders",
                      {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}},
                       {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  root["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
        {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", nlohmann::json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {1}}, {"tokens", {"<s>"}}}}}}};
  return root;
}

void write_json(const std::filesystem::path& path, const nlohmann::json& value) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << value.dump();
}

std::string random_unicode(std::mt19937& random, unsigned parts) {
  static const Pieces kWords{"the",  "reading", "café", "KEY",   "naïve", "'s",     "'LL", "don't",
                             "日本", "語",      "한국", "مرحبا", "שלום",  "привет", "ﬁ",   "İ"};
  static const Pieces kEmoji{
      "👩‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "❤️", "☃"};
  static const Pieces kSpaces{"\n",     "\r\n",   "\t",     "\n\n ",  "\u00A0", "\u3000",
                              "\u180E", "\u2028", "\u200B", "\uFEFF", "\u0085", "\v\f"};
  std::string text;
  for (unsigned i = 0; i < parts; ++i) {
    switch (random() % 12) {
      case 0:
        text += kSpaces[random() % kSpaces.size()];
        break;
      case 1:
        text += std::string(1 + random() % 6, ' ');
        break;
      case 2:
        text += std::to_string(random() % 100000);
        break;
      case 3:
        text += kEmoji[random() % kEmoji.size()];
        break;
      case 4:  // a letter and combining marks, often in no canonical order
        text += "aeoAEO가"[random() % 6];
        for (unsigned mark = 0; mark < random() % 4; ++mark) text += utf8(0x300 + random() % 0x50);
        break;
      case 5:  // Hangul's parts, and Indic signs that compose
        text += utf8(0x1100 + random() % 0x100) + utf8(0x1161 + random() % 0x60);
        break;
      case 6:
        text += utf8(0x900 + random() % 0x500);
        break;
      case 7:
        text += static_cast<char>(random() % 0x20);
        break;
      case 8: {
        char32_t c = random() % 0x110000;
        if (c >= 0xD800 && c < 0xE000) c = 0xFFFD;
        text += utf8(random() % 2 == 0 ? c : c % 0x3000);
        break;
      }
      case 9:
        text += "!?.,;:'\"()-_=/<>|"[random() % 17];
        break;
      default:
        text += kWords[random() % kWords.size()];
        if (random() % 2 == 0) text += ' ';
    }
  }
  return text;
}

}  // namespace kvloupe::test
