#pragma once

#include <string>

#include "capture/train/vocabulary.h"

namespace kvloupe::train {

/// The vocabulary as a SentencePiece model file: the bytes of a ModelProto
/// (sentencepiece_model.proto) with the pieces, a unigram trainer spec with byte fallback, and a
/// normaliser that turns newlines and tabs into spaces, joins runs of spaces and puts one space
/// before the text. BOS is left to the reader of config.json (bos_token_id).
std::string tokenizer_model(const Vocabulary& vocabulary);

}  // namespace kvloupe::train
