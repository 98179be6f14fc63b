#pragma once

#include <filesystem>
#include <memory>

#include "capture/tokenizer/tokenizer.h"

namespace kvloupe {

/// SentencePiece's tokenizer.model, BPE (Sennrich et al. 2016) and unigram (Kudo 2018), with the
/// very ids the SentencePiece library gives. That library itself cannot share a process with
/// Debian's libtorch: each brings another version of protobuf under the same names.
///
/// BOS is used where the file has one, unless tokenizer_config.json beside it says
/// "add_bos_token": false. Throws FileError: see read_sentencepiece_model; tokenizer_config.json
/// broken.
std::unique_ptr<Tokenizer> open_sentencepiece_tokenizer(const std::filesystem::path& folder);

}  // namespace kvloupe
