#pragma once
// Makes small but real tokenizer.json files, and says what they should give: a BPE trainer, the
// plain merge loop, random texts. Shares no code with capture/tokenizer.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::test {

using Pieces = std::vector<std::string>;

/// A vocabulary learnt by byte-pair encoding: single symbols first, then one piece per merge.
struct BpeVocabulary {
  Pieces pieces;
  std::vector<std::pair<std::string, std::string>> merges;
};

/// The `merges` most frequent merges of the words' symbols, one after the other; merges whose union
/// an earlier one already made count as one piece.
BpeVocabulary train_bpe(std::vector<Pieces> words, std::size_t merges);

/// The definition itself: join the first of the listed merges that is there, the leftmost first,
/// until none is. O(n²).
Pieces merge_by_the_loop(Pieces symbols, const BpeVocabulary& vocabulary);

/// The UTF-8 characters of a text.
Pieces characters_of(const std::string& text);

/// GPT-2's character for each byte, by the rule it was published with: the printable bytes are
/// themselves, the others follow from U+0100 on in order.
const Pieces& byte_characters();
std::string as_byte_characters(const std::string& text);

/// Made-up words of several scripts, with spaces and digits.
std::string training_text();

/// "model" of a tokenizer.json: pieces get ids from 0 on, `first` before the vocabulary's.
nlohmann::json bpe_model_json(const BpeVocabulary& vocabulary, const Pieces& first = {});

/// Whole files: a byte-level one in Llama 3's manner with `pattern`, and one in Llama 2's.
nlohmann::json byte_level_json(const std::string& pattern);
nlohmann::json sentencepiece_style_json();

extern const char* const kLlama3Pattern;
extern const char* const kQwen2Pattern;

void write_json(const std::filesystem::path& path, const nlohmann::json& value);

/// Random valid UTF-8: words, runs of spaces, line ends, digits, combining marks, emoji of several
/// characters, CJK, right-to-left scripts, control characters, any other character.
std::string random_unicode(std::mt19937& random, unsigned parts);

}  // namespace kvloupe::test
