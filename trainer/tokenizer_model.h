#pragma once

#include <string>

#include "trainer/vocabulary.h"

namespace kvloupe::train {

/// The vocabulary as a SentencePiece model file: the bytes of a ModelProto
/// (sentencepiece_model.proto) with the pieces, a unigram trainer spec with byte fallback, and the
/// identity normaliser, which joins runs of spaces and puts one space before the text. A word that
/// starts a line needs a space before it to be one token. BOS is left to the reader of config.json
/// (bos_token_id).
std::string tokenizer_model(const Vocabulary& vocabulary);

}  // namespace kvloupe::train
