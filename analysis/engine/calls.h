#pragma once
// The border between C++ and C: no exception crosses it.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "analysis/base/core/progress.h"
#include "analysis/engine/kvloupe_engine.h"

/// The definition of the opaque type kvloupe_engine_work.
struct kvloupe_engine_work {
  kvloupe::Progress progress;
};

/// The definition of the opaque type kvloupe_engine_text.
struct kvloupe_engine_text {
  std::string text;
};

namespace kvloupe::engine {

/// Writes one line into `error` (KVLOUPE_ENGINE_ERROR_BYTES bytes, or null); a text that does not
/// fit ends with "..." after a whole character.
void say(char* error, std::string_view text);

/// Inside a catch-all handler: writes the current exception into `error`, and returns its status.
int32_t failure(char* error);

/// body(), as a status. It returns nothing and throws what goes wrong.
template <typename Body>
int32_t guarded(char* error, const Body& body) {
  if (error != nullptr) *error = '\0';
  try {
    body();
    return KVLOUPE_ENGINE_DONE;
  } catch (...) {
    return failure(error);
  }
}

/// Throws UsageError where a pointer that must be given is null.
void require(const void* pointer, const char* what);
/// make(), an object for the caller, into `made`; a status. NULL where it fails.
template <typename Object, typename Make>
int32_t created(Object** made, const char* what, char* error, const Make& make) {
  return guarded(error, [&] {
    require(made, what);
    *made = nullptr;
    *made = make().release();
  });
}
/// Throws UsageError for a negative number of bytes, tokens or axes.
void require_count(int64_t count, const char* what);
/// Throws UsageError where a struct of the caller is not of this interface's size.
void require_size(uint32_t size, std::size_t wanted, const char* what);

/// The function results_table of kvloupe_engine_ask().
nlohmann::json results_table(const std::string& path, bool heads);

}  // namespace kvloupe::engine
