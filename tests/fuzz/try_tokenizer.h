#pragma once

#include <string>
#include <vector>

#include "analysis/base/core/error.h"
#include "capture/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz_target.h"

namespace kvloupe::fuzz {

/// Whatever the tokenizer's file says, its tokens lie in the text and in the vocabulary.
inline void try_tokenizer(const Tokenizer& tokenizer) {
  for (const std::string text :
       {"Once upon a time, 1234 Zwerge", " \n\t é中\xF0\x9F\x91\xA9\xE2\x80\x8D", "\xFF\x00x"}) {
    std::vector<std::int32_t> ids;
    try {
      for (const EncodedToken& token : tokenizer.encode(text)) {
        require(token.id >= 0 && token.id < tokenizer.size(), "a token outside the vocabulary");
        require(token.begin <= token.end && token.end <= text.size(), "a token outside the text");
        ids.push_back(token.id);
      }
    } catch (const WorkError&) {
      continue;
    }
    tokenizer.decode(ids);
    for (const std::int32_t id : ids) {
      tokenizer.piece_bytes(id);
      tokenizer.is_special(id);
    }
  }
  tokenizer.bos();
  tokenizer.eos();
}

}  // namespace kvloupe::fuzz
