#pragma once

#include <map>
#include <string>

namespace kvloupe {

/// How a model reads its context a second time.
enum class ProbeKind {
  repeat,  // asked to repeat it, in parts of 2048 tokens (KVzip)
  reread   // as it is, in one go (KVCompose)
};
/// "repeat" or "reread".
const char* probe_name(ProbeKind kind);
/// The same, by name.
const std::map<std::string, ProbeKind>& probe_words();

}  // namespace kvloupe
