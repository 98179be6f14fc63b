#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer/sentencepiece_model.h"
#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// SentencePiece's tokenizer.model, BPE (Sennrich et al. 2016) and unigram (Kudo 2018), with the
/// same ids as the SentencePiece library. The SentencePiece library cannot share a process with
/// Debian's libtorch: each brings another version of protobuf under the same names.
///
/// BOS is used if the file has one, unless tokenizer_config.json in the same folder says
/// "add_bos_token": false. Throws FileError: see read_sentencepiece_model; tokenizer_config.json
/// broken.
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder);

/// The same for a model that is read already, without BOS.
std::unique_ptr<Tokenizer> make_sentencepiece_tokenizer(SentencePieceModel model);

}  // namespace kvloupe
